"""What becomes one kernel of attention, and what does not: the results stay as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_runner import Graph
from xdsl.ir import SSAValue

from glow_backends.cpu.emit.pointwise import Pointwise, Step
from glow_backends.cpu.fused_body import body_of
from glow_backends.cpu.kernels.gemm.attention_op import AttentionOp
from glow_backends.cpu.kernels.gemm.attention_spec import FEW_ROWS
from glow_backends.cpu.kernels.gemm.gemm_op import GemmOp
from glow_backends.cpu.passes.cpu_attention import CpuAttentionPass
from glow_dialects.core.types import shape_of, tensor
from glow_dialects.dialects import context
from glow_dialects.ops.arithmetic import AddOp
from glow_dialects.ops.expand import ExpandOp
from glow_dialects.ops.reshape import ReshapeOp
from glow_dialects.ops.slice import SliceOp
from glow_dialects.ops.softmax import SoftmaxOp
from glow_dialects.ops.transpose import TransposeOp
from glow_passes.graph.dce import DcePass

R = np.random.default_rng(0)
HEADS_INSIDE, LAST_TWO = (0, 2, 1, 3), (0, 1, 3, 2)
Build = Callable[[Graph], SSAValue]


def given(g: Graph, *shape: int, dtype: str = "float32") -> SSAValue:
    """An input."""
    return g.input(R.normal(size=shape).astype(dtype))


def product(g: Graph, a: SSAValue, b: SSAValue, bias: Any = None, extras: Any = (), **more: Any) -> SSAValue:
    """A product of matrices."""
    return g.b(GemmOp(a, b, bias, list(extras), **more))


def body(*steps: str, inputs: int = 1) -> Any:
    """The body of a product that applies operators to its sum, the first ones with one more input each."""
    count = inputs
    made = [
        Step(name, (0 if i == 0 else count + i - 1, *([i + 1] if i + 1 < count else [])))
        for i, name in enumerate(steps)
    ]
    return body_of(Pointwise(inputs, tuple(made), (count + len(steps) - 1,), ("f32",) * inputs))


def attend(
    g: Graph,
    q: SSAValue | None = None,
    k: SSAValue | None = None,
    v: SSAValue | None = None,
    masks: Any = (),
    *,
    axis: int | None = None,
    first: Any = None,
    second: Any = None,
) -> SSAValue:
    """softmax(q k' + masks) v; `first` and `second` are options of the products."""
    q, k, v = (given(g, 2, 3, n, 8) if x is None else x for x, n in ((q, 5), (k, 6), (v, 6)))
    scores = product(g, q, k, **({"transpose_b": True} if first is None else first))
    for mask in masks:
        scores = g.b(AddOp(scores, mask))
    last = len(shape_of(scores)) - 1
    return product(g, g.b(SoftmaxOp(scores, axis=last if axis is None else axis)), v, **(second or {}))


def found(g: Graph) -> list[str]:
    """The operators after the pass, which leaves the results as they were."""
    before = g.run()
    for item in (CpuAttentionPass(), DcePass()):
        item.apply(context(), g.module)
    g.module.verify()
    for have, want in zip(g.run(), before, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)
    return [op.removeprefix("glow_cpu.") for op in g.ops()]


def mask(*shape: int) -> Build:
    """Attention with a mask of some shape."""
    return lambda g: attend(g, masks=[given(g, *shape)])


def rank(*lead: int) -> Callable[..., Build]:
    """Attention of some axes before the last two, with masks of some shapes."""

    def build(*masks: tuple[int, ...]) -> Build:
        return lambda g: attend(
            g, *(given(g, *lead, n, 8) for n in (5, 6, 6)), masks=[given(g, *m) for m in masks]
        )

    return build


def keys(rows: int, order: tuple[int, ...]) -> Build:
    """Attention of some rows to keys that are transposed."""

    def build(g: Graph) -> SSAValue:
        sizes = (2, 3, 6, 8)
        stored = given(g, *(sizes[order.index(i)] for i in range(4)))
        return attend(g, given(g, 2, 3, rows, 8), g.b(TransposeOp(stored, permutation=order)))

    return build


ONE: dict[str, Build] = {
    "plain": attend,
    "one row": lambda g: attend(g, given(g, 2, 3, 1, 8)),
    "keys as columns": lambda g: attend(g, k=given(g, 2, 3, 8, 6), first={}),
    "few rows, keys as rows": keys(FEW_ROWS - 1, HEADS_INSIDE),
    "rows, keys as columns": keys(FEW_ROWS, LAST_TWO),
    "rows of q as columns": lambda g: attend(g, g.b(TransposeOp(given(g, 2, 3, 8, 2), permutation=LAST_TWO))),
    "scaled": lambda g: attend(g, first={"transpose_b": True, "scale": 0.5}),
    "masked": mask(2, 3, 5, 6),
    "mask of rows": mask(5, 1),
    "mask of keys": mask(6),
    "mask on the left": lambda g: product(
        g,
        g.b(
            SoftmaxOp(
                g.b(AddOp(given(g, 5, 6), product(g, given(g, 2, 3, 5, 8), given(g, 2, 3, 8, 6)))), axis=3
            )
        ),
        given(g, 2, 3, 6, 8),
    ),
    "mask in the product": lambda g: attend(
        g,
        first={"transpose_b": True, "extras": [given(g, 2, 3, 5, 6)], "body": body("add", inputs=2)},
    ),
    "mask of columns in the product": lambda g: attend(g, first={"transpose_b": True, "bias": given(g, 6)}),
}
RESHAPED: dict[str, Build] = {
    "no heads": rank()(),
    "no heads, masked": rank()((5, 6)),
    "no batch": rank(3)((3, 5, 6)),
    "no batch, mask of all": rank(3)((6,)),
    "windows": rank(2, 3, 4)(),
    "windows, mask of each": rank(2, 3, 4)((2, 3, 1, 5, 6)),
    "windows, mask of all": rank(2, 3, 4)((4, 5, 6)),
}
APART: dict[str, Build] = {
    "another axis": lambda g: attend(g, axis=2),
    "a bias behind": lambda g: attend(g, second={"bias": given(g, 8)}),
    "a step behind": lambda g: attend(g, second={"body": body("exp")}),
    "a scale behind": lambda g: attend(g, second={"scale": 0.5}),
    "transposed scores": lambda g: attend(
        g, given(g, 2, 3, 6, 8), given(g, 2, 3, 6, 8), second={"transpose_a": True}
    ),
    "transposed queries": lambda g: attend(
        g, given(g, 2, 3, 8, 5), first={"transpose_a": True, "transpose_b": True}
    ),
    "another step before": lambda g: attend(g, first={"transpose_b": True, "body": body("exp")}),
    "two masks": lambda g: attend(g, masks=[given(g, 6)], first={"transpose_b": True, "bias": given(g, 6)}),
    "two masks behind": lambda g: attend(g, masks=[given(g, 6), given(g, 5, 1)]),
    "float64": lambda g: attend(g, *(given(g, 2, 3, n, 8, dtype="float64") for n in (5, 6, 6))),
    "values as columns": lambda g: attend(g, v=given(g, 2, 3, 8, 6), second={"transpose_b": True}),
    "few rows, keys as columns": keys(FEW_ROWS - 1, LAST_TWO),
    "one q for all heads": lambda g: attend(g, given(g, 5, 8)),
    "no scores": lambda g: product(g, g.b(SoftmaxOp(given(g, 2, 3, 5, 6), axis=3)), given(g, 2, 3, 6, 8)),
    "no rows": lambda g: attend(g, given(g, 2, 3, 0, 8)),
    "a mask that repeats inside": rank(2, 3, 4)((3, 1, 5, 6)),
}


@pytest.mark.parametrize("name", ONE)
def test_one_kernel(name: str) -> None:
    """Operands lie where they lie: orders, masks and a scale are the kernel's."""
    g = Graph()
    g.save(ONE[name](g))
    assert set(found(g)) <= {"attention", "reshape"}


@pytest.mark.parametrize("name", RESHAPED)
def test_other_ranks(name: str) -> None:
    """All axes before the heads are one batch."""
    g = Graph()
    g.save(RESHAPED[name](g))
    assert set(found(g)) == {"attention", "reshape"}


@pytest.mark.parametrize("name", APART)
def test_stays(name: str) -> None:
    """What the kernel does not compute."""
    g = Graph()
    g.save(APART[name](g))
    assert "attention" not in found(g)


def repeated(
    g: Graph, source: tuple[int, ...], single: tuple[int, ...], wide: tuple[int, ...], order: Any = None
) -> SSAValue:
    """Keys or values [2, 6, 6, 8] that repeat fewer ones, through shapes like [2, 3, 2, 6, 8]."""
    value = given(g, *source)
    for op, shape in ((ReshapeOp.to, single), (None, wide), (ReshapeOp.to, (2, 6, 6, 8))):
        value = g.b(ExpandOp(value, results=tensor(shape)) if op is None else op(value, shape))
    return value if order is None else g.b(TransposeOp(value, permutation=order))


SHARED = ((2, 3, 6, 8), (2, 3, 1, 6, 8), (2, 3, 2, 6, 8))
NOT_SHARED: dict[str, tuple[tuple[int, ...], ...]] = {
    "heads after each other": ((2, 3, 6, 8), (2, 1, 3, 6, 8), (2, 2, 3, 6, 8)),
    "heads of all batches": ((1, 3, 6, 8), (1, 3, 1, 6, 8), (1, 3, 4, 6, 8)),
    "rows": ((2, 6, 3, 8), (2, 6, 1, 3, 8), (2, 6, 2, 3, 8)),
    "no axis of heads": ((6, 6, 8), (1, 6, 6, 8), (2, 6, 6, 8)),
    "an axis ahead": ((2, 1, 6, 8), (1, 2, 1, 1, 6, 8), (1, 2, 3, 2, 6, 8)),
}


def test_shared_heads_are_read_where_they_are() -> None:
    """Heads that follow each other share keys and values; of both as many."""
    g = Graph()
    g.save(attend(g, given(g, 2, 6, 5, 8), repeated(g, *SHARED), repeated(g, *SHARED)))
    assert found(g) == ["attention"]


@pytest.mark.parametrize("name", NOT_SHARED)
def test_other_repeats(name: str) -> None:
    """What repeats in another way is read as it is."""
    g = Graph()
    g.save(attend(g, given(g, 2, 6, 5, 8), *(repeated(g, *NOT_SHARED[name]) for _ in "kv")))
    assert "expand" in found(g)


@pytest.mark.parametrize("kind", ["keys", "values", "fewer keys", "turned"])
def test_shared_by_one_of_both(kind: str) -> None:
    """The kernel has one number of heads for keys and values, ahead of their rows."""
    g = Graph()
    fewer = (2, 2, 6, 8), (2, 2, 1, 6, 8), (2, 2, 3, 6, 8)
    k, v = {
        "keys": (SHARED, None),
        "values": (None, SHARED),
        "fewer keys": (fewer, SHARED),
        "turned": (SHARED, SHARED),
    }[kind]
    made = [given(g, 2, 6, 6, 8) if x is None else repeated(g, *x) for x in (k, v)]
    if kind == "turned":
        made = [g.b(TransposeOp(x, permutation=HEADS_INSIDE)) for x in made]
    g.save(attend(g, given(g, 2, 6, 5, 8), *made))
    assert "expand" in found(g)


def part(g: Graph, whole: tuple[int, ...], start: int = 0, step: int = 1, axis: int = 2) -> SSAValue:
    """Keys or values [2, 3, 6, 8] that are a part of more."""
    sizes = [2, 3, 6, 8]
    starts, steps, ends = [0] * 4, [1] * 4, [*sizes]
    starts[axis], steps[axis], ends[axis] = start, step, start + (sizes[axis] - 1) * step + 1
    return g.b(SliceOp(given(g, *whole), starts=starts, ends=ends, steps=steps))


def test_first_of_more() -> None:
    """The first keys and values of as many."""
    g = Graph()
    g.save(attend(g, k=part(g, (2, 3, 20, 8)), v=part(g, (2, 3, 20, 8))))
    assert found(g) == ["attention"]


@pytest.mark.parametrize(
    ("k", "v"),
    [
        (((2, 3, 20, 8),), None),
        (None, ((2, 3, 20, 8),)),
        (((2, 3, 20, 8),), ((2, 3, 21, 8),)),
        *(((whole, *more),) * 2 for whole, *more in (
            ((2, 3, 20, 8), 1), ((2, 3, 20, 8), 0, 2), ((2, 4, 6, 8), 0, 1, 1), ((2, 3, 6, 9), 0, 1, 3),
        )),
    ],
)  # fmt: skip
def test_other_parts(k: Any, v: Any) -> None:
    """Parts of one operand, of different numbers, behind the first, with steps or along other axes."""
    g = Graph()
    made = [given(g, 2, 3, 6, 8) if x is None else part(g, *x) for x in (k, v)]
    g.save(attend(g, None, *made))
    assert "slice" in found(g)


@pytest.mark.parametrize(
    ("order", "then", "read", "joined"),
    [
        (None, HEADS_INSIDE, False, True),
        (None, HEADS_INSIDE, True, False),  # the kernel would run twice
        (None, LAST_TWO, False, False),  # columns are the last
        (HEADS_INSIDE, HEADS_INSIDE, False, False),  # it has an order already
    ],
)
def test_order_of_the_result(order: Any, then: Any, read: bool, joined: bool) -> None:
    """Heads move behind the rows where the kernel writes."""
    g = Graph()
    options = {} if order is None else {"order": order}
    y = g.b(AttentionOp(*(given(g, 2, 3, n, 8) for n in (5, 6, 6)), **options))
    g.save(g.b(TransposeOp(y, permutation=then)))
    if read:
        g.save(y)
    assert ("transpose" not in found(g)) == joined


@pytest.mark.parametrize("kind", ["scores", "sums", "probabilities", "mask of more"])
def test_what_others_read(kind: str) -> None:
    """Scores that are read elsewhere, or are of another shape than the sum with the mask, are made apart."""
    g = Graph()
    lead = (3,) if kind == "mask of more" else (2, 3)
    p = product(g, given(g, *lead, 5, 8), given(g, *lead, 8, 6))
    m = g.b(AddOp(p, given(g, 2, 3, 5, 6)))
    s = g.b(SoftmaxOp(m, axis=3))
    g.save(product(g, s, given(g, 2, 3, 6, 8)))
    read = {"scores": p, "sums": m, "probabilities": s}
    if kind in read:
        g.save(read[kind])
    assert "attention" not in found(g)
