"""Graphs with operators that are not known: cut, compiled in parts, right beside PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.peers

from torch import nn  # noqa: E402

import glow_compiler as glow  # noqa: E402

close = torch.testing.assert_close
Function = Callable[..., Any]
N = 400


@torch.library.custom_op("glowtest::twice", mutates_args=(), schema="(Tensor x) -> Tensor")
def twice(x: Any) -> Any:
    """Known to nobody."""
    return x * 2


@torch.library.custom_op("glowtest::middle", mutates_args=(), schema="(Tensor x) -> Tensor")
def middle(x: Any) -> Any:
    """The middle of each line."""
    return x.median(-1, keepdim=True)[0]


twice.register_fake(lambda x: torch.empty_like(x))
twice.register_autograd(lambda context, dy: dy * 2)
middle.register_fake(lambda x: x.new_empty((*x.shape[:-1], 1)))


@torch.library.custom_op("glowtest::increase", mutates_args={"x"}, schema="(Tensor(a!) x) -> ()")
def increase(x: Any) -> None:
    """One that changes what it is given."""
    x.add_(1)


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    torch._dynamo.reset()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*in PyTorch, not compiled")
        warnings.filterwarnings("ignore", message=".*flex_attention called without")
        yield


def _x() -> tuple[Any, ...]:
    return (torch.randn(N, N),)


def _mutating(x: Any) -> Any:
    y = x.sin().exp()
    increase(y[1:])
    increase(x)
    return y.cos() * x


def _cond(x: Any) -> Any:
    y = x.sin().exp()
    return torch.cond(y.sum() > 0, lambda v: v.sin(), lambda v: v.cos(), (y,)).exp().tanh()


def _while(x: Any) -> Any:
    from torch._higher_order_ops.while_loop import while_loop

    start = torch.tensor(0), x.exp().sin()
    return while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v.sin().cos()), start)[1].exp().sin()


def _flex(q: Any, k: Any, v: Any) -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(q.sin().exp(), k.exp().sin(), v, score_mod=lambda s, b, h, i, j: s + (i - j) * 0.01)


def _complex(x: Any, w: Any) -> Any:
    z = torch.view_as_complex(x.sin().exp().view(N, -1, 2))
    return torch.view_as_real(z * w).flatten(1).sigmoid().sin()


def _drawn(x: Any) -> Any:
    y = (x * torch.rand(N, N)).sin().exp()
    kept = torch.bernoulli(torch.sigmoid(y))
    return (y * kept + torch.rand_like(y)).cos().exp() * torch.randn(N)


def _views(x: Any) -> Any:
    y = x.sin().exp()
    z = middle(y)[:, 0]
    return y, y[1:], x[1:], (z + y).cos().t(), z[None]


def _effects(x: Any) -> Any:
    y = x.sin().exp()
    return torch.linalg.cholesky(y @ y.t() + N * torch.eye(N)).sin().exp()


FUNCTIONS: dict[str, tuple[Function, Callable[[], Any]]] = {
    "custom": (lambda x: twice(x.sin().exp()).cos().tanh(), _x),
    "mutating": (_mutating, _x),
    "cond": (_cond, _x),
    "while": (_while, _x),
    "flex": (_flex, lambda: [torch.randn(2, 2, 128, 32) for _ in range(3)]),
    "effects": (_effects, _x),
    "complex": (_complex, lambda: (*_x(), torch.randn(N // 2, dtype=torch.complex64))),
    "fft": (lambda x: torch.fft.irfft(torch.fft.rfft(x.sin().exp()) * 2).sin().exp(), _x),
    "drawn": (_drawn, _x),
    "views": (_views, _x),
    "middle": (lambda x: (middle(x.exp().sin()) * x).exp().sin().sum(), _x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_parts(name: str) -> None:
    """Values, results' strides and what is written are PyTorch's, and both kinds of parts are there."""
    function, make = FUNCTIONS[name]
    given = list(make())
    compiled = torch.compile(function, backend="glow")
    for _ in range(2):
        rows: list[Any] = []
        for call in (function, compiled):
            own = [t.clone() for t in given]
            torch.manual_seed(1)
            rows.append((call(*own), own))
        close(rows[1], rows[0], rtol=1e-4, atol=1e-4)
        if isinstance(rows[0][0], tuple):
            assert [t.stride() for t in rows[1][0]] == [t.stride() for t in rows[0][0]]
            assert rows[1][0][1].data_ptr() == rows[1][0][0].data_ptr() + 4 * N
    found = glow.explain(function, tuple(given))
    assert 0 < found.compiled < found.calls


def test_one_warning_lists_what_runs_in_pytorch() -> None:
    """Each operator once, with the line; random numbers, which are PyTorch's by design, are no warning."""

    def function(x: Any) -> Any:
        y = (x * middle(x.sin().exp())).sin().exp()
        return (middle(y) + twice(y)).sigmoid().sin()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        close(torch.compile(function, backend="glow")(x := torch.randn(N, N)), function(x))
        torch.compile(nn.Dropout(0.5), backend="glow")(x)
    (text,) = [str(w.message) for w in caught if "in PyTorch, not compiled" in str(w.message)]
    assert "glowtest.middle.default (2 calls)" in text and "glowtest.twice" in text
    assert "test_torch_parts.py" in text


class _Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(100, 64, mode="mean")
        self.body = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 10))

    def forward(self, index: Any) -> Any:
        return self.body(self.bag(index))


class _Conv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.drop = nn.Conv2d(3, 16, 3), nn.Dropout2d(0.3)

    def forward(self, x: Any) -> Any:
        y = self.drop(self.conv(x).relu())
        return twice(y).sin() * y


def _layer() -> Any:
    return nn.TransformerEncoderLayer(32, 4, 64, 0.1, batch_first=True)


@pytest.mark.parametrize("name", ["bag", "conv", "layer"])
def test_training(name: str) -> None:
    """Losses and gradients with PyTorch's random numbers; both graphs are compiled but for a few calls."""
    make, inputs = {
        "bag": (_Bag, (torch.randint(0, 100, (64, 5)),)),
        "conv": (_Conv, (torch.randn(4, 3, 24, 24),)),
        "layer": (
            _layer,
            (torch.randn(4, 24, 32),),
        ),
    }[name]
    module = make()
    compiled = torch.compile(module, backend="glow")
    rows: list[Any] = []
    for call in (module, compiled):
        torch.manual_seed(3)
        module.zero_grad()
        loss = call(*inputs).square().sum()
        loss.backward()
        rows.append((loss.detach(), [p.grad for p in module.parameters()]))
    close(rows[1], rows[0], rtol=1e-4, atol=1e-4)
    for graph in glow.explain(module, inputs).graphs:
        assert graph.compiled > 0.5 * graph.calls and len(graph.refused) <= 1


def test_open_sizes() -> None:
    """Sizes that differ from call to call, and those that data decide."""

    def turned(x: Any) -> Any:
        return (middle(x.exp().sin()) * x).exp()[1:].t()

    first = torch.compile(turned, backend="glow")
    for size in (300, 301, 350):
        x = torch.randn(size, size)
        close(first(x), turned(x), rtol=1e-5, atol=1e-5)

    def chosen(x: Any) -> Any:
        y = (x * 2).sin().exp()
        z = (y[y > 1] * 2).cos().exp().sin()
        return z.sum() / z.numel(), x.sum().item() * y

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        compiled = torch.compile(chosen, backend="glow", fullgraph=True)
        for x in (torch.randn(N, N), torch.randn(N, N), torch.full((N, N), -0.1)):
            close(compiled(x), chosen(x), rtol=1e-4, atol=1e-4, equal_nan=True)


def test_weights_between_parts() -> None:
    """What is computed of weights alone stays a constant of the program that reads it."""

    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.v = (nn.Parameter(torch.randn(256, 256)) for _ in range(2))

        def forward(self, x: Any) -> Any:
            return (x * middle(x @ self.w.sin())) @ self.v.exp()

    module, x = Module(), torch.randn(256, 256)
    compiled = torch.compile(module, backend="glow")
    with torch.no_grad():
        for _ in range(4):
            close(compiled(x), module(x), rtol=1e-3, atol=1e-2)
            module.v.data.mul_(0.5)


def test_rules_of_users() -> None:
    """In torch.compile and glow.compile; what is wrong with one is told, and its operator runs in PyTorch."""

    class Module(nn.Module):
        def forward(self, x: Any) -> Any:
            return twice(x.sin()) + 1

    x = torch.randn(N, N)
    with pytest.raises(glow.ImportProblems, match="glowtest.twice"):
        glow.compile(Module(), (x,))
    try:
        glow.torch.rule("glowtest::twice")(lambda g, x: g.add(x, x))
        close(glow.compile(Module(), (x,))(x), Module()(x))
        assert glow.explain(Module(), x).graphs[0].refused == []
        for wrong, told in (
            (lambda g, x: g.reduce_sum(x, axes=(0,)), r"its rule gives tensor<.*float32"),
            (lambda g, x: 1 / 0, "its rule raised ZeroDivisionError"),
            (lambda g, x: None, "its rule gives a NoneType"),
        ):
            glow.torch.rule(torch.ops.glowtest.twice.default)(wrong)
            with pytest.raises(glow.ImportProblems, match=told):
                glow.compile(Module(), (x,))
            torch._dynamo.reset()
            close(torch.compile(Module(), backend="glow")(x), Module()(x))
    finally:
        glow.torch.remove_rule("glowtest::twice")
        glow.torch.remove_rule(torch.ops.glowtest.twice.default)
    for name, told in (
        ("twice", "no operator"),
        ("glowtest::no", "there is no"),
        ("glowtest::increase", "changes"),
    ):
        with pytest.raises(glow.GlowError, match=told):
            glow.torch.rule(name)(lambda g, x: x)


def test_explain() -> None:
    """Graph breaks and recompilations have places and reasons; gradients are graphs of the report."""

    def function(x: Any) -> Any:
        y = twice(x.exp().sin())
        print(end="")
        return y.sin().exp()

    found = glow.explain(function, torch.randn(N, N, requires_grad=True), torch.randn(N, 8))
    assert [g.kind for g in found.graphs[:2]] == ["forward", "forward"] and len(found.breaks) == 2
    assert all("test_torch_parts.py" in b.place and "print" in b.reason for b in found.breaks)
    assert found.recompilations and "test_torch_parts.py" in found.recompilations[0].function
    assert "glowtest.twice.default: no rule for this operator; " in str(found) and "backward" in str(found)
