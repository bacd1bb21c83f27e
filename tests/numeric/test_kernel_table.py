"""The table of kernels: it names every kernel there is, and the first that matches takes an instruction."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, Block, SSAValue

import glow_backends.cpu.kernels
from glow_backends.cpu.calls import CallContext
from glow_backends.cpu.kernel import Kernel, once_per_operation, operator_of
from glow_backends.cpu.kernel_table import KERNELS, call_for, has_kernel, kernel
from glow_backends.cpu.kernels.data.interleave import Interleave
from glow_backends.cpu.kernels.data.movement import Concat
from glow_backends.cpu.target import named
from glow_dialects.core.instr_op import InstrOp
from glow_dialects.core.types import buffer_type, tensor
from glow_dialects.ops.arithmetic import AddOp
from glow_dialects.ops.concat import ConcatOp
from glow_dialects.ops.dft import DftOp


def kernels_in_folders() -> set[type[Kernel[Any, Any]]]:
    """Every class below `Kernel` in the folders that says whose instructions it computes."""
    package = glow_backends.cpu.kernels
    infos = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    modules = [importlib.import_module(info.name) for info in infos]
    classes = [c for m in modules for c in vars(m).values() if inspect.isclass(c) and issubclass(c, Kernel)]
    return {c for c in classes if c.OPS and not inspect.isabstract(c)}


def test_the_table_names_every_kernel_by_its_operators() -> None:
    found = {kind: {op.name for op in (*kind.OPS, *kind.MADE_FROM)} for kind in kernels_in_folders()}
    table: dict[type[Kernel[Any, Any]], set[str]] = {}
    for operator, paths in KERNELS.items():
        assert len(set(paths.split())) == len(paths.split()), operator
        for path in paths.split():
            table.setdefault(type(kernel(path)), set()).add(operator)
    assert table == found


def value_of(kind: Attribute) -> SSAValue:
    """A value of a type."""
    return Block(arg_types=[kind]).args[0]


def concat(parts: int, size: int) -> InstrOp:
    """The instruction that puts columns side by side."""
    buffers = [value_of(buffer_type(tensor((size, 1), f32))) for _ in range(parts)]
    result = value_of(buffer_type(tensor((size, parts), f32)))
    assert ConcatOp.INSTR is not None
    return ConcatOp.INSTR(result, buffers, axis=1)


def test_the_first_kernel_that_matches_takes_an_instruction() -> None:
    context = CallContext(named("haswell"))
    few, many = concat(2, 32), concat(20, 32)
    assert operator_of(few) is ConcatOp
    calls = [call_for(op, context) for op in (few, many)]
    assert [call.emit for call in calls if call is not None] == [Interleave.emit, Concat.emit]
    assert Interleave().match(many, context) is None  # pyright: ignore[reportArgumentType]


def test_short_inverse_transforms_stay_whole() -> None:
    value = value_of(tensor((4, 2), f32))
    longer = value_of(tensor((32, 2), f32))
    assert has_kernel(DftOp(value, axis=0, length=4, inverse=True))
    assert not has_kernel(DftOp(value, axis=0, length=4))
    assert not has_kernel(DftOp(longer, axis=0, length=32, inverse=True))


def test_element_wise_operators_have_a_kernel_by_their_type() -> None:
    value = value_of(tensor((4,), f32))
    assert has_kernel(AddOp(value, value))


def test_what_is_kept_of_an_operation_is_made_once() -> None:
    made: list[object] = []

    def make(op: Any) -> int:
        made.append(op)
        return len(made)

    once, op, other = once_per_operation(make), concat(2, 8), concat(2, 8)
    assert [once(op), once(op), once(other)] == [1, 1, 2]
