"""The mutants of a module: one condition turned, one comparison shifted, one term dropped; their names."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.txt")

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq},
    **{ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In},
}
TERMS: dict[type[ast.operator], type[ast.operator]] = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult},
}
LEFT_OUT = {"annotation", "returns", "decorator_list"}


@dataclass(frozen=True)
class Mutant:
    """One change of a module: of what `kind`, on which line, whose text is `source`, told as `change`."""

    line: int
    kind: str
    change: str
    source: str
    #: The lines of the statement that changes (of its head, where it holds others); None outside functions.
    span: range | None
    #: The lines one of which a test must run to notice, as far as that is known.
    needed: range | None
    tree: ast.Module = field(repr=False)
    make: Callable[[], object] = field(repr=False)

    def made(self) -> ast.Module:
        """The module, in which the change is made from here on."""
        self.make()
        return ast.fix_missing_locations(self.tree)


def mutants(text: str) -> list[Mutant]:
    """Every mutant of the text of a module, in its order."""
    tree, lines = ast.parse(text), text.splitlines()
    patterns = {"PATTERNS", "RECOGNIZE", *_patterns(tree)}
    found: list[Mutant] = []
    for node, span in _code(tree, None, False):
        line = getattr(node, "lineno", 0)
        for kind, change, make in _changes_of(node, patterns):
            needed = _rule(tree, change) if kind == "pattern" else span
            found.append(Mutant(line, kind, change, lines[line - 1].strip(), span, needed, tree, make))
    return found


def _rule(tree: ast.Module, change: str) -> range | None:
    """The lines of the function that a dropped pattern applies."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and re.search(rf"\b{node.name}\b", change):
            return range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
    return None


def _patterns(tree: ast.Module) -> Iterator[str]:
    """The names of single patterns: `IDENTITY = Pattern(...)`, or imported as `PATTERN`."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="Pattern"))):
                yield name
            case ast.alias(name="PATTERN", asname=name):
                yield name or "PATTERN"
            case _:
                pass


def _changes_of(node: ast.AST, patterns: set[str]) -> Iterator[tuple[str, str, Callable[[], object]]]:
    """The changes of one node: kind, what is told of it, and how it is made."""
    match node:
        case ast.Tuple(elts=elements):
            for place, element in enumerate(elements):
                if _name(element) in patterns or (
                    isinstance(element, ast.Call) and _name(element.func) == "Pattern"
                ):
                    yield "pattern", f"without {ast.unparse(element)}", partial(elements.pop, place)
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                other = COMPARISONS[type(op)]()
                told = f"{ast.unparse(node)}: {type(op).__name__} -> {type(other).__name__}"
                yield "comparison", told, partial(ops.__setitem__, place, other)
        case ast.BoolOp(values=values):
            for value in values:
                # Of two terms the other one stays, twice: the syntax asks for two.
                rest = [v for v in values if v is not value] * (2 if len(values) == 2 else 1)
                yield "term", f"without the term {ast.unparse(value)}", partial(setattr, node, "values", rest)
        case ast.BinOp(op=op) if type(op) in TERMS:
            other = TERMS[type(op)]()
            told = f"{ast.unparse(node)}: {type(op).__name__} -> {type(other).__name__}"
            yield "arithmetic", told, partial(setattr, node, "op", other)
        case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Compare | ast.BoolOp):
            turned = ast.UnaryOp(ast.Not(), test)
            yield "condition", f"if not ({ast.unparse(test)})", partial(setattr, node, "test", turned)
        case ast.Constant(value=int() as value):
            other = not value if isinstance(value, bool) else value + 1
            yield "number", f"{value} -> {other}", partial(setattr, node, "value", other)
        case _:
            pass


def _code(node: ast.AST, span: range | None, inside: bool) -> Iterator[tuple[ast.AST, range | None]]:
    """What runs, with the lines of its statement: no annotations, decorators, or checks of mistakes.

    Nor `zip(..., strict=True)`, which is a check too.
    """
    if inside and isinstance(node, ast.stmt):
        body = getattr(node, "body", None)
        last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
        span = range(node.lineno, last + 1)
    yield node, span
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            check = isinstance(child, ast.Raise | ast.Assert | ast.ImportFrom)
            check = check or (isinstance(child, ast.keyword) and child.arg == "strict")
            if isinstance(child, ast.AST) and name not in LEFT_OUT and not check:
                within = inside or (name == "body" and isinstance(node, ast.FunctionDef | ast.Lambda))
                lines = span
                if within and not inside and isinstance(node, ast.Lambda):
                    lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                yield from _code(child, lines, within)


def _name(node: ast.AST) -> str:
    """The last name of `x`, `a.x`, `*x` and `*a.x`."""
    node = node.value if isinstance(node, ast.Starred) else node
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def equivalents() -> dict[tuple[Path, str], str]:
    """The reasons why mutants are no change of what a pass does, by file and key.

    The list holds files, in them lines of source, in them changes: `1 -> 2  # the reason`.
    """
    found: dict[tuple[Path, str], str] = {}
    file, source = ROOT, ""
    for line in EQUIVALENT.read_text().splitlines():
        text = line.strip()
        if line.startswith("    "):
            change, _, reason = text.rpartition("  # ")
            found[file, f"{source}\n{change}"] = reason
        elif line.startswith("  "):
            source = text
        elif text and not text.startswith("#"):
            file = ROOT / text
    return found


def keys(made: Sequence[Mutant]) -> list[str]:
    """What names each mutant of a file as long as its line stays: line, change, and which of several such."""
    seen: Counter[str] = Counter()
    found: list[str] = []
    for mutant in made:
        key = f"{mutant.source}\n{mutant.change}"
        seen[key] += 1
        found.append(key if seen[key] == 1 else f"{key} [{seen[key]}]")
    return found
