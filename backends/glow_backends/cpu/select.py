"""Kernel selection: each instruction of a program becomes a kernel call or a step on the host."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from glow_backends.cpu.calls import CallContext, KernelCall, KernelCode, KernelCodes
from glow_backends.cpu.kernel_table import call_for
from glow_backends.cpu.memory import rounded
from glow_backends.cpu.open_sizes import Life, Numbers
from glow_backends.cpu.support import MAIN
from glow_backends.cpu.target import CpuTarget
from glow_backends.cpu.turns.turns_kernel import TurnsSpec, emit_turns
from glow_backends.cpu.turns.turns_op import TurnsOp, in_name, out_name
from glow_dialects.core.errors import CompileError, OpenSizes
from glow_dialects.core.extent import is_open
from glow_dialects.core.instr_op import InstrOp, is_instr_of
from glow_dialects.core.token import is_token
from glow_dialects.core.types import bytes_of, shape_of
from glow_dialects.instr.loops import ForOp
from glow_dialects.instr.memory import (
    AllocOp,
    DeallocOp,
    InstrFuncOp,
    ViewOp,
    WaitOp,
    WeightOp,
    instr_function,
)
from glow_dialects.instr.strides import strides_of
from glow_dialects.ops.module import has_open_ports, module_of, placeholders
from glow_passes.instr.plan_memory import lives_of


@dataclass
class HostStep:
    """An instruction that no kernel covers: its NumPy reference runs it."""

    op: InstrOp


@dataclass
class Selection:
    """The steps of a program in order, and the memory behind its arena that kernels work in."""

    codes: KernelCodes
    steps: list[KernelCall | HostStep] = field(default_factory=list[KernelCall | HostStep])
    arena_bytes: int = 0
    scratch_bytes: int = 0
    #: What the run works out from the sizes of its inputs; None where all sizes are known.
    numbers: Numbers | None = None
    buffers: dict[Buffer, int] = field(default_factory=dict["Buffer", int])

    @property
    def calls(self) -> list[KernelCall]:
        """The native steps, those of the turns of loops before the loops."""
        inner = (s.turn.calls if isinstance(s, TurnsCall) else [] for s in self.steps)
        return [
            c for s, i in zip(self.steps, inner, strict=True) if isinstance(s, KernelCall) for c in (*i, s)
        ]

    @property
    def kernels(self) -> dict[str, KernelCode]:
        """Every kernel, and every part of one, once, by name."""
        codes = map(self.codes.of, self.calls)
        return {piece.name: piece for code in codes for piece in (*code.parts, code)}

    @property
    def host_steps(self) -> list[HostStep]:
        """The steps on the host, numbered as the code calls them."""
        return [s for s in self.steps if isinstance(s, HostStep)]


@dataclass
class TurnsCall(KernelCall):
    """The call of a loop, whose turns are calls of `function`, with the steps `turn`."""

    loop: TurnsOp = field(kw_only=True)
    function: InstrFuncOp = field(kw_only=True)
    turn: Selection = field(kw_only=True)

    @property
    def callee(self) -> str:
        """The name of the function of a turn in the code."""
        return f"{MAIN}.{self.loop.function}"

    @property
    def spares(self) -> list[int]:
        """The bytes of a second place for each tensor of the state: a turn reads one and writes the other."""
        return [rounded(bytes_of(v.type)) for v in self.loop.state]


#: A buffer, or the spare place of a tensor of a loop's state.
Buffer = AllocOp | tuple[TurnsOp, int]


def _has_gaps(op: InstrOp) -> bool:
    """Whether elements of a buffer of an instruction are apart; kernels are for dense ones."""
    return any(strides_of(v.type) is not None for v in op.operands if not is_token(v))


def is_open_function(function: InstrFuncOp) -> bool:
    """Whether only the run knows the sizes of some tensors, be they those of inputs that nothing reads."""
    module = function.parent_op()
    buffers = (op.result for op in function.block.ops if isinstance(op, AllocOp | WeightOp))
    opened = isinstance(module, ModuleOp) and has_open_ports(module)
    return opened or any(is_open(shape_of(v.type)) for v in buffers)


def select(function: InstrFuncOp, target: CpuTarget, checked: bool = True) -> Selection:
    """Choose a kernel for every instruction of a planned function, and of the turns of its loops.

    `checked`: whether kernels report indices out of range, for which the program needs a table.
    """
    selection = Selection(KernelCodes(target))
    if is_open_function(function):
        lives, _ = _lives(function)
        selection.numbers = Numbers([life for _, life in lives])
        selection.buffers = {buffer: number for number, (buffer, _) in enumerate(lives)}
    _select(function, CallContext(target, checked), selection)
    return selection


def _lives(function: InstrFuncOp) -> tuple[list[tuple[Buffer, Life]], int]:
    """The buffers of a function, and of turns as if these stood in place of their loops; and its steps."""
    found: list[tuple[Buffer, Life]] = []
    places: list[int] = []
    now = 0
    for op in function.walk():
        places.append(now)
        if is_instr_of(op, TurnsOp):
            inner, steps = _lives(_turn_of(op))
            found += [(b, Life(now + life.start, now + life.end, life.bytes)) for b, life in inner]
            spares = enumerate(bytes_of(v.type) for v in op.state)
            found += [((op, number), Life(now, now + steps + 1, size)) for number, size in spares]
            now += steps
        now += 1
    places.append(now)
    own = [
        (b, Life(places[start], places[end], size)) for b, (start, end, size) in lives_of(function).items()
    ]
    return [*own, *found], now


def _turn_of(op: TurnsOp) -> InstrFuncOp:
    module = module_of(op)
    assert module is not None, f"@{op.function} is beside the loop"
    return instr_function(module, op.function)


def _select(function: InstrFuncOp, context: CallContext, selection: Selection) -> None:
    selection.arena_bytes = rounded(function.arena.value.data if function.arena else 0)
    if function.memories is not None:
        raise CompileError(
            "cpu: there is only the main memory (glow-one-memory merges the memories of a device)"
        )
    gaps = False
    for op in function.block.ops:
        if isinstance(op, ViewOp):
            gaps |= strides_of(op.result.type) is not None
            continue
        if isinstance(op, WeightOp | AllocOp | DeallocOp | WaitOp):
            continue
        if isinstance(op, ForOp):
            raise CompileError("cpu: loops of instructions are unrolled before code is made (glow-unroll)")
        if not isinstance(op, InstrOp):
            raise CompileError(f"cpu: {op.name} is not an instruction")
        node: Operation = op
        if is_instr_of(node, TurnsOp):
            call = _turns_call(node, context, selection)
        else:
            call = None if gaps and _has_gaps(op) else call_for(op, context)
        if call is None:
            selection.steps.append(HostStep(op))
            continue
        call.label = call.label or op.name.removeprefix("glow_instr.")
        call.op = op
        if selection.numbers is not None:
            selection.numbers.scratch.append(call.scratch)
        else:
            selection.scratch_bytes = max(selection.scratch_bytes, rounded(call.scratch))
        selection.steps.append(call)


def _turns_call(op: TurnsOp, context: CallContext, outer: Selection) -> TurnsCall:
    """The call of a loop; OpenSizes where an instruction of its turns has no kernel."""
    function = _turn_of(op)
    turn = Selection(outer.codes, numbers=outer.numbers, buffers=outer.buffers)
    _select(function, context, turn)
    if turn.host_steps:
        raise OpenSizes(f"{turn.host_steps[0].op.name} in a loop runs on the host")
    module = module_of(op)
    assert module is not None
    slots = {name: place for place, name in enumerate(placeholders(module))}
    state, outputs = list(op.state), list(op.outputs)
    stacks, taken = outputs[len(state) :], [*op.rows, *op.fixed]
    reads = [slots[in_name(op.function, i)] for i in range(len(state) + len(taken))]
    writes = [slots[out_name(op.function, i)] for i in range(len(outputs))]
    turns = op.turns[0]
    rows = [bytes_of(v.type) // turns for v in op.rows]
    strides = [*rows, *(0 for _ in op.fixed), *(bytes_of(v.type) // turns for v in stacks)]
    spec = TurnsSpec(
        turns,
        tuple(zip(reads, writes[: len(state)], strict=False)),
        tuple(zip([*reads[len(state) :], *writes[len(state) :]], strides, strict=True)),
        len(slots) + (outer.numbers is not None) + 1,
    )
    operands = [*state, *outputs[: len(state)], *taken, *stacks]
    call = TurnsCall(emit_turns, spec, operands, label="turns", loop=op, function=function, turn=turn)
    if outer.numbers is None:
        call.scratch = sum(call.spares) + turn.arena_bytes + turn.scratch_bytes
    call.flops = turns * sum(c.flops for c in turn.calls)
    return call
