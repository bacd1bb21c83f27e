"""A hunt for faults: random graphs on the CPU, the interpreter and onnxruntime, until the time is up.

    python tests/onnx/hunt.py --seconds 600 [--seed 0] [--keep DIR]        (make hunt)

Each graph runs in a process of its own. Inputs, outputs and the arena end where a page that nobody may
touch begins; the arena is poisoned before each of two runs, which must agree bit by bit. A process that
dies, an exception, and an output that differs from both the interpreter and onnxruntime end the hunt
with 1; the graph is then reduced to few operators and written to `--keep`.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import mmap
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, helper
from random_graphs import graph

import glow_compiler as glow
from glow_backends.cpu import program
from glow_backends.cpu.memory import ALIGN, address

POISON = 0xFF
"""A byte of which all floats are NaN."""
PATIENCE = 120
"""Seconds after which a graph hangs."""
_guarded: list[tuple[mmap.mmap, np.ndarray]] = []


@dataclass
class Case:
    """A model and its inputs."""

    model: ModelProto
    feed: dict[str, np.ndarray]


def guarded(size: int) -> np.ndarray:
    """Poisoned bytes that end, but for alignment, where a page that nobody may touch begins."""
    page = mmap.PAGESIZE
    room = -(-max(size, 1) // ALIGN) * ALIGN
    whole = -(-room // page) * page
    memory = mmap.mmap(-1, whole + page)
    every = np.frombuffer(memory, np.uint8)
    every[:] = POISON
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address(every) + whole), ctypes.c_size_t(page), 0) == 0
    _guarded.append((memory, every))
    return every[whole - room : whole - room + size]


def placed(shape: Sequence[int], dtype: np.dtype) -> tuple[np.ndarray, int]:
    """A guarded array, and its address."""
    size = int(np.prod(shape)) * dtype.itemsize
    raw = guarded(size)
    return raw.view(dtype).reshape(tuple(shape)), address(raw) if size else 0


def poison(arenas: Sequence[np.ndarray]) -> None:
    """Let nothing of the last run be read."""
    for arena in arenas:
        arena[:] = POISON


def fault(case: Case) -> str | None:
    """What is wrong with a case, in this process; None where nothing is."""
    want = _onnxruntime(case)
    plain = glow.compile(case.model, backend="interpreter").run(case.feed)
    arenas: list[np.ndarray] = []

    def work(size: int) -> np.ndarray:
        arenas.append(guarded(size))
        return arenas[-1]

    own: Any = program
    own.work_memory, own.placed_array = work, placed
    feed = {n: placed(a.shape, a.dtype)[0] for n, a in case.feed.items()}
    for name, array in case.feed.items():
        feed[name][...] = array
    net = glow.compile(case.model)
    first = {n: a.copy() for n, a in net.run(feed).items()}
    poison(arenas)
    second = net.run(feed)
    for name, array in first.items():
        if array.tobytes() != second[name].tobytes():
            return f"{name}: two runs differ"
        others = plain[name], want[name]
        close = [np.allclose(array, other, rtol=1e-3, atol=1e-4, equal_nan=True) for other in others]
        if not any(close):
            return f"{name}: differs from the interpreter and from onnxruntime"
    return None


def _onnxruntime(case: Case) -> dict[str, np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(case.model.SerializeToString(), options)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, case.feed), strict=True))


def apart(case: Case) -> str | None:
    """`fault` in a process of its own, whose death is one."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(PATIENCE)
        faulthandler.disable()  # the parent says how this ends
        try:
            found = fault(case)
        except Exception:
            found = traceback.format_exc(limit=-3)
        os.write(writer, (found or "").encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return text or None if status == 0 else f"the process ended with {status}"


def reduced(case: Case, wrong: Callable[[Case], str | None]) -> Case:
    """A part of the model that is still wrong: fewer outputs, nodes left out, values in place of nodes."""
    smaller = True
    while smaller:
        smaller = False
        for index in reversed(range(len(case.model.graph.node))):
            for candidate in (_without(case, index), _from(case, index)):
                if candidate is not None and wrong(candidate) is not None:
                    case, smaller = candidate, True
                    break
            if smaller:
                break
    return case


def _without(case: Case, index: int) -> Case | None:
    """Without a node and all that follows from it; what nothing reads any more are the outputs."""
    nodes = list(case.model.graph.node)
    gone = set(nodes[index].output)
    kept = [n for i, n in enumerate(nodes) if i != index]
    while True:
        rest = [n for n in kept if not gone & set(n.input)]
        if len(rest) == len(kept):
            break
        gone |= {o for n in kept if n not in rest for o in n.output}
        kept = rest
    return _case(case, kept, case.feed) if kept else None


def _from(case: Case, index: int) -> Case | None:
    """A node's value as an input."""
    nodes = list(case.model.graph.node)
    model = ModelProto()
    model.CopyFrom(case.model)
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(nodes[index].output[0], 1, None))
    try:
        value = _onnxruntime(Case(model, case.feed))[nodes[index].output[0]]
    except Exception:
        return None
    kept = [n for i, n in enumerate(nodes) if i != index]
    return _case(case, kept, {**case.feed, nodes[index].output[0]: value}) if kept else None


def _case(case: Case, nodes: Sequence[onnx.NodeProto], feed: dict[str, np.ndarray]) -> Case:
    """The nodes with the inputs and weights that they read."""
    used = {n for node in nodes for n in node.input}
    made = {o for node in nodes for o in node.output}
    feed = {n: a for n, a in feed.items() if n in used}
    graph_ = helper.make_graph(
        nodes,
        "reduced",
        [helper.make_tensor_value_info(n, 1, a.shape) for n, a in feed.items()],
        [helper.make_tensor_value_info(n, 1, None) for n in sorted(made - used)],
        [w for w in case.model.graph.initializer if w.name in used],
    )
    imports = case.model.opset_import
    return Case(helper.make_model(graph_, opset_imports=imports, ir_version=case.model.ir_version), feed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Hunt; 1 where something is wrong."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    number = int(time.time()) % 1_000_000 * 1000
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=number, help="of the first graph (default: by the clock)")
    parser.add_argument("--keep", type=Path, default=Path("build/hunt"), help="where faults are written")
    a = parser.parse_args(arguments)
    end, seed, operators, wrong = time.monotonic() + a.seconds, a.seed, 0, 0
    for backend in ("cpu", "interpreter"):  # what every process would load anew
        glow.compile(graph(seed).model(), backend=backend)
    while time.monotonic() < end:
        made = graph(seed)
        case = Case(made.model(), made.feed)
        operators += len(made.nodes)
        message = apart(case)
        if message is not None:
            wrong += 1
            small = reduced(case, apart)
            a.keep.mkdir(parents=True, exist_ok=True)
            onnx.save(small.model, a.keep / f"{seed}.onnx")
            np.savez(a.keep / f"{seed}.npz", **small.feed)
            names = ", ".join(n.op_type for n in small.model.graph.node)
            print(f"seed {seed}: {apart(small) or message}\n  reduced to {names}: {a.keep / str(seed)}.onnx")
        seed += 1
    print(f"{seed - a.seed} graphs of {operators} operators from seed {a.seed} on: {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
