"""torch.compile(module, backend="glow") beside PyTorch."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.peers

from torch_modules import CASES, resnet  # noqa: E402

close = torch.testing.assert_close


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    """What Dynamo learns in a test decides nothing in another; a graph that is not compiled is an error."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*runs in PyTorch, not compiled")
        yield


def test_entry_point() -> None:
    """The backend is known by its name."""
    assert "glow" in torch.compiler.list_backends()


def test_inference() -> None:
    """Parameters are constants until they change; sizes that differ stay open."""
    module = resnet().eval()
    compiled = torch.compile(module, backend="glow")
    with torch.no_grad():
        for batch in (2, 5, 7):
            x = torch.randn(batch, 3, 32, 32)
            close(compiled(x), module(x))
        module[-1].bias.add_(1.0)
        close(compiled(x), module(x))
        module[-1].bias.data = torch.zeros(10)
        close(compiled(x), module(x))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rotary", "unet", "graphs", "capsules", "field", "encoder"])
def test_networks(name: str) -> None:
    """Networks of many kinds, with dynamic sizes from the start."""
    make, inputs, _ = CASES[name]
    module, given = make().eval(), inputs()
    compiled = torch.compile(module, backend="glow", dynamic=True)
    with torch.no_grad():
        close(compiled(*given), module(*given), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("first", [False, True])
def test_encoder_layers(first: bool) -> None:
    """PyTorch's own operator of a layer, with padding and without."""
    options = {"batch_first": True, "norm_first": first, "activation": "gelu" if first else "relu"}
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, **options).eval()
    module = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    compiled = torch.compile(module, backend="glow")
    x, padding = torch.randn(2, 5, 16), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        close(compiled(x), module(x), rtol=1e-5, atol=1e-5)
        close(
            compiled(x, src_key_padding_mask=padding),
            module(x, src_key_padding_mask=padding),
            rtol=1e-5,
            atol=1e-5,
        )


def test_graph_breaks() -> None:
    """Python between graphs."""

    def function(x: Any) -> Any:
        y = x * 2
        return y + 1 if y.sum() > 0 else y - 1

    compiled = torch.compile(function, backend="glow")
    for x in (torch.ones(3), -torch.ones(3)):
        close(compiled(x), function(x))


def test_inputs_written_in_place() -> None:
    """What a function does to its inputs it does compiled."""

    def function(x: Any, y: Any) -> Any:
        x[0] += y
        return x.t()

    compiled = torch.compile(function, backend="glow")
    first, second, y = torch.ones(2, 3), torch.ones(2, 3), torch.arange(3.0)
    close(compiled(first, y), function(second, y))
    close(first, second)


def test_training() -> None:
    """Gradients are graphs, too."""
    layers = [
        torch.nn.Conv2d(3, 4, 3, padding=1),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
    ]
    head = [torch.nn.Flatten(), torch.nn.Linear(64, 5), torch.nn.LayerNorm(5), torch.nn.GELU()]
    plain = torch.nn.Sequential(*layers, *head)
    module = copy.deepcopy(plain)
    compiled = torch.compile(module, backend="glow")
    x, labels = torch.randn(6, 3, 8, 8), torch.randint(0, 5, (6,))
    for own, call in ((module, compiled), (plain, plain)):
        optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(call(x), labels).backward()
            optimizer.step()
    for (name, have), want in zip(module.state_dict().items(), plain.state_dict().values(), strict=True):
        close(have, want, msg=lambda m, n=name: f"{n}: {m}")


def test_what_is_not_known_runs_in_pytorch() -> None:
    """The whole graph, with one warning that names it."""
    warnings.filterwarnings("always", message=".*runs in PyTorch")

    def function(x: Any) -> Any:
        return torch.special.i0(x) * 2

    compiled = torch.compile(function, backend="glow")
    x = torch.randn(4)
    with pytest.warns(UserWarning, match=r"runs in PyTorch, not compiled: [\s\S]*bessel_i0"):
        close(compiled(x), function(x))
    close(compiled(x), function(x))
