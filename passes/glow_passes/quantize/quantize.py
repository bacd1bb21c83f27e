"""glow-quantize: nodes whose ranges are known compute on integers between quantize and dequantize.

    conv(x, w) : f32  ->  dequantize(quantized_conv(quantize(x), w')) : f32

Every node becomes an island of its own; glow-fold-conversions joins them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp
from xdsl.ir import Operation, SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import (
    Array,
    Tensor,
    UniformQuantizedType,
    dtype_of,
    element_type,
    shape_of,
    tensor,
    tensor_of,
)
from glow_dialects.ops.arithmetic import MulOp
from glow_dialects.ops.lookup import LookupOp
from glow_dialects.ops.module import FuncOp, GetOp, functions
from glow_dialects.ops.quantize import (
    DequantizeOp,
    QuantizeOp,
    dequantize_array,
    quantize_array,
    quantized_type,
)
from glow_dialects.ops.requantize import scale_of
from glow_passes.contract import GraphPass
from glow_passes.graph.linear import bias_of, plain_properties
from glow_passes.graph.symbols import Symbols
from glow_passes.quantize.apply_profile import ATTRIBUTE, CHANNELS, hand_on
from glow_passes.quantize.channels import (
    LARGEST_FACTOR,
    LARGEST_INPUT_FACTOR,
    Channels,
    even_factors,
    layer_axes,
    relative_size,
)
from glow_passes.quantize.costly_layers import costly_layers
from glow_passes.quantize.elementwise_chains import chain_from, evaluated, stored_values, variable
from glow_passes.quantize.light_layers import IntegerGains, light_layers, products, tiled_layers
from glow_passes.quantize.magnified_errors import sensitive
from glow_passes.quantize.profile import value_names
from glow_passes.quantize.schema import QuantizationError, Schema, symmetric_type

#: Biases are at most this in units of input scale x weight scale.
LARGEST_BIAS = 1 << 26
#: Where a function is looked at to tell the range on which it changes.
SAMPLES = 4096
BIASES = {"int32": 32, "int16": 16, "int8": 8}


@dataclass(frozen=True)
class Options:
    """How to quantise: see QuantizePass."""

    schema: Schema
    per_channel: bool = True
    bias: int = 32
    keep: tuple[str, ...] = ()
    everything: bool = False
    gains: IntegerGains = IntegerGains()


class Quantizer:
    """Rewrites one function; rules ask it for stored operands and for the type of a value."""

    def __init__(self, module: ModuleOp, function: FuncOp, options: Options) -> None:
        self.symbols = Symbols(module)
        self.function = function
        self.options = options
        self.kinds: dict[SSAValue, UniformQuantizedType] = {}
        self.stored: dict[SSAValue, SSAValue] = {}
        #: Values that are dequantised integers, or that will be once conversions are folded.
        self.integer: set[SSAValue] = set()
        self.names = value_names(function)
        self.float: set[Operation] = set()
        self.evened: dict[SSAValue, tuple[SSAValue, Array]] = {}

    def run(self) -> None:
        """Quantise every node that has a rule."""
        operators = [op for op in self.function.body.block.ops if isinstance(op, GraphOp)]
        self.float = {op for op in operators if self._stays_float(op)} | sensitive(self.function)
        if not self.options.everything:
            self.float |= light_layers(self.function, self.array, self.options.gains)
            if self.options.schema.width == 16:
                self.float |= tiled_layers(self.function, self.options.gains)
            self.float |= costly_layers(self._sizes(operators))
        for op in operators:
            if op.parent is None or op in self.float or self.table(op):
                continue
            if len(op.operands) == 1 and (op.MOVES_ELEMENTS or op.clamp_limits() is not None):
                if op.operands[0] in self.integer:
                    self.integer.add(op.results[0])
                continue
            if layer_axes(op) is None and not self.wanted(op.results[0]):
                continue
            b = Builder.before(op)
            stored = quantized_form(op, self, b)
            if stored is not None:
                self.replace(op, stored, b)

    def _sizes(self, operators: Sequence[GraphOp]) -> Iterator[tuple[Operation, int]]:
        """The layers that are not yet to stay float, and how many products each computes."""
        for op in operators:
            layer = layer_axes(op) is not None and op not in self.float
            weights = self.array(op.operands[1]) if layer else None
            if weights is not None:
                yield op, products(op, weights)

    def _stays_float(self, op: GraphOp) -> bool:
        """Whether an operator is none for integers, or one that was asked to be kept."""
        if not op.results:
            return True
        known = {op.name.removeprefix("glow."), self.names[op.results[0]]}
        reader = _limiter(op.results[0])
        if reader is not None:
            known.add(self.names[reader.results[0]])
        return bool(known & set(self.options.keep))

    def wanted(self, value: SSAValue) -> bool:
        """Whether a layer on integers reads `value`, through operators that may be on integers too.

        What only float operators read is exact where it stays float. With `everything` all is wanted.
        """
        stack, seen = [value], {value}
        if self.options.everything:
            return True
        while stack:
            for use in stack.pop().uses:
                op = use.operation
                if not isinstance(op, GraphOp) or op in self.float:
                    continue
                if layer_axes(op) is not None:
                    if use.index == 0 and self.array(op.operands[1]) is not None:
                        return True
                elif _may_be_on_integers(op) or variable(op, self.array) is not None:
                    stack += [r for r in op.results if r not in seen]
                    seen.update(op.results)
        return False

    def table(self, op: GraphOp) -> bool:
        """Turn the chain of element-wise operators from `op` on into a lookup, rounded once.

        A relu or clip alone is none: it becomes the limits of the operator before it.
        """
        chain = chain_from(op, self.array)
        kept = [i for i, o in enumerate(chain) if o in self.float]
        chain = chain[: kept[0]] if kept else chain
        if all(o.clamp_limits() is not None for o in chain) or self.options.schema.width != 8:
            return False
        if not self.wanted(chain[-1].results[0]):
            return False
        x, last = variable(op, self.array), chain[-1].results[0]
        assert x is not None
        source, to = self.kind(x), self.kind(last)
        if x not in self.integer or source is None or to is None:
            return False
        entries = quantize_array(evaluated(chain, stored_values(source), self.array), to)
        name = chain[-1].name.removeprefix("glow.")
        table = self.constant(entries, tensor((256,), to), name)
        b = Builder.before(op)
        self.replace(chain[-1], b(LookupOp(self.quantized(x, source), table)), b)
        for dead in reversed(chain[:-1]):
            dead.detach()
            dead.erase()
        return True

    def replace(self, op: GraphOp, stored: SSAValue, b: Builder) -> None:
        """Let a stored result, dequantised, stand for the result of `op`; `b` has made what it is made of."""
        old = op.results[0]
        real = b(DequantizeOp(stored, results=old.type))
        real.name_hint = old.name_hint
        hand_on(op, real)
        if op.predicate is not None:
            for made in b.inserted:
                assert isinstance(made, GraphOp)
                made.set_predicate(op.predicate)
        self.kinds[real] = quantized_type(stored)
        self.integer.add(real)
        old.replace_all_uses_with(real)
        op.detach()
        op.erase()

    def array(self, value: SSAValue) -> Array | None:
        """The contents of a value known at compile time."""
        return self.symbols.array(value)

    def kind(self, value: SSAValue) -> UniformQuantizedType | None:
        """The quantised type for a value: by its range, or by that of the value that it moves."""
        if value in self.kinds:
            return self.kinds[value]
        owner = value.owner
        kind: UniformQuantizedType | None = None
        if isinstance(owner, GraphOp) and owner.MOVES_ELEMENTS and len(owner.operands) == 1:
            kind = self.kind(owner.operands[0])
        else:
            limits = self.limits(value)
            if limits is not None:
                kind = self.options.schema.type_of(*self._effective(value, *limits))
        if kind is not None:
            self.kinds[value] = kind
        return kind

    def _effective(self, value: SSAValue, low: float, high: float) -> tuple[float, float]:
        """The part of a range on which the function that alone reads `value` still changes.

        Numbers that hard_swish or a sigmoid sends to one end need no integers of their own.
        """
        chain = self.readers(value)
        if not chain or self.array(value) is not None:
            return low, high
        x = np.linspace(low, high, SAMPLES)
        y = evaluated(chain, x, self.array)
        if not np.isfinite(y).all():
            return low, high
        half = (float(y.max()) - float(y.min())) / 2 ** (self.options.schema.width + 1)
        changes = np.flatnonzero(np.abs(y - y[0]) > half)
        differs = np.flatnonzero(np.abs(y - y[-1]) > half)
        if not changes.size:
            return low, high
        return float(x[changes[0] - 1]), float(x[differs[-1] + 1])

    def readers(self, value: SSAValue) -> list[GraphOp]:
        """The chain of functions that alone reads a value."""
        reader = value.get_user_of_unique_use()
        return chain_from(reader, self.array) if isinstance(reader, GraphOp) else []

    def result_kind(self, value: SSAValue) -> UniformQuantizedType | None:
        """The type to compute `value` in: that of the relu or clip which alone reads it, if any."""
        reader = _limiter(value)
        return self.kind(value if reader is None else reader.results[0])

    def limits(self, value: SSAValue) -> tuple[float, float] | None:
        """The range of a value: of the profile, or of a constant's elements."""
        array = self.array(value)
        if array is not None:
            if not array.size or array.dtype.kind != "f" or not np.isfinite(array).all():
                return None
            return float(array.min()), float(array.max())
        owner = value.owner
        limits = owner.attributes.get(ATTRIBUTE) if isinstance(owner, Operation) else None
        if not isinstance(limits, DenseArrayBase) or value is not owner.results[0]:  # pyright: ignore
            return None
        low, high = limits.get_values()
        return float(low), float(high)

    def quantized(self, value: SSAValue, kind: UniformQuantizedType) -> SSAValue:
        """`value` stored as `kind`: a constant where it is one, else a quantize right after it."""
        array = self.array(value)
        if array is not None:
            return self.weight(array, kind, value.name_hint or "constant")
        known = self.stored.get(value)
        if known is not None and quantized_type(known) == kind:
            return known
        owner = value.owner
        assert isinstance(owner, Operation)
        quantized = Builder.after(owner)(QuantizeOp(value, results=tensor(shape_of(value), kind)))
        self.stored[value] = quantized
        return quantized

    def channels(self, value: SSAValue) -> Channels | None:
        """The channels of a layer's input by the profile."""
        owner = value.owner
        moments = owner.attributes.get(CHANNELS) if isinstance(owner, Operation) else None
        return Channels.of(moments.get_values()) if isinstance(moments, DenseArrayBase) else None  # pyright: ignore

    def means(self, value: SSAValue) -> Array | None:
        """The mean of each channel of a layer's input."""
        channels = self.channels(value)
        return None if channels is None else channels.mean

    def even(self, value: SSAValue) -> tuple[SSAValue, Array] | None:
        """A float layer input with its channels evened out, and the factors its weights take over.

        Integers have one scale already; a float value is about to be rounded, and gets the factors of
        all layers that read it.
        """
        channels, limits = self.channels(value), self.limits(value)
        if value in self.integer or channels is None or limits is None:
            return None
        if value in self.evened:
            return self.evened[value]
        size = np.zeros(len(channels.mean))
        axis: int | None = None
        for op in {use.operation for use in value.uses if use.index == 0}:
            axes = layer_axes(op)
            weights = None if axes is None else self.array(op.operands[1])
            if axes is None or weights is None or op in self.float:
                continue
            axis = axes.channels
            size = np.maximum(size, relative_size(axes, weights, self.options.per_channel))
        most = LARGEST_INPUT_FACTOR if isinstance(value.owner, GetOp) else LARGEST_FACTOR
        factors = even_factors(channels, limits, size, most)
        if factors is None or axis is None:
            return None
        factors = factors.astype(np.float32).astype(np.float64)
        shape = [1] * len(shape_of(value))
        shape[axis] = -1
        inverse = (1 / factors).reshape(shape).astype(np.float32)
        owner = value.owner
        assert isinstance(owner, Operation)
        factor = self.constant(inverse, tensor_of(inverse), "even")
        scaled = Builder.after(owner)(MulOp(value, factor))
        low, high = (np.clip(v, *limits) / factors for v in (channels.low, channels.high))
        self.kinds[scaled] = self.options.schema.type_of(float(low.min()), float(high.max()))
        self.evened[value] = (scaled, factors)
        return self.evened[value]

    def weight(self, array: Array, kind: UniformQuantizedType, hint: str) -> SSAValue:
        """A constant of stored integers, read at the start of the function."""
        stored = quantize_array(array.astype(np.float64), kind)
        return self.constant(stored, tensor(array.shape, kind), hint)

    def constant(self, array: Array, kind: Tensor, hint: str) -> SSAValue:
        """A constant of the module, read at the start of the function."""
        get = GetOp.of(self.symbols.add(array.astype(dtype_of(kind)), kind, f"{hint}_q"))
        block = self.function.body.block
        first = block.first_op
        assert first is not None
        block.insert_op_before(get, first)
        return get.result

    def bias(self, array: Array, units: Array, hint: str) -> SSAValue:
        """A bias as i32 in `units` (one or one a channel), rounded to fewer bits where asked for."""
        real = array.astype(np.float64)
        if self.options.bias < 32:
            step = max(float(np.abs(real).max(initial=0)), 1e-30) / (2 ** (self.options.bias - 1) - 1)
            real = np.rint(real / step) * step
        stored = np.clip(np.rint(real / units), -(2**31), 2**31 - 1)
        return self.constant(stored.astype(np.int32), tensor(array.shape, element_type("int32")), hint)

    def all_integer(self, op: Operation) -> bool:
        """Whether every operand that is computed comes from integers already, and one is computed."""
        computed = [v for v in op.operands if self.array(v) is None]
        return bool(computed) and all(v in self.integer for v in computed)


def _limiter(value: SSAValue) -> Operation | None:
    """The relu or clip that alone reads a value: both become one quantised operator."""
    reader = value.get_user_of_unique_use()
    return reader if isinstance(reader, GraphOp) and reader.clamp_limits() is not None else None


def _may_be_on_integers(op: GraphOp) -> bool:
    return op.MOVES_ELEMENTS or op.QUANTIZED is not None


def quantized_form(op: GraphOp, q: Quantizer, b: Builder) -> SSAValue | None:
    """The stored result of an operator on integers; None where it has no such form, or a range is missing."""
    if layer_axes(op) is not None:
        return _layer(op, q, b)
    if len(op.results) != 1 or not _may_be_on_integers(op) or not q.all_integer(op):
        return None
    if op.MOVES_ELEMENTS:
        return _of_one_type(op, q, b)
    kinds, to = [q.kind(v) for v in op.operands], q.result_kind(op.results[0])
    if op.QUANTIZED is None or to is None or any(kind is None for kind in kinds):
        return None
    operands = [q.quantized(v, kind) for v, kind in zip(op.operands, kinds, strict=True) if kind is not None]
    result = tensor(shape_of(op.results[0]), to)
    return b(op.QUANTIZED(*operands, results=result, **plain_properties(op)))


def _of_one_type(op: GraphOp, q: Quantizer, b: Builder) -> SSAValue | None:
    """The same operator on stored integers of one type, that of the result: concat, max."""
    to = q.kind(op.results[0])
    if to is None:
        return None
    result = tensor(shape_of(op.results[0]), to)
    operands = [q.quantized(v, to) for v in op.operands]
    return b(type(op).create(operands=operands, result_types=[result], properties=dict(op.properties)))


def _layer(op: GraphOp, q: Quantizer, b: Builder) -> SSAValue | None:
    """Input by its range, weights by their values, bias in units of both scales."""
    axes, quantized = op.layer_axes(), op.QUANTIZED
    assert axes is not None and quantized is not None
    x, w = op.operands[0], op.operands[1]
    source, to, weights = q.kind(x), q.result_kind(op.results[0]), q.array(w)
    if source is None or to is None or weights is None or not np.isfinite(weights).all():
        return None
    means = q.means(x)
    even = q.even(x)
    if even is not None:
        x, factors = even
        source = q.kind(x)
        assert source is not None
        weights = weights * axes.beside_weights(factors, weights).astype(np.float32)
        means = None if means is None else means / factors
    biases = bias_of(op)
    arrays = [a for v in biases if (a := q.array(v)) is not None and np.isfinite(a).all()]
    if len(arrays) != len(biases):
        return None
    # Channels of tiny weights have coarser ones, or 32 bits would not hold their bias.
    least = np.abs(arrays[0]).astype(np.float64) / (scale_of(source) * LARGEST_BIAS) if arrays else 0.0
    outputs = axes.outputs % weights.ndim
    kind = symmetric_type(weights, outputs if q.options.per_channel else -1, least=least)
    units = kind.scale_array * scale_of(source)
    stored = quantize_array(weights.astype(np.float64), kind)
    real_bias = arrays[0].astype(np.float64) if arrays else np.zeros(weights.shape[outputs])
    if means is not None:
        # Rounding the weights moves the mean of each output; the bias makes up for it.
        lost = (weights - dequantize_array(stored, kind)) * axes.beside_weights(means, weights)
        others = tuple(i for i in range(weights.ndim) if i != outputs)
        real_bias = real_bias + lost.sum(axis=others)
    bias = None
    if arrays or means is not None:
        bias = q.bias(real_bias, units, (biases[0].name_hint if biases else None) or "bias")
    integers = q.constant(stored, tensor(weights.shape, kind), w.name_hint or "weights")
    result = tensor(shape_of(op.results[0]), to)
    return b(quantized(q.quantized(x, source), integers, bias, results=result, **plain_properties(op)))


@dataclass(frozen=True)
class QuantizePass(GraphPass):
    """Quantise nodes with ranges (glow-apply-profile), except operators and values in `keep`.

    schema: asymmetric, symmetric, symmetric_uint8, symmetric_power2. precision: int8, int16 (of
    activations; weights have 8 bits). bias: int32, int16, int8. everything: also layers of little
    arithmetic (light_layers.py) and those that cost much (costly_layers.py), which stay float otherwise.
    grouped_products, tiled_outputs, light_part: what integers gain on the target, see IntegerGains.
    """

    name = "glow-quantize"
    schema: str = "asymmetric"
    precision: str = "int8"
    per_channel: bool = True
    bias: str = "int32"
    keep: tuple[str, ...] = ()
    everything: bool = False
    grouped_products: int = IntegerGains.grouped_products
    tiled_outputs: int = IntegerGains.tiled_outputs
    light_part: float = IntegerGains.light_part

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.bias not in BIASES:
            known = ", ".join(BIASES)
            raise QuantizationError(f"unknown bias precision '{self.bias}'; there are: {known}")
        schema = Schema.of(self.schema, self.precision)
        gains = IntegerGains(self.grouped_products, self.tiled_outputs, self.light_part)
        options = Options(schema, self.per_channel, BIASES[self.bias], self.keep, self.everything, gains)
        for function in functions(op):
            Quantizer(op, function, options).run()
        Symbols(op).sweep()
