"""Mutation testing of passes: which changes of a pass file no test notices.

    python tests/repo/mutants.py [FILE.py ...] [--patterns] [--jobs 2]     (make mutants)

A mutant has one condition turned round, one comparison shifted, one term or number changed, or one whole
pattern dropped. Each runs in a process of its own: first the FileCheck files that are named after the pass,
then, where these notice nothing, the quick tests of its folder. What survives is printed with its line; a
dropped pattern that survives ends the run with 1. `--patterns`: dropped patterns only.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib.machinery
import io
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import filecheck.matcher
import filecheck.options
import pytest

# Loaded once, before the processes of the mutants divide; no pass is.
from glow_dialects.dialects import context

ROOT = Path(__file__).parent.parent.parent
PASSES = ROOT / "passes/glow_passes"
FOLDERS = ("graph", "instr", "lower", "quantize")
#: Tests of a folder of passes, run where its FileCheck files notice nothing.
TESTS: dict[str, tuple[str, ...]] = {
    "graph": ("test_patterns.py", "test_recognition.py", "test_branches.py", "test_graph_passes.py"),
    "instr": ("test_inplace.py", "test_hide_latency.py", "test_device_programs.py", "test_random_orders.py"),
    "lower": ("test_random_orders.py",),
    "quantize": ("test_quantize_layers.py", "test_quantize.py", "test_calibration.py"),
}
PATIENCE = 120
"""Processor seconds after which a mutant counts as noticed: it hangs."""
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq},
    **{ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In},
}
TERMS: dict[type[ast.operator], type[ast.operator]] = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult},
}


@dataclass(frozen=True)
class Mutant:
    """A changed source: what was changed, on which line."""

    line: int
    kind: str
    change: str
    source: str


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a module."""
    tree = ast.parse(source)
    return [
        Mutant(line, kind, change, ast.unparse(changed))
        for number, (line, kind, change, _) in enumerate(_changes(tree))
        for changed in [_changed(tree, number)]
    ]


Change = tuple[int, str, str, Callable[[], object]]


def _changed(tree: ast.Module, number: int) -> ast.Module:
    """A copy of a module with one of its changes made."""
    changed = copy.deepcopy(tree)
    next(change for n, (*_, change) in enumerate(_changes(changed)) if n == number)()
    return changed


def _changes(tree: ast.Module) -> Iterator[Change]:
    """The changes that can be made in a module, in the order of its text."""
    for node in _code(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Tuple(elts=elements):
                for place, element in enumerate(elements):
                    if isinstance(element, ast.Call) and _name(element.func) == "Pattern":
                        told = f"without {ast.unparse(element)}"
                        yield element.lineno, "pattern", told, partial(elements.pop, place)
            case ast.Compare(ops=ops):
                for place, op in enumerate(ops):
                    other = COMPARISONS[type(op)]()
                    told = f"{ast.unparse(node)}: {type(op).__name__} -> {type(other).__name__}"
                    yield line, "comparison", told, partial(ops.__setitem__, place, other)
            case ast.BoolOp(values=values):
                for place, value in enumerate(values):
                    yield line, "term", f"without the term {ast.unparse(value)}", partial(values.pop, place)
            case ast.BinOp(op=op) if type(op) in TERMS:
                other = TERMS[type(op)]()
                told = f"{ast.unparse(node)}: {type(op).__name__} -> {type(other).__name__}"
                yield line, "arithmetic", told, partial(setattr, node, "op", other)
            case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Compare | ast.BoolOp):
                turned = ast.UnaryOp(ast.Not(), test)
                yield (
                    line,
                    "condition",
                    f"if not ({ast.unparse(test)})",
                    partial(setattr, node, "test", turned),
                )
            case ast.Constant(value=int() as value):
                other = not value if isinstance(value, bool) else value + 1
                yield line, "number", f"{value} -> {other}", partial(setattr, node, "value", other)
            case _:
                pass


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of what runs: no annotations, messages of errors, checks of mistakes, decorators."""
    yield node
    left_out = {"annotation", "returns", "decorator_list"}
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            passed_by = isinstance(child, ast.Raise | ast.Assert | ast.ImportFrom)
            if isinstance(child, ast.AST) and name not in left_out and not passed_by:
                yield from _code(child)


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else ""


Stage = Callable[[Path], bool]
"""Whether some tests of a pass file pass."""


def is_noticed(file: Path, stage: Stage, source: str) -> bool:
    """Whether a test of a stage fails, hangs or dies with another source of a pass file."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    try:
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1), os.dup2(quiet, 2)
        _replace(file, source)
        os._exit(0 if stage(file) else 1)
    except BaseException:
        os._exit(1)


def _replace(file: Path, source: str) -> None:
    """Import another source in the place of a file."""
    usual = importlib.machinery.SourceFileLoader.get_code

    def get_code(loader: Any, name: str) -> Any:
        path = loader.get_filename(name)
        return compile(source, path, "exec") if Path(path) == file else usual(loader, name)

    importlib.machinery.SourceFileLoader.get_code = get_code


def filechecks(file: Path) -> bool:
    """Whether the FileCheck files that are named after a pass file pass."""
    return all(map(_filecheck, (ROOT / "tests/filecheck").rglob(f"{file.stem}.mlir")))


def _filecheck(file: Path) -> bool:
    """Whether the RUN lines of a file that are one glow-opt and one filecheck pass, in this process."""
    from glow_tools import opt

    for command in re.findall(r"^// RUN: (.*)$", file.read_text(), re.M):
        parts = re.fullmatch(r"glow-opt (?P<opt>[^|]*?)(?: 2>&1)? \| filecheck (?P<check>[^|]*)", command)
        if parts is None or "%t" in command:
            continue
        first, second = (shlex.split(parts[n].replace("%s", str(file))) for n in ("opt", "check"))
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            opt.main(first)
        sys.stdin = io.StringIO(out.getvalue())
        options = filecheck.options.parse_argv_options(["filecheck", *second])
        if filecheck.matcher.Matcher.from_opts(options).run():
            return False
    return True


def tests(file: Path) -> bool:
    """Whether the quick tests of a folder of passes pass."""
    tests = [str(ROOT / "tests/numeric" / name) for name in TESTS[file.parent.name]]
    return pytest.main(["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow", *tests]) == 0


def survivors(file: Path, made: Sequence[Mutant], jobs: int) -> list[Mutant]:
    """The mutants of a file that no test notices, of which the fast ones come first."""
    for stage in (filechecks, tests):
        if not made:
            break
        if is_noticed(file, stage, file.read_text()):
            raise SystemExit(f"{file.relative_to(ROOT)}: its tests fail as it is ({stage.__name__})")
        with ThreadPoolExecutor(jobs) as pool:
            noticed = list(pool.map(partial(is_noticed, file, stage), (m.source for m in made)))
        made = [m for m, seen in zip(made, noticed, strict=True) if not seen]
    return list(made)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the score of each file and what survives; 1 where a pattern was not missed."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--patterns", action="store_true", help="dropped patterns only")
    parser.add_argument("--jobs", type=int, default=2)
    a = parser.parse_args(arguments)
    files = [f.resolve() for f in a.files] or [f for n in FOLDERS for f in sorted((PASSES / n).glob("*.py"))]
    context()
    total = 0
    left: list[Mutant] = []
    for file in files:
        made = [m for m in mutants(file.read_text()) if m.kind == "pattern" or not a.patterns]
        alive = survivors(file, made, a.jobs)
        total, left = total + len(made), left + alive
        if made:
            print(f"{file.relative_to(ROOT)}: {len(made) - len(alive)} of {len(made)} noticed", flush=True)
        for mutant in alive:
            print(f"  line {mutant.line}, {mutant.kind}: {mutant.change}", flush=True)
    missed = sum(m.kind == "pattern" for m in left)
    score = f"{total - len(left)} of {total} mutants noticed ({1 - len(left) / max(total, 1):.0%})"
    print(f"{score}; {missed} dropped patterns were not missed")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
