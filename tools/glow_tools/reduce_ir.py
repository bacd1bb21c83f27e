"""Reduction of modules: fewer functions, nodes and instructions, smaller shapes, constants of one number."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import MemRefType, ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_backends.base import public_name, used_symbols
from glow_backends.interpreter.backend import InterpreterProgram, step
from glow_backends.interpreter.modules import graph_values, placed
from glow_dialects.core.errors import GlowError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.token import TokenType
from glow_dialects.core.types import Array, Tensor, dtype_of, shape_of, typed
from glow_dialects.instr.memory import (
    AllocOp,
    CopyOp,
    DeallocOp,
    InstrFuncOp,
    ViewOp,
    WeightOp,
    instr_function,
    origin,
)
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, PlaceholderOp, SaveOp, functions
from glow_passes.graph.symbols import Symbols, is_quantized
from glow_runtime.weights import WeightWriter
from glow_tools.common import write_text
from glow_tools.delta import smallest
from glow_tools.targets import text_of

Feed = dict[str, Any]
#: What a value is replaced by: its contents, and whether they are known when compiling.
Known = tuple[Array, bool]


@dataclass
class IrCase:
    """A module and its inputs."""

    module: ModuleOp
    feed: Feed

    def size(self) -> str:
        """How large it is, for messages."""
        kinds = (GraphOp, InstrOp)
        count = sum(isinstance(op, kinds) and not isinstance(op, DeallocOp) for op in self.module.walk())
        return f"{count} nodes or instructions" if count else f"{len(self.module.ops)} operations"

    def write(self, path: Path) -> None:
        """Write the module, and its weights beside it."""

        weights = WeightWriter()(self.module)
        write_text(str(path), text_of(self.module))
        weights(path)


Wrong = Callable[[IrCase], bool]


def reduced(case: IrCase, wrong: Wrong, numbers: bool = True) -> IrCase:
    """A small module that is still wrong, and valid; what left-out nodes made are inputs with its values.

    `numbers`: sizes and constants become smaller and simpler, too.
    """

    def valid_and_wrong(made: IrCase | None) -> bool:
        if made is None:
            return False
        try:
            made.module.verify()
        except (VerifyException, GlowError):
            return False
        return wrong(made)

    case = _fewer_functions(case, valid_and_wrong)
    for function in list(case.module.ops):
        if isinstance(function, FuncOp):
            case = _fewer_nodes(case, function.sym_name.data, valid_and_wrong)
        elif isinstance(function, InstrFuncOp):
            case = _fewer_instructions(case, function.sym_name.data, valid_and_wrong)
    case = _swept(case, None)
    if not numbers:
        return case
    return _with_splats(_smaller_shapes(case, valid_and_wrong), valid_and_wrong)


def _fewer_functions(case: IrCase, wrong: Callable[[IrCase | None], bool]) -> IrCase:
    """Without functions that do not matter."""
    data = (ConstantOp, PlaceholderOp)
    places = [i for i, op in enumerate(case.module.ops) if not isinstance(op, data)]
    dropped = set(places) - set(smallest(places, lambda some: wrong(_swept(case, set(places) - set(some)))))
    return _swept(case, dropped) if dropped else case


def _swept(case: IrCase, dropped: Collection[int] | None) -> IrCase:
    """Without some operations of the module (None: with all), and constants and placeholders of nobody."""
    module = case.module.clone()
    for number, op in enumerate(list(module.ops)):
        if dropped is not None and number in dropped:
            op.detach()
            op.erase(safe_erase=False)
    made = IrCase(module, case.feed)
    return made if dropped is not None and not dropped else _without_unused(made)


def _without_unused(case: IrCase) -> IrCase:
    """Without constants and placeholders that no function names, in place."""
    used = set[str]().union(*(used_symbols(op) for op in case.module.ops))
    feed: Feed = {}
    for op in list(case.module.ops):
        if not isinstance(op, ConstantOp | PlaceholderOp):
            continue
        if op.sym_name.data not in used:
            op.detach()
            op.erase()
        elif isinstance(op, PlaceholderOp) and public_name(op) in case.feed:
            feed[public_name(op)] = case.feed[public_name(op)]
    return IrCase(case.module, feed)


# --- graphs -------------------------------------------------------------------------------------


def _fewer_nodes(case: IrCase, name: str, wrong: Callable[[IrCase | None], bool]) -> IrCase:
    """Without nodes of a graph that do not matter."""
    function = _graph(case.module, name)
    ops = list(function.body.block.ops)
    values, _ = graph_values(function, placed(case.module, case.feed))
    constant = _constants(ops)
    known = {
        (place, index): (values[result], result in constant)
        for place, op in enumerate(ops)
        for index, result in enumerate(op.results)
        if result in values
    }
    nodes = [place for place, op in enumerate(ops) if isinstance(op, GraphOp)]
    kept = smallest(nodes, lambda some: wrong(_nodes(case, name, set(some), known)))
    return _nodes(case, name, set(kept), known, tidy=False) if len(kept) < len(nodes) else case


def _constants(ops: Sequence[Operation]) -> set[SSAValue]:
    """The values that no input decides."""
    found: set[SSAValue] = set()
    for op in ops:
        source = op.target() if isinstance(op, GetOp) else None
        if isinstance(source, ConstantOp) or (isinstance(op, GraphOp) and found.issuperset(op.operands)):
            found.update(op.results)
    return found


def _nodes(
    case: IrCase, name: str, kept: set[int], known: dict[tuple[int, int], Known], tidy: bool = True
) -> IrCase:
    """The module with only some nodes of a graph: inputs stand for the others, outputs for loose ends."""
    module = case.module.clone()
    function = _graph(module, name)
    symbols, feed = Symbols(module), dict(case.feed)
    ops = list(function.body.block.ops)
    gone = [(p, op) for p, op in enumerate(ops) if isinstance(op, GraphOp) and p not in kept]
    lost = {result for _, op in gone for result in op.results}
    dead = [op for op in ops if isinstance(op, SaveOp) and op.input in lost]
    for save in dead:
        save.detach()
        save.erase()
    for place, op in gone:
        for index, result in enumerate(op.results):
            if any(use.operation not in [o for _, o in gone] for use in result.uses):
                array, constant = known[place, index]
                source = _declared(symbols, result, array, constant, feed)
                get = GetOp.of(source)
                function.body.block.insert_op_before(get, op)
                result.replace_all_uses_with(get.result)
    for _, op in reversed(gone):
        op.detach()
        op.erase(safe_erase=False)
    for place in sorted(kept):
        for result in ops[place].results:
            if result.first_use is None:
                out = _placeholder(symbols, "out", typed(result), "output")
                function.body.block.add_op(SaveOp.of(result, out))
    for op in ops:
        if isinstance(op, GetOp) and op.result.first_use is None:
            op.detach()
            op.erase()
    made = IrCase(module, feed)
    return _without_unused(made) if tidy else made


def _graph(module: ModuleOp, name: str) -> FuncOp:
    return next(f for f in functions(module) if f.sym_name.data == name)


def _declared(
    symbols: Symbols, value: SSAValue, array: Array, constant: bool, feed: Feed
) -> ConstantOp | PlaceholderOp:
    """A constant or an input with the contents of a value."""
    if constant:
        return symbols.add(array, typed(value), "known")
    made = _placeholder(symbols, "cut", typed(value), "input")
    feed[made.sym_name.data] = array
    return made


def _placeholder(symbols: Symbols, hint: str, kind: Tensor, role: str) -> PlaceholderOp:
    """A new placeholder, at the end of the module."""
    made = PlaceholderOp.of(symbols.fresh(hint), kind, role)
    symbols.table[made.sym_name.data] = made
    symbols.module.body.block.add_op(made)
    return made


# --- instructions -------------------------------------------------------------------------------


def _fewer_instructions(case: IrCase, name: str, wrong: Callable[[IrCase | None], bool]) -> IrCase:
    """Without instructions of a function that do not matter."""
    function = instr_function(case.module, name)
    place = {op: i for i, op in enumerate(function.block.ops)}
    before: dict[tuple[int, int], Array] = {}

    def observed(op: InstrOp, buffers: Mapping[SSAValue, Array]) -> None:
        for alloc in map(origin, _reads(op)):
            if isinstance(alloc.owner, AllocOp) and op in place:
                before[place[op], place[alloc.owner]] = buffers[alloc].copy()
        step(op, buffers)

    program = InterpreterProgram(case.module, function)
    program.step = observed
    program.run(case.feed)
    steps = [i for op, i in place.items() if isinstance(op, InstrOp) and not isinstance(op, DeallocOp)]
    plain = [i for op, i in place.items() if i in steps and not _asynchronous(op)]
    rest = set(steps) - set(plain)
    kept = smallest(plain, lambda some: wrong(_instructions(case, name, rest | set(some), before)))
    return _instructions(case, name, rest | set(kept), before, tidy=False) if len(kept) < len(plain) else case


def _asynchronous(op: Operation) -> bool:
    """Whether an instruction gives or takes a token."""
    return bool(op.results) or any(isinstance(v.type, TokenType) for v in op.operands)


def _reads(op: InstrOp) -> list[SSAValue]:
    return [buffer for access, buffer in op.accesses() if access.reads]


def _instructions(
    case: IrCase,
    name: str,
    kept: set[int],
    before: dict[tuple[int, int], Array],
    tidy: bool = True,
) -> IrCase:
    """The module with only some instructions: copies of inputs make what the others wrote."""
    module = case.module.clone()
    function = instr_function(module, name)
    symbols, feed = Symbols(module), dict(case.feed)
    ops = list(function.block.ops)
    place = {op: i for i, op in enumerate(ops)}
    for op in ops:
        if isinstance(op, InstrOp) and not isinstance(op, DeallocOp) and place[op] not in kept:
            op.detach()
            op.erase()
    written: set[SSAValue] = set()
    loose: set[SSAValue] = set()
    for position in sorted(kept):
        op = ops[position]
        assert isinstance(op, InstrOp)
        reads = [origin(v) for v in _reads(op)]
        loose.difference_update(reads)
        # What is written in part is read as a whole later, so that the rest of it needs a value, too.
        for buffer in (*reads, *(origin(v) for v in op.written() if origin(v) is not v)):
            if isinstance(buffer.owner, AllocOp) and buffer not in written:
                weight = _buffer(symbols, function, "cut", buffer, "input")
                known = before.get((position, place[buffer.owner]))
                feed[weight.target] = _zeros(buffer) if known is None else known
                function.block.insert_op_before(_copy(buffer, weight.result), op)
                written.add(buffer)
        written.update(origin(v) for v in op.written())
        loose.update(origin(v) for v in op.written())
    for op in ops:
        if isinstance(op, DeallocOp) and op.buffer in loose:
            weight = _buffer(symbols, function, "out", op.buffer, "output")
            function.block.insert_op_before(_copy(weight.result, op.buffer), op)
    _drop_unused_buffers(function)
    made = IrCase(module, feed)
    return _without_unused(made) if tidy else made


def _buffer(symbols: Symbols, function: InstrFuncOp, hint: str, buffer: SSAValue, role: str) -> WeightOp:
    """A placeholder like a buffer, declared in a function."""
    assert isinstance(buffer.type, MemRefType)
    place = _placeholder(symbols, hint, TensorType(buffer.type.element_type, buffer.type.get_shape()), role)
    weight = WeightOp.of(place.sym_name, buffer.type, constant=False)
    first = function.block.first_op
    assert first is not None
    function.block.insert_op_before(weight, first)
    return weight


def _zeros(buffer: SSAValue) -> Array:
    assert isinstance(buffer.type, MemRefType)
    return np.zeros(shape_of(buffer), dtype_of(buffer.type))


def _copy(dest: SSAValue, source: SSAValue) -> CopyOp:
    return CopyOp.create(operands=[dest, source])


def _drop_unused_buffers(function: InstrFuncOp) -> None:
    """Remove buffers and views that only their ends name."""
    for op in reversed(list(function.block.ops)):
        if not isinstance(op, AllocOp | ViewOp | WeightOp):
            continue
        users = [use.operation for use in op.results[0].uses]
        if all(isinstance(user, DeallocOp) for user in users):
            for gone in (*users, op):
                gone.detach()
                gone.erase()


# --- shapes and numbers -------------------------------------------------------------------------


def _smaller_shapes(case: IrCase, wrong: Callable[[IrCase | None], bool]) -> IrCase:
    """Every size made smaller, wherever it stands, as far as that goes."""
    types = [r.type for op in case.module.walk() for r in op.results]
    sizes = {d for t in types if isinstance(t, TensorType | MemRefType) for d in t.get_shape() if d > 1}
    for size in sorted(sizes, reverse=True):
        for new in dict.fromkeys((1, 2, size // 2)):
            if new < size and wrong(made := _resized(case, size, new)):
                assert made is not None
                case = made
                break
    return case


def _resized(case: IrCase, size: int, new: int) -> IrCase | None:
    """The module with `new` in place of a size in every type; None where that cannot be done."""
    module = case.module.clone()

    def cut(array: Array) -> Array:
        return np.ascontiguousarray(array[tuple(slice(new if d == size else d) for d in array.shape)])

    for op in module.walk():
        if isinstance(op, ConstantOp):
            array = op.array()
            if array is None or is_quantized(op.type):
                return None
            op.set_array(cut(array))
        elif isinstance(op, PlaceholderOp):
            op.properties["type"] = _type(op.type, size, new)
            if op.init is not None:
                return None
        for result in op.results:
            result._type = _type(result.type, size, new)  # pyright: ignore[reportAttributeAccessIssue]
    return IrCase(module, {n: cut(np.asarray(a)) for n, a in case.feed.items()})


def _type(kind: Attribute, size: int, new: int) -> Attribute:
    """A type with another size."""
    if not isinstance(kind, TensorType | MemRefType):
        return kind
    shape = [new if d == size else d for d in kind.get_shape()]
    if isinstance(kind, TensorType):
        return TensorType(kind.element_type, shape, kind.encoding)
    return MemRefType(kind.element_type, shape, kind.layout, kind.memory_space)


def _with_splats(case: IrCase, wrong: Callable[[IrCase | None], bool]) -> IrCase:
    """Constants whose elements may as well be one number."""
    for number, op in enumerate(list(case.module.ops)):
        array = op.array() if isinstance(op, ConstantOp) and not is_quantized(op.type) else None
        if array is None or array.dtype.kind != "f" or array.size < 2:
            continue
        for value in (1, float(array.astype(np.float64).mean())):
            made = IrCase(case.module.clone(), case.feed)
            twin = list(made.module.ops)[number]
            assert isinstance(twin, ConstantOp)
            twin.set_array(np.full_like(array, value))
            if wrong(made):
                case = made
                break
    return case
