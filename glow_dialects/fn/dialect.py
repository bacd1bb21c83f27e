"""glow_fn: first-class functions, closures that capture by value, selection, tuples, gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    TupleType,
    i64,
)
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue, TypeAttribute
from xdsl.irdl import (
    AnyAttr,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.order import check_order
from glow_dialects.core.verify import blame
from glow_dialects.fn.gradients import GradOp, JvpOp, ValueAndGradOp
from glow_dialects.fn.over import OverOp
from glow_dialects.fn.prim import ConstantOp, PrimOp
from glow_dialects.fn.syntax import (
    LINE,
    FnOp,
    parse_optional_value,
    parse_parameters,
    parse_tail,
    parse_value,
    parse_values,
    print_body,
    print_parameters,
    print_tail,
    print_values,
)
from glow_dialects.fn.tensors import TensorsOp, YieldOp
from glow_dialects.fn.types import AnyType, fits


def function_named(op: Operation, name: str) -> FuncOp | None:
    """The function `@name` of the module that holds `op`."""
    above = op.parent_op()
    while above is not None and not isinstance(above, ModuleOp):
        above = above.parent_op()
    if above is None:
        return None
    functions = (f for f in above.body.block.ops if isinstance(f, FuncOp) and f.sym_name.data == name)
    return next(functions, None)


def callable_type(value: SSAValue, op: Operation) -> FunctionType | None:
    """The function type of a value, None where it is not known yet."""
    if isinstance(value.type, FunctionType):
        return value.type
    if not isinstance(value.type, AnyType):
        raise VerifyException(
            f"{op.name}: a function is needed, got {value.type}; glow_fn.ref makes one of a symbol"
        )
    return None


@irdl_op_definition
class ReturnOp(FnOp):
    """The value of a function: the last operation of its one block."""

    name = "glow_fn.return"
    value = operand_def(AnyAttr())
    traits = traits_def(IsTerminator())

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)

    @classmethod
    def parse(cls, parser: Parser) -> ReturnOp:
        return cls.create(operands=[parse_value(parser)])


class _Body(FnOp):
    """A function's body: one block that ends with a return."""

    @property
    def block(self) -> Block:
        """The one block."""
        return self.regions[0].block

    @property
    def returned(self) -> SSAValue:
        """The value of the function."""
        last = self.block.last_op
        assert isinstance(last, ReturnOp)
        return last.value

    def signature(self) -> FunctionType:
        """Parameter and result types."""
        return FunctionType.from_lists([a.type for a in self.block.args], [self.returned.type])

    def check_body(self) -> None:
        """Raise unless there is one block that ends with a return."""
        if len(self.regions[0].blocks) != 1 or not isinstance(self.block.last_op, ReturnOp):
            error = VerifyException(
                f"{self.name}: the body is one block that ends with glow_fn.return; add it"
            )
            blame(error, self)
            raise error


@irdl_op_definition
class FuncOp(_Body):
    """A function of the module (MindIR: FuncGraph): refers to others, and itself, by symbol only."""

    name = "glow_fn.func"
    sym_name = prop_def(StringAttr)
    body = region_def()
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    @staticmethod
    def of(name: str, parameters: Sequence[Attribute]) -> FuncOp:
        """An empty function; the return is added with the body."""
        block = Block(arg_types=parameters)
        return FuncOp.create(properties={"sym_name": StringAttr(name)}, regions=[Region(block)])

    def verify_(self) -> None:
        self.check_body()
        check_order(self.block)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        print_parameters(printer, self.block.args)
        printer.print_op_attributes(
            {n: a for n, a in self.attributes.items() if n != LINE}, print_keyword=True
        )
        print_body(printer, self.body)

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        name = parser.parse_symbol_name()
        parameters = parse_parameters(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        region = parser.parse_region(parameters)
        data = dict(attributes.data) if attributes is not None else {}
        return cls.create(properties={"sym_name": name}, attributes=data, regions=[region])


@irdl_op_definition
class LambdaOp(_Body):
    """A function as a value. Values of enclosing functions that the body uses are captured by value.

    With `rec` the first parameter is the function itself.
    """

    name = "glow_fn.lambda"
    sym_hint = opt_prop_def(StringAttr)
    rec = opt_prop_def(Attribute)
    body = region_def()
    result = result_def(AnyAttr())

    def verify_(self) -> None:
        self.check_body()
        if self.rec is not None and not self.block.args:
            raise VerifyException(
                "glow_fn.lambda rec: the first parameter is the function itself; add it to the block"
            )
        own = self.signature()
        if self.rec is not None:
            own = FunctionType.from_lists(own.inputs.data[1:], own.outputs.data)
        if not fits(own, self.result.type):
            raise VerifyException(f"glow_fn.lambda: body is {own}, result {self.result.type}; write that")

    def print(self, printer: Printer) -> None:
        printer.print_string(" rec" if self.rec is not None else "")
        if self.sym_hint is not None:
            printer.print_string(" ")
            printer.print_symbol_name(self.sym_hint.data)
        print_parameters(printer, self.block.args)
        print_body(printer, self.body)
        print_tail(printer, self)

    @classmethod
    def parse(cls, parser: Parser) -> LambdaOp:
        from xdsl.dialects.builtin import UnitAttr

        rec = parser.parse_optional_keyword("rec") is not None
        hint = parser.parse_optional_symbol_name()
        region = parser.parse_region(parse_parameters(parser))
        attributes, kind = parse_tail(parser)
        properties: dict[str, Attribute] = {"rec": UnitAttr()} if rec else {}
        if hint is not None:
            properties["sym_hint"] = hint
        return cls.create(result_types=[kind], properties=properties, attributes=attributes, regions=[region])


@irdl_op_definition
class RefOp(FnOp):
    """A function of the module as a value (MindIR: ValueNode of a FuncGraph)."""

    name = "glow_fn.ref"
    symbol = prop_def(SymbolRefAttr)
    result = result_def(AnyAttr())
    traits = traits_def(Pure())

    @property
    def target(self) -> str:
        """The function's name."""
        return self.symbol.root_reference.data

    def verify_(self) -> None:
        target = function_named(self, self.target)
        if target is None:
            raise VerifyException(
                f"glow_fn.ref: there is no function @{self.target}; define it, or correct the name"
            )
        target.check_body()
        if not fits(target.signature(), self.result.type):
            raise VerifyException(
                f"glow_fn.ref: @{self.target} is {target.signature()}, not {self.result.type}; write that"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.target)
        print_tail(printer, self)

    @classmethod
    def parse(cls, parser: Parser) -> RefOp:
        symbol = SymbolRefAttr(parser.parse_symbol_name())
        attributes, kind = parse_tail(parser)
        return cls.create(properties={"symbol": symbol}, result_types=[kind], attributes=attributes)


class _Applied(FnOp):
    """A function value with arguments: `%f(%a, %b)`."""

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.operands[0])
        print_values(printer, self.operands[1:])
        print_tail(printer, self)

    @classmethod
    def parse(cls, parser: Parser) -> FnOp:
        callee = parse_value(parser)
        values = parse_values(parser)
        attributes, kind = parse_tail(parser)
        return cls.create(operands=[callee, *values], result_types=[kind], attributes=attributes)

    def applied(self) -> tuple[FunctionType | None, Sequence[SSAValue]]:
        """The callee's type where it is known, checked against the arguments."""
        kind = callable_type(self.operands[0], self)
        values = self.operands[1:]
        if kind is not None:
            wanted = kind.inputs.data
            if len(values) > len(wanted):
                raise VerifyException(
                    f"{self.name}: {len(values)} arguments for {kind}; give {len(kind.inputs)}"
                )
            for index, (value, want) in enumerate(zip(values, wanted, strict=False)):
                if not fits(value.type, want):
                    raise VerifyException(
                        f"{self.name}: argument {index} is {value.type}, not {want}; give one of that type"
                    )
        return kind, values


@irdl_op_definition
class CallOp(_Applied):
    """The result of a function for arguments (MindIR: CNode)."""

    name = "glow_fn.call"
    callee = operand_def(AnyAttr())
    arguments = var_operand_def(AnyAttr())
    result = result_def(AnyAttr())

    def verify_(self) -> None:
        kind, values = self.applied()
        if kind is not None:
            if len(values) != len(kind.inputs):
                raise VerifyException(
                    f"glow_fn.call: {len(values)} arguments for {kind}; give {len(kind.inputs)}"
                )
            if not fits(kind.outputs.data[0], self.result.type):
                raise VerifyException(
                    f"glow_fn.call: result {self.result.type} of {kind}; write what the function returns"
                )


@irdl_op_definition
class PartialOp(_Applied):
    """The function of the remaining parameters."""

    name = "glow_fn.partial"
    callee = operand_def(AnyAttr())
    arguments = var_operand_def(AnyAttr())
    result = result_def(AnyAttr())
    traits = traits_def(Pure())

    def verify_(self) -> None:
        kind, values = self.applied()
        if kind is not None:
            rest = FunctionType.from_lists(kind.inputs.data[len(values) :], kind.outputs.data)
            if not fits(rest, self.result.type):
                raise VerifyException(
                    f"glow_fn.partial: leaves {rest}, result is {self.result.type}; write that"
                )


class _Listed(FnOp):
    """Values alone: `(%a, %b)`."""

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        print_tail(printer, self)

    @classmethod
    def parse(cls, parser: Parser) -> FnOp:
        first = parse_optional_value(parser)
        values = [] if first is None else [first]
        while values and parser.parse_optional_punctuation(",") is not None:
            values.append(parse_value(parser))
        attributes, kind = parse_tail(parser)
        return cls.create(operands=values, result_types=[kind], attributes=attributes)


@irdl_op_definition
class SwitchOp(_Listed):
    """`on_true` or `on_false`, values of one type, functions included; it calls nothing."""

    name = "glow_fn.switch"
    condition = operand_def(AnyAttr())
    on_true = operand_def(AnyAttr())
    on_false = operand_def(AnyAttr())
    result = result_def(AnyAttr())
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if not fits(self.on_true.type, self.on_false.type):
            raise VerifyException(
                f"glow_fn.switch: the branches are {self.on_true.type} and {self.on_false.type}"
                "; both need the same type"
            )


@irdl_op_definition
class SwitchLayerOp(_Listed):
    """The value at `index` of values of one type; a negative index counts from the end."""

    name = "glow_fn.switch_layer"
    index = operand_def(AnyAttr())
    values = var_operand_def(AnyAttr())
    result = result_def(AnyAttr())
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if not self.values:
            raise VerifyException(
                "glow_fn.switch_layer: there are no values to select from; give at least one value"
            )
        for value in self.values:
            if not fits(value.type, self.values[0].type):
                raise VerifyException(
                    f"glow_fn.switch_layer: values are {self.values[0].type} and {value.type}"
                    "; all need the same type"
                )


@irdl_op_definition
class TupleOp(_Listed):
    """A tuple of values."""

    name = "glow_fn.tuple"
    values = var_operand_def(AnyAttr())
    result = result_def(AnyAttr())
    traits = traits_def(Pure())

    def verify_(self) -> None:
        own = TupleType(tuple(cast(TypeAttribute, v.type) for v in self.values))
        if not fits(own, self.result.type):
            raise VerifyException(
                f"glow_fn.tuple: values are {own}, result is {self.result.type}; write a tuple of these"
            )


@irdl_op_definition
class GetOp(FnOp):
    """An item of a tuple."""

    name = "glow_fn.get"
    source_tuple = operand_def(AnyAttr())
    index = prop_def(IntegerAttr)
    result = result_def(AnyAttr())
    traits = traits_def(Pure())

    def verify_(self) -> None:
        kind, index = self.source_tuple.type, self.index.value.data
        if isinstance(kind, TupleType):
            if not -len(kind.types) <= index < len(kind.types):
                raise VerifyException(f"glow_fn.get: no item {index} in {kind}; they count from 0")
            if not fits(kind.types.data[index], self.result.type):
                raise VerifyException(
                    f"glow_fn.get: item {index} of {kind} is not {self.result.type}; write the item's type"
                )
        elif not isinstance(kind, AnyType):
            raise VerifyException(f"glow_fn.get: a tuple is needed, got {kind}; make one by glow_fn.tuple")
        made = self.source_tuple.owner
        if isinstance(made, TupleOp) and not -len(made.values) <= index < len(made.values):
            raise VerifyException(
                f"glow_fn.get: no item {index} in a tuple of {len(made.values)}; they count from 0"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source_tuple)
        printer.print_string(f"[{self.index.value.data}]")
        print_tail(printer, self)

    @classmethod
    def parse(cls, parser: Parser) -> GetOp:
        value = parse_value(parser)
        parser.parse_punctuation("[")
        index = parser.parse_integer()
        parser.parse_punctuation("]")
        attributes, kind = parse_tail(parser)
        return cls.create(
            operands=[value],
            properties={"index": IntegerAttr(index, i64)},
            result_types=[kind],
            attributes=attributes,
        )


OPERATIONS: tuple[type[Operation], ...] = (
    FuncOp,
    ReturnOp,
    LambdaOp,
    RefOp,
    CallOp,
    PartialOp,
    SwitchOp,
    SwitchLayerOp,
    TupleOp,
    GetOp,
    ConstantOp,
    PrimOp,
    TensorsOp,
    YieldOp,
    GradOp,
    ValueAndGradOp,
    JvpOp,
    OverOp,
)


def get_glow_fn() -> Dialect:
    """The functional dialect."""
    return Dialect("glow_fn", list(OPERATIONS), [AnyType])
