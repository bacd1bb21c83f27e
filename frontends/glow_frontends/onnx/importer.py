"""import_model: an ONNX model with bound shapes becomes a module of the `glow` dialect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, ValueInfoProto
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_dialects.core.errors import GlowError, ImportProblems, NotStatic, Problem, ShapeError
from glow_dialects.core.extent import is_open
from glow_dialects.core.extent import size as whole
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.location import UNKNOWN, is_unknown, node_location
from glow_dialects.core.symbols import Symbols, parse_size
from glow_dialects.core.types import Array, Tensor, dtype_of, tensor, typed
from glow_dialects.ops.module import FuncOp, SaveOp
from glow_frontends.graph import BoundedValue, Emitter, RuleError, Value
from glow_frontends.graph.module import check_size
from glow_frontends.onnx.model import domain_of, initialized, load, opened, opsets, runtime_inputs, sort_nodes
from glow_frontends.onnx.scope import Blocked, Scope, Session, initializers
from glow_frontends.onnx.signature import size_name
from glow_frontends.onnx.tensors import numpy_type
from glow_frontends.onnx.values import AnyValue


def import_model(
    model: ModelProto | str | Path,
    shapes: Mapping[str, Sequence[int] | int] | None = None,
    values: Mapping[str, Array] | None = None,
    path: str | Path | None = None,
    training: bool = False,
    control: bool = False,
    verify: bool = True,
    sizes: Symbols | None = None,
) -> ModuleOp:
    """The module of an ONNX model: function `main`, placeholders for inputs and outputs.

    `shapes` binds symbolic shapes by input name, or sizes by the dimension's; `values` makes inputs known
    constants (inputs that decide shapes, axes or branches). An input with a default value, an initializer of
    its name, is a constant unless one of them names it. `path` says where a ModelProto was read from.
    With `control` branches and loops that run-time data decide, and long loops, become `glow.if` and
    `glow.loop`. Dimensions that nothing binds become symbols of `sizes`.
    With `training` dropout stays in the graph, which inference does without. Operators are
    checked as they are made; `verify` checks the module once more as a whole.
    Raises ImportProblems with every problem of the model, ShapeError where a dimension is unbound,
    GlowError where a file is no model.
    """
    if not isinstance(model, ModelProto):
        path, model = model, load(Path(model))
    model = opened(model, {*(shapes or ()), *(values or ())})
    source = Source.of(model, "model" if path is None else str(path), None if path is None else Path(path))
    inputs = bound_inputs(model, shapes or {}, values or {}, source.name, sizes)
    reserved = {*inputs, *(o.name for o in model.graph.output)}
    importing = Import(source, reserved, training, control, symbols=sizes)
    for name, kind in inputs.items():
        importing.input(name, kind, (values or {}).get(name))
    importing.define(weights_of(model.graph, source))
    importing.scope.run(sort_nodes(model.graph.node, source.name))
    importing.outputs([o.name for o in model.graph.output], inputs)
    problems = importing.session.problems
    if problems:
        static = len(problems) > importing.session.needs
        raise (ImportProblems if static else NotStatic)(source.name, problems)
    return importing.emitter.finished(verify)


@dataclass(frozen=True)
class Source:
    """The facts of one model for all imports: its name in messages, folder, functions, domain versions."""

    name: str
    folder: Path | None
    functions: dict[tuple[str, str, str], FunctionProto]
    opsets: dict[str, int]

    @staticmethod
    def of(model: ModelProto, name: str, path: Path | None) -> Source:
        """That of a model, and of the file that it was read from."""
        functions = {(domain_of(f.domain), f.name, f.overload): f for f in model.functions}
        folder = None if path is None else path.parent
        return Source(name, folder, functions, {"": 1, **opsets(model.opset_import)})


class Import:
    """One import: the module under construction, its ports, and the scope that holds its values."""

    def __init__(
        self,
        source: Source,
        reserved: Iterable[str] = (),
        training: bool = False,
        control: bool = False,
        function: FuncOp | None = None,
        symbols: Symbols | None = None,
    ) -> None:
        self.emitter = Emitter(function or "main", source.name, reserved, symbols, training)
        self.session = Session(self.emitter, source.name, source.folder, source.functions, control=control)
        self.scope = Scope(self.session, source.opsets)

    def again(self, source: Source) -> Import:
        """Another import, into the same module where that is still empty."""
        block, function = self.emitter.module.body.block, self.emitter.function
        empty = block.first_op is block.last_op and function.body.block.is_empty
        return Import(source, function=function if empty else None)

    def define(self, weights: Mapping[str, Array]) -> None:
        """Values that are known."""
        for name, array in weights.items():
            self.scope.values[name] = array
            self.emitter.name(array, name)

    def input(self, name: str, kind: Tensor, known: Array | None = None) -> None:
        """An input of the graph, of which the contents may be `known`: objects where they are open sizes."""
        port = self.emitter.port(name, kind)
        if known is None:
            self.scope.values[name] = self.emitter.read(port)
        elif known.dtype == object and dtype_of(kind) != object:
            self.scope.values[name] = self.emitter.sizes(known, dtype_of(kind))
        else:
            self.define({name: known})

    def save(self, symbol: str, name: str, value: Value) -> None:
        """Make a value an output of the module."""
        result = self.emitter.value(value)
        saved = SaveOp.of(result, self.emitter.port(name, typed(result), "output", symbol=symbol))
        made = result.owner.location if isinstance(result.owner, GraphOp) else UNKNOWN
        saved.location = node_location(name) if is_unknown(made) else made
        self.emitter.builder.insert(saved)

    def outputs(self, names: Iterable[str], inputs: Iterable[str]) -> None:
        """The outputs of the graph, all tensors; `inputs` have symbols already."""
        used = set(inputs)
        for name in names:
            try:
                entry = self.scope.find(name)
            except RuleError:
                self.problem(name, "the output is not computed by any node")
                continue
            if isinstance(entry, Blocked):
                continue
            reason = not_tensor(entry)
            if reason:
                self.session.needs += 1
                self.problem(name, reason)
                continue
            symbol = self.emitter.unique(f"{name}_out") if name in used else name
            used.add(symbol)
            self.save(symbol, name, cast(Value, entry))

    def problem(self, name: str, reason: str) -> None:
        """The problem of an output of the graph."""
        self.session.problems.append(Problem(name, "graph output", self.scope.opsets[""], reason))


def not_tensor(value: AnyValue) -> str:
    """Why a value cannot be an output of a static graph; "" where it can."""
    if isinstance(value, BoundedValue):
        return "the shape of the output depends on run-time data"
    if not isinstance(value, np.ndarray | SSAValue):
        return "the output is a sequence or an optional, not a tensor"
    return "the output holds strings" if isinstance(value, np.ndarray) and value.dtype == object else ""


def weights_of(graph: GraphProto, source: Source) -> dict[str, Array]:
    """The initializers of a model's graph; ImportProblems where one is unsound."""
    try:
        return dict(initializers(graph, source.folder))
    except ImportProblems:
        raise
    except (GlowError, RuleError) as error:
        raise ImportProblems(source.name, [str(error)]) from None


def bound_inputs(
    model: ModelProto,
    shapes: Mapping[str, Sequence[int] | int],
    values: Mapping[str, Array],
    source: str,
    sizes: Symbols | None = None,
) -> dict[str, Tensor]:
    """The types of the inputs by name, for shapes and contents that a caller binds.

    Raises ShapeError for inputs that the model has not, and as `bind_shapes` does.
    """
    inputs = runtime_inputs(model)
    names = [i.name for i in inputs]
    dimensions = {size_name(d) for i in inputs for d in i.type.tensor_type.shape.dim}
    unknown = sorted((set(shapes) | set(values)) - set(names) - dimensions)
    if unknown:
        known = unknown[0] in initialized(model)
        hint = "; it is a constant that graph.input does not list" if known else ""
        raise ShapeError(f"{source}: no input '{unknown[0]}'{hint}; inputs are {', '.join(names)}")
    if len(set(names)) < len(names):
        raise ImportProblems(source, ["two inputs have one name"])
    bound = bind_shapes(inputs, {**shapes, **{n: v.shape for n, v in values.items()}}, source, sizes)
    for name, array in values.items():
        if array.dtype not in (bound[name][1], object):
            raise ShapeError(f"{source}: input '{name}' is {bound[name][1]}, not {array.dtype}")
    return {name: tensor(dims, dtype) for name, (dims, dtype) in bound.items()}


def bind_shapes(
    inputs: Sequence[ValueInfoProto],
    shapes: Mapping[str, Sequence[int] | int],
    source: str,
    opened: Symbols | None = None,
) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Shape and dtype of each input; a dimension bound once, by its name too, holds where its symbol stands.

    Others are open: symbols of `opened`, where it is given.

    Raises ShapeError with all unbound inputs and all contradictions.
    """
    symbols: dict[str, int] = {}
    errors: list[str] = []
    names = {info.name for info in inputs}
    full: dict[str, Sequence[int]] = {}
    for name, size in shapes.items():
        if name not in names:
            symbols[name] = whole(size if isinstance(size, int) else size[0])
        elif isinstance(size, int):
            errors.append(f"input '{name}' is bound with {size}, not with a shape")
        else:
            full[name] = size
    for info in inputs:
        sizes = full.get(info.name)
        dims = info.type.tensor_type.shape.dim
        if sizes is not None and info.type.tensor_type.HasField("shape") and len(dims) == len(sizes):
            for dim, size in zip(dims, sizes, strict=True):
                if size_name(dim):
                    symbols.setdefault(size_name(dim), whole(size))
    out: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
    for info in inputs:
        try:
            out[info.name] = _bind(info, full.get(info.name), symbols, opened)
            if not is_open(out[info.name][0]):
                check_size(out[info.name][0])
        except (ShapeError, RuleError, GlowError) as error:
            errors.append(str(error))
    if errors:
        raise ShapeError(f"{source}: " + "; ".join(errors))
    return out


def _bind(
    info: ValueInfoProto,
    sizes: Sequence[int] | None,
    symbols: Mapping[str, int],
    opened: Symbols | None,
) -> tuple[tuple[int, ...], np.dtype]:
    name = info.name
    if info.type.WhichOneof("value") != "tensor_type":
        raise ShapeError(f"input '{name}' is not a tensor")
    kind = info.type.tensor_type
    dtype = numpy_type(kind.elem_type)
    if dtype == object:
        raise ShapeError(f"input '{name}' contains strings")
    declared = list(kind.shape.dim) if kind.HasField("shape") else None
    if declared is None:
        if sizes is None:
            raise ShapeError(f"input '{name}' has no shape; bind it, for example {name}=1x3x224x224")
        return tuple(map(whole, sizes)), dtype
    text = "x".join(str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in declared)
    if sizes is not None and len(sizes) != len(declared):
        raise ShapeError(f"input '{name}' is {text}, bound with {len(sizes)} dimensions")
    dims: list[int] = []
    for index, dim in enumerate(declared):
        fixed = dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None
        size = whole(sizes[index]) if sizes is not None else fixed
        if size is None:
            size = symbols.get(size_name(dim))
        if size is None and opened is not None:
            size = _open_size(size_name(dim) or f"{name}.{index}", opened)
        if size is None:
            raise ShapeError(f"input '{name}' is {text}: dimension {index} is unbound")
        if fixed is not None and size != fixed:
            raise ShapeError(f"input '{name}' is {text}: dimension {index} cannot be {size}")
        dims.append(size)
    return tuple(dims), dtype


def _open_size(text: str, sizes: Symbols) -> int:
    """A size that is open: what its text says of sizes that there are, else one of this name."""
    known = {s.name for s in sizes.conditions.symbols}

    def named(name: str) -> int:
        if name not in known:
            raise ShapeError(name)
        return sizes.named(name)

    try:
        return parse_size(text, named)
    except ShapeError:
        return sizes.named(text)
