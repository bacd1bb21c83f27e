"""Which names of a function may share memory, and who sees in-place changes, from its source."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from types import MappingProxyType

from glow_frontends.python.statement_names import changed_list, targets

#: How a name may share memory with another: it is the same value, a part of it, holds it, or has items in
#: common with it; or any of these. A list keeps what is assigned to its items, or is part of that; an array
#: does not, so that types decide whether these share memory.
SAME, PART, HOLDS, BESIDE, ANY = "same", "part", "holds", "beside", "any"
KEEPS, KEPT = "keeps", "kept"
_INVERSE = {SAME: SAME, PART: HOLDS, HOLDS: PART, BESIDE: BESIDE, ANY: ANY, KEEPS: KEPT, KEPT: KEEPS}

#: For each name those that it may share memory with, and how.
Shares = Mapping[str, Mapping[str, str]]
NOTHING: Shares = MappingProxyType({})
NOBODY: Mapping[str, str] = MappingProxyType({})
#: The arguments, by place, that the result of a function of a name may share memory with.
Given = Callable[[str], Set[int]]

#: Methods and functions of arrays whose results are views, and what gives the items of tuples and lists.
_VIEWS = {
    *("reshape", "ravel", "transpose", "squeeze", "swapaxes", "view", "diagonal", "asarray", "atleast_1d"),
    *("atleast_2d", "expand_dims", "moveaxis", "rollaxis", "flip", "flipud", "fliplr", "rot90", "split"),
    *("array_split", "broadcast_to", "diag"),
}
_HOLDERS = {"list", "tuple", "zip", "enumerate", "reversed", "sorted", "dict", "iter", "map", "filter"}
_ITEMS = {"values", "items", "get", "pop"}
_KNOWN = {"shape", "ndim", "size", "dtype"}


def _then(first: str, second: str) -> str:
    if SAME in (first, second):
        return second if first == SAME else first
    if first == KEEPS or second == KEPT:
        return first if first == KEEPS else second
    return first if first == second else ANY


def _either(a: str | None, b: str) -> str:
    return b if a is None or a == b else ANY


def _merged(maps: Iterable[Mapping[str, str]]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for each in maps:
        merged.update({n: _either(merged.get(n), how) for n, how in each.items()})
    return merged


def _held(names: Mapping[str, str]) -> dict[str, str]:
    """How a new tuple or list shares memory with what an item of it does."""
    return {n: HOLDS if how == SAME else BESIDE for n, how in names.items()}


def _as(how: str, names: Mapping[str, str]) -> dict[str, str]:
    return {n: _then(how, rest) for n, rest in names.items()}


def roots(node: ast.expr | None, given: Given) -> dict[str, str]:
    """The names that the value of an expression may share memory with."""
    match node:
        case ast.Name(id=name):
            return {name: SAME}
        case ast.Subscript(value=inner, slice=key):
            return (
                {}
                if isinstance(key, ast.List | ast.ListComp | ast.Compare)
                else _as(PART, roots(inner, given))
            )
        case ast.Attribute(value=inner, attr=name):
            return {} if name in _KNOWN else _as(PART, roots(inner, given))
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Dict(values=items):
            return _merged(_held(roots(i, given)) for i in items)
        case ast.Starred(value=inner):
            return _as(PART, roots(inner, given))
        case ast.NamedExpr(value=inner):
            return roots(inner, given)
        case ast.IfExp(body=left, orelse=right):
            return _merged((roots(left, given), roots(right, given)))
        case ast.BoolOp(values=items):
            return _merged(roots(i, given) for i in items)
        case ast.BinOp(left=left, op=ast.Add() | ast.Mult(), right=right):
            return _merged(roots(n, given) for n in (left, right) if isinstance(n, ast.List | ast.Tuple))
        case ast.ListComp(elt=elt, generators=walks) | ast.GeneratorExp(elt=elt, generators=walks):
            return _held(_comprehended(elt, walks, given))
        case ast.Call():
            return _called(node, given)
        case _:
            return {}


def _comprehended(elt: ast.expr, walks: Sequence[ast.comprehension], given: Given) -> dict[str, str]:
    found = roots(elt, given)
    for walk in reversed(walks):
        own = set(targets(walk.target)) & found.keys()
        if own:
            rest = {n: how for n, how in found.items() if n not in own}
            found = _merged((rest, _as(PART, roots(walk.iter, given))))
    return found


def _called(node: ast.Call, given: Given) -> dict[str, str]:
    first = roots(node.args[0], given) if node.args else {}
    match node.func:
        case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr=name):
            return _as(PART, first) if name in _VIEWS else {}
        case ast.Attribute(value=inner, attr=name) if name in _VIEWS | _ITEMS:
            return _as(PART, roots(inner, given))
        case ast.Name(id=name) if name in _HOLDERS:
            return {n: BESIDE for a in node.args for n in roots(a, given)}
        case ast.Name(id=name):
            places = given(name)
            taken = [a for i, a in enumerate(node.args) if i in places]
            return {n: ANY for a in taken for n in roots(a, given)}
        case _:
            return {}


# --- the relation -------------------------------------------------------------------------------------
def alone(shares: Shares, name: str) -> Shares:
    """The relation where a name has a value of its own."""
    if name not in shares:
        return shares
    return {n: {o: how for o, how in of.items() if o != name} for n, of in shares.items() if n != name}


def shared(shares: Shares, name: str, others: Mapping[str, str], kept: bool = False) -> Shares:
    """The relation where a name has a value that shares memory with others; `kept`: or the one it had."""
    every = dict(others)
    for other, how in others.items():
        for further, far in shares.get(other, NOBODY).items():
            every[further] = _either(every.get(further), _then(how, far))
    every.pop(name, None)
    rest = shares if kept else alone(shares, name)
    if not every:
        return rest
    new = {n: dict(of) for n, of in rest.items()}
    for other, how in every.items():
        for a, b, kind in ((name, other, how), (other, name, _INVERSE[how])):
            of = new.setdefault(a, {})
            of[b] = _either(of.get(b), kind)
    return new


def joined(a: Shares, b: Shares) -> Shares:
    """What holds on one of two ways."""
    return a if a is b else {n: _merged((a.get(n, NOBODY), b.get(n, NOBODY))) for n in {*a, *b}}


def bound(shares: Shares, target: ast.expr, value: ast.expr, given: Given) -> Shares:
    """The relation after `target = value`."""
    match target:
        case ast.Name(id=name):
            return shared(shares, name, roots(value, given))
        case ast.Tuple(elts=names) | ast.List(elts=names):
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(names):
                return _together(shares, names, value.elts, given)
            return walked(shares, target, value, given)
        case ast.Subscript() | ast.Attribute():
            name = base(target)
            whole = isinstance(value, ast.Name | ast.List | ast.Tuple)  # an array copies what it is given
            held = {n: KEEPS if how == HOLDS else how for n, how in _held(roots(value, given)).items()}
            held = held if whole else {}
            return shares if name is None else shared(shares, name, held, kept=True)
        case _:
            return shares


def _together(shares: Shares, names: Sequence[ast.expr], values: Sequence[ast.expr], given: Given) -> Shares:
    """The relation after `a, b = b, a`: all values are computed before the first name has one."""
    if not all(isinstance(n, ast.Name) for n in names):
        for inner, item in zip(names, values, strict=True):
            shares = bound(shares, inner, item, given)
        return shares
    held = [f"%value{i}" for i in range(len(names))]
    for name, item in zip(held, values, strict=True):
        shares = shared(shares, name, roots(item, given))
    for target, name in zip(names, held, strict=True):
        assert isinstance(target, ast.Name)
        shares = shared(shares, target.id, {name: SAME})
    for name in held:
        shares = alone(shares, name)
    return shares


def walked(shares: Shares, target: ast.expr, iterable: ast.expr, given: Given) -> Shares:
    """The relation where names are given the items of something."""
    of = _as(PART, roots(iterable, given))
    for name in targets(target):
        shares = shared(shares, name, of)
    return shares


# --- changes in place ---------------------------------------------------------------------------------
def base(target: ast.expr) -> str | None:
    """The name whose value `a[i].b[j] = v` changes."""
    while isinstance(target, ast.Subscript | ast.Attribute):
        target = target.value
    return target.id if isinstance(target, ast.Name) else None


def deep(target: ast.AST) -> bool:
    """Whether an assignment changes an item of an item: `a[i][j] = v`."""
    return isinstance(target, ast.Subscript | ast.Attribute) and not isinstance(target.value, ast.Name)


def stored(target: ast.expr) -> list[ast.expr]:
    """The subscripts among the targets of an assignment."""
    if isinstance(target, ast.Tuple | ast.List):
        return [n for t in target.elts for n in stored(t)]
    return [target] if isinstance(target, ast.Subscript | ast.Attribute) else []


def changed(statement: ast.AST) -> list[tuple[str, bool]]:
    """The names whose value one statement changes in place, and whether below its items."""
    match statement:
        case ast.Assign(targets=places):
            found = [n for t in places for n in stored(t)]
        case ast.AugAssign(target=target):
            found = [target]
        case ast.Delete(targets=places):
            found = [n for t in places for n in stored(t)]
        case _:
            found = []
    pairs = [(name, deep(t)) for t in found if (name := base(t)) is not None]
    if isinstance(statement, ast.If | ast.For | ast.While | ast.FunctionDef):
        return pairs
    lists = (changed_list(n) for n in ast.walk(statement))
    return [*pairs, *((n, False) for n in lists if n is not None)]


#: A name that is changed in place, another that shares memory with it, how, and whether below its items.
Hit = tuple[str, str, str, bool]


def followed(statements: Sequence[ast.stmt], shares: Shares, given: Given) -> tuple[set[Hit], Shares]:
    """What statements change in place that other names see, and the relation after them."""
    hits: set[Hit] = set()
    for s in statements:
        for name, below in changed(s):
            hits |= {(name, other, how, below) for other, how in shares.get(name, NOBODY).items()}
        match s:
            case ast.Assign(targets=places, value=value):
                for target in places:
                    shares = bound(shares, target, value, given)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                shares = bound(shares, target, value, given)
            case ast.If(body=body, orelse=other):
                (left, a), (right, b) = (followed(part, shares, given) for part in (body, other))
                hits, shares = hits | left | right, joined(a, b)
            case ast.For() | ast.While():
                for _ in range(2):  # what the first turn leaves, the second one meets
                    inner = walked(shares, s.target, s.iter, given) if isinstance(s, ast.For) else shares
                    found, after = followed(s.body, inner, given)
                    hits, shares = hits | found, joined(shares, after)
                found, after = followed(s.orelse, shares, given)
                hits, shares = hits | found, joined(shares, after)
            case _:
                pass
    return hits, shares


def shared_parameters(node: ast.FunctionDef | ast.Lambda) -> set[int]:
    """The places of the parameters that the result of a function may share memory with."""
    nothing: Given = lambda _: set()  # noqa: E731 - calls of calls are not followed
    names = [a.arg for a in [*node.args.posonlyargs, *node.args.args]]
    if isinstance(node, ast.Lambda):
        results: list[ast.expr | None] = [node.body]
        shares = NOTHING
    else:
        results = [r.value for r in ast.walk(node) if isinstance(r, ast.Return)]
        _, shares = followed(node.body, NOTHING, nothing)
    found = {n for r in results for n in roots(r, nothing)}
    found |= {other for n in found for other in shares.get(n, ())}
    own = {t.id for s in ast.walk(node) if isinstance(s, ast.Assign) for t in s.targets if _fresh(t, s)}  # pyright: ignore
    return {i for i, n in enumerate(names) if n in found - own}


def _fresh(target: ast.expr, statement: ast.Assign) -> bool:
    return isinstance(target, ast.Name) and not roots(statement.value, lambda _: set())
