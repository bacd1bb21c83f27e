"""Expressions as operations: operators, short circuit, tuples, indices, lambdas, names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import SSAValue

from glow_dialects.core.attributes import to_python
from glow_dialects.core.errors import BindingError
from glow_dialects.core.plain_arrays import check_plain
from glow_dialects.fn.dialect import ConstantOp, PrimOp, TupleOp
from glow_dialects.fn.primitives.arithmetic import Add, Mul, ToBool
from glow_dialects.fn.primitives.items import Item
from glow_dialects.fn.primitives.operators import Operator
from glow_dialects.fn.primitives.records import Field, IsInstance, Iterate, MakeDict
from glow_dialects.fn.primitives.scalars import Predicate, ScalarPrimitive
from glow_dialects.fn.primitives.shapes import Shape
from glow_dialects.fn.primitives.tuples import ConcatTuples, Len, ToTuple
from glow_dialects.fn.record import items_of, names_of
from glow_frontends.python.emit import Emitter, Known, Static, Value
from glow_frontends.python.errors import FunctionError, LengthUnknown
from glow_frontends.python.folding import BINARY, UNARY, folded
from glow_frontends.python.masks import Masked, attribute, elementwise, masked, refused
from glow_frontends.python.source import Source
from glow_frontends.python.statement_names import changed_list, targets

if TYPE_CHECKING:
    from glow_frontends.python.importer import Importer

Env = dict[str, Value]


class Expressions(Emitter):
    """Compiles the expressions of one Python function."""

    def __init__(self, source: Source, importer: Importer, name: str) -> None:
        super().__init__()
        self.source = source
        self.importer = importer
        self.name = name

    def unknown_length(self, node: ast.AST, what: str, instead: str = "write a for loop") -> NoReturn:
        """Raise where the length of a tuple is needed that only its type will give."""
        raise LengthUnknown(
            f"{what} needs a length that is known at compile time",
            instead,
            self.source.where(node),
            self.source.excerpt(node),
        )

    def fail(self, node: ast.AST, what: str, instead: str = "") -> NoReturn:
        """Raise the error of a construct that cannot be compiled."""
        raise FunctionError(what, instead, self.source.where(node), self.source.excerpt(node))

    def at(self, node: ast.AST) -> None:
        """Operations from here on come from the line of `node`."""
        if hasattr(node, "lineno"):
            self.line = StringAttr(self.source.where(node))

    # --- values ---------------------------------------------------------------------------------
    def ssa(self, value: Value, node: ast.AST) -> SSAValue:
        """A value of the program: Python objects become constants and functions."""
        if isinstance(value, SSAValue):
            return value
        thing = value.value
        if isinstance(thing, Masked):
            return self.prim(Item, *thing.plain) if thing.plain else refused(self, node)
        if isinstance(thing, bool | int | float | str | np.ndarray | np.number | np.bool_ | None):
            if isinstance(thing, np.ndarray):
                self._plain(thing, node)
            if isinstance(thing, int) and not -(2**63) <= thing < 2**63:
                self.fail(node, "an int of more than 64 bits cannot be compiled", "write it as a float")
            return self.constant(thing)
        if isinstance(thing, range) and len(thing) <= 1024:
            thing = tuple(thing)
        if isinstance(thing, np.dtype) or isinstance(thing, type) and issubclass(thing, np.generic):
            return self.constant(np.dtype(thing).name)
        names = names_of(thing)
        if names is not None:
            return self.record(names, *[self.ssa(Static(v), node) for v in items_of(thing)])
        if isinstance(thing, tuple | list):
            return self.tuple(*[self.ssa(Static(v), node) for v in thing])
        if callable(thing) or hasattr(thing, "func"):
            from glow_frontends.python.calls import as_function

            return as_function(self, thing, node)
        kind = type(thing).__name__
        if isinstance(thing, ModuleType):
            kind = f"module {thing.__name__}"
        self.fail(node, f"a {kind} cannot be a value", "use numbers, arrays, tuples and functions")

    def _plain(self, thing: np.ndarray, node: ast.AST) -> None:
        """Refuse an array of a subclass that the function reads around it, and one of Python objects."""
        try:
            check_plain(ast.unparse(node) if isinstance(node, ast.expr) else "an array", thing)
        except BindingError as error:
            self.fail(node, str(error))
        if thing.dtype == object:
            self.fail(node, "an array of Python objects cannot be compiled", "use numbers")

    def expression(self, node: ast.expr, env: Env) -> Value:
        """The value of an expression; a Python object where it is known now."""
        self.at(node)
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            from glow_frontends.python.hints import instead_of

            kind = type(node).__name__
            self.fail(node, f"{kind} expressions cannot be compiled", instead_of(node))
        return method(node, env)

    def value(self, node: ast.expr, env: Env) -> SSAValue:
        """The value of an expression as a value of the program."""
        value = self.expression(node, env)
        return self.ssa(value, node)

    def _constant(self, node: ast.Constant, env: Env) -> Value:
        if isinstance(node.value, complex):
            from glow_frontends.python.hints import refusal

            self.fail(node, *refusal(complex))
        if isinstance(node.value, bytes) or node.value is Ellipsis:
            self.fail(node, f"{type(node.value).__name__} constants cannot be compiled", "use real numbers")
        return Static(node.value)

    def _name(self, node: ast.Name, env: Env) -> Value:
        if node.id in env:
            from glow_frontends.python.functions import current

            return current(self, env[node.id], env)
        if node.id in self.maybe:
            self.fail(
                node, f"'{node.id}' may have no value here", "assign it on every path, before the if or loop"
            )
        names = self.source.names
        if node.id in names:
            return Static(names[node.id])
        self.fail(node, f"the name '{node.id}' is not defined", "define it before the function is compiled")

    #: Whether the iterable of a `for` is evaluated now: positions are counted where its length is not known.
    walking: bool = False
    #: Names that are assigned on some paths only.
    maybe: set[str] = set()
    #: Names that are parameters, or come from around.
    arguments: set[str] = set()

    def _binop(self, node: ast.BinOp, env: Env) -> Value:
        left, right = self.expression(node.left, env), self.expression(node.right, env)
        return self.operated(node, left, right)

    def operated(self, node: ast.BinOp | ast.AugAssign, left: Value, right: Value) -> Value:
        """The operator of a node on two values."""
        self.at(node)
        if isinstance(node.op, ast.MatMult):
            return self.prim(Operator("batch_matmul"), self.ssa(left, node), self.ssa(right, node))
        return self.binary(BINARY[type(node.op)], left, right, node)

    def binary(self, card: type[ScalarPrimitive], left: Value, right: Value, node: ast.AST) -> Value:
        """An arithmetic operator; `+` and `*` on tuples build tuples."""
        if masked(left) or masked(right):
            return elementwise(self, node, [left, right], lambda a, b: self.binary(card, a, b, node))
        if card is Mul and _is_text_or_tuple(left) and isinstance(right, Static):
            items = self.items(left, node)
            if items is not None and isinstance(right.value, int):
                return self.tuple(*[self.ssa(v, node) for v in items * right.value])
        if isinstance(left, Static) and isinstance(right, Static):
            result = folded(card, left.value, right.value)
            if result is not None:
                return result
        if card is Add and _is_text_or_tuple(left) and _is_text_or_tuple(right):
            both = [*(self.items(left, node) or ()), *(self.items(right, node) or ())]
            return self.tuple(*[self.ssa(v, node) for v in both])
        return self.prim(card, self.ssa(left, node), self.ssa(right, node))

    def _unaryop(self, node: ast.UnaryOp, env: Env) -> Value:
        inner = self.expression(node.operand, env)
        if isinstance(inner, Static):
            match node.op, inner.value:
                case ast.USub(), int() | float():
                    return Static(-inner.value)
                case ast.UAdd(), int() | float():
                    return Static(+inner.value)
                case ast.Not(), _:
                    return Static(not inner.value)
                case _:
                    pass
        card = UNARY[type(node.op)]
        if masked(inner):
            return elementwise(self, node, [inner], lambda a: self.prim(card, self.ssa(a, node)))
        return self.prim(card, self.ssa(inner, node))

    def _compare(self, node: ast.Compare, env: Env) -> Value:
        from glow_frontends.python.comparisons import compare

        return compare(self, node, env)

    def choose(self, condition: SSAValue, yes: Any, no: Any) -> SSAValue:
        """Call one of two functions without parameters, made from the bodies given."""
        on_true = self.function(f"{self.name}.if", (), yes)
        on_false = self.function(f"{self.name}.else", (), no)
        return self.call(self.switch(condition, on_true, on_false))

    def truth(self, value: Value, node: ast.AST) -> Value:
        """The truth of a value; a Python bool where it is known now."""
        if isinstance(value, Static) and isinstance(value.value, bool | int | float | str | tuple | None):
            return Static(bool(value.value))
        truth = self.ssa(value, node)
        owner = truth.owner
        test = isinstance(owner, PrimOp) and isinstance(owner.card, Predicate | IsInstance)
        return truth if test else self.prim(ToBool, truth)

    def _boolop(self, node: ast.BoolOp, env: Env) -> Value:
        return self._junction(node, list(node.values), env)

    def _junction(self, node: ast.BoolOp, values: Sequence[ast.expr], env: Env) -> Value:
        first = self.expression(values[0], env)
        if len(values) == 1:
            return first
        conjunction = isinstance(node.op, ast.And)
        test = self.truth(first, node)
        if isinstance(test, Static):
            return self._junction(node, values[1:], env) if test.value == conjunction else first

        for value in values[1:]:
            self.unconditional(value)

        def rest(_: list[SSAValue]) -> SSAValue:
            return self.ssa(self._junction(node, values[1:], env), node)

        def stop(_: list[SSAValue]) -> SSAValue:
            return self.ssa(first, node)

        return self.choose(test, rest, stop) if conjunction else self.choose(test, stop, rest)

    def _ifexp(self, node: ast.IfExp, env: Env) -> Value:
        test = self.truth(self.expression(node.test, env), node.test)
        if isinstance(test, Static):
            return self.expression(node.body if test.value else node.orelse, env)
        self.unconditional(node.body)
        self.unconditional(node.orelse)
        return self.choose(test, lambda _: self.value(node.body, env), lambda _: self.value(node.orelse, env))

    def _namedexpr(self, node: ast.NamedExpr, env: Env) -> Value:
        value = self.expression(node.value, env)
        self.bind(node.target, value, env)
        return value

    #: Refuse to change a value that another name or the caller also holds.
    owned: Callable[..., None]

    def unconditional(self, node: ast.expr) -> None:
        """Raise where an expression that may be skipped or repeated assigns a name or changes a list."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr) or changed_list(inner) is not None:
                what = f"'{ast.unparse(inner)}' in a part of an expression that may be skipped or repeated"
                self.fail(inner, f"{what} cannot be compiled", "assign in a statement before")

    def _lambda(self, node: ast.Lambda, env: Env) -> Value:
        from glow_frontends.python.functions import closure

        return closure(self, node, node.args, f"{self.name}.lambda", env, None)

    # --- tuples ---------------------------------------------------------------------------------
    def items(self, value: Value, node: ast.AST) -> list[Value] | None:
        """The items of a value whose length is known now."""
        if isinstance(value, Static):
            if isinstance(value.value, range):
                return [Static(i) for i in value.value]
            return [Static(v) for v in value.value] if isinstance(value.value, tuple | list) else None
        owner = value.owner
        if not isinstance(owner, TupleOp):
            return None
        names = owner.attributes.get("names")
        if isinstance(names, ArrayAttr) and names.data[0] == StringAttr("dict"):
            return [Static(key) for key in self.fields[value]]
        return [self.known_now(v) for v in owner.values]

    def known_now(self, value: SSAValue) -> Value:
        """A constant number as a Python number."""
        owner = value.owner
        if isinstance(owner, ConstantOp) and isinstance(owner.value, IntegerAttr | FloatAttr):
            number = to_python(owner.value)
            return Static(number) if isinstance(number, bool | int | float) else value
        return value

    def _tuple(self, node: ast.Tuple | ast.List, env: Env) -> Value:
        values: list[Value] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                inner = self.expression(item.value, env)
                items = self.items(inner, item)
                if items is None:
                    return self._joined_tuple(node, env)
                values += items
            else:
                values.append(self.expression(item, env))
        types = [v.value for v in values if isinstance(v, Static) and isinstance(v.value, type)]
        if types and len(types) == len(values):
            return Static(tuple(types))  # as isinstance takes them
        return self.tuple(
            *[self.ssa(v, n) for v, n in zip(values, _padded(node.elts, len(values)), strict=True)]
        )

    _list = _tuple

    def _dict(self, node: ast.Dict, env: Env) -> Value:
        values: dict[str, SSAValue] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            name = None if key is None else self.expression(key, env)
            if not isinstance(name, Static) or not isinstance(name.value, str):
                self.fail(key or value, "the keys of a dict must be strings known at compile time")
            values[name.value] = self.value(value, env)
        record = self.record(("dict", *values), *values.values())
        self.fields[record] = tuple(values)
        return record

    def _joined_tuple(self, node: ast.Tuple | ast.List, env: Env) -> SSAValue:
        """A display with `*t`, where the length of t is not known now: tuples one after the other."""
        joined: SSAValue | None = None
        for item in node.elts:
            if isinstance(item, ast.Starred):
                part = self.prim(ToTuple, self.value(item.value, env), count=_number(0))
            else:
                part = self.tuple(self.value(item, env))
            joined = part if joined is None else self.prim(ConcatTuples, joined, part)
        assert joined is not None
        return joined

    def _listcomp(self, node: ast.ListComp | ast.GeneratorExp, env: Env) -> Value:
        from glow_frontends.python.functions import comprehension

        return comprehension(self, node, env)

    _generatorexp = _listcomp

    def listed(self, node: ast.ListComp | ast.GeneratorExp, env: Env) -> Value:
        first = node.generators[0]
        self.unconditional(node.elt)
        whole = self.walked(self.expression(first.iter, env))
        if self.items(whole, node) is None and len(node.generators) == 1 and not first.ifs:

            def body(values: list[SSAValue]) -> SSAValue:
                inner = dict(env)
                self.bind(first.target, values[0], inner)
                return self.value(node.elt, inner)

            item = self.function(f"{self.name}.item", ("item",), body)
            return self.over("map", self.ssa(whole, node), item)
        return self.tuple(*self._comprehended(node, node.generators, env))

    def walked(self, whole: Value) -> Value:
        """The items of a value that is iterated: the keys where it proves to be a dict."""
        if isinstance(whole, Static) or isinstance(whole.owner, TupleOp):
            return whole
        return self.prim(Iterate, whole)

    def _dictcomp(self, node: ast.DictComp, env: Env) -> Value:
        pair = ast.copy_location(ast.Tuple([node.key, node.value], ast.Load()), node)
        pairs = ast.copy_location(ast.ListComp(pair, node.generators), node)
        return self.prim(MakeDict, self.value(pairs, env))

    def _comprehended(
        self, node: ast.ListComp | ast.GeneratorExp, generators: Sequence[ast.comprehension], env: Env
    ) -> list[SSAValue]:
        if not generators:
            return [self.value(node.elt, env)]
        generator = generators[0]
        whole = self.walked(self.expression(generator.iter, env))
        items = self.items(whole, node)
        if items is None:
            self.unknown_length(node, "a comprehension with conditions or several fors")
        values: list[SSAValue] = []
        for item in items:
            inner = dict(env)
            self.bind(generator.target, item, inner)
            tests = [self.truth(self.expression(t, inner), t) for t in generator.ifs]
            if not all(isinstance(t, Static) for t in tests):
                self.fail(
                    node, "a condition in a comprehension must be known at compile time", "write a loop"
                )
            if all(isinstance(t, Static) and t.value for t in tests):
                values += self._comprehended(node, generators[1:], inner)
            env.update({n: inner[n] for n in targets(generator.target)})  # what functions made here will read
        return values

    def bind(self, target: ast.expr, value: Value, env: Env) -> None:
        """Assign to a name, or unpack into several."""
        if isinstance(target, ast.Name):
            env[target.id] = value
            self.maybe = self.maybe - {target.id}
            if isinstance(value, SSAValue) and value.name_hint is None and target.id.isascii():
                value.name_hint = target.id
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target, value, env)
        else:
            from glow_frontends.python.hints import instead_of

            self.fail(target, f"assignment to {ast.unparse(target)} cannot be compiled", instead_of(target))

    def _unpack(self, target: ast.Tuple | ast.List, value: Value, env: Env) -> None:
        items = self.items(value, target)
        count = len(target.elts)
        starred = [i for i, t in enumerate(target.elts) if isinstance(t, ast.Starred)]
        if items is None:
            if starred:
                self.unknown_length(target, "*", "index the tuple")
            whole = self.prim(ToTuple, self.ssa(value, target), count=_number(count))
            items = [self.get(whole, i) for i in range(count)]
        if starred:
            at = starred[0]
            tail = count - at - 1
            if len(items) < count - 1:
                self.fail(target, f"{len(items)} values for {count} names")
            middle = items[at : len(items) - tail]
            packed = self.tuple(*[self.ssa(v, target) for v in middle])
            items = [*items[:at], packed, *items[len(items) - tail :]]
        if len(items) != count:
            self.fail(target, f"{len(items)} values for {count} names")
        for inner, item in zip(target.elts, items, strict=True):
            self.bind(inner.value if isinstance(inner, ast.Starred) else inner, item, env)

    def _subscript(self, node: ast.Subscript, env: Env) -> Value:
        from glow_frontends.python.indexing import subscript

        return subscript(self, node, env)

    def _attribute(self, node: ast.Attribute, env: Env) -> Value:
        inner = self.expression(node.value, env)
        if (some := masked(inner)) is not None:
            return attribute(self, node, some, node.attr)
        if isinstance(inner, Static):
            try:
                return Static(getattr(inner.value, node.attr))
            except AttributeError:
                self.fail(node, f"{ast.unparse(node.value)} has no attribute '{node.attr}'")
        if node.attr in self.fields.get(inner, ()):
            return self.known_now(self.get(inner, self.fields[inner].index(node.attr)))
        if node.attr == "shape":
            return self.prim(Shape, inner)
        if node.attr == "T":
            return self.prim(Operator("transpose"), inner)
        if node.attr == "ndim":
            return self.prim(Len, self.prim(Shape, inner))
        return self.prim(Field, inner, field=StringAttr(node.attr))

    def _call(self, node: ast.Call, env: Env) -> Value:
        from glow_frontends.python.calls import call

        return call(self, node, env)

    def signature(self, value: Value) -> Known | None:
        """The known parameters of a function value."""
        return self.known.get(value) if isinstance(value, SSAValue) else None


def _number(value: int) -> Any:
    return IntegerAttr(value, i64)


def _padded(nodes: Sequence[ast.expr], count: int) -> list[ast.expr]:
    return [nodes[min(i, len(nodes) - 1)] for i in range(count)]


def _is_text_or_tuple(value: Value) -> bool:
    if isinstance(value, Static):
        return isinstance(value.value, tuple | list)
    return isinstance(value.owner, TupleOp)
