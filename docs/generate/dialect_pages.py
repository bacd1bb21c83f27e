"""The reference of dialects: their operations and attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from page_text import code, docstring, summary, table
from xdsl.ir import Dialect, Operation
from xdsl.irdl import IRDLOperation

from glow_backends.base import registry
from glow_dialects.dialects import get_glow, get_glow_fn, get_glow_instr, get_quant
from glow_dialects.ops import OPERATORS

INTRODUCTION = """# Dialects

`glow-opt` reads programs in these dialects. So does `xdsl-opt`, through the entry point `xdsl.universe`.
[Architecture](../architecture.md#levels) explains the purpose of each dialect.
"""
#: Operators of the graph dialect with a section in the reference of operators.
_OPERATORS = frozenset(name for names in OPERATORS.values() for name in names.split())


def dialects() -> dict[str, Callable[[], Dialect]]:
    """Every dialect by name, those of backends included."""
    own = {"glow_fn": get_glow_fn, "glow": get_glow, "glow_instr": get_glow_instr, "quant": get_quant}
    of_backends = (kind.dialects() for kind in registry().values())
    return {**own, **{name: make for group in of_backends for name, make in group.items()}}


def page() -> Iterator[str]:
    """The page's lines."""
    yield INTRODUCTION
    for name, make in dialects().items():
        dialect = make()
        yield f"## {name} {{ #{name} }}\n"
        yield from docstring(make.__doc__)
        if rows := sorted(_row(name, op) for op in dialect.operations):
            yield from table(("operation", "operands", "properties", ""), rows)
        attributes = [(code(a.name), summary(a.__doc__)) for a in dialect.attributes]
        if attributes:
            yield from table(("attribute or type", ""), sorted(attributes))


def _row(dialect: str, op: type[Operation]) -> tuple[str, ...]:
    """An operation: operands, properties and attributes, what it does."""
    assert issubclass(op, IRDLOperation)
    definition = op.get_irdl_definition()
    operands = [name for name, _ in definition.operands if name != "predicate"]
    properties = [n for n in (*definition.properties, *definition.attributes) if not n.endswith("Sizes")]
    return (
        _linked(dialect, op.name),
        code(", ".join(operands)),
        code(", ".join(properties)),
        summary(op.__doc__),
    )


def _linked(dialect: str, name: str) -> str:
    short = name.partition(".")[2]
    return f"[`{name}`](operators.md#{short})" if dialect == "glow" and short in _OPERATORS else code(name)
