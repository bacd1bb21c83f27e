"""Systems that lack interfaces of Linux: what they lack is taken away, and portable forms do the work."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import glow_compiler as glow
from glow_backends.cpu import memory
from glow_backends.cpu.functions import native
from glow_backends.cpu.jit import Linked, emit_object
from glow_backends.cpu.support import support_text
from glow_backends.cpu.target import host, named
from glow_dialects.core.errors import DeviceError
from glow_dialects.fn.domain import NotNative
from glow_runtime.devices.channel import Channel
from glow_runtime.devices.manager import machine_memory
from glow_tools import bench, bench_worker
from glow_tools.serve_signals import Signals

COMMANDS = ("bench", "bisect", "compile", "generate", "opt", "profile", "reduce", "run", "serve", "train")


def _without(monkeypatch: pytest.MonkeyPatch, module: object, *names: str) -> None:
    for name in names:
        monkeypatch.delattr(module, name, raising=False)


def test_memory_without_private_mappings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows maps anonymous memory without flags, and gives no advice."""
    _without(monkeypatch, mmap, "MAP_PRIVATE", "MAP_ANONYMOUS", "MADV_HUGEPAGE", "MADV_DONTNEED")
    large = memory.zeros((3 << 20,), np.dtype(np.uint8))
    assert not large.any() and memory.address(large) % memory.ALIGN == 0
    block = memory.WeightBlock()
    values = np.arange(1 << 19, dtype=np.float32)
    offset = block.place("w", values)
    np.testing.assert_array_equal(block.build()[offset:].view(np.float32)[: values.size], values)


def test_weights_grow_where_mappings_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS cannot move mapped memory: it is copied into more of it."""
    resized: list[int] = []

    class Mapping(mmap.mmap):
        def resize(self, newsize: int) -> None:
            resized.append(newsize)
            raise SystemError("mmap: resizing not available--no mremap()")

    monkeypatch.setattr(memory, "zeros_mapped", lambda size, reserved=False: Mapping(-1, size))
    block = memory.WeightBlock()
    parts = {f"w{n}": np.full(5000 << n, n, np.float32) for n in range(6)}
    offsets = {name: block.place(name, part) for name, part in parts.items()}
    assert len(resized) > 1
    built = block.build()
    for name, part in parts.items():
        found = built[offsets[name] :][: part.nbytes].view(np.float32)
        np.testing.assert_array_equal(found, part)


def test_functions_without_address_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that does not reserve the heap has functions in the interpreter, as the exception says."""

    def refused(size: int, reserved: bool = False) -> mmap.mmap:
        raise OSError("no memory")

    monkeypatch.setattr(native, "zeros_mapped", refused)
    with pytest.raises(NotNative, match="4 GiB of address space"):
        native._Memory()


def test_functions_on_windows() -> None:
    """Native functions are entered by System V's registers: on Windows they are refused, not called."""
    target = SimpleNamespace(triple="x86_64-pc-windows-msvc")
    with pytest.raises(NotNative, match="windows"):
        native.NativeFunction(None, None, "f", target, None)  # pyright: ignore[reportArgumentType]


def test_memory_of_a_machine_without_sysconf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows tells it by GlobalMemoryStatusEx."""

    def status(place: object) -> int:
        words = (ctypes.c_uint64 * 8).from_address(ctypes.addressof(place._obj))  # pyright: ignore
        assert words[0] == ctypes.sizeof(words)
        words[1] = 16 << 30
        return 1

    _without(monkeypatch, os, "sysconf")
    kernel = SimpleNamespace(GlobalMemoryStatusEx=status)
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=kernel), raising=False)
    assert machine_memory() == 16 << 30
    kernel.GlobalMemoryStatusEx = lambda place: 0
    with pytest.raises(DeviceError, match="give the device `memory`"):
        machine_memory()


def test_channels_without_memfd(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS has no memory files: processes share a temporary file without a name."""
    _without(monkeypatch, os, "memfd_create")
    ours, theirs = map(Channel, socket.socketpair())
    sent = {"x": np.arange(40_000, dtype=np.float32)}
    ours.send("run", sent)
    message, arrays = theirs.receive()
    assert message == "run"
    np.testing.assert_array_equal(arrays["x"], sent["x"])
    del arrays
    ours.close()
    theirs.close()


def test_process_devices_without_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows cannot fork: one line says so, and what to take."""
    _without(monkeypatch, os, "fork")
    with pytest.raises(DeviceError, match="cannot fork processes; use kind 'cpu'"):
        glow.HostManager([glow.Device("process")])


_WITHOUT_UNIX = """
import mmap, os, signal, socket, sys
for name in "fcntl grp pwd resource termios".split():
    sys.modules[name] = None
LACKING = {
    os: "fork getloadavg getuid memfd_create register_at_fork sched_getaffinity sched_setaffinity sysconf",
    mmap: "MADV_DONTNEED MADV_HUGEPAGE MAP_ANONYMOUS MAP_PRIVATE",
    signal: "SIGCHLD SIGHUP SIGKILL",
    socket: "AF_UNIX CMSG_SPACE recv_fds send_fds",
}
for module, names in LACKING.items():
    for name in names.split():
        delattr(module, name)
from importlib import import_module
for name in sys.argv[1:]:
    import_module(name)
import numpy as np
import glow_compiler as glow
g = glow.GraphBuilder()
x = g.placeholder("x", (1, 1024))
w = g.constant(np.full((1024, 1024), 0.5, np.float32), "w")
g.save(g.relu(g.matmul(x, w)), "y")
print(glow.compile(g).run({"x": np.ones((1, 1024), np.float32)})["y"].sum())
"""


def test_modules_are_imported_without_interfaces_of_unix() -> None:
    """What Windows lacks is not asked for by imports, nor by a compilation."""
    modules = [f"glow_tools.{name}" for name in (*COMMANDS, "bench_worker", "serve_signals")]
    modules += ["glow_runtime.devices.process", "glow_runtime.seal", "glow_runtime.serve.connections"]
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_UNIX, *modules],
        capture_output=True,
        text=True,
        env={**os.environ, "GLOW_CACHE_DIR": ""},
    )
    assert (done.returncode, done.stdout) == (0, "524288.0\n"), done.stderr


def test_bench_without_cores(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """macOS keeps no process on cores: glow-bench runs on any, and refuses `--cores`."""
    _without(monkeypatch, os, "sched_getaffinity", "getloadavg")
    assert bench.chosen_cores(None, 2) == []
    with pytest.raises(SystemExit):
        bench.chosen_cores("0,1", 2)
    assert "--cores" in capsys.readouterr().err
    assert bench.machine()["load"] is None
    assert bench_worker.peak_bytes() > 1 << 20


def test_bench_without_resource(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Windows does not tell the peak memory of a process by the standard library."""
    monkeypatch.setattr(bench, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        bench.main(["model.onnx"])
    assert "--profile" in capsys.readouterr().err


def test_signals_are_heard_by_a_socket() -> None:
    """A signal calls what begins the end, by a thread that waits on a socket."""
    heard = threading.Event()
    signals = Signals(grace=60)
    with signals.caught():
        signals.on_end = heard.set
        signal.raise_signal(signal.SIGTERM)
        assert heard.wait(10)


@pytest.mark.parametrize("triple", ["x86_64-pc-windows-msvc", "arm64-apple-macosx"])
def test_threads_of_other_systems(triple: str) -> None:
    """What waits for threads is compiled for them, with the system's own function to let others run."""
    target = named(triple, 2)
    data = emit_object(support_text(target), target)
    assert (b"SwitchToThread" in data) == ("windows" in triple)
    assert (b"sched_yield" in data) == ("apple" in triple)


def test_objects_of_windows_are_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects that compute in floats name `_fltused` there, which no library exports."""
    text = (
        f'target triple = "{host().triple}"\n'
        "@_fltused = external global i32\n"
        "define ptr @f() {\n  ret ptr @_fltused\n}\n"
    )
    monkeypatch.setattr(sys, "platform", "win32")
    linked = Linked([emit_object(text, host())], host())
    assert ctypes.CFUNCTYPE(ctypes.c_void_p)(linked.address("f"))()
