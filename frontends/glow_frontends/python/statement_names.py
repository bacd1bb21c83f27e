"""Questions about statements: which names they assign, whether and how they leave."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

Statements = Sequence[ast.stmt]

#: Methods that change a list.
CHANGING = {"append", "extend", "insert", "pop", "remove", "reverse", "sort", "clear"}


def changed_list(node: ast.AST) -> str | None:
    """The name whose list a call changes."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=how)) if how in CHANGING:
            return name
        case _:
            return None


def targets(node: ast.AST) -> Iterable[str]:
    """The names that an assignment target binds."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield inner.id


def assigned(statements: Statements) -> list[str]:
    """Names that the statements may bind, in order of first binding, nested functions excluded."""
    names: dict[str, None] = {}
    for s in statements:
        names.update(dict.fromkeys(_named(s)))
        match s:
            case ast.Assign():
                for target in s.targets:
                    names.update(dict.fromkeys(_bound(target)))
            case ast.AugAssign() | ast.AnnAssign():
                names.update(dict.fromkeys(_bound(s.target)))
            case ast.FunctionDef():
                names[s.name] = None
            case ast.If() | ast.While():
                names.update(dict.fromkeys([*assigned(s.body), *assigned(s.orelse)]))
            case ast.For():
                names.update(dict.fromkeys([*_bound(s.target), *assigned(s.body), *assigned(s.orelse)]))
            case ast.Delete():
                names.update(
                    dict.fromkeys(n for t in s.targets if isinstance(t, ast.Subscript) for n in _bound(t))
                )
            case _:
                pass
    return list(names)


def _named(statement: ast.stmt) -> Iterable[str]:
    """Names that `:=` binds, and lists that change, in the expressions of a statement itself."""
    pending = [n for n in ast.iter_child_nodes(statement) if isinstance(n, ast.expr)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.NamedExpr):
            yield node.target.id
        elif (name := changed_list(node)) is not None:
            yield name
        if not isinstance(node, ast.Lambda):
            pending += [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]


def _bound(target: ast.AST) -> list[str]:
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, ast.Tuple | ast.List):
        return [n for item in target.elts for n in _bound(item)]
    if isinstance(target, ast.Subscript | ast.Attribute):
        return _bound(target.value)
    if isinstance(target, ast.Starred):
        return _bound(target.value)
    return []


def definite(statements: Statements) -> set[str] | None:
    """Names bound on every path that falls through; None where none does."""
    names: set[str] = set()
    for s in statements:
        if isinstance(s, ast.Return | ast.Break | ast.Continue | ast.Raise):
            return None
        if isinstance(s, ast.If):
            names |= set(_named(s))
            left, right = definite(s.body), definite(s.orelse)
            if left is None and right is None:
                return None
            names |= (left if right is None else right if left is None else left & right) or set()
        elif isinstance(s, ast.While):
            names |= set(_named(s))
            if always(s.test) and not leaves(s.body, ast.Break):
                return None
        elif not isinstance(s, ast.For):
            names |= set(assigned([s]))
    return names


def certain(body: Statements) -> set[str]:
    """Names that a turn of a loop binds where it falls through; loops in it turn at least once."""
    names = definite(body) or set()
    for s in body:
        if isinstance(s, ast.For):
            names |= certain(s.body) | set(_bound(s.target))
        elif isinstance(s, ast.While):
            names |= certain(s.body)
    return names


def exposed(statements: Statements) -> set[str]:
    """Names that statements may read before they bind them."""
    return exposed_from(statements)[0]


def exposed_from(statements: Statements) -> list[set[str]]:
    """The same of the statements from each one on, and of none, in one pass."""
    found = [set[str]()]
    for s in reversed(statements):
        match s:
            case ast.If() | ast.While():
                reads = read_names(s.test) | exposed(s.body) | exposed(s.orelse)
            case ast.For():
                reads = read_names(s.iter) | (exposed(s.body) - set(_bound(s.target))) | exposed(s.orelse)
            case _:
                reads = read_names(s)
        found.append(reads | (found[-1] - (definite([s]) or set())))
    return found[::-1]


def repeated(loop: ast.For | ast.While) -> set[str]:
    """Names that further turns of a loop may read before they bind them."""
    names = exposed(loop.body)
    return names | read_names(loop.test) if isinstance(loop, ast.While) else names - set(_bound(loop.target))


def surely(statements: Statements) -> set[str]:
    """Names that statements read before they bind them, whatever way they take."""
    names: set[str] = set()
    bound: set[str] = set()
    for s in statements:
        match s:
            case ast.If():
                reads = _evaluated(s.test) | (surely(s.body) & surely(s.orelse))
            case ast.While():
                reads = _evaluated(s.test)
            case ast.For():
                reads = _evaluated(s.iter)
            case ast.FunctionDef():
                reads = set[str]()
            case _:
                reads = _evaluated(s)
        names |= reads - bound
        bound |= definite([s]) or set()
        if leaves([s], ast.Return, ast.Break, ast.Continue, ast.Raise):
            break
    return names


def _evaluated(node: ast.AST) -> set[str]:
    """Names that are read whenever a tree is evaluated."""
    match node:
        case ast.Name():
            return {node.id} if isinstance(node.ctx, ast.Load) else set()
        case ast.Lambda() | ast.ListComp() | ast.GeneratorExp() | ast.DictComp() | ast.SetComp():
            return set()
        case ast.IfExp():
            return _evaluated(node.test)
        case ast.BoolOp():
            return _evaluated(node.values[0])
        case _:
            return {n for inner in ast.iter_child_nodes(node) for n in _evaluated(inner)}


def always(test: ast.expr) -> bool:
    """Whether a test is a constant that holds."""
    return isinstance(test, ast.Constant) and bool(test.value)


def leaves(statements: Statements, *kinds: type[ast.stmt], inside: bool = False) -> bool:
    """Whether statements of these kinds (return, break, continue) belong to this level.

    `break` and `continue` of loops inside belong to those loops.
    """
    for s in statements:
        if isinstance(s, kinds) and not (inside and isinstance(s, ast.Break | ast.Continue)):
            return True
        if isinstance(s, ast.If):
            inner = leaves([*s.body, *s.orelse], *kinds, inside=inside)
        elif isinstance(s, ast.While | ast.For):
            inner = leaves(s.body, *kinds, inside=True) or leaves(s.orelse, *kinds, inside=inside)
        else:
            inner = False
        if inner:
            return True
    return False


def read_names(node: ast.AST) -> set[str]:
    """Every name that a tree reads, nested functions included."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
