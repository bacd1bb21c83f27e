"""glow-info: what is in a model, and what would run where."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from glow_tools.command_line import Parser, width
from glow_tools.common import add_json, add_shape, command, guarded
from glow_tools.progress import Progress

if TYPE_CHECKING:
    from glow_tools.model_facts import Facts

EXAMPLES = """\
  glow-info model.onnx
  glow-info model.onnx --json | jq .operators
  glow-info model.onnx --shape batch=8 --shape height=640
  glow-info weights.gguf
"""


def arguments() -> Parser:
    """The command line."""
    parser = command(
        "glow-info",
        "Print the inputs, outputs, operators and parameters of a model of any kind, its operator set, what "
        "of it would run where, and what is not supported. Nothing is compiled.",
        EXAMPLES,
    )
    told = (
        ".onnx, .mlir, .pt2, .glow or .gguf file, StableHLO text, saved function, folder of a language model"
    )
    parser.add_argument("model", help=told)
    add_shape(parser)
    add_json(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-info`."""
    a = arguments().parse_args(argv)
    return guarded(lambda: _run(a))


def _run(a: argparse.Namespace) -> int:
    from dataclasses import asdict

    from glow_tools.model_facts import facts_of

    with Progress("reading the model"):
        facts = facts_of(a.model, dict(a.shape))
    if a.json:
        print(json.dumps({n: v for n, v in asdict(facts).items() if v not in (None, [], {}, "")}, indent=1))
    else:
        print("\n".join(shown(facts, width())))
    return 1 if facts.problems else 0


def shown(facts: Facts, columns: int) -> Iterator[str]:
    """The facts as text."""
    yield f"{facts.file}: {facts.kind}"
    for name, value in facts.about.items():
        yield from _wrapped(f"{name}:", str(value), columns)
    for title, ports in (
        ("inputs", facts.inputs),
        ("default inputs", facts.defaults),
        ("outputs", facts.outputs),
    ):
        if ports:
            yield f"{title}:"
            wide = max(len(p["name"]) for p in ports)
            yield from (f"  {p['name']:{wide}}  {p['dtype']}{_dims(p['shape'])}" for p in ports)
    if facts.parameters is not None:
        types = ", ".join(f"{count:,} {name}" for name, count in facts.parameter_types.items())
        told = f"{facts.parameters:,} ({types}), {_bytes(facts.parameter_bytes or 0)}" if types else "none"
        yield from _wrapped("parameters:", told, columns)
    if facts.operators:
        listed = ", ".join(f"{name} {count}" for name, count in facts.operators.items())
        yield from _wrapped(f"{sum(facts.operators.values())} operators:", listed, columns)
    for way, operators in facts.runs.items():
        listed = ", ".join(f"{name} {count}" for name, count in operators.items())
        yield from _wrapped(f"{_WAYS.get(way, way)}:", listed, columns)
    if facts.assumed:
        yield from _wrapped("this is for:", facts.assumed, columns)
    if facts.unsupported:
        yield from _wrapped("not supported:", ", ".join(facts.unsupported), columns)
    if facts.problems:
        yield "problems:"
        yield from (f"  {problem}" for problem in facts.problems)


#: Inputs with default values that are listed: some models have every weight among them.
_LISTED = 8
#: What a way to run is called.
_WAYS = {
    "kernel": "in kernels of the CPU",
    "view": "as views, at no cost",
    "decomposed": "decomposed into others",
    "host": "on the host, by NumPy",
    "plan": "one by one, as data decide",
}


def _wrapped(title: str, text: str, columns: int) -> list[str]:
    """A title and a text in lines, the further ones below the first."""
    lines = wrap(text, max(20, columns - 2), initial_indent=f"{title} ", subsequent_indent="  ")
    return lines or [title]


def _dims(shape: Sequence[Any] | None) -> str:
    return "(any rank)" if shape is None else f"[{', '.join(map(str, shape))}]"


def _bytes(count: int) -> str:
    """A number of bytes as people read it."""
    size, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{count} bytes" if unit == "bytes" else f"{size:.1f} {unit}"


if __name__ == "__main__":
    raise SystemExit(main())
