"""The mutation tester: which mutants it makes, and that a dropped pattern is noticed."""

from __future__ import annotations

import subprocess
import sys

import mutants
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
    made = [(m.kind, m.change) for m in mutants.mutants(SOURCE)]
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
    sources = [m.source for m in mutants.mutants(SOURCE)]
    assert len(set(sources)) == len(sources)
    assert all(compile(source, "mutant", "exec") for source in sources)
    assert "X = (Pattern((Sub,), two),)" in sources[0] and "op <= 2" in sources[5]


@pytest.mark.slow
def test_dropped_patterns_are_noticed() -> None:
    """Those of one file, by a process that has no pass loaded; without a change nothing is noticed."""
    file = mutants.PASSES / "graph/selects.py"
    command = [sys.executable, mutants.__file__, str(file), "--patterns", "--jobs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    assert "0 dropped patterns were not missed" in done.stdout
