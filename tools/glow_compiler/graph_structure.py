"""The structure of a graph as lines to compare: operators, types, weights by name, others by digest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from itertools import zip_longest

from xdsl.ir import Operation, SSAValue

from glow_backends.base import public_name
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, PlaceholderOp, SaveOp

LONG = 200
"""Characters of a property above which its digest stands for it."""
#: Facts that may depend on the number of samples: sizes, and constants made for all of them.
_VARIES = re.compile(r"#[0-9a-f]+|\d+")


def lines_of(function: FuncOp) -> list[str]:
    """One line for each operator, also of inner regions. Names count of weights, not of values."""
    names: dict[SSAValue, str] = {}
    lines: list[str] = []
    for op in function.walk():
        if op is function:
            continue
        target = op.target() if isinstance(op, GetOp | SaveOp) else None
        if isinstance(op, GetOp) and isinstance(target, ConstantOp):
            names[op.result] = f"constant {target.type} {_contents(target)}"
            continue
        operands = ", ".join(names[v] for v in op.operands)
        arguments = [a for region in op.regions for block in region.blocks for a in block.args]
        for value in (*arguments, *op.results):
            names[value] = f"%{len(names)}"
        types = ", ".join(str(r.type) for r in op.results)
        lines.append(f"{_words(op, target)} {operands} -> {types}")
    return lines


def difference(there: Sequence[str], here: Sequence[str], batches: tuple[int, int]) -> str | None:
    """The first operator that differs, in words; None where there is none.

    `batches` are the samples of a step there and here: sizes in this proportion are alike.
    """
    for number, (mine, other) in enumerate(zip_longest(there, here)):
        if mine is None or other is None:
            return f"the graph has {len(there)} operators there, {len(here)} here"
        if not _alike(mine, other, *batches):
            return f"operator {number} is `{mine}` there, `{other}` here"
    return None


def _alike(mine: str, other: str, batch: int, wanted: int) -> bool:
    if mine == other or batch == wanted:
        return mine == other
    if _VARIES.sub("", mine) != _VARIES.sub("", other):
        return False
    pairs = zip(_VARIES.findall(mine), _VARIES.findall(other), strict=True)
    return all(a == b or a[0] == "#" or int(a) * wanted == int(b) * batch for a, b in pairs)


def _words(op: Operation, target: ConstantOp | PlaceholderOp | None) -> str:
    name = op.name.removeprefix("glow.")
    if isinstance(target, PlaceholderOp):
        return f"{name} {target.kind.data} '{public_name(target)}'"
    shown = ", ".join(f"{n} = {_short(str(a))}" for n, a in sorted(op.properties.items()))
    return f"{name} {{{shown}}}"


def _contents(op: ConstantOp) -> str:
    array = op.array()
    return "" if array is None else _digest(array.tobytes())


def _short(text: str) -> str:
    return text if len(text) <= LONG else _digest(text.encode())


def _digest(content: bytes) -> str:
    return f"#{hashlib.sha256(content).hexdigest()[:12]}"
