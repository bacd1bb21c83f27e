"""Mutants of the official suite's models, run end to end beside onnxruntime.

    python tests/onnx/fuzz.py --count 2000 [--seed 0] [--filter conv] [--backend cpu] [--jobs 2] [--keep DIR]

A mutant is a case of the suite with a few changes: attributes, inputs, operators, types, sizes,
versions, weights made of inputs, odd numbers. Each must give onnxruntime's answer or a GlowError:
what counts as a fault is another exception, a process that dies, one that runs or grows without
bound (these end the run with 1), and an answer that differs (listed: some mutants have no defined
answer). `--keep` writes the models and inputs of the faults.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import select
import signal
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import suite
from onnx import AttributeProto, ModelProto, helper, numpy_helper

Array = np.ndarray[Any, np.dtype[Any]]
Feed = dict[str, Any]

#: Processor seconds, seconds and bytes that one mutant may take.
TIME, PATIENCE, MEMORY = 60, 600, 6 << 30
#: Sizes of the cases that are mutated: larger ones only cost time.
MOST_NODES, MOST_BYTES = 60, 1 << 20
NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, float("inf"), float("-inf"), float("nan"))
WHOLE = (-(1 << 40), -7, -3, -2, -1, 0, 1, 2, 3, 4, 5, 17, 1 << 31, 1 << 40)


class Mutator:
    """Changes of a model and of what is fed to it, from a seed."""

    def __init__(self, seed: int, model: ModelProto, feed: Feed) -> None:
        self.rng = random.Random(seed)
        self.model = ModelProto()
        self.model.CopyFrom(model)
        self.feed: Feed = {k: np.array(v) if isinstance(v, np.ndarray) else v for k, v in feed.items()}

    def run(self) -> None:
        """One to three changes; the declared shapes of outputs go, as changes make them wrong."""
        changes = [
            self.attribute, self.attribute, self.drop_attribute, self.inputs, self.operator, self.version,
            self.weight, self.numbers, self.element_type, self.resize, self.append,
        ]  # fmt: skip
        for _ in range(self.rng.choice([1, 1, 2, 3])):
            self.rng.choice(changes)()
        del self.model.graph.value_info[:]
        for info in self.model.graph.output:
            if info.type.HasField("tensor_type"):
                info.type.tensor_type.ClearField("shape")

    def _node(self) -> onnx.NodeProto:
        return self.rng.choice(self.model.graph.node)

    def _attribute(self) -> tuple[onnx.NodeProto, AttributeProto] | None:
        node = self._node()
        return (node, self.rng.choice(node.attribute)) if node.attribute else None

    def attribute(self) -> None:
        """Another number, one more, one less, or one that the schema names and the node leaves out."""
        found = self._attribute()
        if found is None or self.rng.random() < 0.3:
            self._new_attribute(self._node())
            return
        _, a = found
        if a.type == AttributeProto.INT:
            a.i = self.rng.choice([a.i + 1, a.i - 1, -a.i, *WHOLE])
        elif a.type == AttributeProto.FLOAT:
            a.f = self.rng.choice([a.f * 2, -a.f, *NUMBERS])
        elif a.type in (AttributeProto.INTS, AttributeProto.FLOATS):
            many: Any = a.ints if a.type == AttributeProto.INTS else a.floats
            kind = self.rng.choice(["set", "add", "drop"])
            if kind == "add" or not many:
                many.append(self.rng.choice(WHOLE))
            elif kind == "drop":
                del many[self.rng.randrange(len(many))]
            else:
                place = self.rng.randrange(len(many))
                many[place] = self.rng.choice([many[place] + 1, many[place] - 1, -many[place], *WHOLE])
        elif a.type == AttributeProto.STRING:
            a.s = self.rng.choice([b"", b"NOTSET", b"SAME_UPPER", b"VALID", b"add", b"linear", a.s + b"x"])

    def _new_attribute(self, node: onnx.NodeProto) -> None:
        try:
            schema = onnx.defs.get_schema(node.op_type, domain=node.domain)
        except onnx.defs.SchemaError:
            return
        absent = sorted(set(schema.attributes) - {a.name for a in node.attribute})
        if not absent:
            return
        name = self.rng.choice(absent)
        kind = schema.attributes[name].type
        whole = self.rng.choice(WHOLE)
        values: dict[Any, Any] = {
            onnx.defs.OpSchema.AttrType.INT: whole,
            onnx.defs.OpSchema.AttrType.FLOAT: self.rng.choice(NUMBERS),
            onnx.defs.OpSchema.AttrType.INTS: [self.rng.choice(WHOLE) for _ in range(self.rng.randint(1, 4))],
        }
        if kind in values:
            node.attribute.append(helper.make_attribute(name, values[kind]))

    def drop_attribute(self) -> None:
        """One attribute less."""
        node = self._node()
        if node.attribute:
            del node.attribute[self.rng.randrange(len(node.attribute))]

    def inputs(self) -> None:
        """An operand exchanged, left out, or another value of the graph."""
        node = self._node()
        if not node.input:
            return
        place = self.rng.randrange(len(node.input))
        kind = self.rng.choice(["swap", "drop", "other", "empty"])
        if kind == "swap":
            other = self.rng.randrange(len(node.input))
            node.input[place], node.input[other] = node.input[other], node.input[place]
        elif kind == "drop":
            del node.input[-1]
        elif kind == "empty":
            node.input[place] = ""
        elif self.feed:
            node.input[place] = self.rng.choice(sorted(self.feed))

    def operator(self) -> None:
        """An operator of as many operands."""
        node = self._node()
        same = [
            s.name
            for s in SCHEMAS
            if s.min_input <= len(node.input) <= s.max_input and s.min_output <= len(node.output)
        ]
        node.op_type = self.rng.choice(same or [node.op_type])
        node.domain = ""

    def version(self) -> None:
        """Another opset."""
        for opset in self.model.opset_import:
            if opset.domain in ("", "ai.onnx"):
                opset.version = self.rng.randint(7, 25)

    def weight(self) -> None:
        """An input becomes a weight."""
        names = [n for n, v in self.feed.items() if isinstance(v, np.ndarray) and v.dtype != object]
        if not names:
            return
        name = self.rng.choice(names)
        self.model.graph.initializer.append(numpy_helper.from_array(self.feed.pop(name), name))
        kept = [i for i in self.model.graph.input if i.name != name]
        del self.model.graph.input[:]
        self.model.graph.input.extend(kept)

    def _tensor(self) -> tuple[str, Array] | None:
        names = [n for n, v in self.feed.items() if isinstance(v, np.ndarray) and v.dtype.kind in "fiub"]
        name = self.rng.choice(names) if names else ""
        return (name, self.feed[name]) if names else None

    def numbers(self) -> None:
        """A few odd numbers in an input."""
        found = self._tensor()
        if found is None or not found[1].size:
            return
        flat = found[1].reshape(-1)
        for _ in range(self.rng.randint(1, 3)):
            odd = self.rng.choice(NUMBERS) if flat.dtype.kind == "f" else self.rng.choice(WHOLE[1:-2])
            with np.errstate(all="ignore"):
                flat[self.rng.randrange(flat.size)] = np.array(odd).astype(flat.dtype)

    def element_type(self) -> None:
        """An input of another type."""
        found = self._tensor()
        if found is None:
            return
        kind = self.rng.choice(["float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool"])
        with np.errstate(all="ignore"):
            self._declare(found[0], found[1].astype(kind))

    def resize(self) -> None:
        """An input with one dimension longer, shorter, one or zero; or one dimension more or less."""
        found = self._tensor()
        if found is None:
            return
        name, array = found
        if self.rng.random() < 0.2 or not array.ndim:
            array = array[None] if self.rng.random() < 0.5 or not array.ndim else array.reshape(-1)
        else:
            axis = self.rng.randrange(array.ndim)
            size = array.shape[axis]
            goal = self.rng.choice([size + 1, max(size - 1, 0), 1, 0])
            array = np.take(array, np.arange(goal) % max(size, 1), axis) if size else array
        self._declare(name, array)

    def _declare(self, name: str, array: Array) -> None:
        self.feed[name] = array
        for info in self.model.graph.input:
            if info.name == name:
                kind = helper.np_dtype_to_tensor_dtype(array.dtype)
                info.CopyFrom(helper.make_tensor_value_info(name, kind, array.shape))

    def append(self) -> None:
        """A further node on the first output."""
        out = self.model.graph.output[0]
        op = self.rng.choice([s.name for s in SCHEMAS if s.min_input <= 1 and s.min_output <= 1])
        self.model.graph.node.append(helper.make_node(op, [out.name], [out.name + "_more"]))
        out.name += "_more"
        out.type.tensor_type.elem_type = 0


SCHEMAS = [s for s in onnx.defs.get_all_schemas() if s.domain == "" and not s.deprecated]


def bases(pattern: str) -> list[suite.Case]:
    """The cases that are mutated."""
    return [c for c in suite.load_cases() if re.search(pattern, c.name) and not suite.RANDOM.match(c.name)]


def mutant(cases: Sequence[suite.Case], seed: int) -> tuple[str, ModelProto, Feed]:
    """The mutant of a seed: its name, model and inputs."""
    rng = random.Random(seed)
    while True:
        case = rng.choice(cases)
        model, sets = case.load()
        names = [i.name for i in suite.runtime_inputs(model)]
        if sets and len(model.graph.node) <= MOST_NODES and model.ByteSize() <= MOST_BYTES:
            break
    made = Mutator(seed, model, dict(zip(names, sets[0][0], strict=False)))
    made.run()
    return case.name, made.model, made.feed


def ours(model: ModelProto, feed: Feed, backend: str) -> tuple[str, Any]:
    """Our answers, or how we failed."""
    import glow_compiler as glow

    try:
        net = glow.compile(model, backend=backend)
        with np.errstate(all="ignore"):
            got = net.run(feed)
        return "ran", [got[o.name] for o in model.graph.output]
    except glow.GlowError as error:
        return "refused", str(error)
    except MemoryError:
        return "memory", "more memory than a mutant may have"
    except Exception:
        return "traceback", traceback.format_exc()


def theirs(model: ModelProto, feed: Feed) -> list[Any] | None:
    """onnxruntime's answers, None where it has none."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        return list(session.run(None, feed))
    except Exception:
        return None


def judge(model: ModelProto, feed: Feed, backend: str, tell: Any) -> tuple[str, str]:
    """How a mutant ended; `tell` hears our status before onnxruntime starts, which may crash."""
    status, got = ours(model, feed, backend)
    message = got if isinstance(got, str) else ""
    tell(status, message)
    if status in ("traceback", "memory"):
        return status, message
    want = theirs(model, feed)
    if want is None:
        return ("both refuse" if status == "refused" else "we run"), message
    if status == "refused":
        return "we refuse", message
    try:
        for index, (w, g) in enumerate(zip(want, got, strict=True)):
            suite.compare(w, g, 2e-3, 1e-4, f"output {index}")
    except suite.Mismatch as error:
        return "differs", str(error)
    return "same", ""


def work(arguments: argparse.Namespace, start: int) -> None:
    """The loop of a worker: one line before, one between, one after each mutant."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    cases = bases(arguments.filter)
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for seed in range(start, arguments.seed + arguments.count, arguments.jobs):
        name, model, feed = mutant(cases, seed)
        out.write(f"start\t{seed}\t{name}\n")
        signal.setitimer(signal.ITIMER_PROF, TIME)  # kills the process

        def tell(status: str, message: str, at: int = seed) -> None:
            out.write(f"ours\t{at}\t{status}\n")

        status, message = judge(model, feed, arguments.backend, tell)
        out.write(f"end\t{seed}\t{status}\t{message[-1500:].replace(chr(10), ' | ')}\n")


def run_part(arguments: argparse.Namespace, part: int) -> Iterator[tuple[int, str, str, str]]:
    """Seed, case, status and message of every `jobs`-th mutant; processes that die are started again."""
    seed = arguments.seed + part
    keys = ["count", "seed", "filter", "backend", "jobs"]
    options = [text for key in keys for text in (f"--{key}", str(getattr(arguments, key)))]
    environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **os.environ}
    while seed < arguments.seed + arguments.count:
        command = [sys.executable, __file__, *options, "--worker", str(seed)]
        name, stage = "", ""
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        ) as process:
            for line in _lines(process):
                kind, at, rest = line.split("\t", 2)
                seed, stage = int(at), kind
                if kind == "start":
                    name = rest
                elif kind == "end":
                    status, message = rest.split("\t", 1)
                    yield seed, name, status, message
                    seed += arguments.jobs
        if process.returncode == 0:
            return
        ended = "hang" if -process.returncode in (signal.SIGKILL, signal.SIGPROF) else "crash"
        yield (
            seed,
            name,
            ended if stage == "start" else "onnxruntime died",
            f"ended with {process.returncode}",
        )
        seed += arguments.jobs


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Lines of a worker's output; a worker that says nothing for PATIENCE seconds is killed."""
    assert process.stdout is not None
    pending = b""
    while True:
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
        data = os.read(process.stdout.fileno(), 1 << 16) if ready else b""
        if not ready:
            process.kill()
        if not data:
            return
        *whole, pending = (pending + data).split(b"\n")
        yield from (line.decode() for line in whole)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run mutants and print how many ended how."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--count", type=int, default=200, help="mutants")
    parser.add_argument("--seed", type=int, default=0, help="the first one's seed")
    parser.add_argument("--filter", default="", help="regular expression on case names")
    parser.add_argument("--backend", default="cpu", help="cpu or interpreter")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--keep", type=Path, help="folder for the models of the faults")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker is not None:
        work(options, options.worker)
        return 0
    from concurrent.futures import ThreadPoolExecutor

    cases = bases(options.filter)
    counts: Counter[str] = Counter()

    def part(index: int) -> None:
        for seed, name, status, message in run_part(options, index):
            counts[status] += 1
            if status not in ("same", "both refuse", "we run", "onnxruntime died"):
                print(f"{status}\t{seed}\t{name}\t{message}", flush=True)
            if options.keep is not None and status in (*FAULTS, "differs"):
                keep(options.keep, cases, seed)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(part, range(options.jobs)))
    print(", ".join(f"{n} {s}" for s, n in counts.most_common()))
    return int(any(counts[s] for s in FAULTS))


FAULTS = ("traceback", "crash", "hang", "memory")


def keep(folder: Path, cases: Sequence[suite.Case], seed: int) -> None:
    """Write the mutant of a seed, and its inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    _, model, feed = mutant(cases, seed)
    onnx.save(model, folder / f"{seed}.onnx")
    arrays = {n: v for n, v in feed.items() if isinstance(v, np.ndarray)}
    np.savez(folder / f"{seed}.npz", **arrays)  # pyright: ignore[reportArgumentType]


if __name__ == "__main__":
    sys.exit(main())
