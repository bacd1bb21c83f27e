"""Python written with less of Python: `match` and `assert` as `if`, before anything is compiled.

Generators whose items are all asked for before one is used become lists; those whose items are used one by
one are marked `drawn`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

#: Classes whose pattern has one part: the value itself.
_PLAIN = {"float", "int", "bool", "str", "tuple", "list", "dict"}
#: Functions and methods that ask a generator for all its items before they use one.
_AT_ONCE = {"tuple", "list", "sorted", "extend"}
#: Contexts that only configure warnings.
_SILENT = {"np.errstate", "numpy.errstate", "warnings.catch_warnings"}


def desugared(tree: ast.AST) -> ast.AST:
    """The tree without `match` and `assert`; patterns that have no test are left for an error."""
    return ast.fix_missing_locations(_Desugar().visit(tree))


def is_drawn(node: ast.GeneratorExp) -> bool:
    """Whether the items of a generator are used one by one where it stands, and no name keeps it."""
    return "drawn" in vars(node)


class _Unknown(Exception):
    """A pattern that is not taken apart."""


class _Desugar(ast.NodeTransformer):
    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """`assert test, message`: raise where the test does not hold."""
        message = [] if node.msg is None else [node.msg]
        error = ast.Call(ast.Name("AssertionError", ast.Load()), message, [])
        test = ast.UnaryOp(ast.Not(), node.test)
        statement = ast.If(test, [ast.copy_location(ast.Raise(error, None), node)], [])
        return _placed(statement, node)

    def visit_Starred(self, node: ast.Starred) -> ast.AST:
        """`*(f(v) for v in t)`: all items at once."""
        node.value = _listed(node.value)
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """`a, b = (f(v) for v in t)`: all items at once."""
        if all(isinstance(t, ast.Tuple | ast.List) for t in node.targets):
            node.value = _listed(node.value)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`list(f(v) for v in t)` and its like ask for all items at once, other functions one by one."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        node.args = [_listed(a) if name in _AT_ONCE else _drawn(a) for a in node.args]
        return self.generic_visit(node)

    def visit_For(self, node: ast.For) -> ast.AST:
        """A loop uses items one by one."""
        node.iter = _drawn(node.iter)
        return self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        """So does a comprehension."""
        node.iter = _drawn(node.iter)
        return self.generic_visit(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        """A test that names a value with `:=` goes into the loop: names are set there."""
        self.generic_visit(node)
        if node.orelse or not any(isinstance(n, ast.NamedExpr) for n in ast.walk(node.test)):
            return node
        leave = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.copy_location(ast.Break(), node.test)], [])
        return _placed(ast.While(ast.Constant(True), [_placed(leave, node.test), *node.body], []), node)

    def visit_With(self, node: ast.With) -> Any:
        """`with np.errstate(..)`: the body, since nothing warns in compiled code."""
        self.generic_visit(node)
        names = [ast.unparse(i.context_expr).partition("(")[0] for i in node.items]
        return node.body if all(n in _SILENT for n in names) else node

    def visit_Match(self, node: ast.Match) -> Any:
        """Cases as `if`, the names of a case as parts of the subject."""
        self.generic_visit(node)
        name = f"_subject_{node.lineno}_{node.col_offset}"
        subject = ast.Name(name, ast.Load())
        try:
            chain: list[ast.stmt] = []
            for case in reversed(node.cases):
                chain = _case(case, subject, chain)
        except _Unknown:
            return node
        first = ast.Assign([ast.Name(name, ast.Store())], node.subject)
        return [_placed(s, node) for s in (first, *chain)]


def _placed(statement: ast.stmt, node: ast.AST) -> ast.stmt:
    return ast.fix_missing_locations(ast.copy_location(statement, node))


def _case(case: ast.match_case, subject: ast.expr, otherwise: list[ast.stmt]) -> list[ast.stmt]:
    names: dict[str, ast.expr] = {}
    tests = _tests(case.pattern, subject, names)
    if case.guard is not None:
        tests.append(_Replaced(names).visit(case.guard))
    body: list[ast.stmt] = [
        ast.copy_location(ast.Assign([ast.Name(n, ast.Store())], value), case.body[0])
        for n, value in names.items()
    ]
    body += case.body
    if not tests:
        return body
    test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
    return [ast.copy_location(ast.If(test, body, otherwise), case.body[0])]


def _listed(node: ast.expr) -> ast.expr:
    if not isinstance(node, ast.GeneratorExp):
        return node
    return ast.copy_location(ast.ListComp(node.elt, node.generators), node)


def _drawn(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.GeneratorExp):
        vars(node)["drawn"] = True
    return node


class _Replaced(ast.NodeTransformer):
    """Names of a pattern in its guard: the parts that they stand for."""

    def __init__(self, names: dict[str, ast.expr]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """The part of a name."""
        return self.names.get(node.id, node)


def _called(name: str, *values: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), list(values), [])


def _item(subject: ast.expr, index: ast.expr) -> ast.expr:
    return ast.Subscript(subject, index, ast.Load())


def _tests(pattern: ast.pattern, subject: ast.expr, names: dict[str, ast.expr]) -> list[ast.expr]:
    """The condition of a pattern; `names` gets the parts that it names."""
    match pattern:
        case ast.MatchValue(value=value):
            return [ast.Compare(subject, [ast.Eq()], [value])]
        case ast.MatchSingleton(value=None):
            return [ast.Compare(subject, [ast.Is()], [ast.Constant(None)])]
        case ast.MatchSingleton(value=value):
            return [ast.Compare(subject, [ast.Eq()], [ast.Constant(value)])]
        case ast.MatchAs(pattern=inner, name=name):
            tests = [] if inner is None else _tests(inner, subject, names)
            if name is not None:
                names[name] = subject
            return tests
        case ast.MatchOr(patterns=patterns):
            return _either(patterns, subject)
        case ast.MatchSequence(patterns=patterns):
            return _sequence(patterns, subject, names)
        case ast.MatchClass():
            return _instance(pattern, subject, names)
        case _:
            raise _Unknown


def _either(patterns: Sequence[ast.pattern], subject: ast.expr) -> list[ast.expr]:
    ways: list[ast.expr] = []
    for pattern in patterns:
        bindings: dict[str, ast.expr] = {}
        tests = _tests(pattern, subject, bindings)
        if bindings:
            raise _Unknown  # names that mean other parts in each alternative
        if not tests:
            return []
        ways.append(tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests))
    return [ast.BoolOp(ast.Or(), ways)]


def _sequence(
    patterns: Sequence[ast.pattern], subject: ast.expr, names: dict[str, ast.expr]
) -> list[ast.expr]:
    stars = [i for i, p in enumerate(patterns) if isinstance(p, ast.MatchStar)]
    least = len(patterns) - len(stars)
    size = ast.GtE() if stars else ast.Eq()
    tests = [
        _called("isinstance", subject, ast.Name("tuple", ast.Load())),
        ast.Compare(_called("len", subject), [size], [ast.Constant(least)]),
    ]
    for place, pattern in enumerate(patterns):
        behind = place - len(patterns)
        if isinstance(pattern, ast.MatchStar):
            last = None if behind == -1 else ast.Constant(behind + 1)
            if pattern.name is not None:
                names[pattern.name] = _item(subject, ast.Slice(ast.Constant(place), last, None))
            continue
        at = behind if stars and place > stars[0] else place
        tests += _tests(pattern, _item(subject, ast.Constant(at)), names)
    return tests


def _instance(pattern: ast.MatchClass, subject: ast.expr, names: dict[str, ast.expr]) -> list[ast.expr]:
    tests: list[ast.expr] = [_called("isinstance", subject, pattern.cls)]
    plain = isinstance(pattern.cls, ast.Name) and pattern.cls.id in _PLAIN
    for place, inner in enumerate(pattern.patterns):
        part = subject if plain else _item(subject, ast.Constant(place))
        tests += _tests(inner, part, names)
    for name, inner in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True):
        tests += _tests(inner, ast.Attribute(subject, name, ast.Load()), names)
    return tests
