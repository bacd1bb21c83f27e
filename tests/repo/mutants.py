"""Mutation testing of passes: which changes of a pass file no test notices.

    python tests/repo/mutants.py [FILE.py ...] [--patterns] [--sample N] [--jobs 2]     (make mutants)

A mutant has one condition turned round, one comparison shifted, one term or number changed, or one whole
pattern dropped. The tests of the folder of the pass (FileCheck files and quick tests of values) run once, and
the lines that each runs are noted; a mutant then runs those that run its line, in a process divided from this
one, until one fails. What survives is printed with its line; a dropped pattern that survives ends the run
with 1, as does an entry of `equivalent_mutants.txt` that is no mutant. `--patterns`: dropped patterns only;
`--sample N`: of the other mutants N a file, at even distances.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import importlib.machinery
import inspect
import io
import os
import pickle
import re
import shlex
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, groupby
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import filecheck.matcher
import filecheck.options
import pytest
from _pytest.runner import runtestprotocol
from mutations import EQUIVALENT, ROOT, Mutant, equivalents, keys, mutants

from glow_dialects.dialects import context

PASSES = ROOT / "passes/glow_passes"
CPU = ROOT / "backends/glow_backends/cpu/passes"
KERNELS = CPU.parent / "kernels"
#: What passes of the CPU decide by, in the folders of the kernels' families: layout rules and choices.
RULES = [
    f for name in ("*layout.py", "blocked_bytes.py", "choice.py") for f in sorted(KERNELS.glob(f"*/{name}"))
]
FOLDERS = (*(PASSES / n for n in ("graph", "quantize", "lower", "instr", "fn", "partition", "autodiff")), CPU)
#: Folders and files of tests of a folder of passes, below `tests/filecheck` and `tests`.
FILECHECKS: dict[Path, tuple[str, ...]] = {
    PASSES / "graph": ("patterns", "passes/graph", "pipelines"),
    PASSES / "quantize": ("passes/quantize", "pipelines"),
    PASSES / "lower": ("passes/lower", "passes", "pipelines"),
    PASSES / "instr": ("passes/instr", "instr", "pipelines"),
    PASSES / "fn": ("passes/fn", "fn"),
    PASSES / "partition": ("passes/partition",),
    PASSES / "autodiff": ("passes/autodiff", "pipelines"),
    CPU: ("backends",),
    KERNELS: ("backends",),
}


def numeric(names: str) -> tuple[str, ...]:
    """Files of `tests/numeric`; an asterisk stands for any part of a name."""
    found = (f for name in names.split() for f in sorted(ROOT.glob(f"tests/numeric/test_{name}.py")))
    return tuple(f"numeric/{f.name}" for f in found)


TESTS: dict[Path, tuple[str, ...]] = {
    PASSES / "graph": numeric(
        "patterns pattern_guards recognition branches graph_passes driver any_size rebatch_graphs bind_sizes"
    ),
    PASSES / "quantize": (
        *numeric("quantize_layers quantize calibration weight_quantization float_layers histogram"),
        *numeric("qdq quantizer quantize_parts"),
        *(f"onnx/test_{name}.py" for name in ("quantized", "quantized_ranges", "exact_quantization")),
    ),
    PASSES / "lower": numeric("random_orders lowering predicates graph_passes device_programs inplace"),
    PASSES / "instr": numeric(
        "inplace hide_latency device_programs tile tiles arena spill double_buffer simulate cheapest "
        "buffers random_orders"
    ),
    PASSES / "fn": (
        *("numeric/test_functions.py::test_gradient", "numeric/test_functions_errors.py::test_message"),
        *numeric("derived_functions functions_declared specialize unrolling outline_control"),
        *numeric("inference straight simplify_functions expand_grad reverse second_derivatives"),
        *("numeric/test_functions_turns.py::test_gradient_inside_another", "numeric/test_grouped_turns.py"),
    ),
    PASSES / "partition": (
        *(
            "runtime/test_partitioner.py",
            "runtime/test_partition_plans.py",
            "runtime/test_light_partitions.py",
        ),
        *numeric("cut spread split partition"),
    ),
    PASSES / "autodiff": numeric(
        "differentiate gradients_special optimize recurrent_train training training_models training_networks "
        "training_output trainer_errors checkpoints"
    ),
    CPU: (
        *numeric("cpu_* stack place_parts kernels_recurrent kernels_attention few_bits"),
        "onnx/test_quantized_lstm.py",
    ),
    KERNELS: numeric("cpu_graph cpu_choose quantized_layout training_layouts cpu_layout*"),
}
#: Folders whose tests are marked slow for their number: each takes a fraction of a second.
MANY = {PASSES / "fn", KERNELS}
PATIENCE = 5
"""Processor seconds, beside ten times those of a test, after which a mutant hangs, and counts as noticed."""
BUDGET = 3.0
"""Processor seconds of tests, as they were measured, that a mutant is worth, if it is not a whole pattern."""
OURS = ("glow_passes", "glow_backends", "glow_compiler", "glow_frontends", "glow_runtime", "glow_tools")

Lines = dict[str, set[int]]
"""Lines that ran, by file."""

BROKEN = 255
"""The exit status of a process in which no test could be asked."""


@dataclass(frozen=True)
class FileCheck:
    """The RUN lines of a file that are one glow-opt and one filecheck."""

    file: Path

    @property
    def name(self) -> str:
        """How it is called in messages."""
        return str(self.file.relative_to(ROOT))

    def passes(self, anew: bool) -> bool:
        """Whether they pass, in this process."""
        from glow_tools import opt

        for command in re.findall(r"^// RUN: (?:not )?(.*)$", self.file.read_text(), re.M):
            parts = re.fullmatch(r"glow-opt ([^|]*?)(?: 2>&1)? \| filecheck ([^|]*)", command)
            if parts is None or "%t" in command:
                continue
            first, second = (shlex.split(part.replace("%s", str(self.file))) for part in parts.groups())
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                with contextlib.suppress(SystemExit):
                    opt.main(first)
                sys.stdin = io.StringIO(out.getvalue())
                options = filecheck.options.parse_argv_options(["filecheck", *second])
                if filecheck.matcher.Matcher.from_opts(options).run():
                    return False
        return True


@dataclass(frozen=True)
class Collected:
    """A test that pytest collected."""

    item: pytest.Item

    @property
    def name(self) -> str:
        """How pytest names it."""
        return self.item.nodeid

    def passes(self, anew: bool) -> bool:
        """Whether it passes; `anew`: its module was forgotten."""
        if anew:
            return pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", self.name]) == 0
        return not any(report.failed for report in runtestprotocol(self.item, log=False))


Test = FileCheck | Collected


@dataclass
class Known:
    """What is known of a test: its processor seconds, the lines of pass files that it runs."""

    seconds: float
    lines: Lines


def folder_of(file: Path) -> Path:
    """The folder of passes whose tests are those of a file."""
    return KERNELS if file in RULES else file.parent


def filechecks(folder: Path) -> list[FileCheck]:
    """The FileCheck files of a folder of passes."""
    tops = [ROOT / "tests/filecheck" / name for name in FILECHECKS[folder]]
    return [FileCheck(f) for f in dict.fromkeys(f for top in tops for f in sorted(top.rglob("*.mlir")))]


def in_child(work: Callable[[], int]) -> int:
    """The id of a process divided from this one, whose exit status is what some work gives; it is silent."""
    child = os.fork()
    if child == 0:
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            os._exit(work())
        except BaseException:
            os._exit(BROKEN)
    return child


@contextlib.contextmanager
def noted(files: set[str], lines: Lines) -> Generator[None]:
    """Note the lines that run in some files."""

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        seen = lines.setdefault(frame.f_code.co_filename, set())

        def step(frame: FrameType, event: str, _: Any) -> Any:
            seen.add(frame.f_lineno)
            return step

        return step

    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(None)


def known(tests: Sequence[Test], files: set[str]) -> dict[Test, Known]:
    """What each test runs. It ran in another process, so that nothing is remembered here but the imports."""
    read, write = os.pipe()

    def measure() -> int:
        found: list[Known | None] = []
        for test in tests:
            lines: Lines = {}
            start = time.process_time()
            with noted(files, lines):
                passed = test.passes(anew=False)
            found.append(Known(time.process_time() - start, lines) if passed else None)
        with os.fdopen(write, "wb") as out:
            pickle.dump((found, list(sys.modules)), out)
        return 0

    child = in_child(measure)
    os.close(write)
    with os.fdopen(read, "rb") as back:
        told = back.read()
    os.waitpid(child, 0)
    found: list[Known | None]
    found, modules = pickle.loads(told)
    if failed := [t.name for t, k in zip(tests, found, strict=True) if k is None]:
        raise SystemExit(f"tests fail as it is: {', '.join(failed)}")
    for name in modules:
        if name.partition(".")[0] in OURS:
            importlib.import_module(name)
    context()
    return {test: k for test, k in zip(tests, found, strict=True) if k is not None}


def functions_of(code: CodeType) -> list[CodeType]:
    """The code of the functions that a module defines itself or in classes, not of those within functions."""
    found: list[CodeType] = []
    for const in code.co_consts:
        if isinstance(const, CodeType):
            found += [const] if const.co_flags & inspect.CO_OPTIMIZED else functions_of(const)
    return found


@dataclass(frozen=True)
class Source:
    """A pass file: its mutants, the code of its functions as it is, and those that are loaded."""

    file: Path
    made: list[Mutant]
    code: list[CodeType]
    loaded: list[FunctionType]
    module: ModuleType

    def change(self, mutant: Mutant) -> bool:
        """Make a change in what is loaded; False where the module has to be imported anew for it."""
        if mutant.kind == "pattern":
            return self._drop(mutant)
        if mutant.span is not None:
            self._replace(mutant)
        return mutant.span is not None

    def _drop(self, mutant: Mutant) -> bool:
        """Let a pattern of a table match nothing."""
        for node in mutant.tree.body:
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=ast.Tuple(elts=elements))
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.Tuple(elts=elements))
                ):
                    told = [f"without {ast.unparse(e)}" for e in elements]
                    spread = any(isinstance(e, ast.Starred) for e in elements)
                    if mutant.change in told and not spread:
                        pattern = getattr(self.module, name)[told.index(mutant.change)]
                        object.__setattr__(pattern, "roots", ())
                        return True
                case _:
                    pass
        return False

    def _replace(self, mutant: Mutant) -> None:
        """Change a function wherever it is held."""
        code = functions_of(compile(mutant.made(), str(self.file), "exec"))
        changed = {a: b for a, b in zip(self.code, code, strict=True) if a != b}
        assert changed, mutant
        for function in self.loaded:
            function.__code__ = changed.get(function.__code__, function.__code__)


def sources(files: Sequence[Path]) -> list[Source]:
    """Pass files that are loaded."""
    loaded: dict[str, list[FunctionType]] = {}
    for each in gc.get_objects():
        if isinstance(each, FunctionType):
            loaded.setdefault(each.__code__.co_filename, []).append(each)
    modules = {getattr(module, "__file__", None): module for module in [*sys.modules.values()]}
    found: list[Source] = []
    for file in files:
        text, path = file.read_text(), str(file)
        code = functions_of(compile(text, path, "exec"))
        found.append(Source(file, mutants(text), code, loaded.get(path, []), modules[path]))
    return found


def import_anew(file: Path, mutant: Mutant) -> None:
    """Forget what is loaded of ours, so that it is imported anew, a file with a change."""
    tests = str(ROOT / "tests/")
    for name, module in [*sys.modules.items()]:
        if name.partition(".")[0] in OURS or tests in str(getattr(module, "__file__", "")):
            del sys.modules[name]
    usual, code = importlib.machinery.SourceFileLoader.get_code, compile(mutant.made(), str(file), "exec")

    def get_code(loader: Any, name: str) -> Any:
        return code if Path(loader.get_filename(name)) == file else usual(loader, name)

    vars(importlib.machinery)["SourceFileLoader"].get_code = get_code


def recall_no_others() -> None:
    """Let this process recall no program that another one compiled: its passes were others."""
    own = str(os.getpid())
    vars(importlib.import_module("glow_backends.cpu.cache"))["project_digest"] = lambda: own


def first_failure(source: Source, mutant: Mutant, tests: Sequence[Test], facts: dict[Test, Known]) -> int:
    """The number, from 1, of the first test that fails with a change; 0 where none does."""
    if anew := not source.change(mutant):
        import_anew(source.file, mutant)
    recall_no_others()
    for number, test in enumerate(tests, 1):
        signal.setitimer(signal.ITIMER_PROF, PATIENCE + 10 * facts[test].seconds)
        try:
            passed = test.passes(anew)
        except Exception:  # of glow-opt
            passed = False
        if not passed:
            return min(number, BROKEN - 1)
    return 0


class Scores:
    """A plugin of pytest that runs mutants of the files of a folder, beside the tests collected for it."""

    def __init__(self, files: Sequence[Path], most: int | None, verbose: bool, jobs: int) -> None:
        self.files, self.most, self.verbose, self.jobs = files, most, verbose, jobs
        self.listed = equivalents()
        self.total = self.noticed = self.equal = self.missed = 0
        self.stale: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of the tests, the mutants."""
        tests = [*filechecks(folder_of(self.files[0])), *map(Collected, session.items)]
        facts = known(tests, {str(f) for f in self.files})
        read = sources(self.files)
        gc.collect()
        gc.freeze()  # what processes share stays shared
        for source in read:
            self._score(source, facts)
        return True

    def _score(self, source: Source, facts: dict[Test, Known]) -> None:
        """Run the mutants of a file, and print its score and survivors."""
        file = source.file
        named = dict(zip(keys(source.made), source.made, strict=True))
        entries = {key for (path, key) in self.listed if path == file}
        self.stale += [f"{file.relative_to(ROOT)}: {key}" for key in entries - set(named)]
        asked = [m for k, m in named.items() if k not in entries]
        rest = [m for m in asked if m.kind != "pattern"]
        if self.most is not None and self.most < len(rest):
            some = {id(rest[i * len(rest) // self.most]) for i in range(self.most)}
            asked = [m for m in asked if m.kind == "pattern" or id(m) in some]
        alive = self._alive(source, asked, facts)
        self.total, self.noticed = self.total + len(asked), self.noticed + len(asked) - len(alive)
        self.equal += len(entries)
        self.missed += sum(m.kind == "pattern" for m, _ in alive)
        if asked:
            told = f"{len(asked) - len(alive)} of {len(asked)} noticed, {len(entries)} equivalent"
            print(f"{file.relative_to(ROOT)}: {told}", flush=True)
        for mutant, runs in alive:
            told = mutant.change if runs else f"{mutant.change} (no test runs it)"
            print(f"  line {mutant.line}, {mutant.kind}: {told}", flush=True)

    def _alive(
        self, source: Source, asked: Sequence[Mutant], facts: dict[Test, Known]
    ) -> list[tuple[Mutant, bool]]:
        """The mutants that no test notices, and whether any runs their line."""
        alive: list[tuple[Mutant, bool]] = []
        running: dict[int, tuple[Mutant, list[Test]]] = {}
        killers: Counter[Test] = Counter()
        stem = source.file.stem

        def wait() -> None:
            child, status = os.wait()
            mutant, tests = running.pop(child)
            code = os.waitstatus_to_exitcode(status)
            if code == 0:
                alive.append((mutant, True))
            elif 0 < code <= len(tests):
                killers[tests[code - 1]] += 1
            if self.verbose:
                by = tests[code - 1].name if 0 < code <= len(tests) else f"exit status {code}"
                print(f"  line {mutant.line}, {mutant.change}: {by if code else 'not noticed'}", flush=True)
            assert code != BROKEN, f"{source.file}, line {mutant.line}: {mutant.change}"

        for mutant in asked:
            tests = [t for t, k in facts.items() if _runs(k.lines.get(str(source.file)), mutant.needed)]
            # First those named after the file, then quick ones and those that noticed others.
            tests.sort(key=lambda t: (stem not in t.name, facts[t].seconds / (1 + killers[t])))
            if mutant.kind != "pattern":
                spent = list(accumulate(facts[t].seconds for t in tests))
                tests = [t for t, before in zip(tests, [0.0, *spent], strict=False) if before < BUDGET]
            if not tests:
                alive.append((mutant, False))
                continue
            running[in_child(partial(first_failure, source, mutant, tests, facts))] = mutant, tests
            if len(running) >= self.jobs:
                wait()
        while running:
            wait()
        return sorted(alive, key=lambda a: a[0].line)


def _runs(lines: set[int] | None, span: range | None) -> bool:
    """Whether lines of a file hold some of a statement; those of the module itself every test needs."""
    return lines is not None and (span is None or not lines.isdisjoint(span))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the score of each file and what survives; 1 where a pattern was not missed."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--patterns", action="store_true", help="dropped patterns only")
    parser.add_argument("--sample", type=int, metavar="N", help="so many of a file, beside its patterns")
    parser.add_argument("--verbose", action="store_true", help="name the test that notices a mutant")
    parser.add_argument("--jobs", type=int, default=2)
    a = parser.parse_args(arguments)
    files = [f.resolve() for f in a.files] or [*(f for n in FOLDERS for f in sorted(n.glob("*.py"))), *RULES]
    scores: list[Scores] = []
    for folder, group in groupby(files, key=folder_of):
        some = list(group)
        scores.append(Scores(some, 0 if a.patterns else a.sample, a.verbose, a.jobs))
        named = [t for f in some for t in (ROOT / "tests").rglob(f"test_{f.stem}.py")]
        tests = [str(t) for t in dict.fromkeys([*(ROOT / "tests" / n for n in TESTS[folder]), *named])]
        marks = "" if folder in MANY else "not slow"
        options = ["-m", marks, "-s", "-q", "-n", "0", "-p", "no:cacheprovider"]
        if code := pytest.main([*options, *tests], plugins=[scores[-1]]):
            raise SystemExit(int(code))
    total, noticed, equal, missed = (
        sum(getattr(s, n) for s in scores) for n in ("total", "noticed", "equal", "missed")
    )
    print(f"{noticed} of {total} mutants noticed ({noticed / max(total, 1):.0%}), {equal} equivalent")
    print(f"{missed} dropped patterns were not missed")
    for entry in (entry for s in scores for entry in s.stale):
        print(f"{EQUIVALENT.name}: no such mutant: {entry}")
    return int(missed > 0 or any(s.stale for s in scores))


if __name__ == "__main__":
    sys.exit(main())
