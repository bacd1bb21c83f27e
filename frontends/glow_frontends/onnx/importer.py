"""import_model: an ONNX model with bound shapes becomes a module of the `glow` dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import ModelProto, ValueInfoProto
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue

from glow_dialects.core.errors import GlowError, ImportProblems, Problem, ShapeError
from glow_dialects.core.types import Array, tensor
from glow_dialects.ops.module import FuncOp, GetOp, PlaceholderOp, SaveOp
from glow_frontends.onnx.emitter import Emitter, check_size
from glow_frontends.onnx.errors import RuleError
from glow_frontends.onnx.model import domain_of, initialized, load, opened, opsets, runtime_inputs, sort_nodes
from glow_frontends.onnx.node import MAX_NODES
from glow_frontends.onnx.scope import Blocked, Scope, Session
from glow_frontends.onnx.tensors import numpy_type
from glow_frontends.onnx.values import BoundedValue, HostValue, MapValue, NoneValue, SequenceValue, Value

#: Placeholders carry the model's name of the tensor where it could not be the symbol.
NAME_ATTRIBUTE = "onnx.name"


def import_model(
    model: ModelProto | str | Path,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Array] | None = None,
    path: str | Path | None = None,
    training: bool = False,
    control: bool = False,
    unroll: int = MAX_NODES,
    verify: bool = True,
) -> ModuleOp:
    """The module of an ONNX model: function `main`, placeholders for inputs and outputs.

    `shapes` binds symbolic input shapes by input name, `values` makes inputs known constants
    (inputs that decide shapes, axes or branches). An input with a default value, an initializer of its
    name, is a constant unless one of them names it. `path` says where a ModelProto was read from.
    With `control` branches and loops that run-time data decide, and long loops, become `glow.if` and
    `glow.loop`. Without it, loops that make up to `unroll` nodes are written out.
    With `training` dropout stays in the graph, which inference does without. Operators are checked as
    they are made; `verify` checks the module once more as a whole.
    Raises ImportProblems with every problem of the model, ShapeError where a dimension is unbound,
    GlowError where a file is no model.
    """
    if not isinstance(model, ModelProto):
        path, model = model, load(Path(model))
    folder, source = (None, "model") if path is None else (Path(path).parent, str(path))
    model = opened(model, {*(shapes or ()), *(values or ())})
    importing = _Import(model, source, folder, training, control, unroll)
    module = importing.run(dict(shapes or {}), dict(values or {}))
    if verify:
        module.verify()
    return module


class NotStatic(ImportProblems):
    """The model is sound, but no one static graph: run-time data decide shapes, or values are no tensors."""


class _Import:
    """One import: the module under construction and the model's names."""

    def __init__(
        self,
        model: ModelProto,
        source: str,
        folder: Path | None,
        training: bool = False,
        control: bool = False,
        unroll: int = MAX_NODES,
    ) -> None:
        self.model = model
        self.source = source
        self.module = ModuleOp([])
        self.function = FuncOp.of("main")
        self.module.body.block.add_op(self.function)
        self.taken = {"main"}
        self.emitter = Emitter(self.module, self.function, self.taken, training)
        functions = {(domain_of(f.domain), f.name, f.overload): f for f in getattr(model, "functions", ())}
        self.session = Session(self.emitter, source, folder, functions, control=control, unroll=unroll)
        self.scope = Scope(self.session, {"": 1, **opsets(model.opset_import)})

    def run(self, shapes: dict[str, Sequence[int]], values: dict[str, Array]) -> ModuleOp:
        """Inputs, nodes, outputs."""
        self._reserve()
        self._inputs(shapes, values)
        try:
            self.scope.add_initializers(self.model.graph)
            nodes = sort_nodes(self.model.graph.node, self.source)
        except ImportProblems:
            raise
        except (GlowError, RuleError) as error:
            raise ImportProblems(self.source, [str(error)]) from None
        self.scope.run(nodes)
        self._outputs()
        problems = self.session.problems
        if problems:
            static = len(problems) > self.session.needs
            raise (ImportProblems if static else NotStatic)(self.source, problems)
        return self.module

    # --- inputs ------------------------------------------------------------------------------
    def _reserve(self) -> None:
        """Keep the names of inputs and outputs for their placeholders."""
        for info in [*runtime_inputs(self.model), *self.model.graph.output]:
            self.taken.add(info.name)

    def _inputs(self, shapes: dict[str, Sequence[int]], values: dict[str, Array]) -> None:
        inputs = runtime_inputs(self.model)
        names = [i.name for i in inputs]
        unknown = sorted((set(shapes) | set(values)) - set(names))
        if unknown:
            known = unknown[0] in initialized(self.model)
            what = "; it is a constant that graph.input does not list" if known else ""
            raise ShapeError(f"{self.source}: no input '{unknown[0]}'{what}; inputs are {', '.join(names)}")
        if len(set(names)) < len(names):
            raise ImportProblems(self.source, ["two inputs have one name"])
        bound = bind_shapes(inputs, {**shapes, **{n: v.shape for n, v in values.items()}}, self.source)
        for info in inputs:
            dims, dtype = bound[info.name]
            placeholder = self._placeholder(info.name, info.name, tensor(dims, dtype), "input")
            if info.name in values:
                array = values[info.name]
                if array.dtype != dtype:
                    raise ShapeError(f"{self.source}: input '{info.name}' is {dtype}, not {array.dtype}")
                self.scope.values[info.name] = array
                self.emitter.name(array, info.name)
                continue
            read = self.emitter.builder.insert(GetOp.of(placeholder))
            self.scope.values[info.name] = read.result

    def _placeholder(self, symbol: str, name: str, kind: object, role: str) -> PlaceholderOp:
        op = PlaceholderOp.of(symbol, kind, role)  # pyright: ignore[reportArgumentType]
        if symbol != name:
            op.attributes[NAME_ATTRIBUTE] = StringAttr(name)
        self.module.body.block.insert_op_before(op, self.function)
        return op

    # --- outputs -----------------------------------------------------------------------------
    def _outputs(self) -> None:
        used = {i.name for i in runtime_inputs(self.model)}
        for info in self.model.graph.output:
            try:
                entry = self.scope.find(info.name)
            except RuleError:
                self._problem(info.name, "the output is not computed by any node")
                continue
            if isinstance(entry, Blocked):
                continue
            if isinstance(entry, BoundedValue):
                self.session.needs += 1
                self._problem(info.name, "the shape of the output depends on run-time data")
                continue
            if isinstance(entry, SequenceValue | NoneValue | HostValue | MapValue):
                self.session.needs += 1
                self._problem(info.name, "the output is a sequence or an optional, not a tensor")
                continue
            symbol = info.name
            if symbol in used:
                symbol = self.emitter.unique(f"{info.name}_out")
            used.add(symbol)
            self._save(symbol, info.name, entry)

    def _save(self, symbol: str, name: str, value: Value) -> None:
        if isinstance(value, np.ndarray) and value.dtype == object:
            self.session.needs += 1
            self._problem(name, "the output holds strings")
            return
        result = self.emitter.value(value)
        assert isinstance(result, SSAValue)
        placeholder = self._placeholder(symbol, name, result.type, "output")
        self.emitter.builder.insert(SaveOp.of(result, placeholder))

    def _problem(self, name: str, reason: str) -> None:
        self.session.problems.append(Problem(name, "graph output", self.scope.opsets[""], reason))


def bind_shapes(
    inputs: Sequence[ValueInfoProto], shapes: Mapping[str, Sequence[int]], source: str
) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Static shape and dtype of each input; a dimension bound once holds wherever its symbol stands.

    Raises ShapeError with all unbound inputs and all contradictions.
    """
    symbols: dict[str, int] = {}
    errors: list[str] = []
    for info in inputs:
        given = shapes.get(info.name)
        dims = info.type.tensor_type.shape.dim
        if given is not None and info.type.tensor_type.HasField("shape") and len(dims) == len(given):
            for dim, size in zip(dims, given, strict=True):
                if dim.dim_param:
                    symbols.setdefault(dim.dim_param, int(size))
    out: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
    for info in inputs:
        try:
            out[info.name] = _bind(info, shapes.get(info.name), symbols)
            check_size(out[info.name][0])
        except (ShapeError, RuleError, GlowError) as error:
            errors.append(str(error))
    if errors:
        raise ShapeError(f"{source}: " + "; ".join(errors))
    return out


def _bind(
    info: ValueInfoProto, given: Sequence[int] | None, symbols: Mapping[str, int]
) -> tuple[tuple[int, ...], np.dtype]:
    name = info.name
    if info.type.WhichOneof("value") != "tensor_type":
        raise ShapeError(f"input '{name}' is not a tensor")
    kind = info.type.tensor_type
    dtype = numpy_type(kind.elem_type)
    if dtype == object:
        raise ShapeError(f"input '{name}' holds strings")
    declared = list(kind.shape.dim) if kind.HasField("shape") else None
    if declared is None:
        if given is None:
            raise ShapeError(f"input '{name}' has no shape; bind it, for example {name}=1x3x224x224")
        return tuple(int(g) for g in given), dtype
    text = "x".join(str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in declared)
    if given is not None and len(given) != len(declared):
        raise ShapeError(f"input '{name}' is {text}, bound with {len(given)} dimensions")
    dims: list[int] = []
    for index, dim in enumerate(declared):
        fixed = dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None
        size = int(given[index]) if given is not None else fixed
        if size is None:
            size = symbols.get(dim.dim_param)
        if size is None:
            raise ShapeError(f"input '{name}' is {text}: dimension {index} is unbound")
        if fixed is not None and size != fixed:
            raise ShapeError(f"input '{name}' is {text}: dimension {index} cannot be {size}")
        dims.append(size)
    return tuple(dims), dtype
