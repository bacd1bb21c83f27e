"""Matrix products in references: float32 is accumulated in float64 and rounded once.

So a reference is the same whichever kernels NumPy's BLAS picks for the processor, and equal rows give
equal sums.
"""

from __future__ import annotations

import numpy as np

from glow_dialects.core.types import Array


def exact(x: Array) -> Array:
    """The array in the type in which products are summed: float64 for float32."""
    return x.astype(np.float64) if x.dtype == np.float32 else x


def matmul(x: Array, y: Array) -> Array:
    """`numpy.matmul`, in the wider of the operands' dtypes."""
    return np.matmul(exact(x), exact(y)).astype(np.result_type(x, y), copy=False)
