"""The reference of ONNX operators: versions, and how each is imported."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import onnx
from page_text import code, table

from glow_frontends.onnx.functions import has_body
from glow_frontends.onnx.rules import families

LOCKS = Path(__file__).parents[2] / "tests" / "onnx"
#: Rules of these modules work on arrays: at run time on the host.
HOST = {"selection", "strings"}
DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview.training")
INTRODUCTION = """# ONNX operators

There are three ways to import an operator: by a *rule* of [rules](../../frontends/glow_frontends/onnx/rules),
by the *function body* in the ONNX standard, or by a rule for arrays at run time (*host*). [ONNX
models](../onnx.md#data-dependent-models) explains data-dependent shapes. Of the official backend test suite,
{counts} cases pass; [tests/onnx/suite.py](../../tests/onnx/suite.py) runs it.
"""


def page() -> Iterator[str]:
    """The page's lines."""
    counts = {name: _passing(name) for name in ("cpu", "interpreter")}
    yield INTRODUCTION.format(counts=" and ".join(f"{n} ({name})" for name, n in counts.items()))
    for domain in DOMAINS:
        yield f"## {domain or 'ai.onnx'}\n"
        yield from table(("operator", "versions", "import"), _rows(domain))
    yield "## com.microsoft\n"
    names = sorted({name for family in families("com.microsoft") for name in family})
    yield ", ".join(map(code, names)) + "."


def _rows(domain: str) -> Iterator[tuple[str, str, str]]:
    versions: dict[str, set[int]] = defaultdict(set)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == domain:
            versions[schema.name].add(schema.since_version)
    for op in sorted(versions):
        numbers = sorted(versions[op])
        yield code(op), ", ".join(map(str, numbers)), how(domain, op, numbers[-1])


def how(domain: str, op: str, version: int) -> str:
    """What makes an operator importable."""
    versions = next((family[op] for family in families(domain) if op in family), None)
    if versions is None:
        return "function body" if has_body(domain, op, version) else "no"
    module = inspect.getmodule(versions if callable(versions) else versions[-1][1])
    return "host" if module is not None and module.__name__.rpartition(".")[2] in HOST else "rule"


def _passing(backend: str) -> int:
    """Cases of the suite that pass on a backend: the lines of its lock file."""
    return len((LOCKS / f"passing_{backend}.txt").read_text(encoding="utf-8").splitlines())
