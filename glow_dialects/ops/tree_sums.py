"""tree_sums: decision-tree ensembles, the sum of the leaf weights that each sample reaches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, result_def
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.properties import int_prop
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor, element_of, shape_of, tensor
from glow_dialects.ops.arithmetic import AddOp, SubOp
from glow_dialects.ops.compare import CmpEqOp, CmpLeOp, CmpLtOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.gather import GatherOp
from glow_dialects.ops.gather_elements import GatherElementsOp
from glow_dialects.ops.logic import AndOp, IsNanOp, OrOp
from glow_dialects.ops.reduce import ReduceSumOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.select import SelectOp


@graph_op
class TreeSumsOp(PureOp):
    """result[n, k] = sum over the trees of weights[leaf that x[n] reaches, k].

    A sample at node i goes to node `left`[i] where x[n, f] <= `splits`[i], else to the node behind that one;
    f is `features`[i], and NaN goes behind. Where `features`[i] is negative, f is -1 - `features`[i], and NaN
    goes left. A node whose `left` is itself is a leaf. Trees begin at `roots`, and no way to a leaf has more
    than `depth` branches. x is f32 or f64 [N, F]; features and left i32 [M], splits [M] and weights
    [M, K] of x's type, roots i32 [T].
    """

    name = "glow.tree_sums"
    depth = int_prop()
    input = operand_def(Tensor)
    features = operand_def(Tensor)
    splits = operand_def(Tensor)
    left = operand_def(Tensor)
    weights = operand_def(Tensor)
    roots = operand_def(Tensor)
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        real = element_of(self.input)
        nodes = shape_of(self.splits)
        forms = [shape_of(v) for v in (self.features, self.left, self.weights)]
        kinds = [element_of(v) for v in (self.features, self.left, self.roots)]
        fits = len(nodes) == 1 and forms[:2] == [nodes, nodes] and len(forms[2]) == 2
        if not fits or forms[2][:1] != nodes or kinds != [i32] * 3 or len(shape_of(self.roots)) != 1:
            raise VerifyException(
                f"{self.name}: nodes {', '.join(map(str, forms))} of {nodes} splits; give one node per split"
            )
        if len(shape_of(self.input)) != 2 or {element_of(self.splits), element_of(self.weights)} != {real}:
            raise VerifyException(
                f"{self.name}: samples {self.input.type} with {self.splits.type}; both need the same "
                "element type"
            )
        if self.depth < 0:
            raise VerifyException(f"{self.name}: a depth of {self.depth}; give at least 1")
        return [tensor((shape_of(self.input)[0], forms[2][1]), real)]

    def decompose(self, b: Builder) -> Sequence[SSAValue]:
        """All samples and trees one level down at a time, as the reference does."""
        count, trees = shape_of(self.input)[0], shape_of(self.roots)[0]
        row = b(ReshapeOp.to(self.roots, (1, trees)))
        nodes = b(ExpandOp(row, results=tensor((count, trees), i32)))
        for _ in range(self.depth):
            feature = b(GatherOp(self.features, nodes))
            inverted = b(CmpLtOp(feature, b.splat(0, feature)))
            column = b(SelectOp(inverted, b(SubOp(b.splat(-1, feature), feature)), feature))
            value = b(GatherElementsOp(self.input, column, axis=1))
            absent = b(AndOp(b(IsNanOp(value)), inverted))
            stays = b(OrOp(b(CmpLeOp(value, b(GatherOp(self.splits, nodes)))), absent))
            below = b(GatherOp(self.left, nodes))
            moved = b(SelectOp(stays, below, b(AddOp(below, b.splat(1, below)))))
            nodes = b(SelectOp(b(CmpEqOp(below, nodes)), nodes, moved))
        return [b(ReduceSumOp(b(GatherOp(self.weights, nodes)), axes=(1,), keepdims=False))]

    def reference(
        self,
        result: Array,
        input: Array,
        features: Array,
        splits: Array,
        left: Array,
        weights: Array,
        roots: Array,
    ) -> None:
        nodes = np.tile(roots, (len(input), 1))
        rows = np.arange(len(input))[:, None]
        for _ in range(self.depth):
            feature = features[nodes]
            value = input[rows, np.where(feature < 0, -1 - feature, feature)]
            stays = (value <= splits[nodes]) | (np.isnan(value) & (feature < 0))
            below = left[nodes]
            nodes = np.where(below == nodes, nodes, below + ~stays)
        result[...] = weights[nodes].sum(1)


def _forest(trees: int, targets: int) -> tuple[Array, ...]:
    """Trees of one form: a root, a leaf on its left, two leaves on its right."""
    each = np.array([1, 1, 3, 3, 4], np.int32)
    left = np.concatenate([each + 5 * t for t in range(trees)]).astype(np.int32)
    r = np.random.default_rng(trees)
    features = np.where(r.random(left.size) < 0.5, -1, 1) * r.integers(1, 3, left.size)
    splits, weights = r.standard_normal(left.size), r.standard_normal((left.size, targets))
    return (
        features.astype(np.int32),
        splits.astype(np.float32),
        left,
        weights.astype(np.float32),
        (5 * np.arange(trees)).astype(np.int32),
    )


SAMPLES: tuple[Sample, ...] = (
    Sample(TreeSumsOp, (random(5, 3), *_forest(3, 1)), {"depth": 2}, smooth=False),
    Sample(TreeSumsOp, (random(37, 4), *_forest(21, 3)), {"depth": 2}, smooth=False),
    Sample(TreeSumsOp, (random(1, 3), *_forest(40, 2)), {"depth": 2}, smooth=False),
)
