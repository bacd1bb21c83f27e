"""Writes docs/operators.md from the cards, the import tables and the suite's lock files.

python docs/make_operators.py [--check]
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx
from onnx import AttributeProto, GraphProto

from glow_backends.cpu.rules import rules as cpu_rules
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.ops import CARDS
from glow_frontends.onnx.functions import has_body
from glow_frontends.onnx.rules import RULES, find_rule
from glow_passes.quantize.quantize import rule_of

ROOT = Path(__file__).parents[1]
DOCUMENT = Path(__file__).with_name("operators.md")
#: Rules of these modules work on arrays: at run time on the host.
HOST = {"selection", "strings"}
INTRODUCTION = """# Operators

Written by `docs/make_operators.py` from the cards (`glow_dialects/ops`), the import rules
(`frontends/glow_frontends/onnx/rules`) and the official ONNX suite's lock files (`tests/onnx`).
"""


def mark(condition: object) -> str:
    """A table's yes."""
    return "yes" if condition else ""


def operators() -> Iterator[tuple[ModuleType, type[GraphOp]]]:
    """Every graph operator with its card, by name."""
    found = [
        (card, value)
        for card in CARDS
        for value in vars(card).values()
        if isinstance(value, type) and issubclass(value, GraphOp) and vars(value).get("name")
        if value.__module__ == card.__name__
    ]
    yield from sorted(dict.fromkeys(found), key=lambda pair: pair[1].name)


def graph_table() -> Iterator[str]:
    """The `glow` dialect: operator, card, gradient, decomposition, native kernel, quantised form."""
    yield "| operator | card | gradient | decomposition | cpu kernel | quantised |"
    yield "| --- | --- | --- | --- | --- | --- |"
    kernels = cpu_rules()
    for card, op in operators():
        short = op.name.removeprefix("glow.")
        instruction = op.INSTR
        native = instruction is not None and (
            instruction.name.removeprefix("glow_instr.") in kernels or instruction.DATA_PARALLEL
        )
        columns = (
            f"`{short}`",
            f"`{card.__name__.rpartition('.')[2]}`",
            mark(op.has_gradient()),
            mark(op.can_decompose()),
            mark(native),
            mark(rule_of(op) is not None),
        )
        yield f"| {' | '.join(columns)} |"


def suite() -> ModuleType:
    """The suite's runner, which lies with the tests."""
    spec = importlib.util.spec_from_file_location("onnx_suite", ROOT / "tests/onnx/suite.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["onnx_suite"] = module
    spec.loader.exec_module(module)
    return module


def nodes(graph: GraphProto) -> Iterator[onnx.NodeProto]:
    """Every node, those of subgraphs included."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from nodes(attribute.g)


def counts() -> dict[tuple[str, str], Counter[str]]:
    """Cases of the suite by operator: all, passing on either backend, wholly compiled."""
    runner: Any = suite()
    interpreter, cpu = runner.read_lock("interpreter"), runner.read_lock("cpu")
    out: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for case in runner.load_cases():
        model, _ = case.load()
        for key in {(n.domain, n.op_type) for n in nodes(model.graph)}:
            out[key]["all"] += 1
            out[key]["interpreter"] += case.name in interpreter
            out[key]["cpu"] += case.name in cpu
            out[key]["native"] += cpu.get(case.name, False)
    return out


def how(domain: str, op: str, version: int) -> str:
    """What makes an operator importable."""
    rule = find_rule(domain, op, version)
    if rule is not None:
        module = inspect.getmodule(rule)
        name = module.__name__.rpartition(".")[2] if module is not None else ""
        return "host" if name in HOST else "rule"
    return "function body" if has_body(domain, op, version) else "no"


def onnx_table(domain: str, cases: dict[tuple[str, str], Counter[str]]) -> Iterator[str]:
    """Operators of an ONNX domain: versions, how they are imported, cases that pass."""
    versions: dict[str, set[int]] = defaultdict(set)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == domain:
            versions[schema.name].add(schema.since_version)
    yield "| operator | versions | import | cases | interpreter | cpu | wholly compiled |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for op in sorted(versions):
        count = cases.get((domain, op), Counter())
        numbers = (count["all"], count["interpreter"], count["cpu"], count["native"])
        shown = " | ".join(str(n) if count["all"] else "" for n in numbers)
        since = ", ".join(map(str, sorted(versions[op])))
        yield f"| {op} | {since} | {how(domain, op, max(versions[op]))} | {shown} |"


def contributed() -> str:
    """Operators of com.microsoft that have a rule."""
    names = sorted({name for family in RULES["com.microsoft"] for name in family})
    return ", ".join(f"`{name}`" for name in names) + "."


def document() -> str:
    """The whole document."""
    cases = counts()
    parts: list[Iterable[str]] = [[INTRODUCTION, "## The graph dialect\n"], graph_table()]
    for domain in ("", "ai.onnx.ml", "ai.onnx.preview.training"):
        parts += [["", f"## ONNX operators of {domain or 'ai.onnx'}\n"], onnx_table(domain, cases)]
    parts.append(["", "## ONNX operators of com.microsoft\n", contributed()])
    return "\n".join(line for part in parts for line in part) + "\n"


def main() -> int:
    """Write the document, or with --check say whether it is up to date."""
    text = document()
    if "--check" in sys.argv[1:]:
        same = DOCUMENT.exists() and DOCUMENT.read_text(encoding="utf-8") == text
        print("up to date" if same else f"{DOCUMENT.name} is out of date: run python {__file__}")
        return int(not same)
    DOCUMENT.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
