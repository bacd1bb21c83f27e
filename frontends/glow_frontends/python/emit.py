"""Insertion of `glow_fn` operations, and Python objects as values of the program."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from glow_dialects.core.attributes import constant_attribute
from glow_dialects.core.types import tensor_of
from glow_dialects.fn.dialect import (
    CallOp,
    ConstantOp,
    GetOp,
    LambdaOp,
    PartialOp,
    PrimOp,
    RefOp,
    ReturnOp,
    SwitchOp,
    TupleOp,
)
from glow_dialects.fn.over import OverOp
from glow_dialects.fn.primitive import Card
from glow_dialects.fn.syntax import LINE
from glow_dialects.fn.types import any_type


@dataclass(frozen=True)
class Static:
    """A Python object known while compiling: a module, a function, a number of the outside."""

    value: Any


Value = SSAValue | Static


@dataclass
class Known:
    """A function value as far as known: its full form, its parameters, and defaults by name."""

    full: SSAValue
    names: tuple[str, ...]
    defaults: dict[str, SSAValue] = field(default_factory=dict)
    rest: bool = False


@dataclass(frozen=True)
class Made:
    """How a closure was made: its function, its own name, its defaults, what it read, and where."""

    node: ast.FunctionDef | ast.Lambda
    name: str
    own: str | None
    defaults: dict[str, SSAValue]
    read: dict[str, Value]
    scope: object


class Emitter:
    """Builds operations at the end of the current block; `line` marks them."""

    def __init__(self) -> None:
        self.block = Block()
        self.line = StringAttr("")
        self.known: dict[SSAValue, Known] = {}
        self.closures: dict[SSAValue, Made] = {}
        #: The function, or comprehension, whose names are looked up.
        self.scope = object()
        #: Names of the items of named tuples.
        self.fields: dict[SSAValue, tuple[str, ...]] = {}
        #: The elements that parameters pick of arrays; these parameters may be masks.
        self.picks: dict[SSAValue, tuple[SSAValue, SSAValue]] = {}

    def add(self, op: Operation) -> SSAValue:
        """Insert an operation of one result."""
        op.attributes[LINE] = self.line
        self.block.add_op(op)
        return op.results[0]

    def prim(self, card: Card, *values: SSAValue, **attributes: Attribute) -> SSAValue:
        """A primitive."""
        return self.add(PrimOp.of(card, values, attributes))

    def call(self, function: SSAValue, *values: SSAValue) -> SSAValue:
        """A call."""
        return self.add(CallOp.create(operands=[function, *values], result_types=[any_type]))

    def partial(self, function: SSAValue, *values: SSAValue) -> SSAValue:
        """A partial application."""
        return self.add(PartialOp.create(operands=[function, *values], result_types=[any_type]))

    def switch(self, condition: SSAValue, yes: SSAValue, no: SSAValue) -> SSAValue:
        """A selection."""
        return self.add(SwitchOp.create(operands=[condition, yes, no], result_types=[any_type]))

    def tuple(self, *values: SSAValue) -> SSAValue:
        """A tuple."""
        return self.add(TupleOp.create(operands=values, result_types=[any_type]))

    def record(self, names: Sequence[str], *values: SSAValue) -> SSAValue:
        """A tuple whose items have names; the first name is the tuple's kind."""
        record = self.tuple(*values)
        record.owner.attributes["names"] = ArrayAttr([StringAttr(n) for n in names])  # pyright: ignore
        return record

    def again(self, whole: SSAValue, values: Sequence[SSAValue]) -> SSAValue:
        """A tuple that was made before, with its names, of other values."""
        made = self.tuple(*values)
        names = whole.owner.attributes.get("names") if isinstance(whole.owner, TupleOp) else None
        if names is not None and isinstance(made.owner, TupleOp):
            made.owner.attributes["names"] = names
        if whole in self.fields:
            self.fields[made] = self.fields[whole]
        return made

    def get(self, value: SSAValue, index: int) -> SSAValue:
        """An item of a tuple; of a tuple that was just made, the value itself."""
        if isinstance(value.owner, TupleOp) and -len(value.owner.values) <= index < len(value.owner.values):
            return value.owner.values[index]
        get = GetOp.create(
            operands=[value], properties={"index": IntegerAttr(index, i64)}, result_types=[any_type]
        )
        return self.add(get)

    def over(self, kind: str, whole: SSAValue, *values: SSAValue) -> SSAValue:
        """`map`, `fold`, `reduce` or `apply` of a function, the first of `values`, over a tuple."""
        over = OverOp.create(operands=[whole], properties={"kind": StringAttr(kind)}, result_types=[any_type])
        function, *rest = values
        return self.call(self.add(over), function, whole, *rest)

    def ref(self, name: str) -> SSAValue:
        """A function of the module."""
        ref = RefOp.create(properties={"symbol": SymbolRefAttr(name)}, result_types=[any_type])
        return self.add(ref)

    def constant(self, value: Any) -> SSAValue:
        """A number, boolean, text or array."""
        kind: Attribute = any_type
        strong = isinstance(value, np.generic) and value.dtype.name not in ("float64", "int64", "bool")
        if strong:  # an array of no axes: its type counts where it meets others
            return self.constant(np.asarray(value))
        if isinstance(value, bool | np.bool_):
            attribute: Attribute = BoolAttr.from_bool(bool(value))
        elif isinstance(value, int | np.integer):
            attribute = IntegerAttr(int(value), i64)
        elif isinstance(value, float | np.floating):
            attribute = FloatAttr(float(value), f64)
        elif value is None:
            attribute = UnitAttr()
        elif isinstance(value, str):
            attribute = StringAttr(value)
        else:
            array = np.asarray(value)
            kind = tensor_of(array)
            attribute = constant_attribute("array", array, kind)
        return self.add(ConstantOp.create(properties={"value": attribute}, result_types=[kind]))

    def function(
        self,
        hint: str,
        parameters: Sequence[str],
        body: Callable[[list[SSAValue]], SSAValue],
        recursive: bool = False,
        counted: bool = False,
    ) -> SSAValue:
        """A lambda whose body `body(parameters)` emits and returns the value of.

        `counted`: its calls count as recursion, which has a limit; those of loops do not.
        """
        block = Block(arg_types=[any_type] * len(parameters))
        for argument, name in zip(block.args, parameters, strict=True):
            argument.name_hint = name if name.isidentifier() and name.isascii() else None
        outer, line = self.block, self.line
        self.block = block
        self.finish(body(list(block.args)))
        self.block, self.line = outer, line
        properties: dict[str, Attribute] = {"sym_hint": StringAttr(hint)}
        if recursive:
            properties["rec"] = UnitAttr()
        function = LambdaOp.create(properties=properties, result_types=[any_type], regions=[Region(block)])
        if counted:
            function.attributes["counted"] = UnitAttr()
        return self.add(function)

    def finish(self, value: SSAValue) -> None:
        """End the current block."""
        returned = ReturnOp.create(operands=[value])
        returned.attributes[LINE] = self.line
        self.block.add_op(returned)
