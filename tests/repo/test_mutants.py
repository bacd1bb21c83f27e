"""The mutation tester: which mutants it makes, and that a dropped pattern is noticed."""

from __future__ import annotations

import ast
import subprocess
import sys

import mutants
import mutations
import pytest

SOURCE = '''
"""A module."""
X = (Pattern((Add,), one), Pattern((Sub,), two))


def one(op: int = 3) -> int:
    """A docstring."""
    if op < 2 and check(op):
        raise ValueError(f"{op + 1}")
    return op * 2 if ready(op) else 0
'''


def test_mutants() -> None:
    """One change each; annotations, docstrings and messages of errors stay as they are."""
    made = [(m.kind, m.change) for m in mutations.mutants(SOURCE)]
    assert made == [
        ("pattern", "without Pattern((Add,), one)"),
        ("pattern", "without Pattern((Sub,), two)"),
        ("number", "3 -> 4"),
        ("term", "without the term op < 2"),
        ("term", "without the term check(op)"),
        ("comparison", "op < 2: Lt -> LtE"),
        ("number", "2 -> 3"),
        ("condition", "if not (ready(op))"),
        ("arithmetic", "op * 2: Mult -> Add"),
        ("number", "2 -> 3"),
        ("number", "0 -> 1"),
    ]
    trees = [mutations.mutants(SOURCE)[n].made() for n in range(len(made))]
    assert all(compile(tree, "mutant", "exec") for tree in trees)
    sources = [ast.unparse(tree) for tree in trees]
    assert len(set(sources)) == len(sources)
    assert "X = (Pattern((Sub,), two),)" in sources[0] and "op <= 2" in sources[5]


def test_spans() -> None:
    """The lines of the statement that holds a change; none where the module itself has to be read again."""
    spans = [m.span for m in mutations.mutants(SOURCE)]
    assert spans == [None] * 3 + [range(8, 9)] * 4 + [range(10, 11)] * 4


def test_keys() -> None:
    """What names a mutant stays as it is when lines move."""
    made = mutations.mutants("x = 1 + 1\n")
    assert mutations.keys(made) == [
        "x = 1 + 1\n1 + 1: Add -> Sub",
        "x = 1 + 1\n1 -> 2",
        "x = 1 + 1\n1 -> 2 [2]",
    ]


def test_listed_mutants_are_mutants() -> None:
    """Each entry of the list of those that change nothing has a reason, and still is a mutant."""
    listed = mutations.equivalents()
    assert all(listed.values())
    for file in {file for file, _ in listed}:
        assert {k for f, k in listed if f == file} <= set(mutations.keys(mutations.mutants(file.read_text())))


@pytest.mark.slow
def test_dropped_patterns_are_noticed() -> None:
    """Those of one file."""
    file = mutants.PASSES / "graph/selects.py"
    command = [sys.executable, mutants.__file__, str(file), "--patterns", "--jobs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    assert "0 dropped patterns were not missed" in done.stdout
