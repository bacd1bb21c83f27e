"""Memory spaces: the named memories of a device in addition to the main one, as a function declares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    StringAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

#: The space of buffers whose type names none: the arena, weights, inputs and outputs.
MAIN = ""


@dataclass(frozen=True)
class Memory:
    """A memory of a device: its bytes, how its buffers are aligned, and the bytes that it moves a cycle."""

    size: int
    alignment: int = 64
    bandwidth: float = 1.0

    def __post_init__(self) -> None:
        if self.size < 1 or self.alignment < 1 or not self.bandwidth > 0:
            raise VerifyException(f"a memory must have a positive size, alignment and bandwidth, not {self}")

    def attribute(self) -> DictionaryAttr:
        """The memory in a program."""
        return DictionaryAttr(
            {
                "size": IntegerAttr(self.size, i64),
                "alignment": IntegerAttr(self.alignment, i64),
                "bandwidth": FloatAttr(self.bandwidth, f64),
            }
        )

    @staticmethod
    def of(name: str, attribute: Attribute) -> Memory:
        """The memory that an attribute stands for; a VerifyException where it has another form."""
        entries = attribute.data if isinstance(attribute, DictionaryAttr) else {}
        numbers = {n: a.value.data for n, a in entries.items() if isinstance(a, IntegerAttr | FloatAttr)}
        unknown = entries.keys() - {"size", "alignment", "bandwidth"}
        if unknown or len(numbers) != len(entries) or "size" not in numbers:
            raise VerifyException(
                f"memory '{name}' must be written {{size = ... : i64, alignment = ... : i64, "
                f"bandwidth = ... : f64}}, "
                f"not {attribute}"
            )
        whole = {n: int(v) for n, v in numbers.items() if n != "bandwidth"}
        return Memory(**whole, bandwidth=float(numbers.get("bandwidth", 1.0)))


def memories_attribute(memories: Mapping[str, Memory]) -> DictionaryAttr:
    """Memories by name, as a function declares them."""
    return DictionaryAttr({name: memory.attribute() for name, memory in memories.items()})


def memories_of(attribute: DictionaryAttr | None) -> dict[str, Memory]:
    """The memories that a function declares."""
    return {} if attribute is None else {n: Memory.of(n, a) for n, a in attribute.data.items()}


def space_of(value: SSAValue | Attribute) -> str:
    """The memory that a buffer, or a buffer type, is in."""
    kind = value.type if isinstance(value, SSAValue) else value
    assert isinstance(kind, MemRefType)
    space = kind.memory_space
    if type(space) is NoneAttr:
        return MAIN
    if not isinstance(space, StringAttr) or not space.data:
        raise VerifyException(f'{kind}: a memory space must be a name, as in memref<4xf32, "scratch">')
    return space.data
