"""The constants and placeholders of a module by name, kept while passes add and drop some."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Operation, SSAValue

from glow_dialects.core.extent import is_open
from glow_dialects.core.types import Array, Tensor, UniformQuantizedType, shape_of
from glow_dialects.ops.literal import LiteralOp
from glow_dialects.ops.module import ConstantOp, GetOp, PlaceholderOp
from glow_dialects.ops.splat import SplatOp


class Symbols:
    """A dictionary view of the module's symbols; a lookup is one dictionary access."""

    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self.table: dict[str, Operation] = {}
        self.inserted = 0
        self.uniforms: dict[ConstantOp, float | None] = {}
        #: The next number to try for each name that is taken.
        self.numbers: dict[str, int] = {}
        for op in module.body.block.ops:
            name = op.properties.get("sym_name")
            if isinstance(name, StringAttr):
                self.table[name.data] = op

    def constant(self, get: GetOp) -> ConstantOp | None:
        """The constant that `get` reads, None for placeholders."""
        constant = self.table.get(get.symbol.root_reference.data)
        return constant if type(constant) is ConstantOp else None

    def array(self, value: SSAValue) -> Array | None:
        """The compile-time contents of a value: a constant read, a literal or a splat."""
        owner = value.owner
        if type(owner) is GetOp:
            constant = self.constant(owner)
            return None if constant is None else constant.array()
        if type(owner) is LiteralOp or (type(owner) is SplatOp and not is_open(shape_of(value))):
            return owner.array()
        return None

    def uniform(self, value: SSAValue) -> float | None:
        """The one value of all elements of a known tensor, where there is one; each is looked at once."""
        owner = value.owner
        constant = self.constant(owner) if isinstance(owner, GetOp) else None
        if constant is None:
            array = self.array(value)
            return None if array is None else uniform_value(array)
        if constant not in self.uniforms:
            array = constant.array()
            self.uniforms[constant] = None if array is None else uniform_value(array)
        return self.uniforms[constant]

    def add(self, array: Array, kind: Tensor, hint: str) -> ConstantOp:
        """A new constant of the module, under a name that starts with `hint`."""
        name = self.fresh(hint)
        constant = ConstantOp.of(name, array, kind)
        block = self.module.body.block
        first = block.first_op
        if first is None:
            block.add_op(constant)
        else:
            block.insert_op_before(constant, first)
        self.table[name] = constant
        self.inserted += 1
        return constant

    def fresh(self, hint: str) -> str:
        """A name that no symbol has."""
        if hint not in self.table:
            return hint
        number = self.numbers.get(hint, 1)
        while f"{hint}_{number}" in self.table:
            number += 1
        self.numbers[hint] = number + 1
        return f"{hint}_{number}"

    def sweep(self) -> int:
        """Drop the constants that nothing names any more; the number of them."""
        used = set(_references(self.module))
        dead = [op for name, op in self.table.items() if isinstance(op, ConstantOp) and name not in used]
        for op in dead:
            del self.table[op.sym_name.data]
            op.detach()
            op.erase()
        return len(dead)


def _references(module: ModuleOp) -> Iterator[str]:
    """Names used inside functions, of the graph or of instructions."""
    for function in module.body.block.ops:
        if type(function) in (ConstantOp, PlaceholderOp):
            continue
        for op in function.walk():
            for attribute in (*op.properties.values(), *op.attributes.values()):
                if type(attribute) is SymbolRefAttr:
                    yield attribute.root_reference.data
                elif type(attribute) is StringAttr:
                    yield attribute.data  # the weights of instruction functions, by their own name


def uniform_value(array: Array) -> float | None:
    """The one value of all elements, where there is one that a float represents exactly."""
    if array.size == 0 or array.dtype.kind == "c":
        return None
    first = array.flat[0]
    if array.flat[array.size - 1] != first:
        return None
    if any(array.strides):  # else one element stands for all; 0 and -0 are equal, but not the same
        bits = np.ascontiguousarray(array).reshape(-1).view(f"u{array.itemsize}")
        if bool(np.any(bits != bits[0])):
            return None
    value = float(first)
    exact = np.array(value).astype(array.dtype)
    same = exact == first and np.signbit(value) == np.signbit(float(exact))
    return value if np.isfinite(value) and bool(same) else None


def is_quantized(kind: Tensor) -> bool:
    """Whether the elements of a tensor type are quantised."""
    return isinstance(kind.element_type, UniformQuantizedType)
