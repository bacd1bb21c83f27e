"""The second process for LLVM makes the same objects, and no fate of it or of its parent does harm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from glow_backends.cpu import second_compiler
from glow_backends.cpu.jit import emit_object
from glow_backends.cpu.second_compiler import SecondCompiler
from glow_backends.cpu.target import host

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not second_compiler.possible(),
    reason="needs Linux, two cores and an interpreter",
)

TEXT = f"""
target triple = "{host().triple}"
define void @f(ptr %x) {{
  %v = load <4 x float>, ptr %x
  %s = fadd <4 x float> %v, %v
  store <4 x float> %s, ptr %x
  ret void
}}
"""

#: Starts the process, has it compile, and prints its number; the rest is up to each test.
PROGRAM = f"""
import os, signal
from glow_backends.cpu.second_compiler import second_compiler
from glow_backends.cpu.target import host

second = second_compiler()
second.start()
assert second.object_of({TEXT!r}, host(), True)
print(second.number, flush=True)
"""


def gone(number: int) -> bool:
    """Whether a process ends within a minute; one that nobody waits for counts as ended."""
    for _ in range(600):
        try:
            state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.1)
    return False


def run(program: str) -> int:
    """The number of the second process of a program that comes from standard input."""
    done = subprocess.run(
        [sys.executable, "-"], input=program, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout, done.stderr
    return int(done.stdout.split()[0])


def test_objects_are_equal() -> None:
    """Every target and both sets of passes: the bytes are those of this process; errors stay here."""
    second = SecondCompiler()
    second.start()
    try:
        for kernel in (True, False):
            assert second.object_of(TEXT, host(), kernel) == emit_object(TEXT, host(), kernel)
        assert second.object_of("no LLVM IR", host(), False) is None
        assert second.object_of(TEXT, host(), False) == emit_object(TEXT, host(), False)
    finally:
        second.kill()
    assert second.object_of(TEXT, host(), False) is None


def test_killed() -> None:
    """One that was killed is not followed by another; this process compiles alone."""
    second = SecondCompiler()
    second.start()
    assert second.number is not None
    os.kill(second.number, signal.SIGKILL)
    assert gone(second.number)
    assert second.object_of(TEXT, host(), False) is None
    second.start()
    assert second.number is None


def test_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that had nothing to do ended, and there can be another."""
    monkeypatch.setattr(second_compiler, "_START", "import os; os._exit(0)")
    second = SecondCompiler()
    second.start()
    assert second.number is not None and gone(second.number)
    monkeypatch.undo()
    assert second.object_of(TEXT, host(), False) is None
    second.start()
    try:
        assert second.object_of(TEXT, host(), False) is not None
    finally:
        second.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    "end",
    [
        "",
        "os._exit(0)",
        "os.kill(os.getpid(), signal.SIGKILL)",
        "raise KeyboardInterrupt",
        # A fork that outlives its parent has none of its own, and does not keep the parent's.
        "if os.fork():\n    os._exit(0)\n"
        "assert second_compiler().number is None\nimport time\nos.close(1), os.close(2), time.sleep(90)",
    ],
)
def test_ends_with_its_parent(end: str) -> None:
    """However the parent ends, nothing is left."""
    assert gone(run(PROGRAM + end))


@pytest.mark.parametrize("how", ["one core", "frozen", "embedded", "forbidden"])
def test_refrains(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a core for it or an interpreter to start, there is none."""
    if how == "one core":
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0})
    elif how == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    elif how == "embedded":
        monkeypatch.setattr(sys, "executable", "/usr/bin/an-application")
    else:
        monkeypatch.setenv("GLOW_COMPILE_PROCESSES", "1")
    second = SecondCompiler()
    second.start()
    assert second.number is None
