"""What schedulers and simulators ask of a device: its memories, its units, and what an instruction costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from glow_dialects.core.instr_op import InstrOp
from glow_dialects.instr.spaces import Memory


class Work(NamedTuple):
    """The unit that runs an instruction, and for how many cycles."""

    unit: str
    cycles: int


class Machine(Protocol):
    """A device; backends are such."""

    def memories(self) -> Mapping[str, Memory]:
        """Memories beside the main one."""
        ...

    def units(self) -> Mapping[str, int]:
        """Units that work side by side, and how many asynchronous instructions each holds in its queue."""
        ...

    def work(self, op: InstrOp) -> Work:
        """The cost of an instruction."""
        ...
