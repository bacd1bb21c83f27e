"""Each rule beside PyTorch, on the samples that PyTorch tests its own operators with."""

from __future__ import annotations

import importlib
import re
from functools import cache
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.peers

from graph_runs import check  # noqa: E402

import glow_compiler as glow  # noqa: E402
from benchmarks.torch_operators import sample_calls  # noqa: E402

NAMES = """
__getitem__ _softmax_backward_data _unsafe_masked_index abs acos acosh add addbmm addcdiv addcmul addmm
addmv addr all amax amin angle any arange argmax argmin asin asinh atan atan2 atanh atleast_1d baddbmm
bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor block_diag bmm
broadcast_to bucketize cat cdist ceil chunk clamp clamp_max clamp_min clone column_stack constant_pad_nd
contiguous copysign cos cosh count_nonzero cross cummax cummin cumprod cumsum deg2rad diag diag_embed
diagonal diagonal_copy diff div dot einsum eq erf erfc erfinv exp exp2 expand expm1 eye fill flatten
flip float_power floor floor_divide fmax fmin fmod frac full full_like gather ge gradient gt heaviside
histc hypot index_add index_copy index_fill index_put index_reduce index_select inner isclose isfinite
isin isinf isnan kron le lerp linspace log log10 log1p log2 log_softmax logaddexp logaddexp2
logcumsumexp logical_and logical_not logical_or logical_xor logit logspace logsumexp lt mH masked_fill
masked_scatter matmul max maximum mean median meshgrid min minimum mm movedim mul mv nan_to_num nanmean
nanmedian nansum native_layer_norm ne neg new_full new_ones nextafter nn.functional.adaptive_avg_pool1d
nn.functional.adaptive_avg_pool2d nn.functional.adaptive_avg_pool3d nn.functional.adaptive_max_pool1d
nn.functional.adaptive_max_pool2d nn.functional.adaptive_max_pool3d nn.functional.avg_pool1d
nn.functional.avg_pool2d nn.functional.avg_pool3d nn.functional.batch_norm nn.functional.bilinear
nn.functional.binary_cross_entropy nn.functional.celu nn.functional.channel_shuffle nn.functional.conv1d
nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose1d nn.functional.conv_transpose2d
nn.functional.conv_transpose3d nn.functional.cosine_similarity nn.functional.cross_entropy
nn.functional.elu nn.functional.gelu nn.functional.glu nn.functional.grid_sample
nn.functional.group_norm nn.functional.hardshrink nn.functional.hardsigmoid nn.functional.hardswish
nn.functional.hardtanh nn.functional.huber_loss nn.functional.interpolate nn.functional.layer_norm
nn.functional.leaky_relu nn.functional.linear nn.functional.logsigmoid nn.functional.max_pool1d
nn.functional.max_pool2d nn.functional.max_pool3d nn.functional.max_unpool2d nn.functional.mish
nn.functional.mse_loss nn.functional.nll_loss nn.functional.normalize nn.functional.pairwise_distance
nn.functional.pdist nn.functional.pixel_shuffle nn.functional.pixel_unshuffle nn.functional.prelu
nn.functional.relu nn.functional.relu6 nn.functional.rms_norm nn.functional.selu nn.functional.silu
nn.functional.softmin nn.functional.softplus nn.functional.softshrink nn.functional.tanhshrink
nn.functional.threshold nn.functional.unfold nn.functional.upsample_bilinear
nn.functional.upsample_nearest permute positive pow prod put rad2deg ravel reciprocal remainder renorm
repeat reshape roll rot90 round rsqrt rsub scalar_tensor scatter scatter_add scatter_reduce searchsorted
select select_scatter sgn sigmoid sign signbit sin sinc sinh slice slice_scatter softmax special.xlog1py
split split_with_sizes sqrt square squeeze stack std std_mean sub sum t take_along_dim tan tanh tile to
trace transpose trapezoid tril triu true_divide trunc unbind unflatten unfold unfold_copy unsqueeze var
var_mean vdot view where xlogy zeros_like
"""
OPERATORS = NAMES.split()
#: Operators of which PyTorch leaves the order of equal elements open.
ORDERS = ["argsort", "kthvalue", "msort", "sort", "topk"]
#: Some that stand for the others while one works.
QUICK = ["add", "div", "index_put", "scatter_reduce", "std", "unfold", "where", "nn.functional.avg_pool2d"]
#: Forms of operators that are known to be none of ours: docs/pytorch.md.
LIMITS = re.compile(
    "depends on run-time data|scatter_reduce of booleans|edges of several axes|"
    "expected floating-point elements|running statistics that change in place"
)


@cache
def _known() -> dict[str, list[Any]]:
    """PyTorch's descriptions of its operators, by name; its module of them is slow to import."""
    described: Any = importlib.import_module("torch.testing._internal.common_methods_invocations")
    found: dict[str, list[Any]] = {}
    for op in described.op_db:
        found.setdefault(op.name, []).append(op)
    return found


def _cases() -> list[Any]:
    return [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in [*OPERATORS, *ORDERS]]


def _samples(name: str, dtypes: list[Any], most: int) -> list[Any]:
    """Samples of an operator that PyTorch computes, in some types."""
    if name not in _known():
        pytest.skip(f"this PyTorch has no samples of {name}")
    return [
        call
        for op in _known()[name]
        for dtype in dtypes
        if dtype in op.dtypes
        for call in sample_calls(op, dtype, most)
    ]


@pytest.mark.parametrize("name", _cases())
def test_operator(name: str) -> None:
    """Floats, whole numbers and truth values, on the interpreter."""
    torch.manual_seed(0)
    known = 0
    dtypes = [torch.float32] if name in ORDERS else [torch.float32, torch.int64, torch.bool]
    for function, tensors in _samples(name, dtypes, 3):
        try:
            if any(r.is_complex() for r in function(*[t.clone() for t in tensors])):
                continue
        except (RuntimeError, AttributeError):  # a sample that is an error in PyTorch, or gives no tensors
            continue
        try:
            check(function, tensors)
        except glow.ImportProblems as error:
            if not LIMITS.search(str(error)):
                raise
            continue
        known += 1
    assert known


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["add", "mul", "exp", "sum", "softmax", "matmul", "nn.functional.silu", "cat"]
)
def test_half_precision(name: str) -> None:
    """Numbers of 16 bits."""
    torch.manual_seed(0)
    for function, tensors in _samples(name, [torch.float16, torch.bfloat16], 2):
        check(function, tensors)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["add", "index_put", "nn.functional.conv2d", "nn.functional.interpolate", "scatter_add", "sort", "var"],
)
def test_on_the_cpu(name: str) -> None:
    """The same graphs, compiled."""
    torch.manual_seed(0)
    for function, tensors in _samples(name, [torch.float32], 2):
        check(function, tensors, "cpu")


def _promoting() -> dict[str, tuple[Any, list[Any]]]:
    ints, floats = torch.arange(6).reshape(2, 3), torch.linspace(-1, 1, 6).reshape(2, 3)
    small, truth = ints.to(torch.uint8), ints > 2
    return {
        "int_and_float_number": (lambda x: x + 2.5, [ints]),
        "alpha": (lambda x, y: torch.sub(x, y, alpha=3), [floats, ints]),
        "scalar_tensor": (lambda x, y: x * y, [floats.half(), torch.tensor(2.5)]),
        "bytes": (lambda x: (255 - x, x // 2, x % 3, -x), [small]),
        "byte_and_negative": (lambda x: (x > -1, x < 200, x == 255), [small]),
        "truth": (lambda x, y: (x + y, x * 3, x.sum(), x.cumsum(0), x & y), [truth, ~truth]),
        "division": (
            lambda x, y: (x / y, x // y, torch.div(x, y, rounding_mode="trunc")),
            [ints - 3, ints + 1],
        ),
        "clamp": (lambda x: (x.clamp(1, 4), x.clamp(min=0.5), x.clamp(4, 1)), [ints]),
        "powers": (lambda x: (x**2, x**0.5, 2**x, x.float() ** -1), [ints]),
        "where": (lambda c, x: torch.where(c, x, 0.5), [truth, ints]),
        "sums_of_bytes": (lambda x: (x.sum(), x.prod(), x.sum(0, dtype=torch.int16)), [small]),
        "wide": (lambda x: (x + ints, x.mean(), x.std(1, correction=0)), [floats.double()]),
    }


@pytest.mark.parametrize("name", sorted(_promoting()))
def test_promotion(name: str) -> None:
    """Types of results, of tensors and numbers of several kinds."""
    function, tensors = _promoting()[name]
    check(function, tensors)


def _places() -> dict[str, tuple[Any, list[Any]]]:
    x = torch.arange(60.0).reshape(3, 4, 5)
    rows, columns = torch.tensor([[0, -1], [2, 1]]), torch.tensor([3, 0])
    return {
        "several_adjacent": (lambda v: v[:, rows, columns], [x]),
        "several_apart": (lambda v: v[rows, :, columns], [x]),
        "known_mask": (lambda v: v[torch.tensor([True, False, True])], [x]),
        "put_apart": (
            lambda v, i: torch.ops.aten.index_put(v, [i, None, columns], torch.tensor(7.0)),
            [x, rows],
        ),
        "put_added": (lambda v, i: torch.index_put(v, [i], torch.ones(5), accumulate=True), [x, rows]),
        "put_mask": (lambda v: torch.index_put(v, [v > 30], torch.tensor(-1.0)), [x]),
        "put_rows": (lambda v: torch.index_put(v, [v[:, :, 0] > 30], torch.tensor(-1.0)), [x]),
        "shorter_gather": (lambda v, i: v.gather(1, i[..., None].expand(2, 2, 3) % 4), [x, rows]),
        "negative": (lambda v, i: v.index_select(2, columns) + v[..., i[0]], [x, rows]),
        "steps": (lambda v: v[-2:, 1::2, -3:-1], [x]),
        "strided": (lambda v: v.as_strided((3, 2), (4, 1), 5), [x]),
    }


@pytest.mark.parametrize("name", sorted(_places()))
def test_places(name: str) -> None:
    """Elements by tensors of indices, masks and slices."""
    function, tensors = _places()[name]
    check(function, tensors)


def test_index_out_of_range() -> None:
    """The run says which node found it, as PyTorch raises."""
    with pytest.raises(glow.GlowError, match=r"aten\.index_select\.default 'index_select'"):
        check_out_of_range()


def check_out_of_range() -> None:
    """An index beyond the end, which only the run knows."""
    from graph_runs import results

    good = torch.tensor([0, 1])
    graph_of = lambda x, i: x.index_select(0, i)  # noqa: E731
    results(graph_of, [torch.zeros(2, 3), good])
    from graph_runs import traced

    from glow_frontends.torch import Input, Output, import_graph

    module = import_graph(
        traced(graph_of, [torch.zeros(2, 3), good]), [Input("x"), Input("i")], [Output("y")]
    )
    net = glow.compile(module, backend="interpreter")
    net.run({"x": torch.zeros(2, 3).numpy(), "i": torch.tensor([0, 2]).numpy()})
