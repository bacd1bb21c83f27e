"""glow-convert-floats: f32 graphs on 16-bit floats, in computation or in storage only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32
from xdsl.ir import Attribute, Operation, SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import Array, Tensor, dtype_of, element_of, shape_of, tensor
from glow_dialects.ops.cast import CastOp
from glow_dialects.ops.literal import LiteralOp
from glow_dialects.ops.module import FuncOp, GetOp, functions
from glow_dialects.ops.splat import SplatOp
from glow_passes.contract import GraphPass
from glow_passes.graph.casts import PATTERNS as CASTS
from glow_passes.graph.driver import rewrite
from glow_passes.graph.symbols import Symbols
from glow_passes.quantize.magnified_errors import magnified
from glow_passes.quantize.profile import value_names
from glow_passes.quantize.schema import QuantizationError

#: Element types by the names of the option `to`.
TYPES: dict[str, Attribute] = {"f16": f16, "bf16": bf16}
#: The largest finite float16.
F16_LARGEST = 65504.0
#: The limit that replaces larger numbers: such masks as -1e9 are added to others, and the sums stay finite.
F16_FAR = 16384.0


def narrowed(array: Array, kind: Tensor) -> Array:
    """f32 values in another float type; finite numbers that float16 cannot hold become F16_FAR."""
    wide = array.astype(np.float32)
    if kind.element_type == f16:
        beyond = np.isfinite(wide) & (np.abs(wide) > F16_LARGEST)
        wide = np.where(beyond, np.copysign(np.float32(F16_FAR), wide), wide)
    return wide.astype(dtype_of(kind))


class Converter:
    """Rewrites one function: nodes compute on `element`, casts stand at the borders."""

    def __init__(self, module: ModuleOp, function: FuncOp, element: Attribute) -> None:
        self.symbols = Symbols(module)
        self.function = function
        self.element = element
        self.narrow: dict[SSAValue, SSAValue] = {}

    def kind(self, value: SSAValue) -> Tensor:
        """The type of a value with the narrow element type."""
        return tensor(shape_of(value), self.element)

    def operand(self, value: SSAValue, b: Builder) -> SSAValue:
        """A float32 operand as a narrow one: a constant where it is one, else cast (once a value)."""
        if value in self.narrow:
            return self.narrow[value]
        narrowed_value = self.constant(value, b)
        if narrowed_value is None:
            inner = value.owner
            narrowed_value = (
                inner.input
                if isinstance(inner, CastOp) and inner.input.type == self.kind(value)
                else b(CastOp(value, results=self.kind(value)))
            )
        self.narrow[value] = narrowed_value
        return narrowed_value

    def constant(self, value: SSAValue, b: Builder) -> SSAValue | None:
        """The narrow form of a value known at compile time."""
        owner, kind = value.owner, self.kind(value)
        if isinstance(owner, SplatOp):
            number = narrowed(np.array(owner.value, np.float64), kind)
            return b(SplatOp(results=kind, value=float(number)))
        if isinstance(owner, LiteralOp):
            symbol = self.symbols.add(narrowed(owner.array(), kind), kind, "literal")
            return b.insert(GetOp.of(symbol)).result
        array = self.symbols.array(value)
        if array is None:
            return None
        assert isinstance(owner, GetOp)
        name = f"{owner.symbol.root_reference.data}_{self.element}"
        return b.insert(GetOp.of(self.symbols.add(narrowed(array, kind), kind, name))).result

    def node(self, op: GraphOp) -> None:
        """Let a float32 node compute on narrow operands; its readers see float32 as before."""
        b = Builder.before(op)
        operands = [self.operand(v, b) if element_of(v) == f32 else v for v in op.operands]
        kinds = [self.kind(r) if element_of(r) == f32 else r.type for r in op.results]
        twin = type(op).create(
            operands=operands,
            result_types=kinds,
            properties=dict(op.properties),
            attributes=dict(op.attributes),
        )
        b.insert(twin)
        for old, new in zip(op.results, twin.results, strict=True):
            new.name_hint = old.name_hint
            back = new if new.type == old.type else b(CastOp(new, results=old.type))
            old.replace_all_uses_with(back)
            if back is not new:
                self.narrow[back] = new
        op.detach()
        op.erase()


Keep = Callable[[GraphOp, str], bool]


def convert(module: ModuleOp, function: FuncOp, element: Attribute, keep: Keep) -> None:
    """Convert every float32 node but casts and those that `keep` names."""
    converter = Converter(module, function, element)
    names = value_names(function)
    for op in list(function.body.block.ops):
        if not isinstance(op, GraphOp) or isinstance(op, CastOp | SplatOp | LiteralOp):
            continue
        if not any(element_of(r) == f32 for r in op.results) or keep(op, names[op.results[0]]):
            continue
        converter.node(op)


def store_narrow(module: ModuleOp, function: FuncOp, element: Attribute) -> None:
    """Keep constants in the narrow type and cast them where they are read; half the memory."""
    symbols = Symbols(module)
    for op in list(function.body.block.ops):
        if not isinstance(op, GetOp) or element_of(op.result) != f32:
            continue
        array = symbols.array(op.result) if symbols.constant(op) is not None else None
        if array is None:
            continue
        kind = tensor(array.shape, element)
        name = f"{op.symbol.root_reference.data}_{element}"
        get = GetOp.of(symbols.add(narrowed(array, kind), kind, name))
        b = Builder.before(op)
        wide = b(CastOp(b.insert(get).result, results=op.result.type))
        op.result.replace_all_uses_with(wide)
        op.detach()
        op.erase()


@dataclass(frozen=True)
class ConvertFloatsPass(GraphPass):
    """Compute on `to` (f16, bf16) except operators and values in `keep`; inputs and outputs stay f32.

    `storage`: only constants are narrow, and cast to f32 where they are read. Variances and what
    else roots, logarithms and quotients are taken of stay f32.
    """

    name = "glow-convert-floats"
    to: str = "bf16"
    storage: bool = False
    keep: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        element = TYPES.get(self.to)
        if element is None:
            raise QuantizationError(f"unknown float type '{self.to}'; there are: {', '.join(TYPES)}")
        kept = set(self.keep)
        for function in functions(op):
            exact = magnified(function)

            def keep(node: GraphOp, name: str, exact: set[Operation] = exact) -> bool:
                return node in exact or bool({name, node.name.removeprefix("glow.")} & kept)

            if self.storage:
                store_narrow(op, function, element)
            else:
                convert(op, function, element, keep)
        if not self.storage:
            rewrite(op, CASTS)
        Symbols(op).sweep()
