"""LayerAxes: where a layer's operands have its input and output channels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glow_dialects.core.types import Array


@dataclass(frozen=True)
class LayerAxes:
    """The axes of channels of a layer: operand 0 is its input, operand 1 its weights.

    `channels`: of the input (and of the result). `outputs`, `inputs`: of the weights. With several
    `groups` one of these two axes of the weights holds the channels of a single group only.
    """

    channels: int
    outputs: int
    inputs: int
    groups: int = 1

    def beside_weights(self, vector: Array, weights: Array) -> Array:
        """One number an input channel, in a form that broadcasts with the weights."""
        return self._spread(vector, weights, self.inputs, self.outputs)

    def beside_outputs(self, vector: Array, weights: Array) -> Array:
        """One number an output channel, in a form that broadcasts with the weights."""
        return self._spread(vector, weights, self.outputs, self.inputs)

    def _spread(self, vector: Array, weights: Array, axis: int, other: int) -> Array:
        shape = [1] * weights.ndim
        shape[axis] = weights.shape[axis]
        if vector.size == weights.shape[axis]:
            return vector.reshape(shape)
        # The axis holds one group's channels; the other axis tells the group.
        rows = np.repeat(vector.reshape(self.groups, -1), weights.shape[other] // self.groups, axis=0)
        shape[other] = weights.shape[other]
        axis, other = axis % weights.ndim, other % weights.ndim
        return (rows if other < axis else rows.T).reshape(shape)

    def largest_of_inputs(self, sizes: Array) -> Array:
        """The largest of the numbers `sizes`, shaped like the weights, that meet each input channel."""
        moved = np.moveaxis(sizes, (self.outputs, self.inputs), (0, 1))
        groups = moved.reshape(self.groups, -1, *moved.shape[1:])
        return groups.max(axis=(1, *range(3, groups.ndim)), initial=0).reshape(-1)
