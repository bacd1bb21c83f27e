"""The official ONNX backend suite through the public Python API.

    python tests/onnx/suite.py --backend cpu --jobs 2 [--cpu haswell] [--filter conv] [--update]

Each case ends as pass, wrong (a value, shape or dtype differs), refused (a GlowError), failed
(another exception) or crash (its process died). Comparison follows the onnx package's own runner.
`--update` writes the lock file of passing cases that the tests hold the compiler to.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TypeProto, numpy_helper

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
#: What comes from another random generator cannot be reproduced.
RANDOM = re.compile(r"^test_(bernoulli|training_dropout(?!.*zero_ratio))")

DataSet = tuple[list[Any], list[Any]]


@dataclass(frozen=True)
class Case:
    """A model and its data sets, read when needed."""

    name: str
    rtol: float
    atol: float
    load: Callable[[], tuple[ModelProto, list[DataSet]]]


@dataclass(frozen=True)
class Outcome:
    """How a case ended; `native` where no operator ran on the host."""

    name: str
    status: str
    native: bool = False
    message: str = ""


class Mismatch(Exception):
    """An output differs."""


def load_cases(kinds: Sequence[str] = KINDS) -> list[Case]:
    """Every case of the installed onnx package, in a fixed order."""
    from onnx.backend.test.loader import load_model_tests

    found: list[Case] = []
    for kind in kinds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tests = load_model_tests(kind=kind)
        for test in sorted(tests, key=lambda t: t.name):
            if test.model is not None:
                load = _from_memory(test)
            else:
                load = _light(test) if test.url is not None else _from_disk(test)
            found.append(Case(test.name, test.rtol, test.atol, load))
    return found


def _from_memory(test: Any) -> Callable[[], tuple[ModelProto, list[DataSet]]]:
    def load() -> tuple[ModelProto, list[DataSet]]:
        return test.model, [([_value(v) for v in i], [_value(v) for v in o]) for i, o in test.data_sets]

    return load


def _value(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, list | tuple):
        return [_value(v) for v in value]
    return None if value is None else np.asarray(value)


def _from_disk(test: Any) -> Callable[[], tuple[ModelProto, list[DataSet]]]:
    def load() -> tuple[ModelProto, list[DataSet]]:
        root = Path(test.model_dir)
        model = onnx.load(root / "model.onnx")
        sets = [
            (_files(folder, "input", model.graph.input), _files(folder, "output", model.graph.output))
            for folder in sorted(root.glob("test_data_set*"))
        ]
        return model, sets

    return load


def _files(folder: Path, prefix: str, infos: Sequence[onnx.ValueInfoProto]) -> list[Any]:
    count = len(list(folder.glob(f"{prefix}_*.pb")))
    return [_decode((folder / f"{prefix}_{i}.pb").read_bytes(), infos[i].type) for i in range(count)]


def _decode(data: bytes, kind: TypeProto) -> Any:
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if which == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def _light(test: Any) -> Callable[[], tuple[ModelProto, list[DataSet]]]:
    """Light models: every input is arange(n) / n, the outputs are shipped beside the model."""

    def load() -> tuple[ModelProto, list[DataSet]]:
        path = Path(onnx.__file__).parent.parent / test.url
        model = onnx.load(path)
        inputs: list[Any] = []
        for info in runtime_inputs(model):
            shape = tuple(d.dim_value or 1 for d in info.type.tensor_type.shape.dim)
            size = int(np.prod(shape))
            inputs.append((np.arange(size).reshape(shape) / size).astype(np.float32))
        outputs = [
            _decode(path.with_name(f"{path.stem}_output_{i}.pb").read_bytes(), info.type)
            for i, info in enumerate(model.graph.output)
        ]
        return model, [(inputs, outputs)]

    return load


def runtime_inputs(model: ModelProto) -> list[onnx.ValueInfoProto]:
    """Inputs that are fed: those without an initializer."""
    weights = {i.name for i in model.graph.initializer}
    return [i for i in model.graph.input if i.name not in weights]


def compare(want: Any, got: Any, rtol: float, atol: float, where: str) -> None:
    """Raise Mismatch unless `got` has the kind, shape, dtype and values of `want`."""
    if want is None or got is None:
        if want is not got:
            raise Mismatch(f"{where}: one of the two is empty")
        return
    if isinstance(want, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(want):
            raise Mismatch(f"{where}: expected a sequence of {len(want)}")
        for index, (w, g) in enumerate(zip(want, got, strict=True)):
            compare(w, g, rtol, atol, f"{where}[{index}]")
        return
    want, got = np.asarray(want), np.asarray(got)
    if want.shape != got.shape:
        raise Mismatch(f"{where}: shape {got.shape}, expected {want.shape}")
    if want.dtype.kind in "OUS":
        if got.dtype.kind not in "OUS" or not np.array_equal(want.astype(object), got.astype(object)):
            raise Mismatch(f"{where}: strings differ")
        return
    if want.dtype != got.dtype:
        raise Mismatch(f"{where}: dtype {got.dtype}, expected {want.dtype}")
    rtol = max(rtol, 2**-6) if want.dtype.name == "bfloat16" else rtol
    if want.dtype.isbuiltin != 1:
        want, got = want.astype(np.float32), got.astype(np.float32)
    if not np.allclose(got, want, rtol=rtol, atol=atol, equal_nan=True):
        far = np.abs(got.astype(np.float64) - want.astype(np.float64))
        raise Mismatch(f"{where}: largest difference {np.nanmax(far) if far.size else 0:.3g}")


def run_case(case: Case, backend: str, cpu: str = "") -> Outcome:
    """One case from model to comparison; `cpu`: the processor to compile for, where not this one."""
    import glow_compiler as glow

    try:
        model, sets = case.load()
        net = glow.compile(model, backend=backend, **({"cpu": cpu} if cpu else {}))
        names = [i.name for i in runtime_inputs(model)]
        native = True
        for inputs, outputs in sets:
            got = net.run(dict(zip(names, inputs, strict=False)))
            notes = net.program.report.notes
            native &= not notes.get("host") and not notes.get("host instructions")
            for index, (info, want) in enumerate(zip(model.graph.output, outputs, strict=True)):
                compare(want, got[info.name], case.rtol, case.atol, f"output {index}")
        return Outcome(case.name, "pass", native)
    except Mismatch as error:
        return Outcome(case.name, "wrong", message=str(error))
    except glow.GlowError as error:
        return Outcome(case.name, "refused", message=_line(error))
    except Exception as error:
        return Outcome(case.name, "failed", message=f"{type(error).__name__}: {_line(error)}")


def _line(error: Exception) -> str:
    return " | ".join(str(error).split("\n"))[:300]


class Worker:
    """A process that has loaded the cases, which takes seconds, and runs those that it is asked for."""

    def __init__(self, **environment: str) -> None:
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self.environment = {**threads, **os.environ, **environment}
        self.process: subprocess.Popen[str] | None = None

    def run(
        self, backend: str, pattern: str = "", part: int = 0, parts: int = 1, cpu: str = ""
    ) -> Iterator[Outcome]:
        """Every `parts`-th case; a process that dies is a crash of its case, and the next one goes on."""
        while True:
            for kind, text in self._answers(backend, pattern, str(part), str(parts), cpu):
                match kind:
                    case "end":
                        name, status, native, message = text.split("\t", 3)
                        yield Outcome(name, status, native == "True", message)
                    case "crash":
                        yield Outcome(text, "crash", message="the process died")
                    case _:
                        return
                part += parts

    def _answers(self, *request: str) -> Iterator[tuple[str, str]]:
        """The kind and the text of each answer, the last of them `done` or `crash`."""
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("\t".join(request) + "\n")
        process.stdin.flush()
        running = ""
        for line in process.stdout:
            kind, _, text = line.rstrip("\n").partition("\t")
            running = text if kind == "start" else ""
            if kind != "start":
                yield kind, text
            if kind == "done":
                return
        self.close()
        assert running, f"the worker ended with {process.returncode} between two cases"
        yield "crash", running

    def _started(self) -> subprocess.Popen[str]:
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, __file__, "--worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=self.environment,
            )
        return self.process

    def close(self) -> None:
        """End the process, if there is one."""
        if self.process is not None:
            self.process.communicate()
            self.process = None


def work() -> None:
    """The loop of a worker: a line before and after each case, one after all that a request names."""
    loaded = load_cases()
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        backend, pattern, start, step, cpu = line.rstrip("\n").split("\t")
        cases = [c for c in loaded if re.search(pattern, c.name)]
        for case in cases[int(start) :: int(step)]:
            out.write(f"start\t{case.name}\n")
            o = run_case(case, backend, cpu)
            message = o.message.replace("\t", " ").replace("\n", " ")
            out.write(f"end\t{o.name}\t{o.status}\t{o.native}\t{message}\n")
        out.write("done\n")


def lock_file(backend: str) -> Path:
    """Passing cases, one a line; ` host` after those that are not wholly compiled."""
    return Path(__file__).with_name(f"passing_{backend}.txt")


def read_lock(backend: str) -> dict[str, bool]:
    """Passing cases, and whether they are wholly compiled."""
    lines = lock_file(backend).read_text(encoding="utf-8").splitlines()
    return {line.split(" ")[0]: " host" not in line for line in lines if line}


def run_all(backend: str, pattern: str, jobs: int, cpu: str = "") -> list[Outcome]:
    """All cases, in `jobs` processes."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(jobs) as pool:
        shards = pool.map(lambda p: list(Worker().run(backend, pattern, p, jobs, cpu)), range(jobs))
        return sorted((o for shard in shards for o in shard), key=lambda o: o.name)


def summary(backend: str, outcomes: Sequence[Outcome]) -> str:
    """The count, in one paragraph."""
    counts = Counter(o.status for o in outcomes)
    native = sum(o.native for o in outcomes)
    random = sum(bool(RANDOM.match(o.name)) for o in outcomes)
    text = ", ".join(f"{n} {s}" for s, n in counts.most_common())
    return f"{backend}: {len(outcomes)} cases ({random} random): {text}; {native} wholly compiled"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite and print the count."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--backend", default="interpreter", help="cpu or interpreter")
    parser.add_argument("--cpu", default="", help="the processor to compile for, such as haswell")
    parser.add_argument("--filter", default="", help="regular expression on case names")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--update", action="store_true", help="write the lock file of passing cases")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        work()
        return 0
    start = time.perf_counter()
    outcomes = run_all(options.backend, options.filter, options.jobs, options.cpu)
    for outcome in outcomes:
        if outcome.status != "pass":
            print(f"{outcome.status:8} {outcome.name}: {outcome.message}")
    print(summary(options.backend, outcomes), f"in {time.perf_counter() - start:.0f} s")
    if options.update:
        lines = [o.name + ("" if o.native else " host") for o in outcomes if o.status == "pass"]
        lock_file(options.backend).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
