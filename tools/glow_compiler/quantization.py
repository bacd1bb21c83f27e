"""Quantisation of a model in one call: profile, calibrate, convert to integers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any, SupportsFloat

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from glow_backends.base import get_backend, public_name
from glow_compiler.api import compile, load_graph
from glow_compiler.index_inputs import inside, sizes_of_tables
from glow_compiler.rounding import BATCHES, losses
from glow_dialects.core.errors import ImportProblems, NotStatic, OpenSizes, ShapeError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.plain_arrays import as_plain
from glow_dialects.core.types import Array
from glow_dialects.dialects import context
from glow_dialects.ops import operators
from glow_dialects.ops.module import functions, placeholders
from glow_passes.graph import OPTIMIZE
from glow_passes.graph.bind_sizes import check_open, sizes_of, symbols_of
from glow_passes.graph.cse import CsePass
from glow_passes.graph.dce import DcePass
from glow_passes.quantize.apply_profile import ATTRIBUTE, CHANNELS, LOSS, annotate
from glow_passes.quantize.calibration import CALIBRATIONS
from glow_passes.quantize.convert_floats import TYPES as FLOATS
from glow_passes.quantize.convert_floats import ConvertFloatsPass
from glow_passes.quantize.fold_conversions import FoldConversionsPass
from glow_passes.quantize.histogram import plausible
from glow_passes.quantize.instrument import PREFIX, instrument
from glow_passes.quantize.profile import Profile, observed, value_names
from glow_passes.quantize.quantize import QuantizePass
from glow_passes.quantize.quantize_dynamic import QuantizeDynamicPass
from glow_passes.quantize.schema import QuantizationError, Schema, check_choice
from glow_passes.tables import table

__all__ = (
    "Layer",
    "Profile",
    "QuantizationError",
    "QuantizationWarning",
    "QuantizeOptions",
    "Report",
    "convert_floats",
    "profile",
    "quantize",
    "quantize_dynamic",
    "report",
    "tune",
)

Feed = Mapping[str, Any]
Data = Iterable[Feed]
Progress = Callable[[int], None]


@dataclass(frozen=True)
class QuantizeOptions:
    """The options of `quantize`; see there."""

    schema: str = "asymmetric"
    precision: str = "int8"
    calibration: str = "none"
    per_channel: bool = True
    bias: str = "int32"
    keep: tuple[str, ...] = ()
    everything: bool = False

    def check(self) -> Schema:
        """The schema; raises QuantizationError for unknown names."""
        check_choice("calibration", self.calibration, tuple(CALIBRATIONS))
        return Schema.of(self.schema, self.precision)


def prepared(
    model: Any, shapes: Mapping[str, Sequence[int]] | None = None, feed: Feed | None = None
) -> ModuleOp:
    """The optimised graph that profiles are taken of and that is quantised.

    Sizes that neither the model nor `shapes` fixes stay open; what depends on sizes is decided for those
    of `feed`. Where run-time numbers decide about an ONNX model's graph, such as the sampling rate of
    audio, it is the graph for the single integers in `feed`.
    """
    usual = {name: np.shape(value) for name, value in (feed or {}).items()}
    return _optimized(model, shapes, usual, feed or {})


def _optimized(
    model: Any,
    shapes: Mapping[str, Sequence[int]] | None,
    usual: Mapping[str, Sequence[int]],
    feed: Feed,
) -> ModuleOp:
    module = opened(model, shapes, usual, feed).clone()
    try:
        run_passes(module, OPTIMIZE)
        check_open(module)
    except OpenSizes:
        return _optimized(model, usual, usual, feed)
    return module


def opened(
    model: Any,
    shapes: Mapping[str, Sequence[int]] | None,
    usual: Mapping[str, Sequence[int]],
    feed: Feed,
) -> ModuleOp:
    """The graph of a model, for its `usual` shapes where it has no form for open ones and `shapes` gives
    none, and for the single integers in `feed` where such decide about it.
    """
    try:
        module = load_graph(model, shapes)
    except NotStatic:
        numbers = {name: np.asarray(feed[name]) for name in numbers_of(feed)}
        if not numbers:
            raise
        from glow_frontends.onnx import import_model

        return import_model(model, shapes=dict(shapes or usual), values=numbers)
    except (ShapeError, ImportProblems, OpenSizes):
        if shapes or not usual:
            raise
        return opened(model, usual, {}, feed)
    conditions = symbols_of(module)
    inputs = {public_name(p): n for n, p in placeholders(module).items() if p.kind.data == "input"}
    if conditions is not None and not shapes and inputs.keys() <= usual.keys():
        for symbol, size in sizes_of(module, {inputs[n]: usual[n] for n in inputs}).items():
            symbol.usual = size
    return module


def numbers_of(feed: Feed) -> dict[str, int]:
    """The single integers among the inputs."""
    arrays = {name: np.asarray(value) for name, value in feed.items()}
    return {name: int(a.item()) for name, a in arrays.items() if a.size == 1 and a.dtype.kind in "iub"}


def run_passes(module: ModuleOp, passes: Sequence[ModulePass], ctx: Context | None = None) -> None:
    """Apply passes one after the other."""
    ctx = ctx or context()
    for item in passes:
        item.apply(ctx, module)


def profile(
    model: Any,
    data: Data,
    backend: str = "cpu",
    shapes: Mapping[str, Sequence[int]] | None = None,
    progress: Progress | None = None,
) -> Profile:
    """Run a model on data and record the range and histogram of every value.

    Args:
        model: A model in any form that `load` accepts.
        data: Dicts of inputs, one per batch.
        backend: Where the model runs.
        shapes: Fixes dynamic dimensions.
        progress: A function that is called with the number of batches done.

    Returns:
        A Profile, for `quantize`.

    Raises:
        QuantizationError: There are no data, or a value is never a number.

    Examples:
        >>> g = glow.GraphBuilder()
        >>> w = g.constant(np.ones((4, 3), np.float32), "w")
        >>> g.save(g.matmul(g.placeholder("x", (2, 4)), w), "y")
        >>> record = glow.profile(g, [{"x": np.ones((2, 4), np.float32)}])
    """
    batches = checked(data)
    first = next(batches, None)
    if first is None:
        raise QuantizationError("the calibration data is empty: no batch was given")
    module = prepared(model, shapes, first)
    ranges = profile_prepared(module, chain([first], batches), backend, progress)
    ranges.shapes = {name: np.shape(value) for name, value in first.items()}
    ranges.numbers = numbers_of(first)
    return ranges


def checked(data: Data) -> Iterator[Feed]:
    """The batches of calibration data, without absurd outliers, of which it warns.

    One number of 1e30 among ordinary ones would leave no integers for the others, here and behind
    every operator. Raises QuantizationError where a batch is no dict.
    """
    if isinstance(data, Mapping) or not isinstance(data, Iterable):  # pyright: ignore
        raise QuantizationError(f"the data is a {type(data).__name__}, expected a list of dicts of inputs")
    for number, feed in enumerate(data):
        if not isinstance(feed, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            kind = type(feed).__name__
            raise QuantizationError(f"batch {number} of the data is a {kind}, expected a dict of inputs")
        checked_feed: dict[str, Any] = {}
        for name, value in feed.items():
            array = as_plain(f"input '{name}'", value)
            usual, count = plausible(array) if array.dtype.kind == "f" else (value, 0)
            if count:
                what = f"{count} of {array.size} numbers of input '{name}' in batch {number}"
                message = f"{what} are out of all proportion to the others and were saturated"
                warnings.warn(message, QuantizationWarning, stacklevel=2)
            checked_feed[name] = usual.astype(array.dtype) if count else value
        yield checked_feed


class QuantizationWarning(UserWarning):
    """Calibration data that was changed before it was used."""


def profile_prepared(
    module: ModuleOp, data: Data, backend: str = "cpu", progress: Progress | None = None
) -> Profile:
    """The profile of an optimised module."""
    recorded = Profile.of(module)
    first: list[Feed] = []
    data = _remembered(inside(data, sizes_of_tables(module)), first)
    for number, values in enumerate(run_instrumented(module, data, backend)):
        recorded.add(values)
        if progress is not None:
            progress(number + 1)
    recorded.check_data()
    recorded.losses = losses(module, recorded, first, backend)
    return recorded


def _remembered(data: Data, first: list[Feed]) -> Iterator[Feed]:
    """The data; copies of the first batches go to `first`."""
    for feed in data:
        if len(first) < BATCHES:
            first.append({name: np.array(value) for name, value in feed.items()})
        yield feed


def run_instrumented(module: ModuleOp, data: Data, backend: str) -> Iterable[dict[str, Array]]:
    """The observed values of each run, by name."""
    watched = module.clone()
    for function in list(functions(watched)):
        instrument(watched, function)
    net = compile(watched, backend=backend)
    for feed in data:
        out = net.run(feed)
        yield {n.removeprefix(PREFIX): a for n, a in out.items() if n.startswith(PREFIX)}


def quantize(
    model: Any,
    data: Data | Profile | str | Path,
    schema: str = "asymmetric",
    precision: str = "int8",
    calibration: str = "none",
    per_channel: bool = True,
    *,
    bias: str = "int32",
    keep: Sequence[str] = (),
    everything: bool = False,
    shapes: Mapping[str, Sequence[int]] | None = None,
    backend: str = "cpu",
) -> ModuleOp:
    """Quantise a model to integers. Inputs and outputs stay in float.

    Args:
        model: A model in any form that `load` accepts.
        data: Calibration data (dicts of inputs, one per batch), a Profile, or the path of one.
        schema: How a range becomes integers: "asymmetric", "symmetric", "symmetric_uint8",
            "symmetric_power2".
        precision: "int8" or "int16" activations (weights have 8 bits), or "f16", "bf16": see
            `convert_floats`.
        calibration: How a range is chosen: "none", "kl", "percentile", "mse".
        per_channel: One scale per output channel of weights.
        bias: "int32", "int16" or "int8".
        keep: Names of operators or values that stay in float.
        everything: Also quantise layers that hardly become faster, such as depthwise convolutions.
        shapes: Fixes dynamic dimensions.
        backend: Where the model runs on the data.

    Returns:
        A module for `compile` and `save`.

    Raises:
        QuantizationError: The data or an option is wrong.

    Examples:
        >>> g = glow.GraphBuilder()
        >>> w = g.constant(np.ones((4, 3), np.float32), "w")
        >>> g.save(g.matmul(g.placeholder("x", (2, 4)), w), "y")
        >>> module = glow.quantize(g, [{"x": np.ones((2, 4), np.float32)}], everything=True)
        >>> glow.compile(module).run({"x": np.ones((2, 4), np.float32)})["y"].round(1).tolist()
        [[4.0, 4.0, 4.0], [4.0, 4.0, 4.0]]
    """
    names = (keep,) if isinstance(keep, str) else tuple(keep)
    options = QuantizeOptions(schema, precision, calibration, per_channel, bias, names, everything)
    if precision in FLOATS:
        return convert_floats(model, precision, keep=names, shapes=shapes)
    options.check()
    if isinstance(data, str | Path):
        data = Profile.load(data)
    if isinstance(data, Profile):
        module = _optimized(model, shapes, data.shapes, data.numbers)
    else:
        batches = checked(data)
        first = next(batches, None)
        feeds = batches if first is None else chain([first], batches)
        data = profile(model, feeds, backend, shapes)
        module = prepared(model, shapes, first)
    try:
        quantize_prepared(module, data, options, backend)
        check_open(module)
    except OpenSizes:
        return quantize(model, data, **asdict(options), shapes=data.shapes, backend=backend)
    return module


def quantize_prepared(
    module: ModuleOp, ranges: Profile, options: QuantizeOptions, backend: str = "cpu"
) -> None:
    """Quantise an optimised module in place by a profile of it."""
    check_names(module, options.keep)
    convert(module, ranges, options, backend)
    run_passes(module, (FoldConversionsPass(), CsePass(), FoldConversionsPass(), DcePass()))
    for function in functions(module):
        for op in function.body.block.ops:
            for name in (ATTRIBUTE, CHANNELS, LOSS):
                op.attributes.pop(name, None)


def check_names(module: ModuleOp, keep: Sequence[str]) -> None:
    """Raise QuantizationError for a name in `keep` that is neither an operator's nor a value's."""
    known = {*operators()}
    for function in functions(module):
        known.update(value_names(function).values())
    for name in keep:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise QuantizationError(f"keep: the graph has no value or operator '{name}'{hint}")


def convert(module: ModuleOp, ranges: Profile, options: QuantizeOptions, backend: str) -> None:
    """Every node an island of its own: integers inside, the float value of each node still there."""
    annotate(module, ranges, options.check(), options.calibration)
    quantizer = QuantizePass(
        options.schema,
        options.precision,
        options.per_channel,
        options.bias,
        options.keep,
        options.everything,
        **asdict(get_backend(backend).integer_gains()),
    )
    run_passes(module, (quantizer,))


@dataclass(frozen=True)
class Layer:
    """How far a quantised value is from the float one: signal-to-noise ratio in decibels."""

    name: str
    op: str
    decibels: float


@dataclass
class Report:
    """Layers of a quantised model, worst first."""

    layers: list[Layer] = field(default_factory=list[Layer])

    def table(self, count: int | None = None) -> str:
        """The worst layers as text."""
        rows = [f"{'dB':>8}  {'operator':24} value"]
        for layer in self.layers[:count]:
            rows.append(f"{layer.decibels:8.2f}  {layer.op:24} {layer.name}")
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        rows = ((layer.name, layer.op, f"{layer.decibels:.1f}") for layer in self.layers)
        return table("Signal over quantisation noise, worst first", ("value", "operator", "dB"), rows)


def report(
    model: Any,
    data: Sequence[Feed],
    ranges: Profile | None = None,
    backend: str = "cpu",
    shapes: Mapping[str, Sequence[int]] | None = None,
    **options: Any,
) -> Report:
    """Signal-to-noise ratio of every computed value against the float model, worst first.

    The quantised model is run node by node on the errors of the nodes before, as it will run.
    """
    if not data:
        raise QuantizationError("the report needs data: no batch was given")
    chosen = QuantizeOptions(**options)
    module = prepared(model, shapes, data[0])
    ranges = ranges or profile_prepared(module, data, backend)
    _name_values(module)
    kinds = _operators(module)
    rounded = module.clone()
    convert(rounded, ranges, chosen, backend)
    signal: dict[str, float] = {}
    noise: dict[str, float] = {}
    pairs = zip(
        run_instrumented(module, data, backend),
        run_instrumented(rounded, data, backend),
        strict=True,
    )
    for want, have in pairs:
        for name, value in want.items():
            if name not in have or name not in kinds:
                continue
            exact = value.astype(np.float64)
            signal[name] = signal.get(name, 0.0) + float(np.sum(exact * exact))
            noise[name] = noise.get(name, 0.0) + float(np.sum((have[name] - exact) ** 2))
    layers = [Layer(name, kinds[name], _decibels(signal[name], noise[name])) for name in signal]
    return Report(sorted(layers, key=lambda layer: layer.decibels))


def _name_values(module: ModuleOp) -> None:
    """Write the names of values down, so that they stay when nodes are inserted."""
    for value, name in value_names(next(functions(module))).items():
        if isinstance(value.owner, GraphOp):
            value.name_hint = name


def _decibels(signal: float, noise: float) -> float:
    if noise == 0:
        return float("inf")
    return 10 * float(np.log10(max(signal, 1e-300) / noise))


def _operators(module: ModuleOp) -> dict[str, str]:
    """The operator of each value worth reporting: computed, and not only half of one with its relu."""
    function = next(functions(module))
    operators: dict[str, str] = {}
    for name, value in observed(function, module).items():
        readers = [use.operation for use in value.uses]
        half = (
            len(readers) == 1 and isinstance(readers[0], GraphOp) and (readers[0].clamp_limits() is not None)
        )
        if isinstance(value.owner, GraphOp) and not half:
            operators[name] = value.owner.name.removeprefix("glow.")
    return operators


def tune(
    model: Any,
    data: Data,
    metric: Callable[[Any], float],
    target: float,
    *,
    backend: str = "cpu",
    limit: int = 32,
    **options: Any,
) -> tuple[ModuleOp, tuple[str, ...], float]:
    """The quantised model with the fewest layers in float whose metric reaches `target`.

    `metric(module)` is larger for better modules. Layers are tried worst first, by doubling and then
    bisection over the report's order. Returns the module, the layers kept in float, and the metric;
    raises QuantizationError where `limit` layers in float are not enough.
    """
    data = list(checked(data))
    ranges = profile(model, data, backend)
    worst = [layer.name for layer in report(model, data, ranges, backend, **options).layers]
    already = tuple(options.pop("keep", ()))
    tried: dict[int, tuple[ModuleOp, float]] = {}

    def attempt(count: int) -> float:
        if count not in tried:
            keep = (*already, *worst[:count])
            module = quantize(model, ranges, keep=keep, **options)
            value: Any = metric(module)
            if not isinstance(value, SupportsFloat):
                raise QuantizationError(f"the metric gave a {type(value).__name__}, expected a number")
            tried[count] = (module, float(value))
        return tried[count][1]

    limit = min(limit, len(worst))
    high = 0
    while not attempt(high) >= target:  # NaN reaches nothing
        if high == limit:
            best = max(value for _, value in tried.values())
            raise QuantizationError(
                f"with {limit} layers in float the metric is {best:.6g} at best, not {target:.6g}"
            )
        high = min(max(1, 2 * high), limit)
    low = high // 2 if high > 1 else 0
    while high - low > 1:
        middle = (low + high) // 2
        if attempt(middle) >= target:
            high = middle
        else:
            low = middle
    module, value = tried[high]
    return module, (*already, *worst[:high]), value


def convert_floats(
    model: Any,
    to: str = "bf16",
    *,
    storage: bool = False,
    keep: Sequence[str] = (),
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> ModuleOp:
    """Convert a model to 16-bit floats. Inputs and outputs stay float32.

    Args:
        model: A model in any form that `load` accepts.
        to: "bf16" or "f16".
        storage: Convert only weights; compute in float32.
        keep: Names of operators or values that stay float32.
        shapes: Fixes dynamic dimensions.

    Returns:
        A module for `compile` and `save`.

    Raises:
        QuantizationError: Another type, or a name that the model does not have.

    Examples:
        >>> g = glow.GraphBuilder()
        >>> w = g.constant(np.ones((4, 3), np.float32), "w")
        >>> g.save(g.matmul(g.placeholder("x", (2, 4)), w), "y")
        >>> net = glow.compile(glow.convert_floats(g, to="f16"))
    """
    module = prepared(model, shapes)
    check_names(module, keep)
    run_passes(module, (ConvertFloatsPass(to, storage, tuple(keep)), CsePass(), DcePass()))
    return module


def quantize_dynamic(model: Any, shapes: Mapping[str, Sequence[int]] | None = None) -> ModuleOp:
    """Quantise products with constant weights to 8 bits, without calibration data.

    Each row of the other operand gets its own scale at run time.

    Args:
        model: A model in any form that `load` accepts.
        shapes: Fixes dynamic dimensions.

    Returns:
        A module for `compile` and `save`.

    Raises:
        GlowError: The model cannot be loaded.

    Examples:
        >>> g = glow.GraphBuilder()
        >>> w = g.constant(np.ones((4, 3), np.float32), "w")
        >>> g.save(g.matmul(g.placeholder("x", (2, 4)), w), "y")
        >>> net = glow.compile(glow.quantize_dynamic(g))
    """
    module = prepared(model, shapes)
    run_passes(module, (QuantizeDynamicPass(), CsePass(), DcePass()))
    return module
