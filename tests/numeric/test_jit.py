"""Machine code is linked right wherever the system has memory left for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Maps all room above a reserved range, and frees single pages in that, 3 GiB from each other.
CROWDED = """
import ctypes

library = ctypes.CDLL(None)
library.mmap.restype = ctypes.c_void_p
library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def reserved(size):
    return library.mmap(None, size, 3, 0x4022, -1, 0)


large = reserved(64 << 30)
if large in (None, ctypes.c_void_p(-1).value):
    raise SystemExit(77)
for size in (1 << 30, 1 << 21, 1 << 16, 4096):
    while large < reserved(size) < 1 << 63:  # what fails is beyond
        pass
for i in range(1, 21):
    library.munmap(large + i * (3 << 30), 4096)
"""

PROGRAM = (
    """
import ctypes
from glow_backends.cpu.jit import Linked, emit_object
from glow_backends.cpu.target import host

target = host()
values = ", ".join(f"double {i}.5" for i in range(64))
made = emit_object(f'''
target triple = "{target.triple}"
@table = private constant [64 x double] [{values}]
@calls = internal global i64 0
declare double @cos(double)
define double @f(i64 %i) {{
  %place = getelementptr [64 x double], ptr @table, i64 0, i64 %i
  %v = load double, ptr %place
  %old = load i64, ptr @calls
  %new = add i64 %old, 1
  store i64 %new, ptr @calls
  %n = sitofp i64 %new to double
  %c = call double @cos(double %v)
  %r = fadd double %c, %n
  ret double %r
}}''', target)
"""
    + CROWDED
    + """
import math
linked = Linked([made], target)
f = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(linked.address("f"))
for n in (1, 2):
    assert abs(f(5) - math.cos(5.5) - n) < 1e-12
"""
)


@pytest.mark.skipif(sys.platform != "linux", reason="the system's numbers are Linux's")
def test_sections_of_an_object_are_close() -> None:
    """Where pages are free only gigabytes from each other, code still reaches its constants and variables."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("64 GiB of addresses cannot be had")
    assert done.returncode == 0, done.stderr
