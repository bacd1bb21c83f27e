"""Display of modules and training in the prompt and in notebooks."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from glow_backends.base import ports, public_name
from glow_dialects.ops.module import placeholders
from glow_passes.tables import table

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

#: Lines of a module's text that a notebook holds.
SHOWN_LINES = 400


class History(list[dict[str, float]]):
    """What each epoch of a training gave; notebooks show a table and the curve of each figure."""

    def _repr_html_(self) -> str:
        names = list(dict.fromkeys(name for epoch in self for name in epoch if name != "epoch"))
        rows = [
            [number, *(f"{e[n]:.4g}" if n in e else "" for n in names)] for number, e in enumerate(self, 1)
        ]
        curves = "".join(_curve(name, [e[name] for e in self if name in e]) for name in names)
        return f"<div>{curves}</div>{table('Training', ['epoch', *names], rows)}"


def _curve(name: str, values: list[float]) -> str:
    """One figure over the epochs, as a small picture."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    height = (high - low) or 1.0
    points = (
        f"{4 + 192 * i / (len(values) - 1):.1f},{56 - 50 * (v - low) / height:.1f}"
        for i, v in enumerate(values)
    )
    told = f"{escape(name)}: {values[0]:.4g} to {values[-1]:.4g}"
    return (
        f'<figure style="display:inline-block;margin:4px"><svg width="200" height="60" role="img">'
        f'<polyline fill="none" stroke="#2b6cb0" stroke-width="2" points="{" ".join(points)}"/></svg>'
        f"<figcaption>{told}</figcaption></figure>"
    )


def module_html(module: ModuleOp) -> str:
    """A module: what each function takes, gives and consists of, and the text to unfold."""
    rows = [
        (kind, p.name, f"{p.dtype} {list(p.shape)}")
        for kind in ("input", "output")
        for p in ports(module, kind)
    ]
    shown = table("Module", ("", "name", "type"), rows)
    for function in module.ops:
        if function.regions:
            name = getattr(function.get_attr_or_prop("sym_name"), "data", "")
            counts = Counter(op.name for op in function.walk() if op is not function)
            shown += table(f"{function.name} @{name}", ("operation", "times"), counts.most_common())
    lines = str(module).splitlines()
    more = f"\n... {len(lines) - SHOWN_LINES} more lines" if len(lines) > SHOWN_LINES else ""
    text = escape("\n".join(lines[:SHOWN_LINES]) + more)
    return f"{shown}<details><summary>text, {len(lines)} lines</summary><pre>{text}</pre></details>"


def module_line(module: ModuleOp) -> str:
    """A module in one line: what its placeholders are, and how many operations each function has."""

    ports = [f"{p.kind.data} {public_name(p)}: {p.type}" for p in placeholders(module).values()]
    functions = [
        f"@{getattr(f.get_attr_or_prop('sym_name'), 'data', '')} of {sum(1 for _ in f.walk()) - 1} operations"
        for f in module.ops
        if f.regions
    ]
    parts = [*([", ".join(ports)] if ports else []), *functions]
    return f"<module: {'; '.join(parts)}; print it to see its text>"


def show_modules() -> None:
    """Let prompts and notebooks show modules: their class is xDSL's, whose `repr` names objects of ours."""
    ModuleOp._repr_html_ = module_html  # pyright: ignore[reportAttributeAccessIssue]
    ModuleOp.__repr__ = module_line  # pyright: ignore[reportAttributeAccessIssue]
