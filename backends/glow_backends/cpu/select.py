"""Kernel selection: each instruction of a program becomes a kernel call or a step on the host."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp

from glow_backends.cpu.calls import CallContext, KernelCall, KernelCode, KernelCodes
from glow_backends.cpu.kernel_table import call_for
from glow_backends.cpu.memory import rounded
from glow_backends.cpu.open_sizes import Life, Numbers
from glow_backends.cpu.target import CpuTarget
from glow_dialects.core.errors import CompileError
from glow_dialects.core.extent import is_open
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.token import is_token
from glow_dialects.core.types import shape_of
from glow_dialects.instr.loops import ForOp
from glow_dialects.instr.memory import (
    AllocOp,
    DeallocOp,
    InstrFuncOp,
    ViewOp,
    WaitOp,
    WeightOp,
)
from glow_dialects.instr.strides import strides_of
from glow_dialects.ops.module import placeholders
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
    buffers: dict[AllocOp, int] = field(default_factory=dict[AllocOp, int])

    @property
    def calls(self) -> list[KernelCall]:
        """The native steps."""
        return [s for s in self.steps if isinstance(s, KernelCall)]

    @property
    def kernels(self) -> dict[str, KernelCode]:
        """Every kernel, and every part of one, once, by name."""
        codes = map(self.codes.of, self.calls)
        return {piece.name: piece for code in codes for piece in (*code.parts, code)}

    @property
    def host_steps(self) -> list[HostStep]:
        """The steps on the host, numbered as the code calls them."""
        return [s for s in self.steps if isinstance(s, HostStep)]


def _has_gaps(op: InstrOp) -> bool:
    """Whether elements of a buffer of an instruction are apart; kernels are for dense ones."""
    return any(strides_of(v.type) is not None for v in op.operands if not is_token(v))


def is_open_function(function: InstrFuncOp) -> bool:
    """Whether only the run knows the sizes of some tensors, be they those of inputs that nothing reads."""
    module = function.parent_op()
    ports = placeholders(module).values() if isinstance(module, ModuleOp) else ()
    buffers = (op.result for op in function.block.ops if isinstance(op, AllocOp | WeightOp))
    return any(is_open(shape_of(v)) for v in (*(p.type for p in ports), *buffers))


def select(function: InstrFuncOp, target: CpuTarget, checked: bool = True) -> Selection:
    """Choose a kernel for every instruction of a planned function.

    `checked`: whether kernels report indices out of range, for which the program needs a table.
    """
    context = CallContext(target, checked)
    selection = Selection(
        KernelCodes(target), arena_bytes=rounded(function.arena.value.data if function.arena else 0)
    )
    if is_open_function(function):
        lives = lives_of(function)
        selection.numbers = Numbers([Life(*life) for life in lives.values()])
        selection.buffers = {alloc: number for number, alloc in enumerate(lives)}
    if function.memories is not None:
        raise CompileError("cpu: there is the main memory alone (glow-one-memory joins those of a device)")
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
    return selection
