"""Cards of neural networks against PyTorch: values, and gradients that PyTorch's autograd gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import i8
from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.sample import random
from glow_dialects.core.types import Array, UniformQuantizedType, tensor, tensor_of
from glow_dialects.ops.avg_pool import AvgPoolOp
from glow_dialects.ops.batch_norm import BatchNormTrainOp
from glow_dialects.ops.conv import ConvOp
from glow_dialects.ops.conv_transpose import ConvTransposeOp
from glow_dialects.ops.dropout import DropoutTrainOp, uniform
from glow_dialects.ops.group_norm import GroupNormOp, InstanceNormOp
from glow_dialects.ops.gru import GruOp
from glow_dialects.ops.layer_norm import LayerNormOp, RmsNormOp
from glow_dialects.ops.loss import (
    BinaryCrossEntropyOp,
    CrossEntropyOp,
    HuberLossOp,
    L1LossOp,
    MeanSquaredErrorOp,
    SigmoidCrossEntropyOp,
)
from glow_dialects.ops.lrn import LrnOp
from glow_dialects.ops.lstm import LstmOp
from glow_dialects.ops.max_pool import MaxPoolOp, MaxPoolWithArgmaxOp
from glow_dialects.ops.quantize import DequantizeOp, QuantizeOp, RescaleOp
from glow_dialects.ops.rnn import RnnOp
from glow_dialects.ops.softmax import LogSoftmaxOp, SoftmaxOp
from glow_dialects.reverse import cotangents, differentiable, expand, on_path

torch = pytest.importorskip("torch")
F = torch.nn.functional


def check(
    kind: type[GraphOp], operands: Sequence[Array | None], peer: Callable[..., Any], **properties: Any
) -> None:
    """Compare the first result, and the gradients of every float operand, with PyTorch's."""
    arrays = [a for a in operands if a is not None]
    block = Block(arg_types=[tensor_of(a) for a in arrays])
    rest = iter(block.args)
    values = [None if a is None else next(rest) for a in operands]
    b = Builder.at_end(block)
    op = b.insert(kind(*values, **properties))
    wanted = [a for a in block.args if differentiable(a.type)]

    leaves = [None if a is None else torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in operands]
    expected = peer(*leaves)
    seed = random(*expected.shape, seed=9)
    expected.backward(torch.tensor(seed))
    y = op.evaluate(arrays)[0]
    np.testing.assert_allclose(y, expected.detach().numpy(), rtol=1e-4, atol=1e-5)

    from glow_dialects.ops.identity import IdentityOp

    root = b(IdentityOp(op.results[0]))
    expand(list(block.ops), on_path(list(block.ops), [root], wanted))
    end = Builder.at_end(block)
    grads = cotangents(list(block.ops), {root: end.constant(seed)}, wanted, end)
    known: dict[SSAValue, Array] = dict(zip(block.args, arrays, strict=True))
    for made in block.ops:
        assert isinstance(made, GraphOp)
        known.update(zip(made.results, made.evaluate([known[v] for v in made.operands]), strict=True))
    floats = [t for t in leaves if t is not None and t.requires_grad]
    for value, leaf in zip(wanted, floats, strict=True):
        grad = grads[value]
        got = np.zeros_like(known[value]) if grad is None else known[grad]
        want = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("x", "w", "strides", "pads", "dilations", "group"),
    [
        ((2, 4, 9, 8), (6, 2, 3, 2), (2, 1), (1, 1), (2, 1), 2),
        ((1, 3, 8, 8), (5, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
        ((2, 4, 7, 7), (4, 1, 3, 3), (2, 2), (1, 1), (1, 1), 4),
        ((1, 2, 9, 9), (3, 2, 2, 2), (3, 3), (0, 0), (1, 1), 1),
    ],
)
def test_conv(x: Any, w: Any, strides: Any, pads: Any, dilations: Any, group: int) -> None:
    """Strided, padded, dilated and grouped convolution."""
    data, weights, bias = random(*x), random(*w, seed=1), random(w[0], seed=2)
    check(
        ConvOp,
        (data, weights, bias),
        lambda a, f, c: F.conv2d(a, f, c, strides, pads, dilations, group),
        strides=strides,
        pads=(*pads, *pads),
        dilations=dilations,
        group=group,
    )


@pytest.mark.parametrize(("strides", "more", "group"), [((2, 2), (1, 1), 2), ((1, 3), (0, 2), 1)])
def test_conv_transpose(strides: Any, more: Any, group: int) -> None:
    """Transposed convolution with output padding."""
    check(
        ConvTransposeOp,
        (random(2, 4, 5, 4), random(4, 3, 3, 3, seed=1), random(3 * group, seed=2)),
        lambda a, f, c: F.conv_transpose2d(a, f, c, strides, 1, more, group),
        strides=strides,
        pads=(1, 1, 1, 1),
        output_pads=more,
        group=group,
    )


def test_pools() -> None:
    """Maxima, means with and without padding, and the places of maxima."""
    x, window = random(2, 3, 9, 8), {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}
    check(MaxPoolOp, (x,), lambda a: F.max_pool2d(a, 3, 2, 1), **window)
    check(AvgPoolOp, (x,), lambda a: F.avg_pool2d(a, 3, 2, 1), count_include_pad=True, **window)
    check(AvgPoolOp, (x,), lambda a: F.avg_pool2d(a, 3, 2, 1, count_include_pad=False), **window)
    block = Block(arg_types=[tensor_of(x)])
    op = Builder.at_end(block).insert(MaxPoolWithArgmaxOp(block.args[0], **window))
    places = F.max_pool2d(torch.tensor(x), 3, 2, 1, return_indices=True)[1].numpy().reshape(6, -1)
    whole = op.evaluate([x])[1].reshape(6, -1) - np.arange(6)[:, None] * 72
    np.testing.assert_array_equal(whole, places)


def test_norms() -> None:
    """Normalisations."""
    x, scale, bias = random(3, 4, 5, 2), random(4, seed=1), random(4, seed=2)
    check(BatchNormTrainOp, (x, scale, bias), lambda a, s, c: F.batch_norm(a, None, None, s, c, True))
    check(GroupNormOp, (x, scale, bias), lambda a, s, c: F.group_norm(a, 2, s, c), groups=2)
    check(InstanceNormOp, (x, scale, bias), lambda a, s, c: F.instance_norm(a, weight=s, bias=c))
    rows, gain, shift = random(3, 7), random(7, seed=1), random(7, seed=2)
    check(LayerNormOp, (rows, gain, shift), lambda a, s, c: F.layer_norm(a, (7,), s, c), axis=1)
    check(RmsNormOp, (rows, gain), lambda a, s: F.rms_norm(a, (7,), s, 1e-5), axis=1)
    check(LrnOp, (x,), lambda a: F.local_response_norm(a, 3, 0.5, 0.75, 2.0), size=3, alpha=0.5, bias=2.0)


def test_softmax() -> None:
    """Softmax and its logarithm."""
    x = random(3, 4, 5, low=-4, high=4)
    check(SoftmaxOp, (x,), lambda a: F.softmax(a, 1), axis=1)
    check(LogSoftmaxOp, (x,), lambda a: F.log_softmax(a, 2), axis=2)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignored", [None, 1, -100])
def test_cross_entropy(reduction: str, smoothing: float, weighted: bool, ignored: int | None) -> None:
    """Every combination of reduction, smoothing, class weights and ignored label."""
    weights = random(5, low=0.5, high=2) if weighted else None
    check(
        CrossEntropyOp,
        (random(6, 5, 2, low=-3, high=3), np.random.default_rng(0).integers(0, 5, (6, 2)), weights),
        lambda a, t, w: (
            F.cross_entropy(
                a,
                t,
                None if w is None else w.detach(),
                ignore_index=-100 if ignored is None else ignored,
                reduction=reduction,
                label_smoothing=smoothing,
            )
            if w is None
            else _weighted(a, t, w, -100 if ignored is None else ignored, reduction, smoothing)
        ),
        reduction=reduction,
        label_smoothing=smoothing,
        ignore_index=ignored,
    )


def _weighted(a: Any, t: Any, w: Any, ignored: int, reduction: str, smoothing: float) -> Any:
    """PyTorch has no gradient for class weights: the value is its own, the gradient ours to define."""
    logarithms = F.log_softmax(a, 1)
    hot = F.one_hot(t, a.shape[1]).movedim(-1, 1).to(a.dtype)
    kept = (t != ignored).to(a.dtype)
    target = hot * (1 - smoothing) + smoothing / a.shape[1]
    each = -(target * w[None, :, None] * logarithms).sum(1) * kept
    counted = ((hot * w[None, :, None]).sum(1) * kept).sum()
    total = each if reduction == "none" else each.sum() / (counted if reduction == "mean" else 1)
    same = F.cross_entropy(
        a, t, w.detach(), ignore_index=ignored, reduction=reduction, label_smoothing=smoothing
    )
    torch.testing.assert_close(total, same)
    return total


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_element_losses(reduction: str) -> None:
    """Losses of pairs of elements."""
    x, t = random(4, 5, low=-3, high=3), random(4, 5, low=0, seed=1)
    p = random(4, 5, low=0.05, high=0.95, seed=2)
    same = {"reduction": reduction}
    check(
        SigmoidCrossEntropyOp, (x, t), lambda a, c: F.binary_cross_entropy_with_logits(a, c, **same), **same
    )
    check(BinaryCrossEntropyOp, (p, t), lambda a, c: _clamped(a, c, reduction), **same)
    check(MeanSquaredErrorOp, (x, t), lambda a, c: F.mse_loss(a, c, **same), **same)
    check(L1LossOp, (x, t), lambda a, c: F.l1_loss(a, c, **same), **same)
    check(HuberLossOp, (x, t), lambda a, c: F.huber_loss(a, c, delta=0.7, **same), delta=0.7, **same)


def _clamped(p: Any, t: Any, reduction: str) -> Any:
    """binary_cross_entropy of PyTorch has no gradient for targets; this has."""
    each = -(t * p.log() + (1 - t) * (1 - p).log())
    torch.testing.assert_close(each, F.binary_cross_entropy(p, t.detach(), reduction="none"))
    return {"mean": each.mean, "sum": each.sum, "none": lambda: each}[reduction]()


def _onnx_order(w: Array, order: Sequence[int]) -> Array:
    """Gates of PyTorch's weights in ONNX's order."""
    parts = np.split(w, len(order))
    return np.concatenate([parts[i] for i in order])


@pytest.mark.parametrize(
    ("kind", "name", "order", "more"),
    [
        (RnnOp, "RNN", (0,), {}),
        (GruOp, "GRU", (1, 0, 2), {"linear_before_reset": True}),
        (LstmOp, "LSTM", (0, 3, 1, 2), {}),
    ],
)
@pytest.mark.parametrize("both", [False, True])
def test_recurrent(kind: type[GraphOp], name: str, order: Any, more: Any, both: bool) -> None:
    """Sequences in one and two directions."""
    torch.manual_seed(0)
    net = getattr(torch.nn, name)(3, 4, bidirectional=both)
    ends = ["", "_reverse"] if both else [""]
    take = {n: p.detach().numpy() for n, p in net.named_parameters()}
    w = np.stack([_onnx_order(take[f"weight_ih_l0{e}"], order) for e in ends])
    r = np.stack([_onnx_order(take[f"weight_hh_l0{e}"], order) for e in ends])
    biases = [[_onnx_order(take[f"bias_{k}h_l0{e}"], order) for k in "ih"] for e in ends]
    bias = np.stack([np.concatenate(pair) for pair in biases])
    x = random(5, 2, 3)
    direction = "bidirectional" if both else "forward"
    block = Block(arg_types=[tensor_of(a) for a in (x, w, r, bias)])
    op = Builder.at_end(block).insert(kind(*block.args, direction=direction, **more))
    y = op.evaluate([x, w, r, bias])
    want, states = net(torch.tensor(x))
    got = np.concatenate([y[0][:, d] for d in range(len(ends))], -1)
    np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-5, atol=1e-6)
    last = states if isinstance(states, tuple) else (states,)
    for mine, theirs in zip(y[1:], last, strict=True):
        np.testing.assert_allclose(mine, theirs.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_dropout() -> None:
    """The share that is dropped, and what happens to the rest."""
    x = np.ones((100, 100), np.float32)
    block = Block(arg_types=[tensor_of(x), tensor_of(np.array(3))])
    op = Builder.at_end(block).insert(DropoutTrainOp(*block.args, ratio=0.3, seed=1))
    y, mask = op.evaluate([x, np.array(3)])
    assert abs(mask.mean() - 0.7) < 0.02
    np.testing.assert_allclose(y, np.where(mask, 1 / 0.7, 0), rtol=1e-6)
    other = op.evaluate([x, np.array(4)])[1]
    assert (other != mask).mean() > 0.3
    assert abs(uniform(0, 0, (10000,)).mean() - 0.5) < 0.01


def test_quantize() -> None:
    """Against PyTorch's quantised tensors, per tensor and per axis."""
    x = random(3, 50, low=-9, high=9)
    q = torch.quantize_per_tensor(torch.tensor(x), 0.05, 3, torch.qint8)
    kind = tensor(x.shape, UniformQuantizedType.of(8, 0.05, 3))
    block = Block(arg_types=[tensor_of(x)])
    b = Builder.at_end(block)
    made = b.insert(QuantizeOp(block.args[0], results=kind))
    stored = made.evaluate([x])[0]
    np.testing.assert_array_equal(stored, q.int_repr().numpy())
    back = b.insert(DequantizeOp(made.result, results=tensor_of(x)))
    np.testing.assert_allclose(back.evaluate([stored])[0], q.dequantize().numpy(), rtol=1e-6)
    wider = tensor(x.shape, UniformQuantizedType.of(16, 0.025, -4))
    again = b.insert(RescaleOp(made.result, results=wider))
    np.testing.assert_array_equal(again.evaluate([stored])[0], (stored.astype(np.int64) - 3) * 2 - 4)
    scales, zeros = [0.1, 0.2, 0.05], [0, 5, -3]
    rows = torch.quantize_per_channel(
        torch.tensor(x), torch.tensor(scales), torch.tensor(zeros), 0, torch.qint8
    )
    per_axis = tensor(x.shape, UniformQuantizedType.of(8, scales, zeros, axis=0))
    stored = b.insert(QuantizeOp(block.args[0], results=per_axis)).evaluate([x])[0]
    np.testing.assert_array_equal(stored, rows.int_repr().numpy())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x, w: ConvOp(x, w, group=2), "3 input channels, the filter takes 3 in each of 2 groups"),
        (lambda x, w: ConvOp(x, w, strides=(1,)), "strides .* has 1 entries"),
        (lambda x, w: ConvOp(x, w, dilations=(9, 9)), "does not fit"),
        (lambda x, w: MaxPoolOp(x, kernel=(2,)), "kernel .* has 1 entries"),
        (lambda x, w: SoftmaxOp(x, axis=4), "axis 4"),
        (lambda x, w: AvgPoolOp(x, kernel=(2, 2), layout="HWNC"), "layout is 'HWNC'"),
        (lambda x, w: GroupNormOp(x, x, x, groups=2), "3 channels in 2 groups"),
    ],
)
def test_errors(make: Callable[..., GraphOp], message: str) -> None:
    """Operands that do not fit are named."""
    block = Block(arg_types=[tensor((1, 3, 6, 6)), tensor((4, 3, 3, 3))])
    with pytest.raises(VerifyException, match=message):
        make(*block.args)


def test_quantize_wants_quantised_types() -> None:
    """An integer type alone has no scale."""
    block = Block(arg_types=[tensor((2,))])
    with pytest.raises(VerifyException, match="expected quantised elements"):
        QuantizeOp(block.args[0], results=tensor((2,), i8)).verify()
