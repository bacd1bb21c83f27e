"""States of executables: what calls hand to each other, beside the same model whose caller does that."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import glow_compiler as glow
from glow_backends.host_fallback import HostFallback

Arrays = dict[str, np.ndarray]
HEADS, DEPTH = 2, 16


def _port(name: str, *dims: int | str, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, list(dims))


def _model(
    nodes: list[onnx.NodeProto], inputs: Any, outputs: Any, **constants: np.ndarray
) -> onnx.ModelProto:
    weights = [onnx.numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "states", list(inputs), list(outputs), weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _node(op: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], **attributes)


def _decoder(batch: int | str = 1) -> onnx.ModelProto:
    """One head each of attention over all values so far, which the caller hands on."""
    nodes = [
        _node("Concat", "past_key_values.0.key k", "present.0.key", axis=2),
        _node("Concat", "past_key_values.0.value v", "present.0.value", axis=2),
        _node("Transpose", "present.0.key", "turned", perm=[0, 1, 3, 2]),
        _node("MatMul", "q turned", "products"),
        _node("Mul", "products scale", "scores"),
        _node("Softmax", "scores", "weights", axis=3),
        _node("MatMul", "weights present.0.value", "y"),
    ]
    rows = [_port(n, batch, HEADS, "s", DEPTH) for n in "qkv"]
    pasts = [_port(f"past_key_values.0.{n}", batch, HEADS, "past", DEPTH) for n in ("key", "value")]
    presents = [_port(f"present.0.{n}", batch, HEADS, "total", DEPTH) for n in ("key", "value")]
    scale = np.array(DEPTH**-0.5, np.float32)
    return _model(nodes, [*rows, *pasts], [_port("y", batch, HEADS, "s", DEPTH), *presents], scale=scale)


class Reference:
    """onnxruntime, with a caller that hands the outputs on."""

    def __init__(self, model: onnx.ModelProto, pairs: dict[str, str], first: Arrays) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        self._names = [o.name for o in self._session.get_outputs()]
        self.pairs, self.values = pairs, dict(first)

    def run(self, inputs: Arrays) -> Arrays:
        made = self._session.run(None, {**inputs, **self.values})
        out: dict[str, Any] = dict(zip(self._names, made, strict=True))
        self.values = {name: out.pop(output) for output, name in self.pairs.items()}
        return out


PAIRS = {f"present.0.{n}": f"past_key_values.0.{n}" for n in ("key", "value")}


def _past(batch: int = 1, length: int = 0) -> Arrays:
    r = np.random.default_rng(length)
    shape = batch, HEADS, length, DEPTH
    return {name: r.standard_normal(shape).astype(np.float32) for name in PAIRS.values()}


def _rows(length: int, seed: int = 0, batch: int = 1) -> Arrays:
    r = np.random.default_rng(seed)
    return {n: r.standard_normal((batch, HEADS, length, DEPTH)).astype(np.float32) for n in "qkv"}


def _same(net: Any, state: Any, reference: Reference, inputs: Arrays) -> None:
    """A call beside the reference's, and the values after it."""
    out, expected = net.run(inputs, state=state), reference.run(inputs)
    assert out.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(out[name], array, rtol=1e-4, atol=1e-5)
    for name, array in reference.values.items():
        np.testing.assert_allclose(state[name], array, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def decoder() -> Any:
    return glow.compile(_decoder(), states="auto")


@settings(max_examples=12, deadline=None)
@given(lengths=st.lists(st.sampled_from([0, 1, 1, 1, 2, 3, 5, 17, 40]), min_size=1, max_size=7))
def test_any_lengths(decoder: Any, lengths: list[int]) -> None:
    """Prompts and single steps, in any order, none of them longer than what is there or all of them."""
    state = decoder.state()
    reference = Reference(_decoder(), PAIRS, _past())
    if lengths[0] == 0:
        lengths = [1, *lengths]  # nothing at all has no softmax
    for seed, length in enumerate(lengths):
        _same(decoder, state, reference, _rows(length, seed))
    assert state.length == sum(lengths)


def test_memory_grows_and_is_reused(decoder: Any) -> None:
    """A token is written where it belongs; only full memory is left for twice as much."""
    state = decoder.state(_past(length=250))
    reference = Reference(_decoder(), PAIRS, _past(length=250))
    places: list[int] = []
    for seed in range(8):
        _same(decoder, state, reference, _rows(1, seed))
        places.append(state._arrays["past_key_values.0.key"].ctypes.data)
    assert len(set(places)) == 2 and places[0] == places[3] and places[4] == places[7]
    assert state.length == 258 and state.capacity == 510
    before = state.copy()
    state.truncate(100)
    reference.values = {n: np.ascontiguousarray(a[:, :, :100]) for n, a in reference.values.items()}
    _same(decoder, state, reference, _rows(3))
    assert before.length == 258
    state.reset()
    assert state.length == 0 and state["past_key_values.0.key"].shape == (1, HEADS, 0, DEPTH)
    _same(decoder, state, Reference(_decoder(), PAIRS, _past()), _rows(4))


def test_capacity(decoder: Any) -> None:
    """A state that may have no more places says so, and is what it was."""
    state = decoder.state(capacity=8)
    reference = Reference(_decoder(), PAIRS, _past())
    for length in (5, 1, 1, 1):
        _same(decoder, state, reference, _rows(length, length))
    for length in (1, 9):
        with pytest.raises(
            glow.GlowError, match=rf"the state is full: .* have length {8 + length}, capacity=8"
        ):
            decoder.run(_rows(length), state=state)
    assert state.length == 8
    state.truncate(6)
    reference.values = {n: np.ascontiguousarray(a[:, :, :6]) for n, a in reference.values.items()}
    _same(decoder, state, reference, _rows(2))
    with pytest.raises(glow.GlowError, match="would have length 9, capacity=8"):
        decoder.state(_past(length=9), capacity=8)
    for wrong in (0, -1, 2.5):
        with pytest.raises(glow.GlowError, match="expected a positive length"):
            decoder.state(capacity=wrong)


def test_open_batch() -> None:
    """Sizes that inputs tell, too, are theirs; another one is for another state."""
    net = glow.compile(_decoder("batch"), states=PAIRS)
    for batch in (1, 3):
        state, reference = net.state(), Reference(_decoder("batch"), PAIRS, _past(batch))
        with pytest.raises(glow.BindingError, match="has no value yet: the first call determines its sizes"):
            state["past_key_values.0.key"]
        for length in (4, 1, 1):
            _same(net, state, reference, _rows(length, batch=batch))
    with pytest.raises(glow.BindingError, match="is for batch=3, the inputs have 2: use another state"):
        net.run(_rows(1, batch=2), state=state)


def test_sequences_at_once(decoder: Any) -> None:
    """Calls of several threads on states of their own are those of one thread; one state is for one call."""

    def generate(seed: int) -> np.ndarray:
        state = decoder.state()
        return np.concatenate(
            [decoder.run(_rows(n, seed + i), state)["y"] for i, n in enumerate((6, 1, 1, 2, 1))], 2
        )

    with ThreadPoolExecutor(4) as threads:
        for seed, made in enumerate(threads.map(generate, range(12))):
            np.testing.assert_array_equal(made, generate(seed))
    state = decoder.state()
    with state._used(), pytest.raises(glow.BindingError, match="used by another call at the same time"):
        decoder.run(_rows(1), state=state)
    futures = [decoder.submit(_rows(3, i), state=decoder.state()) for i in range(4)]
    for i, future in enumerate(futures):
        np.testing.assert_array_equal(future.result()["y"], decoder.run(_rows(3, i), decoder.state())["y"])


def test_files(tmp_path: Path) -> None:
    """Values in NumPy's files; programs with states in one file."""
    decoder = glow.compile(_decoder(), states="auto")
    state = decoder.state()
    for length in (5, 1, 1, 1):
        decoder.run(_rows(length), state)
    arrays: Any = dict(state)
    np.savez(tmp_path / "state.npz", **arrays)
    again = decoder.state(np.load(tmp_path / "state.npz"))
    expected = decoder.run(_rows(1), state)["y"]
    np.testing.assert_array_equal(decoder.run(_rows(1), again)["y"], expected)
    decoder.save(tmp_path / "net.glow")
    loaded = glow.load_program(tmp_path / "net.glow")
    assert [s.name for s in loaded.inputs] == list("qkv") and [s.name for s in loaded.outputs] == ["y"]
    other = loaded.state(np.load(tmp_path / "state.npz"))
    np.testing.assert_array_equal(loaded.run(_rows(1), other)["y"], expected)
    with pytest.raises(glow.UnsupportedError, match="compiled already, with the states that it has"):
        glow.compile(tmp_path / "net.glow", states=PAIRS)
    with pytest.raises(glow.BindingError, match="the state is of another executable"):
        loaded.run(_rows(1), state)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_what_is_no_longer_concatenation(backend: str) -> None:
    """The last four rows of all: a next value that is not the one before with more behind it."""
    nodes = [
        _node("Concat", "past x", "all", axis=1),
        _node("Slice", "all start end axis", "present"),
        _node("ReduceSum", "all axis", "y", keepdims=0),
    ]
    numbers = {"start": [-4], "end": [1 << 40], "axis": [1]}
    model = _model(
        nodes,
        [_port("x", 1, "s", 3), _port("past", 1, "p", 3)],
        [_port("y", 1, 3), _port("present", 1, "q", 3)],
        **{n: np.array(v, np.int64) for n, v in numbers.items()},
    )
    net = glow.compile(model, backend=backend, states="auto")
    state = net.state()
    reference = Reference(model, {"present": "past"}, {"past": np.zeros((1, 0, 3), np.float32)})
    for seed, length in enumerate((2, 1, 3, 1, 6, 1)):
        x = np.random.default_rng(seed).standard_normal((1, length, 3)).astype(np.float32)
        _same(net, state, reference, {"x": x})
    assert state.length == 4


def test_nodes_on_the_host() -> None:
    """A model that is no one program takes its states and gives the next ones, in the same memory."""
    nodes = [
        _node("Concat", "past x", "present", axis=1),
        _node("NonZero", "present", "places"),
        _node("Cast", "places", "y", to=TensorProto.FLOAT),
    ]
    outputs = [_port("y", 2, "k"), _port("present", 3, "q")]
    model = _model(nodes, [_port("x", 3, "s"), _port("past", 3, "p")], outputs)
    net = glow.compile(model, states={"present": "past"})
    state = net.state()
    reference = Reference(model, {"present": "past"}, {"past": np.zeros((3, 0), np.float32)})
    for seed, length in enumerate((2, 1, 0, 3, 300, 1)):
        x = np.random.default_rng(seed).integers(-1, 2, (3, length)).astype(np.float32)
        _same(net, state, reference, {"x": x})
    with pytest.raises(glow.GlowError, match="the state is full: 'past' would have length 3, capacity=2"):
        net.run({"x": np.ones((3, 3), np.float32)}, state=net.state(capacity=2))


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_recurrent_states(backend: str) -> None:
    """What keeps its shape: found by its names, first values given or 0."""
    r = np.random.default_rng(0)
    w, u = (r.standard_normal((1, 4 * 8, n)).astype(np.float32) for n in (5, 8))
    node = helper.make_node("LSTM", ["x", "w", "u", "", "", "h0", "c0"], ["y", "hn", "cn"], hidden_size=8)
    held = [[_port(f"{n}{e}", 1, 1, 8) for n in "hc"] for e in "0n"]
    model = _model([node], [_port("x", 2, 1, 5), *held[0]], [_port("y", 2, 1, 1, 8), *held[1]], w=w, u=u)
    net = glow.compile(model, backend=backend, states="auto")
    first = {n: r.standard_normal((1, 1, 8)).astype(np.float32) for n in ("h0", "c0")}
    pairs = {"hn": "h0", "cn": "c0"}
    for values in (None, first):
        state = net.state(values)
        reference = Reference(model, pairs, values or {n: np.zeros_like(a) for n, a in first.items()})
        for seed in range(3):
            x = np.random.default_rng(seed).standard_normal((2, 1, 5)).astype(np.float32)
            _same(net, state, reference, {"x": x})
    assert list(state) == ["h0", "c0"] and "State(h0, c0)" in repr(state)
    with pytest.raises(glow.GlowError, match="capacity=4: no state of h0, c0 grows"):
        net.state(capacity=4)


def _counter() -> glow.GraphBuilder:
    g = glow.GraphBuilder()
    x, total = g.placeholder("x", (4,)), g.placeholder("total", (4,), kind="state")
    g.update(total, total + x)
    g.save(total * 2, "before")
    return g


@pytest.mark.parametrize("backend", ["cpu", "interpreter", HostFallback("cpu", "interpreter")])
def test_states_of_the_builder(backend: Any) -> None:
    """Graphs that update states themselves: of each caller's own, or the executable's."""
    net = glow.compile(_counter(), backend=backend)
    one, other = {"x": np.ones(4, np.float32)}, net.state({"total": np.full(4, 10, np.float32)})
    state = net.state()
    for call in range(3):
        assert net.run(one, state=state)["before"][0] == 2 * call
        assert net.run(one, state=other)["before"][0] == 20 + 2 * call
        assert net.run(one)["before"][0] == 2 * call
    assert state["total"][0] == 3 and other["total"][0] == 13
    bound = net.bind(one)
    assert bound()["before"][0] == 6 and net.run(one)["before"][0] == 8
    state.reset()
    assert net.run(one, state=state)["before"][0] == 0
    state["total"] = np.zeros(4, np.float32)
    assert net(np.ones(4, np.float32))[0] == 10


def test_states_of_several_programs() -> None:
    """Programs for different sizes are one executable, and share its states."""
    g = glow.GraphBuilder()
    x, total = g.placeholder("x", ("n", 4)), g.placeholder("total", (4,), kind="state")
    after = total + g.reduce_sum(x, axes=(0,))
    g.update(total, after)
    g.save(after, "y")
    net = glow.compile(g)
    for calls, n in enumerate((3, 1, 5, 2)):
        y = net.run({"x": np.ones((n, 4), np.float32)})["y"]
        assert y[0] == sum((3, 1, 5, 2)[: calls + 1])


def test_growing_state_of_the_builder() -> None:
    """An input and an output of a graph with named sizes are a state as well."""
    g = glow.GraphBuilder()
    x, past = g.placeholder("x", (2, "s", 3)), g.placeholder("past", (2, "p", 3))
    both = g.concat([past, x], axis=1)
    g.save(both, "present")
    g.save(g.reduce_sum(both, axes=(1,)), "y")
    net = glow.compile(g, states={"present": "past"})
    for axis in ("past", ("past", 1)):
        net = glow.compile(g, states={"present": axis})
        state, seen = net.state(), np.zeros((2, 0, 3), np.float32)
        for seed, length in enumerate((3, 1, 1, 2, 0, 300, 1)):
            new = np.random.default_rng(seed).standard_normal((2, length, 3)).astype(np.float32)
            seen = np.concatenate([seen, new], 1)
            np.testing.assert_allclose(net.run({"x": new}, state)["y"], seen.sum(1), atol=1e-4)
            np.testing.assert_array_equal(state["past"], seen)
    with pytest.raises(glow.BindingError, match="a model whose states have dynamic sizes cannot be bound"):
        net.bind({"x": np.ones((2, 1, 3), np.float32)})


def test_wrong_names(decoder: Any) -> None:
    """What is no state, and what is one where inputs are meant."""
    model = _decoder()
    cases: Any = (
        (
            {"past_key_values.0.key": "present.0.key"},
            r"no output .* write the output first: \{'present.0.key'",
        ),
        ({"present.0.key": "past.0.key"}, "states: no input 'past.0.key'; the inputs are q, k, v, past_key"),
        ({"y": "past_key_values.0.key", "present.0.key": "past_key_values.0.key"}, "has two next values"),
        (
            {"present.0.key": ("past_key_values.0.key", 1)},
            "axis 1 of the input, .* is none of a dynamic size",
        ),
        (["present.0.key"], "a dict of output -> input, or 'auto'"),
    )
    for states, message in cases:
        with pytest.raises(glow.GlowError, match=message):
            glow.compile(model, states=states)
    other = _model([_node("Neg", "x", "y")], [_port("x", 2)], [_port("y", 2)])
    with pytest.raises(
        glow.GlowError, match="no output of y has the name of the next value of an input of x"
    ):
        glow.compile(other, states="auto")
    with pytest.raises(glow.GlowError, match="output 'y' is not the next value of 'x': its shape is"):
        wide = _model([_node("Concat", "x x", "y", axis=0)], [_port("x", 2)], [_port("y", 4)])
        glow.compile(wide, states={"y": "x"})
    with pytest.raises(
        glow.GlowError, match="output 'y' is not the next value of 'x': it is int64, the input"
    ):
        cast = _model(
            [_node("Cast", "x", "y", to=7)], [_port("x", 2)], [_port("y", 2, kind=TensorProto.INT64)]
        )
        glow.compile(cast, states={"y": "x"})
    plain = glow.compile(other)
    for ask in (plain.state, lambda: plain.run({"x": np.ones(2, np.float32)}, state=decoder.state())):
        with pytest.raises(
            glow.GlowError, match=r"no states; name them: glow\.compile\(model, states=\.\.\.\)"
        ):
            ask()
    for inputs, message in (
        ({**_rows(1), **_past()}, "input 'past_key_values.0.(key|value)' is a state"),
        ({**_rows(1), "z": np.ones(1)}, "unknown input 'z'; the inputs are: q, k, v"),
        ({"q": _rows(1)["q"]}, "missing input 'k', missing input 'v'; the inputs are: q, k, v"),
    ):
        with pytest.raises(glow.BindingError, match=message):
            decoder.run(inputs, state=decoder.state())


def test_a_next_value_of_another_rank_is_refused_when_compiled() -> None:
    """Also where the model does not declare the output's shape, which its nodes give away."""
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    length = helper.make_tensor_value_info("n", TensorProto.INT64, [1])
    for node, ports in (
        (_node("ReduceSum", "x axis", "y", keepdims=0), [_port("x", "N", 3)]),
        (_node("Reshape", "x n", "y"), [_port("x", 4, 3), length]),
    ):
        model = _model([node], ports, [y], axis=np.array([1]))
        with pytest.raises(glow.GlowError, match="output 'y' is not the next value of 'x': its shape is"):
            glow.compile(model, states={"y": "x"})


def test_wrong_values(decoder: Any) -> None:
    """Values that do not fit, and sizes that nothing tells."""
    key, value = PAIRS.values()
    good = _past(length=3)
    for values, message in (
        ({"keys": good[key]}, f"no state 'keys'; the states are {key}, {value}"),
        ({**good, key: good[key][0]}, r"has shape \(2, 3, 16\), expected \(1, 2, past, 16\)"),
        ({**good, key: good[key][..., :4]}, r"has shape \(1, 2, 3, 4\), expected \(1, 2, past, 16\)"),
        (
            {**good, key: good[key].astype(np.float64)},
            r"dtype float64, expected float32; convert it with \.astype",
        ),
        ({key: good[key]}, "have common sizes: set them together, with equal sizes"),
        ({**good, key: good[key][:, :, :2]}, "have common sizes: set them together, with equal sizes"),
    ):
        with pytest.raises(glow.BindingError, match=message):
            decoder.state(values)
    state = decoder.state(good)
    state[key] = good[value]  # of the same length
    np.testing.assert_array_equal(state[key], good[value])
    for length in (-1, 4):
        with pytest.raises(glow.GlowError, match=rf"truncate\({length}\): state '{key}' has length 3"):
            state.truncate(length)
    with pytest.raises(glow.BindingError, match=r"input 'v' has shape"):
        decoder.run({**_rows(1), "v": np.ones((1, HEADS, 1, 3), np.float32)}, state=state)
    assert state.length == 3
    unnamed = _model([_node("Identity", "h", "hn")], [_port("h", "")], [_port("hn", "")])
    net = glow.compile(unnamed, states={"hn": "h"})
    with pytest.raises(
        glow.BindingError, match=r"no input determines the size of axis 0: give its first value, net\.state"
    ):
        net.run({})
    assert net.run({}, state=net.state({"h": np.ones(3, np.float32)})) == {}
