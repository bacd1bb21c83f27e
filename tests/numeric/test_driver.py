"""The rewriting driver knows where operations stand without walking through their block."""

from __future__ import annotations

import numpy as np
from graph_runner import Graph
from xdsl.ir import Operation

from glow_dialects.ops.unary_math import NegOp
from glow_passes.graph.driver import Rewriter
from glow_passes.graph.symbols import Symbols


def test_last_follows_what_is_inserted() -> None:
    """Numbers follow the block, however often something is inserted at one place."""
    g = Graph()
    x = g.input(np.ones(3, np.float32))
    for _ in range(5):
        x = g.b(NegOp(x))
    block = g.function.body.block
    rewriter = Rewriter(Symbols(g.module))
    draw = np.random.default_rng(0)
    for start in (0, 2, 4):
        root: Operation = list(block.ops)[start]
        for step in range(100):
            rewriter.start(root)
            new = rewriter.insert(NegOp(x))
            root = new if step % 3 else root
            ops = list(block.ops)
            place = ops.index(new)
            for some in (
                draw.choice(len(ops), 3, replace=False).tolist(),
                [place, place + 1],
                [place, place - 1],
            ):
                assert rewriter.last([ops[i] for i in some]) is ops[max(i % len(ops) for i in some)]
