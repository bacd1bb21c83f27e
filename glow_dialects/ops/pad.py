"""pad: elements added at the borders of each axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.blocks import Blocked, Parts
from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.mapped import again
from glow_dialects.core.properties import check_choice, check_length, float_prop, ints_prop, str_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor, typed
from glow_dialects.ops.gather import GatherOp, gathered_gradient
from glow_dialects.ops.insert import InsertOp
from glow_dialects.ops.slice import SliceOp

#: constant: `value`; edge: the border element; reflect: mirrored without it; wrap: periodic.
MODES = ("constant", "edge", "reflect", "wrap")


@graph_op
class PadOp(PureOp):
    """The input with `pads` (begins, then ends; one each an axis, not negative) elements added.

    `mode` says which ones; `value` is converted to the element type.
    """

    name = "glow.pad"
    HOMOGENEOUS = True
    pads = ints_prop()
    mode = str_prop("constant")
    value = float_prop(0.0)
    input = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        shape, pads = shape_of(self.input), self.pads
        check_choice(self.name, "mode", self.mode, MODES)
        check_length(self.name, "half of pads", pads[: len(pads) // 2 + len(pads) % 2], len(shape))
        if len(pads) % 2 or min((*pads, 0)) < 0:
            raise VerifyException(
                f"glow.pad: pads are {list(pads)}, expected two sizes per axis; give the begins of all "
                "axes, then the ends"
            )
        for size, begin, end in zip(shape, self.begins(), self.ends(), strict=True):
            if not size and (begin or end) and self.mode != "constant":
                raise VerifyException(
                    f"glow.pad: nothing to {self.mode} in {self.input.type}"
                    "; it needs at least one element on each axis"
                )
        sizes = zip(shape, self.begins(), self.ends(), strict=True)
        return [tensor([n + a + z for n, a, z in sizes], element_of(self.input))]

    def mapped(
        self, x: Sequence[SSAValue], flags: Sequence[bool], size: int, b: Builder
    ) -> Sequence[SSAValue]:
        return again(self, x, size, b, pads=(0, *self.begins(), 0, *self.ends()))

    def in_blocks(self, form: Blocked, parts: Parts) -> Blocked | None:
        if self.begins()[form.axis] or self.ends()[form.axis]:
            return None
        pads = (*form.over_blocks(self.begins(), 0, 0, 0), *form.over_blocks(self.ends(), 0, 0, 0))
        return replace(form, value=PadOp(form.value, pads=pads, mode=self.mode, value=self.value).result)

    def begins(self) -> tuple[int, ...]:
        """Elements added before each axis."""
        return self.pads[: len(shape_of(self.input))]

    def ends(self) -> tuple[int, ...]:
        """Elements added after each axis."""
        return self.pads[len(shape_of(self.input)) :]

    def _sources(self) -> list[tuple[int, np.ndarray]]:
        """(axis, input index of each element of the result) of the axes that are padded."""
        mode = self.mode
        rows = zip(shape_of(self.input), self.begins(), self.ends(), strict=True)
        return [(i, sources(n, a, z, mode)) for i, (n, a, z) in enumerate(rows) if a or z]

    def backward(self, dy: SSAValue, b: Builder) -> Sequence[SSAValue | None]:
        if self.mode == "constant":
            return [b(SliceOp.window(dy, self.begins(), shape_of(self.input)))]
        # a chain of gathers, one an axis, walked backwards
        steps: list[tuple[Tensor, SSAValue, int]] = []
        value = self.input
        for axis, index in self._sources():
            indices = b.constant(index)
            steps.append((typed(value), indices, axis))
            value = b(GatherOp(value, indices, axis=axis))
        for source, indices, axis in reversed(steps):
            dy = gathered_gradient(dy, source, indices, axis, b)
        return [dy]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        if self.mode == "constant":
            big = b.splat(self.value, self.result)
            return [b(InsertOp(big, self.input, starts=self.begins()))]
        value = self.input
        for axis, index in self._sources():
            value = b(GatherOp(value, b.constant(index), axis=axis))
        return [value]

    def reference(self, result: Array, input: Array) -> None:
        pads, mode = self.pads, self.mode
        begins, ends = pads[: input.ndim], pads[input.ndim :]
        if mode == "constant":
            with np.errstate(all="ignore"):
                result[...] = np.array(self.value).astype(result.dtype)
            result[tuple(slice(a, a + n) for a, n in zip(begins, input.shape, strict=True))] = input
            return
        rows = zip(input.shape, begins, ends, strict=True)
        index = [sources(n, a, z, mode) for n, a, z in rows]
        result[...] = input[np.ix_(*index)] if index else input


def sources(size: int, begin: int, end: int, mode: str) -> np.ndarray:
    """Which input element each element of a padded axis copies (edge, reflect, wrap), int64."""
    place = np.arange(-begin, size + end)
    if mode == "edge":
        return np.clip(place, 0, size - 1)
    if mode == "wrap":
        return place % size
    if size == 1:
        return np.zeros_like(place)
    period = 2 * (size - 1)
    place = place % period
    return np.minimum(place, period - place)


SAMPLES = (
    Sample(PadOp, (random(2, 3),), {"pads": (1, 0, 0, 2), "value": 1.5}),
    Sample(PadOp, (random(2, 3),), {"pads": (0, 0, 0, 0)}),
    *(Sample(PadOp, (random(3, 4),), {"pads": (2, 1, 1, 3), "mode": mode}) for mode in MODES),
    *(Sample(PadOp, (random(2, 3, 4),), {"pads": (0, 4, 0, 0, 5, 1), "mode": mode}) for mode in MODES[1:]),
    Sample(PadOp, (random(0, 3),), {"pads": (1, 0, 0, 1), "value": 2.0}),
    *(
        Sample(
            PadOp,
            (random(2, 3, dtype="int32", low=0, high=5).astype(kind),),
            {"pads": (1, 0, 1, 2), "value": 1.0},
            smooth=False,
        )
        for kind in ("int8", "float16", "int64", "bool", "float64")
    ),
    Sample(
        PadOp,
        (random(2, 3, dtype="uint8", low=0, high=9),),
        {"pads": (1, 1, 0, 0), "value": 7.0},
        smooth=False,
    ),
)
