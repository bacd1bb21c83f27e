"""glow-rebatch: a model that was made for one number of samples, for another."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.attributes import to_attribute
from glow_dialects.core.builder import Builder
from glow_dialects.core.errors import GlowError
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import element_of, shape_of, tensor
from glow_dialects.ops.literal import LiteralOp
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, PlaceholderOp, SaveOp, functions, placeholders
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.slice import SliceOp
from glow_passes.contract import GraphPass

SIZES = ("ends", "sizes")
"""Properties with a size of each axis of the operand."""


@dataclass(frozen=True)
class _Place:
    """Where a value holds the samples: `axis` has outer * samples * inner elements."""

    axis: int
    outer: int = 1
    inner: int = 1


def rebatch(module: ModuleOp, shapes: Mapping[str, Sequence[int]]) -> None:
    """Give inputs, by symbol, other shapes that differ in the number of samples, each in one axis.

    The function is what it was for the first samples: sizes of reshapes, slices and resizes follow, and
    what does not depend on the inputs but has an entry for each sample keeps those of the first ones.
    GlowError where samples cannot be told apart, or where there are more of them than such entries.
    """
    known = placeholders(module)
    changes = {n: _change(n, shape_of(known[n].type), shape) for n, shape in shapes.items()}
    if len({(old, new) for old, new, _ in changes.values()}) != 1:
        raise GlowError("the inputs disagree about the number of samples")
    old, new, _ = next(iter(changes.values()))
    places = {name: _Place(axis) for name, (_, _, axis) in changes.items()}
    changed = [_Rebatch(old, new, places).run(function) for function in functions(module)]
    if not any(changed):
        raise GlowError("no output has the samples of the inputs")
    for name, shape in shapes.items():
        known[name].properties["type"] = tensor(shape, element_of(known[name].type))


def _change(name: str, old: Sequence[int], new: Sequence[int]) -> tuple[int, int, int]:
    """(samples before, samples after, their axis) of an input."""
    axes = [i for i, (m, n) in enumerate(zip(old, new, strict=False)) if m != n]
    if len(old) != len(new) or len(axes) != 1:
        raise GlowError(f"input '{name}' of shape {tuple(old)} does not become {tuple(new)} by fewer samples")
    return old[axes[0]], new[axes[0]], axes[0]


class _Rebatch:
    """One function, operator by operator."""

    def __init__(self, old: int, new: int, inputs: Mapping[str, _Place]) -> None:
        self.old, self.new, self.inputs = old, new, inputs
        self.places: dict[SSAValue, _Place] = {}

    def run(self, function: FuncOp) -> int:
        """Types of the function's values and of the outputs that it saves; how many of these changed."""
        saved = 0
        for op in list(function.body.block.ops):
            if isinstance(op, GetOp):
                self.get(op)
            elif isinstance(op, SaveOp):
                saved += self.save(op)
            elif isinstance(op, GraphOp) and not op.regions:
                self.operator(op)
            elif any(v in self.places for inner in op.walk() for v in inner.operands):
                raise self.refusal(op)
        return saved

    def refusal(self, op: Operation) -> GlowError:
        """The error of an operator that has no form for the new number."""
        hint = op.results[0].name_hint if op.results else None
        name = f"{op.name}{f' (%{hint})' if hint else ''}"
        return GlowError(f"{name} does not keep samples apart: the model stays one for {self.old} of them")

    def get(self, op: GetOp) -> None:
        """A placeholder or constant that is read."""
        place = self.inputs.get(op.symbol.root_reference.data)
        if place is not None:
            self.set_types(op, [self.resized(op.result, place)], [place])

    def save(self, op: SaveOp) -> bool:
        """An output takes the new type, which is told; weights and states cannot."""
        target = op.target()
        if op.input not in self.places:
            return False
        if not isinstance(target, PlaceholderOp) or target.kind.data != "output":
            raise self.refusal(op)
        target.properties["type"] = op.input.type
        return True

    def resized(self, value: SSAValue, place: _Place) -> Attribute:
        """The type of a value with the new number of samples at `place`."""
        shape = list(shape_of(value))
        shape[place.axis] = place.outer * self.new * place.inner
        return tensor(shape, element_of(value))

    def set_types(self, op: Operation, types: Sequence[Attribute], places: Sequence[_Place]) -> None:
        """Give an operation's results new types."""
        for result, kind, place in zip(list(op.results), types, places, strict=True):
            self.places[Rewriter.replace_value_with_new_type(result, kind)] = place

    def operator(self, op: GraphOp) -> None:
        """The results of an operator whose operands may have changed."""
        if not any(v in self.places for v in op.operands):
            return
        if isinstance(op, ReshapeOp):
            place = self.reshaped(op)
            self.set_types(op, [self.resized(op.result, place)], [place])
            return
        self.set_sizes(op)
        operands = list(op.operands)
        for chosen in self.narrowed(op):
            for index, value in enumerate(chosen):
                op.operands[index] = value
            types = self.inferred(op)
            if types is not None:
                self.set_types(op, *types)
                return
            for value in chosen:
                if value not in operands and isinstance(value.owner, Operation):
                    value.owner.detach()
        raise self.refusal(op)

    def set_sizes(self, op: GraphOp) -> None:
        """Properties that hold the size of the samples' axis."""
        place = next(self.places[v] for v in op.operands if v in self.places)
        for name in SIZES:
            if isinstance(op.properties.get(name), DenseArrayBase):
                entries = list(getattr(op, name))
                if place.axis < len(entries) and entries[place.axis] == self.size(place):
                    entries[place.axis] = place.outer * self.new * place.inner
                    op.properties[name] = to_attribute(tuple(entries))

    def size(self, place: _Place) -> int:
        """Elements of the samples' axis before."""
        return place.outer * self.old * place.inner

    def narrowed(self, op: GraphOp) -> Iterator[list[SSAValue]]:
        """The operands as they are; then cut to the first samples along some axis, where they are
        not computed from the inputs, such as first states of zeros and what was expanded."""
        yield list(op.operands)
        places = [self.places[v] for v in op.operands if v in self.places]
        sizes = {self.size(p) for p in places if p.outer == 1 and self.new < self.old}
        choices: list[list[tuple[SSAValue, int | None]]] = []
        for value in op.operands:
            axes = [i for i, n in enumerate(shape_of(value)) if n in sizes and self.each(value, i)]
            choices.append([(value, None), *((value, axis) for axis in axes)])
        for chosen in itertools.islice(itertools.product(*choices), 1, 64):
            yield [value if axis is None else self.cut(op, value, axis) for value, axis in chosen]

    def each(self, value: SSAValue, axis: int) -> bool:
        """Whether a value may have an entry for each sample along an axis without depending on the inputs.

        Of inputs whose samples do not come first only alike entries are taken for that: others may well be
        features, of which some are missing.
        """
        if value in self.places:
            return False
        owner = value.owner
        if not isinstance(owner, GetOp | LiteralOp) or all(p.axis == 0 for p in self.inputs.values()):
            return True
        target = owner.target() if isinstance(owner, GetOp) else owner
        array = target.array() if isinstance(target, ConstantOp | LiteralOp) else None
        return array is not None and bool((array == array.take([0], axis)).all())

    def cut(self, op: GraphOp, value: SSAValue, axis: int) -> SSAValue:
        """The first samples of a value along an axis."""
        shape = list(shape_of(value))
        shape[axis] = shape[axis] // self.old * self.new
        return Builder.before(op)(SliceOp.window(value, (0,) * len(shape), shape))

    def inferred(self, op: GraphOp) -> tuple[list[Attribute], list[_Place]] | None:
        """Types and places of an operator's results; None where its operands do not fit."""
        try:
            types = op.infer()
        except VerifyException:
            return None
        if types is None:
            types = self.following(op)
        places = [self.placed(op, r, t) for r, t in zip(op.results, types, strict=True)]
        known = [p for p in places if p is not None]
        return (list(types), known) if len(known) == len(places) else None

    def following(self, op: GraphOp) -> list[Attribute]:
        """Types that are part of an operator, counted from the last axis as broadcasting does."""
        types: list[Attribute] = []
        for result in op.results:
            shape = list(shape_of(result))
            for value in op.operands:
                place = self.places.get(value)
                if place is not None:
                    axis = place.axis - len(shape_of(value)) + len(shape)
                    if axis >= 0 and shape[axis] == self.size(place):
                        shape[axis] = place.outer * self.new * place.inner
            types.append(tensor(shape, element_of(result)))
        return types

    def placed(self, op: GraphOp, result: SSAValue, kind: Attribute) -> _Place | None:
        """Where a result that takes the type `kind` holds the samples."""
        before, after = shape_of(result), shape_of(kind)
        axes = [i for i, (m, n) in enumerate(zip(before, after, strict=True)) if m != n]
        if len(axes) != 1:
            return None
        operands = [self.places[v] for v in op.operands if v in self.places]
        forms = {(p.outer, p.inner) for p in operands if self.size(p) == before[axes[0]]}
        if len(forms) != 1:
            return None
        place = _Place(axes[0], *forms.pop())
        return place if after[axes[0]] == place.outer * self.new * place.inner else None

    def reshaped(self, op: ReshapeOp) -> _Place:
        """Where the samples are after a reshape: the axis whose elements their stride falls into."""
        before, after, place = shape_of(op.input), shape_of(op.result), self.places[op.input]
        old = (*before[: place.axis], self.size(place), *before[place.axis + 1 :])
        stride = place.inner * math.prod(old[place.axis + 1 :])
        for axis, size in enumerate(after):
            below = math.prod(after[axis + 1 :])
            if below and stride and stride % below == 0 and size * below % (stride * self.old) == 0:
                return _Place(axis, size * below // (stride * self.old), stride // below)
        raise self.refusal(op)


@dataclass(frozen=True)
class RebatchPass(GraphPass):
    """Make a model for `batch` samples of one whose inputs have another first dimension.

    x : tensor<8x4xf32>, reshape to 2x4x4  ->  with batch=4: x : tensor<4x4xf32>, reshape to 1x4x4
    """

    name = "glow-rebatch"
    batch: int

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        inputs = {n: shape_of(p.type) for n, p in placeholders(op).items() if p.kind.data == "input"}
        rebatch(op, {n: (self.batch, *s[1:]) for n, s in inputs.items() if s and s[0] != self.batch})
