"""The module's structure: functions, and the constants and placeholders that they share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast
from weakref import WeakKeyDictionary, ref

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, SymbolRefAttr, TensorType, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    BaseAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    MemoryReadEffect,
    MemoryWriteEffect,
    NoTerminator,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.attributes import Resource, ResourceAttr, array_of, constant_attribute
from glow_dialects.core.definition import read_directly
from glow_dialects.core.extent import is_open
from glow_dialects.core.graph_op import Leaf
from glow_dialects.core.order import check_in_function, check_order
from glow_dialects.core.types import Array, Tensor, shape_of, tensor_of
from glow_dialects.core.verify import blame

_NO_PATH: ArrayAttr[StringAttr] = ArrayAttr(())
"""The suffix of a symbol of the module itself."""
KINDS = ("input", "output", "state", "trainable", "transfer")


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A tensor known at compile time, owned by the module (Glow: Constant). Optimizers may read it."""

    name = "glow.constant"
    sym_name = prop_def(StringAttr)
    value = prop_def(Attribute)
    type = prop_def(BaseAttr(TensorType))
    traits = traits_def(SymbolOpInterface())

    @staticmethod
    def of(name: str, array: Array, kind: Tensor | None = None) -> ConstantOp:
        """A constant holding `array`; `kind` gives a quantised element type where there is one."""
        kind = kind or tensor_of(array)
        return ConstantOp.create(
            properties={
                "sym_name": StringAttr(name),
                "value": constant_attribute(name, array, kind),
                "type": kind,
            }
        )

    def array(self) -> Array | None:
        """The values; None where the weights file was not loaded."""
        return array_of(self.value, self.type)

    def set_array(self, array: Array) -> None:
        """Replace the values, and the type where shape or dtype differ."""
        kind = tensor_of(array)
        self.properties["type"] = kind
        self.properties["value"] = constant_attribute(self.sym_name.data, array, kind)

    def verify_(self) -> None:
        array = self.array()
        if array is not None and tuple(array.shape) != shape_of(self.type):
            raise VerifyException(
                f"glow.constant @{self.sym_name.data}: value has shape {array.shape}, type {self.type}"
                "; write that"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(" = ")
        printer.print_attribute(self.value)
        printer.print_op_attributes(self.attributes)
        if not _self_typed(self.value):
            printer.print_string(" : ")
            printer.print_attribute(self.type)

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        name = parser.parse_symbol_name()
        parser.parse_punctuation("=")
        value = parser.parse_attribute()
        attributes = parser.parse_optional_attr_dict()
        if _self_typed(value):
            kind = value.get_type()  # pyright: ignore
        else:
            parser.parse_punctuation(":")
            kind = parser.parse_type()
        return cls.create(properties={"sym_name": name, "value": value, "type": kind}, attributes=attributes)


def _self_typed(value: Attribute) -> bool:
    return not isinstance(value, ResourceAttr) and hasattr(value, "get_type")


@irdl_op_definition
class PlaceholderOp(IRDLOperation):
    """A tensor bound at run time (Glow: Placeholder): `input`, `output`, `state` or `trainable`.

    A `transfer` is written by one function and read by others: what partitions hand to each other.
    """

    name = "glow.placeholder"
    sym_name = prop_def(StringAttr)
    type = prop_def(BaseAttr(TensorType))
    kind = prop_def(StringAttr, default_value=StringAttr("input"))
    #: Initial contents of a state or trainable placeholder.
    init = opt_prop_def(Attribute)
    traits = traits_def(SymbolOpInterface())

    @staticmethod
    def of(name: str, type: Tensor, kind: str = "input", init: Array | None = None) -> PlaceholderOp:
        """A placeholder of one of KINDS."""
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "type": type,
            "kind": StringAttr(kind),
        }
        if init is not None:
            properties["init"] = ResourceAttr(Resource(name, init))
        return PlaceholderOp.create(properties=properties)

    def verify_(self) -> None:
        if any(d < 0 for d in shape_of(self.type)):
            raise VerifyException(
                f"glow.placeholder @{self.sym_name.data}: {self.type} is not static; bind its shape"
            )
        if self.kind.data not in KINDS:
            raise VerifyException(
                f"glow.placeholder @{self.sym_name.data}: kind '{self.kind.data}' is not one of {KINDS}; "
                "choose one"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(f" {self.kind.data}")
        extra = dict(self.attributes)
        if self.init is not None:
            extra["init"] = self.init
        printer.print_op_attributes(extra)
        printer.print_string(" : ")
        printer.print_attribute(self.type)

    @classmethod
    def parse(cls, parser: Parser) -> PlaceholderOp:
        name = parser.parse_symbol_name()
        kind = parser.parse_optional_identifier() or "input"
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        properties: dict[str, Attribute] = {
            "sym_name": name,
            "kind": StringAttr(kind),
            "type": parser.parse_type(),
        }
        if "init" in attributes:
            properties["init"] = attributes.pop("init")
        return cls.create(properties=properties, attributes=attributes)


@irdl_op_definition
class FuncOp(IRDLOperation):
    """A function of the module: one block of nodes in def-before-use order."""

    name = "glow.func"
    sym_name = prop_def(StringAttr)
    training = opt_prop_def(UnitAttr)
    body = region_def("single_block")
    traits = traits_def(SymbolOpInterface(), IsolatedFromAbove(), NoTerminator())

    def verify_(self) -> None:
        check_order(self.body.block)
        for op in self.body.block.ops:
            try:
                self._check_inside(op)
            except VerifyException as error:
                blame(error, op)
                raise

    def _check_inside(self, op: Operation) -> None:
        if isinstance(op, FuncOp):
            raise VerifyException(
                f"glow.func: @{op.sym_name.data} is inside @{self.sym_name.data}; move it out"
            )
        for result in op.results:
            if not isinstance(result.type, TensorType):
                raise VerifyException(
                    f"{op.name}: values of a glow.func are tensors, got {result.type}; "
                    "use a tensor of one element"
                )

    @staticmethod
    def of(name: str, training: bool = False) -> FuncOp:
        """An empty function."""
        properties: dict[str, Attribute] = {"sym_name": StringAttr(name)}
        if training:
            properties["training"] = UnitAttr()
        return FuncOp.create(properties=properties, regions=[Region(Block())])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        if self.training is not None:
            printer.print_string(" training")
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        properties: dict[str, Attribute] = {"sym_name": parser.parse_symbol_name()}
        if parser.parse_optional_keyword("training") is not None:
            properties["training"] = UnitAttr()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        region = parser.parse_region()
        if not region.blocks:
            region.add_block(Block())
        return cls.create(
            properties=properties,
            attributes=attributes.data if attributes else {},
            regions=[region],
        )


class _SymbolUse(IRDLOperation):
    """Shared by the nodes that name a constant or placeholder."""

    def target(self) -> ConstantOp | PlaceholderOp | None:
        """The symbol's definition in the enclosing module."""
        return lookup(self, cast(SymbolRefAttr, self.properties["symbol"]).root_reference.data)

    def _check(self, kind: Attribute) -> None:
        check_in_function(self)
        if self.get_toplevel_object() is self or module_of(self) is None:
            return
        target = self.target()
        name = cast(SymbolRefAttr, self.properties["symbol"]).root_reference.data
        if target is None:
            raise VerifyException(
                f"{self.name}: the module has no constant or placeholder @{name}; declare it"
            )
        if target.type != kind:
            raise VerifyException(
                f"{self.name}: @{name} is {target.type}, used as {kind}; both need the same type"
            )


@read_directly
class GetOp(_SymbolUse):
    """The value of a constant or placeholder when the function starts."""

    name = "glow.get"
    symbol = prop_def(SymbolRefAttr)
    result = result_def(BaseAttr(TensorType))
    traits = traits_def(MemoryReadEffect(), Leaf())
    assembly_format = "$symbol attr-dict `:` type($result)"

    @staticmethod
    def of(symbol: ConstantOp | PlaceholderOp) -> GetOp:
        """Read `symbol`."""
        return GetOp.create(
            properties={"symbol": SymbolRefAttr(symbol.sym_name, _NO_PATH)}, result_types=[symbol.type]
        )

    def verify_(self) -> None:
        self._check(self.result.type)
        target = self.target()
        if isinstance(target, PlaceholderOp) and target.kind.data == "output":
            raise VerifyException(
                f"glow.get: @{target.sym_name.data} is an output, which a program only writes; use a state"
            )


@irdl_op_definition
class SaveOp(_SymbolUse):
    """Write a tensor to a placeholder (Glow: Save); the placeholder has the value after the run."""

    name = "glow.save"
    input = operand_def(BaseAttr(TensorType))
    symbol = prop_def(SymbolRefAttr)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$input `to` $symbol attr-dict `:` type($input)"

    @staticmethod
    def of(value: SSAValue, symbol: PlaceholderOp) -> SaveOp:
        """Save `value` to `symbol`."""
        return SaveOp.create(
            operands=[value], properties={"symbol": SymbolRefAttr(symbol.sym_name, _NO_PATH)}
        )

    def verify_(self) -> None:
        self._check(self.input.type)
        target = self.target()
        if isinstance(target, ConstantOp):
            raise VerifyException("glow.save: constants are never written; save to an output or a state")
        if target is not None and target.kind.data == "input":
            raise VerifyException(
                f"glow.save: @{target.sym_name.data} is an input, which a program only reads; use a state"
            )


def module_of(op: Operation) -> ModuleOp | None:
    """The module around `op`."""
    current: Operation | None = op
    while current is not None and type(current) is not ModuleOp:
        current = current.parent_op()
    return current


def lookup(op: Operation, name: str) -> ConstantOp | PlaceholderOp | None:
    """The constant or placeholder called `name` in the module around `op`."""
    module = module_of(op)
    if module is None:
        return None
    # Modules have thousands of symbols: a table is kept, and made again where it proves old.
    block = module.body.block
    for fresh in (False, True):
        table = _tables.get(module)
        if table is None or fresh:
            symbols = (o for o in block.ops if isinstance(o, ConstantOp | PlaceholderOp))
            table = _tables[module] = {o.sym_name.data: ref(o) for o in symbols}
        symbol = table[name]() if name in table else None
        if symbol is not None and symbol.parent is block and symbol.sym_name.data == name:
            return symbol
    return None


_tables: WeakKeyDictionary[ModuleOp, dict[str, ref[ConstantOp | PlaceholderOp]]] = WeakKeyDictionary()


def functions(module: ModuleOp) -> Iterator[FuncOp]:
    """The graph functions of a module."""
    return (op for op in module.body.block.ops if type(op) is FuncOp)


def bodies(module: ModuleOp) -> Iterator[FuncOp]:
    """The functions whose nodes passes rewrite: graph functions, and MLIR's `func.func` of one block.

    The latter have a `body` and values as parameters, and are nothing else that a FuncOp is.
    """
    for op in module.body.block.ops:
        if type(op) is FuncOp or (op.name == "func.func" and len(op.regions[0].blocks) == 1):
            yield cast(FuncOp, op)


def constants(module: ModuleOp) -> dict[str, ConstantOp]:
    """The module's constants by name."""
    return {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, ConstantOp)}


def placeholders(module: ModuleOp) -> dict[str, PlaceholderOp]:
    """The module's placeholders by name, in order."""
    return {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, PlaceholderOp)}


def has_open_ports(module: ModuleOp) -> bool:
    """Whether only the run tells some sizes of placeholders."""
    return any(is_open(shape_of(op.type)) for op in placeholders(module).values())


def constant_value(value: SSAValue) -> Array | None:
    """The compile-time contents of a graph value: a constant read, a literal or a splat."""
    from glow_dialects.ops.literal import LiteralOp
    from glow_dialects.ops.splat import SplatOp

    owner = value.owner
    if isinstance(owner, GetOp):
        target = owner.target()
        return target.array() if isinstance(target, ConstantOp) else None
    if isinstance(owner, LiteralOp | SplatOp):
        return owner.array()
    return None
