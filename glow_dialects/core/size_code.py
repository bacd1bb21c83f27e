"""Code for sizes: a generated Python function that computes many of them, common parts once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from glow_dialects.core.conditions import Symbol
from glow_dialects.core.extent import Atom, Computed, Extent, numbers_of


def size_function(values: Sequence[int], symbols: Sequence[Symbol]) -> Callable[..., list[int]]:
    """What gives the numbers of `values` for sizes of `symbols`, in order, in units of their divisors."""
    code = _Code(symbols)
    places = [code.size(v) for v in values]
    arguments = ", ".join(f"s{i}" for i in range(len(symbols)))
    body = "\n".join(f"    {line}" for line in [*code.lines, f"return [{', '.join(places)}]"])
    scope = {"numbers": numbers_of, **code.functions}
    exec(f"def sizes({arguments}):\n{body}", scope)  # of polynomials whose only names are ours
    made: Callable[..., list[int]] = scope["sizes"]  # pyright: ignore[reportAssignmentType]
    return made


class _Code:
    """Lines that compute parts of sizes, and the names of those that there are."""

    def __init__(self, symbols: Sequence[Symbol]) -> None:
        self.lines: list[str] = []
        self.functions: dict[str, Callable[..., Sequence[int]]] = {}
        self._known: dict[object, str] = {s: f"s{i}" for i, s in enumerate(symbols)}

    def size(self, value: int) -> str:
        """The name, or the number, of a size."""
        if not isinstance(value, Extent):
            return str(int(value))
        return self._named(value, lambda: self._sum(value))

    def _named(self, part: object, text: Callable[[], str]) -> str:
        name = self._known.get(part)
        if name is None:
            made = text()
            name = self._known[part] = f"v{len(self._known)}"
            self.lines.append(f"{name} = {made}")
        return name

    def _sum(self, value: Extent) -> str:
        return " + ".join(
            "*".join([str(factor), *map(self._atom, product)]) for product, factor in value.terms.items()
        )

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Symbol):
            return self._known[atom]
        if isinstance(atom, Computed):
            return f"{self._call(atom)}[{atom.index}]"
        top, bottom = self.size(atom.top), self.size(atom.bottom)
        return self._named(atom, lambda: f"{top} {atom.kind} {bottom}")

    def _call(self, atom: Computed) -> str:
        arguments = [self.size(a) for a in atom.arguments]
        name = f"f{id(atom.function)}"
        self.functions[name] = atom.function
        return self._named(
            (atom.function, atom.arguments), lambda: f"numbers({name}, {', '.join(arguments)})"
        )
