"""Caffe2 nets that the tests write, against PyTorch and NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow
from glow_dialects.core.types import Array
from glow_frontends.caffe2 import import_caffe2
from glow_frontends.caffe2.schema import NetDef

RNG = np.random.default_rng(0)


def operator(net: Any, kind: str, inputs: list[str], outputs: list[str], **arguments: Any) -> None:
    """Append an operator."""
    op = net.op.add(type=kind, input=inputs, output=outputs)
    for name, value in arguments.items():
        argument = op.arg.add(name=name)
        match value:
            case int():
                argument.i = value
            case float():
                argument.f = value
            case str():
                argument.s = value.encode()
            case [int(), *_]:
                argument.ints.extend(value)
            case _:
                argument.floats.extend(value)


def filled(weights: dict[str, Array]) -> Any:
    """An init net."""
    net = NetDef(name="init")
    for name, array in weights.items():
        if array.dtype == np.uint8:
            op = net.op.add(type="GivenTensorByteStringToUInt8Fill", output=[name])
            op.arg.add(name="shape").ints.extend(array.shape)
            op.arg.add(name="values").strings.append(array.tobytes())
        else:
            values = [float(v) for v in array.reshape(-1)]
            operator(net, "GivenTensorFill", [], [name], shape=list(array.shape), values=values)
    return net


def run(init: Any, predict: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """Through serialised nets, as files are read."""
    module = import_caffe2(
        init.SerializeToString(), predict.SerializeToString(), {n: a.shape for n, a in inputs.items()}
    )
    return glow.compile(module, backend="interpreter").run(inputs)


def weights(**shapes: tuple[int, ...]) -> dict[str, Array]:
    return {n: RNG.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def test_a_vision_net() -> None:
    torch = pytest.importorskip("torch")
    w = weights(c=(8, 3, 3, 3), cb=(8,), s=(8,), sb=(8,), m=(8,), f=(5, 8 * 4 * 4), fb=(5,))
    w["v"] = RNG.random(8).astype(np.float32) + 0.5
    net = NetDef(name="predict", external_input=["data", *w], external_output=["prob"])
    operator(net, "Conv", ["data", "c", "cb"], ["conv"], kernel=3, stride=2, pad=1)
    operator(net, "SpatialBN", ["conv", "s", "sb", "m", "v"], ["bn"], is_test=1, epsilon=1e-5)
    operator(net, "Relu", ["bn"], ["bn"])
    operator(net, "MaxPool", ["bn"], ["pool"], kernel=3, stride=2, pad=1)
    operator(net, "ChannelShuffle", ["pool"], ["shuffled"], group=2)
    operator(net, "FC", ["shuffled", "f", "fb"], ["fc"])
    operator(net, "Softmax", ["fc"], ["prob"])
    x = RNG.standard_normal((2, 3, 16, 16)).astype(np.float32)
    got = run(filled(w), net, {"data": x})["prob"]
    t = {n: torch.tensor(a) for n, a in w.items()}
    f = torch.nn.functional
    y = f.conv2d(torch.tensor(x), t["c"], t["cb"], 2, 1)
    y = f.relu(f.batch_norm(y, t["m"], t["v"], t["s"], t["sb"], eps=1e-5))
    y = f.channel_shuffle(f.max_pool2d(y, 3, 2, 1), 2)
    want = f.softmax(f.linear(y.flatten(1), t["f"], t["fb"]), -1)
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-5)


def test_legacy_padding_rounds_up() -> None:
    torch = pytest.importorskip("torch")
    net = NetDef(external_input=["x"], external_output=["y"])
    operator(net, "MaxPool", ["x"], ["y"], kernel=3, stride=2, legacy_pad=3)
    x = RNG.standard_normal((1, 2, 8, 8)).astype(np.float32)
    want = torch.nn.functional.max_pool2d(torch.tensor(x), 3, 2, ceil_mode=True)
    empty = filled({"unused": np.zeros(1, np.float32)})
    np.testing.assert_array_equal(run(empty, net, {"x": x})["y"], want.numpy())


def test_broadcast_along_an_axis() -> None:
    w = weights(b=(4,))
    net = NetDef(external_input=["x", "b"], external_output=["y"])
    operator(net, "Add", ["x", "b"], ["y"], broadcast=1, axis=1)
    x = RNG.standard_normal((2, 4, 3)).astype(np.float32)
    np.testing.assert_allclose(run(filled(w), net, {"x": x})["y"], x + w["b"][:, None])


def test_concat_split_slice() -> None:
    net = NetDef(external_input=["x"], external_output=["y", "info"])
    operator(net, "Split", ["x"], ["a", "b"], axis=1, split=[1, 3])
    operator(net, "Concat", ["b", "a"], ["c", "info"], axis=1)
    operator(net, "Slice", ["c"], ["y"], starts=[0, 1], ends=[-1, -2])
    x = RNG.standard_normal((2, 4)).astype(np.float32)
    out = run(filled({"unused": np.zeros(1, np.float32)}), net, {"x": x})
    np.testing.assert_array_equal(out["y"], np.concatenate([x[:, 1:], x[:, :1]], 1)[:, 1:3])
    np.testing.assert_array_equal(out["info"], [3, 1])


def _segments(rows: Array, lengths: Array) -> Array:
    ends = np.cumsum(lengths)
    return np.stack([rows[e - n : e].sum(0) for e, n in zip(ends, lengths, strict=True)])


@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_lengths(weighted: bool) -> None:
    w = weights(table=(20, 6))
    indices, lengths = RNG.integers(0, 20, 9), np.array([3, 0, 4, 2], np.int32)
    factors = RNG.random(9).astype(np.float32)
    kind = "SparseLengthsWeightedSum" if weighted else "SparseLengthsSum"
    names = ["table", *(["factors"] if weighted else []), "indices", "lengths"]
    net = NetDef(external_input=names, external_output=["y"])
    operator(net, kind, names, ["y"])
    inputs: dict[str, Array] = {"indices": indices, "lengths": lengths}
    rows = w["table"][indices]
    if weighted:
        inputs["factors"] = factors
        rows = rows * factors[:, None]
    np.testing.assert_allclose(
        run(filled(w), net, inputs)["y"], _segments(rows, lengths), rtol=1e-5, atol=1e-6
    )


def test_fused_rows_of_bytes() -> None:
    stored = RNG.integers(0, 256, (10, 4), dtype=np.uint8)
    tail = np.stack([RNG.random(10), RNG.random(10)], 1).astype(np.float32)
    table = np.concatenate([stored, tail.view(np.uint8).reshape(10, 8)], 1)
    names = ["table", "indices", "lengths"]
    net = NetDef(external_input=names, external_output=["y"])
    operator(net, "SparseLengthsSumFused8BitRowwise", names, ["y"])
    indices, lengths = np.array([1, 5, 7, 1]), np.array([2, 2], np.int32)
    got = run(filled({"table": table}), net, {"indices": indices, "lengths": lengths})["y"]
    rows = (stored.astype(np.float32) * tail[:, :1] + tail[:, 1:])[indices]
    np.testing.assert_allclose(got, _segments(rows, lengths), rtol=1e-5)


def test_every_problem_is_reported() -> None:
    net = NetDef(external_input=["x"], external_output=["z"])
    operator(net, "Nonsense", ["x"], ["a"])
    operator(net, "SpatialBN", ["x", "x", "x", "x", "x"], ["b"])
    operator(net, "Relu", ["nothing"], ["c"])
    operator(net, "Relu", ["a"], ["z"])
    empty = filled({"unused": np.zeros(1, np.float32)})
    with pytest.raises(glow.ImportProblems) as caught:
        import_caffe2(empty, net, {"x": (1, 2, 3, 3)})
    assert len(caught.value.problems) == 3
    for reason in ("no rule", "training mode", "'nothing' is not defined"):
        assert reason in str(caught.value)


def test_inputs_need_shapes() -> None:
    net = NetDef(external_input=["x"], external_output=["y"])
    operator(net, "Relu", ["x"], ["y"])
    empty = filled({"unused": np.zeros(1, np.float32)})
    with pytest.raises(glow.ShapeError, match="input 'x' has no shape"):
        import_caffe2(empty, net, {})


def test_files_that_are_no_nets(tmp_path: Path) -> None:
    (tmp_path / "bad.pb").write_bytes(b"not a net")
    with pytest.raises(glow.GlowError, match="not a Caffe2 net"):
        import_caffe2(tmp_path / "bad.pb", tmp_path / "bad.pb", {})
    with pytest.raises(glow.GlowError, match="No such file"):
        import_caffe2(tmp_path / "none.pb", tmp_path / "none.pb", {})


def test_a_pair_of_files_is_a_model(tmp_path: Path) -> None:
    net = NetDef(external_input=["x"], external_output=["y"])
    operator(net, "Relu", ["x"], ["y"])
    (tmp_path / "init.pb").write_bytes(filled({"unused": np.zeros(1, np.float32)}).SerializeToString())
    (tmp_path / "predict.pb").write_bytes(net.SerializeToString())
    pair = (tmp_path / "init.pb", tmp_path / "predict.pb")
    out = glow.compile(pair, backend="interpreter", shapes={"x": (3,)}).run({"x": -np.ones(3, np.float32)})
    np.testing.assert_array_equal(out["y"], np.zeros(3))
