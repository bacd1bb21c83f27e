"""Which import rule, pass, rewrite or kernel makes a model compute something else than it should."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.printer import Printer

from glow_backends.base import Backend
from glow_backends.cpu.backend import CpuBackend
from glow_backends.cpu.calls import CallContext
from glow_backends.cpu.kernel_table import call_for
from glow_backends.interpreter.modules import run_module
from glow_backends.phases import phases
from glow_dialects.core.errors import GlowError
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.location import names
from glow_dialects.instr.memory import CopyOp, DeallocOp, instr_functions
from glow_frontends.onnx import import_model
from glow_frontends.onnx.model import opsets
from glow_frontends.onnx.parts import serialized
from glow_frontends.onnx.rules import find_rule
from glow_passes.changes import Snapshot
from glow_passes.contract import Level, levels_of
from glow_passes.failure import reason
from glow_passes.graph.driver import Applied, Budget, counted
from glow_passes.pipeline import INSTR
from glow_tools.closeness import Tolerance, difference
from glow_tools.context import tool_context
from glow_tools.layers import OnnxLayers, Side, compare, onnx_bytes
from glow_tools.onnxruntime_run import onnxruntime_outputs
from glow_tools.reduce_ir import IrCase, reduced

if TYPE_CHECKING:
    from onnx import ModelProto

    from glow_dialects.core.types import Array
    from glow_tools.input_values import Feed


@dataclass(frozen=True)
class Culprit:
    """What is to blame: `stage` is import, pass, rewrite or kernel, `name` what is wrong in the code."""

    stage: str
    name: str
    #: The node, operation or instructions that show it, and how far the result is off.
    shown: str
    effect: str

    def same(self, other: Culprit | None) -> bool:
        """Whether two searches blame the same."""
        return other is not None and (self.stage, self.name) == (other.stage, other.name)


@dataclass
class Search:
    """How results are made and compared."""

    backend: Backend
    tolerance: Tolerance = field(default_factory=Tolerance)
    #: The passes in place of the backend's.
    passes: Sequence[ModulePass] | None = None

    def differ(self, got: Mapping[str, Array], want: Mapping[str, Array]) -> str:
        """How outputs that both have differ; empty where they do not."""
        for name, value in want.items():
            if name in got and (d := difference(got[name], value, self.tolerance)).bad:
                return f"output '{name}': {d}"
        return ""

    def pipeline(self, module: ModuleOp) -> list[ModulePass]:
        """The passes from the level of a module on."""
        if self.passes is not None:
            return list(self.passes)
        if Level.GRAPH in levels_of(module):
            return [item for _, passes in phases(self.backend) for item in passes]
        return list(INSTR)


def culprit_of_model(model: ModelProto, feed: Feed, search: Search) -> Culprit | None:
    """What is to blame for an ONNX model's results; None where nothing is wrong.

    What onnxruntime makes of it is right; where it is missing or does not run it, the import is.
    """
    import numpy as np

    module = import_model(model, shapes={name: np.shape(value) for name, value in feed.items()})
    try:
        want = onnxruntime_outputs(serialized(model), feed, plain=True)
    except GlowError:
        want = {}
    if search.differ(run_module(module, feed), want):
        return _import(model, feed, search)
    return culprit_of_module(module, feed, search)


def _import(model: ModelProto, feed: Feed, search: Search) -> Culprit:
    """The first node of which the imported graph has another value, and its rule."""
    import numpy as np

    def imported(some: Any, feed: Feed) -> Any:
        return run_module(import_model(some, shapes={n: np.shape(v) for n, v in feed.items()}), feed)

    layers = OnnxLayers(model)
    ours = Side("import", layers, imported)
    theirs = Side("onnxruntime", layers, lambda some, x: onnxruntime_outputs(onnx_bytes(some), x, plain=True))
    found = compare(ours, theirs, feed, search.tolerance)
    layer = found.first
    if layer is None:
        return Culprit("import", "the graph", "no node by itself", "outputs differ")
    node = layers.makers[layer.value]
    rule = find_rule(node.domain, node.op_type, opsets(model.opset_import).get(node.domain, 1))
    name = node.op_type if rule is None else f"{node.op_type}: {_qualified(rule)}"
    return Culprit("import", name, str(layer), str(found.differences[layer]))


def _qualified(function: Any) -> str:
    function = getattr(function, "func", function)
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__name__)}"


def culprit_of_module(module: ModuleOp, feed: Feed, search: Search) -> Culprit | None:
    """What is to blame where a program computes something else than its graph; None where nothing is."""
    want = run_module(module, feed)
    work = module.clone()
    now = Snapshot(work)
    for item in search.pipeline(module):
        before = work.clone()
        wrong = _applied(item, work)
        now = Snapshot(work, now)
        if not wrong and not now.changes():
            continue
        wrong = wrong or _wrong(work, feed, want, search)
        if wrong:
            return _rewrite(item, before, feed, want, search) or Culprit(
                "pass", item.name, "the whole pass", wrong
            )
    return _kernel(work, feed, search) if instr_functions(work) else None


def _applied(item: ModulePass, module: ModuleOp) -> str:
    """Apply a pass; what it raised, if it did."""
    try:
        item.apply(tool_context(), module)
    except Exception as error:  # whatever a wrong pass raises
        return f"{type(error).__name__}: {reason(error)}"
    return ""


def _wrong(module: ModuleOp, feed: Feed, want: Mapping[str, Array], search: Search) -> str:
    """What is wrong with a program: it is not valid, cannot be run, or computes something else."""
    try:
        module.verify()
        return search.differ(run_module(module, feed), want)
    except Exception as error:  # a wrong program may make the interpreter raise anything
        return f"{type(error).__name__}: {reason(error)}"


def _rewrite(
    item: ModulePass, before: ModuleOp, feed: Feed, want: Mapping[str, Array], search: Search
) -> Culprit | None:
    """The rewrite of a pass that makes the result wrong; None where no rewrite is needed for it."""

    def attempt(most: int | None) -> tuple[str, list[Applied]]:
        module = before.clone()
        with counted(Budget(most)) as budget:
            wrong = _applied(item, module)
        return wrong or _wrong(module, feed, want, search), budget.applied

    effect, applied = attempt(None)
    if not applied or attempt(0)[0]:
        return None
    low, high = 0, len(applied)
    while high - low > 1:
        middle = (low + high) // 2
        wrong, some = attempt(middle)
        if wrong:
            high, effect, applied = middle, wrong, some
        else:
            low = middle
    one = applied[high - 1]
    place = f"{one.op} (from {', '.join(one.origin)})" if one.origin else one.op
    return Culprit("rewrite", f"{item.name}: {one.rule}", f"rewrite {high}, of {place}", effect)


def _kernel(module: ModuleOp, feed: Feed, search: Search) -> Culprit | None:
    """The instructions of a planned program that the backend computes otherwise than the interpreter."""

    def wrong(case: IrCase) -> str:
        want = run_module(case.module, case.feed)
        try:
            functions = [f.sym_name.data for f in instr_functions(case.module)]
            got: dict[str, Array] = {}
            for name in functions:
                program = search.backend.compile(case.module.clone(), name)
                outputs = program.run(case.feed)
                got |= outputs if name == "main" else {f"@{name} {n}": a for n, a in outputs.items()}
            return search.differ(got, want)
        except Exception as error:  # whatever a wrong kernel raises
            return f"{type(error).__name__}: {reason(error)}"

    whole = IrCase(module, feed)
    effect = wrong(whole)
    if not effect:
        return None
    small = reduced(whole, lambda case: bool(wrong(case)), numbers=False)
    function = instr_functions(small.module)[0]
    steps = [op for op in function.walk() if isinstance(op, InstrOp) and not isinstance(op, DeallocOp)]
    blamed = [op for op in steps if not isinstance(op, CopyOp)] or steps
    name = ", ".join(dict.fromkeys(_kernel_name(op, search.backend) for op in blamed))
    places = [f"{_text(op)}{_origin(op)}" for op in blamed]
    return Culprit("kernel", name, "; ".join(places), wrong(small) or effect)


def _text(op: InstrOp) -> str:
    out = StringIO()
    Printer(out).print_op(op)
    return out.getvalue()


def _origin(op: InstrOp) -> str:
    origin = names(op.location)
    return f" (from {', '.join(origin)})" if origin else ""


def _kernel_name(op: InstrOp, backend: Backend) -> str:
    """What computes an instruction: on the CPU the function that emits its kernel."""
    call = None
    if isinstance(backend, CpuBackend):
        call = call_for(op, CallContext(backend.target))
    return op.name.partition(".")[2] if call is None else _qualified(call.emit)
