"""Which moves of axes are an order of channels in their blocks; the results stay as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_runner import Graph

from glow_backends.cpu.kernels.data.blocking_ops import BlockOp, UnblockOp
from glow_backends.cpu.passes.cpu_channels import CpuChannelsPass
from glow_dialects.dialects import context
from glow_dialects.ops.relu import ReluOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.graph.dce import DcePass

R = np.random.default_rng(0)
SPLIT = (1, 2, 6, 4, 4)
SHUFFLE = (0, 2, 1, 3, 4)


def moved(
    split: tuple[int, ...] = SPLIT,
    permutation: tuple[int, ...] = SHUFFLE,
    joined: tuple[int, ...] = (1, 12, 4, 4),
    lanes: int = 8,
    layouts: tuple[str, str] = ("NCHW", "NCHW"),
    step: int | None = None,
) -> list[str]:
    """The operators that the pass makes of twelve channels in blocks of eight, moved; `step` adds a relu."""
    g = Graph()
    ops: list[Any] = [
        lambda x: UnblockOp(x, channels=12, layout=layouts[0]),
        lambda x: ReshapeOp.to(x, split),
        lambda x: TransposeOp(x, permutation=permutation),
        lambda x: ReshapeOp.to(x, joined),
        lambda x: BlockOp(x, lanes=lanes, layout=layouts[1]),
    ]
    if step is not None:
        ops.insert(step, ReluOp)
    x = g.input(R.normal(size=(1, 2, 4, 4, 8)).astype(np.float32))
    for op in ops:
        x = g.b(op(x))
    g.save(x)
    before = g.run()
    for item in (CpuChannelsPass(), DcePass()):
        item.apply(context(), g.module)
    g.module.verify()
    np.testing.assert_array_equal(g.run()[0], before[0])
    return g.ops()


@pytest.mark.parametrize(
    ("split", "permutation"), [(SPLIT, SHUFFLE), ((1, 2, 3, 2, 4, 4), (0, 3, 1, 2, 4, 5))]
)
def test_orders(split: tuple[int, ...], permutation: tuple[int, ...]) -> None:
    """Shuffles of two and more axes."""
    assert moved(split, permutation) == ["glow_cpu.permute_channels"]


@pytest.mark.parametrize(
    "case",
    [
        {"split": (1, 12, 2, 2, 4), "permutation": (0, 1, 3, 2, 4)},  # rows move, which are two axes
        {"permutation": (0, 1, 2, 4, 3)},  # columns become rows
        {"permutation": (1, 0, 2, 3, 4)},  # channels become images
        {"split": (2, 6, 4, 4), "permutation": (0, 1, 2, 3)},  # and of two images
        {"split": (1, 4, 12, 4), "permutation": (0, 1, 2, 3)},  # rows become channels
        {"split": (1, 3, 4, 2, 8)},  # of another size
        {"joined": (1, 16, 4, 3)},  # other channels
        {"lanes": 4},
        {"layouts": ("NHWC", "NCHW"), "split": (1, 2, 2, 4, 12), "joined": (1, 4, 4, 12)},
        {"layouts": ("NCHW", "NHWC")},
        *({"step": i} for i in range(1, 5)),
    ],
    ids=str,
)
def test_other_moves(case: dict[str, Any]) -> None:
    """More than the channels move, blocks become others, or something is computed between."""
    assert "glow_cpu.permute_channels" not in moved(**case)
