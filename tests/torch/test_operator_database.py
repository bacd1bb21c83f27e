"""Samples of PyTorch's operator database through torch.compile: right, whether compiled or in PyTorch."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.testing._internal.common_methods_invocations")
pytestmark = pytest.mark.peers

from benchmarks.torch_operators import database, samples_of  # noqa: E402

#: Operators that are compiled, and those that run in PyTorch in some form.
COMPILED = ["cummax", "nn.functional.avg_pool2d", "logcumsumexp", "median", "masked_scatter"]
OTHERS = [
    "fft.rfft",
    "linalg.cholesky",
    "masked_select",
    "nn.functional.dropout",
    "nn.functional.embedding_bag",
]


@pytest.mark.parametrize(
    "name",
    [
        *COMPILED[:1],
        *OTHERS[:1],
        *(pytest.param(n, marks=pytest.mark.slow) for n in COMPILED[1:] + OTHERS[1:]),
    ],
)
def test_samples(name: str) -> None:
    """None wrong and none an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        types = ["float32", "int64"] if name in OTHERS else ["float32"]
        rows = [row for op in database([name]) for row in samples_of(op, types, 1, "compile")]
    kinds = {row["kind"] for row in rows}
    assert kinds and kinds <= {"compiled", "in part", "in PyTorch"}, rows
    assert name in OTHERS or kinds == {"compiled"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cummin", "nn.functional.adaptive_max_pool2d"])
def test_exported(name: str) -> None:
    """As programs of torch.export."""
    rows = [row for op in database([name]) for row in samples_of(op, ["float32"], 2, "export")]
    assert {row["kind"] for row in rows} == {"compiled"}
