"""Extents: sizes of tensors that may be dynamic, with integer arithmetic and comparisons.

A symbol stands for such a size and has an example. What is decided while compiling (which kernel, whether
shapes are equal) is decided for the example, and is written down as a condition: the program is right for
all sizes that meet its conditions. What needs the number itself (`int(extent)`) fixes it, by the condition
that it is the example's.

An extent is a polynomial: a sum of products of symbols, quotients and remainders with whole factors.
A symbol with a divisor stands in it for the size divided by that: multiples of it are known to be such.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, inf, prod
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from glow_dialects.core.conditions import Conditions, Range, Symbol, holds
from glow_dialects.core.errors import OpenSizes

Product: TypeAlias = "tuple[Atom, ...]"


@dataclass(frozen=True)
class Quotient:
    """The whole part (`//`) or the remainder (`%`) of a division."""

    kind: str
    top: Extent
    bottom: Extent | int

    def __str__(self) -> str:
        top, bottom = (
            f"({v})" if isinstance(v, Extent) and (v.symbol is None or v.symbol.divisor > 1) else v
            for v in self._parts()
        )
        return f"({top} {'floordiv' if self.kind == '//' else 'mod'} {bottom})"

    def _parts(self) -> tuple[int, int]:
        return self.top, self.bottom

    @property
    def name(self) -> str:
        """What it is sorted by."""
        return str(self)

    @property
    def conditions(self) -> Conditions:
        """Where what is decided about it is written down."""
        return self.top.conditions


@dataclass(frozen=True)
class Computed:
    """Number `index` of what a function of a module gives for some sizes, when they are known."""

    function: Callable[..., Sequence[int]]
    arguments: tuple[int, ...]
    index: int
    known: Extent

    def __str__(self) -> str:
        texts = ", ".join(map(str, self.arguments))
        return f"{self.function.__qualname__}({texts})[{self.index}]"

    @property
    def name(self) -> str:
        """What it is sorted by."""
        return str(self)


Atom: TypeAlias = "Symbol | Quotient | Computed"


if TYPE_CHECKING:
    #: Cards compute with sizes of both kinds alike. At run time an extent is no int, so that nothing
    #: reads its number unseen.
    _Number = int
else:
    _Number = object


class Extent(_Number):
    """A size with symbols in it; `terms` are factors of products of atoms, `()` that of no atom."""

    __slots__ = ("_hash", "conditions", "terms")
    terms: dict[Product, int]
    conditions: Conditions

    if TYPE_CHECKING:

        def __new__(cls, terms: Mapping[Product, int], conditions: Conditions) -> Extent: ...

    def __init__(self, terms: Mapping[Product, int], conditions: Conditions) -> None:
        self.terms = {p: f for p, f in terms.items() if f}
        self.conditions = conditions
        self._hash = hash(frozenset(self.terms.items()))

    # --- what it is --------------------------------------------------------------------------
    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        text = "+".join(_term_text(p, f) for p, f in self.terms.items()).replace("+-", "-") or "0"
        alone = len(self.terms) == 1 and text[0] == "(" and text.count("(") == 1 and text[-1] == ")"
        return text[1:-1] if alone else text

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        # xDSL writes numbers of types and attributes in the form "d".
        return f"[{self}]" if spec == "d" else format(str(self), spec)

    @property
    def example(self) -> int:
        """What it is for the examples of its symbols."""
        return self._value(lambda symbol: symbol.example)

    @property
    def usual(self) -> int:
        """What it is for the usual sizes of its symbols."""
        return self._value(lambda symbol: symbol.usual)

    def at(self, sizes: Mapping[Symbol, int]) -> int:
        """What it is for some sizes."""
        return self._value(sizes.__getitem__)

    def _value(self, sizes: Callable[[Symbol], int]) -> int:
        total = 0
        for product, factor in self.terms.items():
            for atom in product:
                if isinstance(atom, Symbol):
                    factor *= sizes(atom)
                elif isinstance(atom, Computed):
                    values = (v._value(sizes) if isinstance(v, Extent) else v for v in atom.arguments)
                    factor *= numbers_of(atom.function, *values)[atom.index]
                else:
                    top, bottom = (
                        v._value(sizes) if isinstance(v, Extent) else v for v in (atom.top, atom.bottom)
                    )
                    factor *= top // bottom if atom.kind == "//" else top % bottom
            total += factor
        return total

    def range(self) -> Range:
        """Least and largest value, for all sizes that the limits of the symbols allow."""
        low = high = 0.0
        for product, factor in self.terms.items():
            limits = [_limits(atom) for atom in product]
            if any(a == -inf for a, _ in limits) or (len(limits) > 1 and any(a < 0 for a, _ in limits)):
                return -inf, inf
            least, most = float(prod(a for a, _ in limits)), 1.0
            for _, b in limits:
                most = 0.0 if 0 in (most, b) else most * b
            pair = (factor * least, factor * most) if factor > 0 else (factor * most, factor * least)
            low, high = low + pair[0], high + pair[1]
        return low, high

    @property
    def symbol(self) -> Symbol | None:
        """The symbol that it is, if it is one and nothing else."""
        if len(self.terms) != 1:
            return None
        ((product, factor),) = self.terms.items()
        alone = factor == 1 and len(product) == 1
        return product[0] if alone and isinstance(product[0], Symbol) else None

    @property
    def linear(self) -> tuple[int, Symbol, int] | None:
        """(factor, symbol, constant) where it is a multiple of one symbol and a constant."""
        terms = {p: f for p, f in self.terms.items() if p}
        ((product, factor), *more) = terms.items()
        if more or len(product) != 1 or not isinstance(product[0], Symbol):
            return None
        return factor, product[0], self.terms.get((), 0)

    def symbols(self) -> set[Symbol]:
        """The symbols in it."""
        found: set[Symbol] = set()
        for product in self.terms:
            for atom in product:
                if isinstance(atom, Symbol):
                    found.add(atom)
                else:
                    parts = atom.arguments if isinstance(atom, Computed) else (atom.top, atom.bottom)
                    found.update(*(v.symbols() for v in parts if isinstance(v, Extent)))
        return found

    # --- arithmetic --------------------------------------------------------------------------
    def _made(self, terms: Mapping[Product, int]) -> Extent:
        """An extent of these terms; an int where no symbol is left."""
        if not any(f for p, f in terms.items() if p):
            return terms.get((), 0)  # pyright: ignore[reportReturnType]
        return Extent(terms, self.conditions)

    def __add__(self, other: Any) -> Extent:
        if not _is_size(other):
            return NotImplemented
        terms = dict(self.terms)
        for product, factor in _terms(other).items():
            terms[product] = terms.get(product, 0) + factor
        return self._made(terms)

    __radd__ = __add__

    def __neg__(self) -> Extent:
        return self._made({p: -f for p, f in self.terms.items()})

    def __pos__(self) -> Extent:
        return self

    def __sub__(self, other: Any) -> Extent:
        return self + -other if _is_size(other) else NotImplemented

    def __rsub__(self, other: Any) -> Extent:
        return -self + other if _is_size(other) else NotImplemented

    def __mul__(self, other: Any) -> Extent:
        if isinstance(other, float):
            _refuse_reals(self, other)
        if not _is_size(other):
            return NotImplemented
        terms: dict[Product, int] = {}
        for p, f in self.terms.items():
            for q, g in _terms(other).items():
                both = tuple(sorted((*p, *q), key=lambda a: (a.name, id(a))))
                terms[both] = terms.get(both, 0) + f * g
        return self._made(terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Extent:
        return _divided(self, other)[0] if _is_size(other) else NotImplemented

    def __mod__(self, other: Any) -> Extent:
        return _divided(self, other)[1] if _is_size(other) else NotImplemented

    def __rfloordiv__(self, other: Any) -> Extent:
        return _divided(other, self)[0] if _is_size(other) else NotImplemented

    def __rmod__(self, other: Any) -> Extent:
        return _divided(other, self)[1] if _is_size(other) else NotImplemented

    def __divmod__(self, other: Any) -> tuple[Extent, Extent]:
        return _divided(self, other)

    def __abs__(self) -> Extent:
        return -self if self < 0 else self

    # --- comparisons -------------------------------------------------------------------------
    def __eq__(self, other: object) -> bool:
        if isinstance(other, Extent):
            if self.terms == other.terms:
                return True
            return self.conditions is other.conditions and self._decided(self - other, "==")
        if isinstance(other, float) and other.is_integer():
            other = int(other)
        return isinstance(other, int) and self._decided(self - other, "==")

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        return self._decided(self - _whole(other), "<")

    def __ge__(self, other: Any) -> bool:
        return self._decided(self - _whole(other), ">=")

    def __gt__(self, other: Any) -> bool:
        return self._decided(_whole(other, up=False) - self, "<")

    def __le__(self, other: Any) -> bool:
        return self._decided(_whole(other, up=False) - self, ">=")

    def _decided(self, difference: int, relation: str) -> bool:
        """Whether a difference, of which no symbol may be left, stands in a relation to 0."""
        if isinstance(difference, Extent):
            return self.conditions.decide(difference, relation)
        return holds(difference, relation)

    def __bool__(self) -> bool:
        return self != 0

    # --- its number --------------------------------------------------------------------------
    def __index__(self) -> int:
        return self.conditions.fixed(self)

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.conditions.fixed(self))

    def __truediv__(self, other: Any) -> float:
        _refuse_reals(self, other)

    __rtruediv__ = __truediv__

    def __copy__(self) -> Extent:
        return self

    def __deepcopy__(self, memo: object) -> Extent:
        return self


def size(value: int) -> int:
    """An int of what may be a number of NumPy's; extents stay."""
    return value if isinstance(value, Extent) else int(value)


def sizes(values: Sequence[int]) -> tuple[int, ...]:
    """`size` of each."""
    return tuple([v if type(v) is int or isinstance(v, Extent) else int(v) for v in values])


def computed(function: Callable[..., Sequence[int]], *arguments: int) -> list[int]:
    """The numbers that a function of a module gives: at once, or when the sizes are known.

    A tuple of as many numbers for all sizes.
    """
    known = next((a for a in arguments if isinstance(a, Extent)), None)
    if known is None:
        return list(function(*arguments))
    examples = (a.example if isinstance(a, Extent) else a for a in arguments)
    count = len(function(*examples))
    return [Extent({(Computed(function, arguments, i, known),): 1}, known.conditions) for i in range(count)]


def are_equal(x: int, y: int) -> bool:
    """Whether two sizes are equal, whatever the run says: without a condition."""
    difference = x - y
    return not isinstance(difference, Extent) and difference == 0


def is_open(values: Sequence[int]) -> bool:
    """Whether any of some sizes is known only at run time."""
    return any(isinstance(v, Extent) for v in values)


@lru_cache(1 << 10)
def numbers_of(function: Callable[..., Sequence[int]], *arguments: int) -> Sequence[int]:
    """What a function of `Computed` gives: several atoms ask for numbers of one result."""
    return function(*arguments)


def _term_text(product: Product, factor: int) -> str:
    """A term as text that reads back: of symbols with a divisor the factor is theirs, or they are divided."""
    texts: list[str] = []
    for atom in product:
        text = str(atom)
        if isinstance(atom, Symbol) and atom.divisor > 1:
            whole = factor % atom.divisor == 0
            factor = factor // atom.divisor if whole else factor
            text = text if whole else f"({text} floordiv {atom.divisor})"
        texts.append(text)
    sign = "-" if factor < 0 else ""
    return sign + "*".join([*([str(abs(factor))] if abs(factor) != 1 or not texts else []), *texts])


def _refuse_reals(extent: Extent, other: object) -> NoReturn:
    """A real number made of an extent would be that of the example, whatever the size is: see `estimate`."""
    raise OpenSizes(f"{extent} is computed with as a real number, with {other}")


def _is_size(value: object) -> bool:
    return isinstance(value, int | Extent) or hasattr(value, "__index__")


def _terms(value: Any) -> dict[Product, int]:
    return value.terms if isinstance(value, Extent) else {(): int(value)}


def _whole(value: Any, up: bool = True) -> Any:
    """What an extent is compared with, as a whole number (rounded up or down, which decides as much)."""
    if isinstance(value, Extent | int):
        return value
    if isinstance(value, float):
        if value in (inf, -inf):
            return 1 << 200 if value > 0 else -(1 << 200)
        return -int(-value // 1) if up else int(value // 1)
    return int(value)


def _limits(atom: Atom) -> Range:
    if isinstance(atom, Symbol):
        return atom.least, atom.most
    if isinstance(atom, Computed):
        return -inf, inf
    low, high = atom.top.range()
    if isinstance(atom.bottom, Extent):
        return (0, high) if low >= 0 else (-inf, inf)
    if atom.kind == "%":
        return 0, min(atom.bottom - 1, high) if low >= 0 else atom.bottom - 1
    return low // atom.bottom, high // atom.bottom if high != inf else inf


def _parted(terms: Mapping[Product, int], divisor: Product, factor: int) -> tuple[dict[Product, int], ...]:
    """The terms that a divisor divides, each divided by it, and the others."""
    whole: dict[Product, int] = {}
    rest: dict[Product, int] = {}
    for product, f in terms.items():
        left = _without(product, divisor)
        if left is not None and f % factor == 0:
            whole[left] = f // factor
        else:
            rest[product] = f
    return whole, rest


def _divided(top: Any, bottom: Any) -> tuple[Any, Any]:
    """The whole part and the remainder of a division by what is not negative."""
    known = top if isinstance(top, Extent) else bottom
    over, under = _terms(top), _terms(bottom)
    if len(under) == 1:
        ((divisor, factor),) = under.items()
        if factor < 0:
            raise ValueError(f"{top} // {bottom}: a size is divided by a negative number")
        whole, rest = _parted(over, divisor, factor)
        rest_value = known._made(rest)
        whole_value = known._made(whole)
        if not rest:
            return whole_value, 0
        if not isinstance(rest_value, Extent) and not divisor:
            return whole_value + rest_value // factor, rest_value % factor
        shared = gcd(factor, *rest.values()) if not divisor else 1
        if shared > 1:
            small = known._made({p: f // shared for p, f in rest.items()})
            more, remainder = _divided(small, factor // shared)
            return whole_value + more, remainder * shared
        low, high = rest_value.range() if isinstance(rest_value, Extent) else (rest_value, rest_value)
        if low >= 0 and not divisor and high < factor:
            return whole_value, rest_value
        if isinstance(rest_value, Extent) and not divisor:
            more, remainder = _by_number(rest_value, factor)
            return whole_value + more, remainder
        if isinstance(rest_value, Extent):
            return (
                whole_value + Extent({(Quotient("//", rest_value, bottom),): 1}, known.conditions),
                Extent({(Quotient("%", rest_value, bottom),): 1}, known.conditions),
            )
    if isinstance(top, Extent) and top.terms == _terms(bottom):
        return 1, 0
    factor = _multiple(top, bottom)
    if factor is not None:
        return factor, 0
    raw = top if isinstance(top, Extent) else Extent({(): top}, known.conditions)
    return (
        Extent({(Quotient("//", raw, bottom),): 1}, known.conditions),
        Extent({(Quotient("%", raw, bottom),): 1}, known.conditions),
    )


def _by_number(top: Extent, bottom: int) -> tuple[Any, Any]:
    """The whole part and the remainder of a division by a number, equal ones in one form.

    The first term is positive, what is added to it less than the number, and no quotient is divided again.
    """
    first = min((p for p in top.terms if p), key=lambda p: [(a.name, id(a)) for a in p])
    if top.terms[first] < 0:
        whole = -((bottom - 1 - top) // bottom)
        return whole, top - whole * bottom
    passed, added = divmod(top.terms.get((), 0), bottom)
    top = top - passed * bottom
    product = next(p for p in top.terms if p)
    alone = {p: f for p, f in top.terms.items() if p} == {product: 1}
    inner = product[0] if len(product) == 1 and alone else None
    if isinstance(inner, Quotient) and inner.kind == "//" and not isinstance(inner.bottom, Extent):
        whole = (inner.top + added * inner.bottom) // (inner.bottom * bottom)
        return whole + passed, top - whole * bottom
    return (
        Extent({(Quotient("//", top, bottom),): 1}, top.conditions) + passed,
        Extent({(Quotient("%", top, bottom),): 1}, top.conditions),
    )


def _multiple(top: Any, bottom: Any) -> Any:
    """`top / bottom` where one polynomial divides the other: by its first term, again and again."""
    if not isinstance(bottom, Extent):
        return None
    lead, factor = next(iter(bottom.terms.items()))
    total: Any = 0
    rest = top
    for _ in range(8):
        if not isinstance(rest, Extent):
            return total if rest == 0 else None
        found = [(_without(p, lead), f) for p, f in rest.terms.items()]
        step = next(((p, f // factor) for p, f in found if p is not None and f % factor == 0), None)
        if step is None:
            return None
        quotient = bottom._made({step[0]: step[1]})
        total = quotient + total
        rest = rest - quotient * bottom
    return None


def _without(product: Product, divisor: Product) -> Product | None:
    """The product without the divisor's atoms; None where one of them is not in it."""
    left = list(product)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)
