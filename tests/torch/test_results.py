"""What torch.compile must keep of PyTorch: strides, shared memory, changed weights, numbers, errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.peers

from torch.utils import _pytree  # noqa: E402

import glow_compiler as glow  # noqa: E402

close = torch.testing.assert_close
Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    """What Dynamo learns in a test decides nothing in another; a graph that is not compiled is an error."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*runs in PyTorch, not compiled")
        yield


def _images() -> Any:
    return torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last)


def _shared(tensors: list[Any]) -> list[list[bool]]:
    places = [t.untyped_storage().data_ptr() for t in tensors]
    return [[a == b for b in places] for a in places]


def _views(x: Any) -> Any:
    y = x + 1
    return y[1:], y[:2], y.t(), x[1:], y[:, None].expand(-1, 2, -1), y.view(torch.int32)


CASES: dict[str, tuple[Function, Callable[[], Any]]] = {
    "turned": (lambda x: (x * 2).t(), lambda: torch.randn(3, 4)),
    "channels last": (lambda x: torch.relu(x) + 1, _images),
    "convolution": (torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last), _images),
    "views": (_views, lambda: torch.randn(3, 4)),
    "gaps": (lambda x: (x * 2, x.t()), lambda: torch.randn(6, 8)[::2, ::2]),
    "pieces": (lambda x: (x * 2).split([1, 3], 1), lambda: torch.randn(3, 4)),
    "numbers": (lambda x: (x + 1, 5, None, x.shape[0]), lambda: torch.randn(2)),
}


@pytest.mark.parametrize("name", CASES)
def test_memory_of_results(name: str) -> None:
    """Strides and offsets are PyTorch's, and a write into one result is seen where that shares its memory."""
    function, make = CASES[name]
    given = make()
    own, other = given.clone(memory_format=torch.preserve_format), given
    compiled = torch.compile(function, backend="glow")
    with torch.no_grad():
        want, have = (_pytree.tree_leaves(f(x)) for f, x in ((function, own), (compiled, other)))
        if name == "gaps":
            want = _pytree.tree_leaves(function(given))
        for x, y in zip(want, have, strict=True):
            if isinstance(x, torch.Tensor):
                assert (x.stride(), x.storage_offset()) == (y.stride(), y.storage_offset())
            else:
                assert x == y
        want, have = ([v for v in row if isinstance(v, torch.Tensor)] for row in (want, have))
        assert _shared(want) == _shared(have)
        for row in (want, have):
            row[0].add_(1)
        close(have, want)


def test_open_sizes_of_results() -> None:
    """Layouts follow the sizes."""

    def function(x: Any) -> Any:
        y = (x + 1).view(x.shape[0], -1, 2).transpose(1, 2)
        return y, y[1:], x.shape[1] * 2

    compiled = torch.compile(function, backend="glow", dynamic=True)
    for rows, width in ((2, 4), (5, 8)):
        x = torch.randn(rows, width)
        want, have = function(x), compiled(x)
        assert [v.stride() for v in want[:2]] == [v.stride() for v in have[:2]] and want[2] == have[2]
        close(have[:2], want[:2])


def test_weights_changed_behind_the_counters() -> None:
    """Writes through `.data` and NumPy are seen; what changes again and again is compiled once more only."""
    module = torch.nn.Linear(5, 3)
    compiled = torch.compile(module, backend="glow")
    x = torch.randn(2, 5)
    with torch.no_grad():
        close(compiled(x), module(x))
        module.weight.data.neg_()
        close(compiled(x), module(x))
        module.bias.numpy()[1] += 1
        close(compiled(x), module(x))
        for _ in range(4):
            module.weight.data.mul_(0.9).add_(0.1)
            close(compiled(x), module(x))


def test_contents() -> None:
    """Each bit counts, and where it stands."""
    from glow_compiler.torch_backend import contents_of

    x = torch.randn(1000)
    rows = x.view(-1, 8).flip(0).reshape(-1)
    others = [x.clone(), -x, x.roll(64), rows, x[:-1].clone(), torch.zeros(1000)]
    for place in (0, 511, 999):
        changed = x.clone()
        changed.view(torch.int32)[place] ^= 1
        others.append(changed)
    first, copy, *rest = contents_of([x, *others])
    assert first == copy and len({first, *rest}) == len(others)


@pytest.mark.parametrize("name", ["remainder", "trunc"])
def test_whole_numbers_divided_by_zero(name: str) -> None:
    """PyTorch's error, and one of ours for a compiled module; other calls go on."""
    if name == "trunc":

        def function(x: Any, y: Any) -> Any:
            return torch.div(x, y, rounding_mode="trunc")
    else:
        function = getattr(torch, name)

    class Module(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return function(x, y)

    x, y, zero = torch.tensor([[7, -8], [9, 4]]), torch.tensor([2, -3]), torch.tensor([2, 0])
    compiled, nets = (
        torch.compile(function, backend="glow"),
        [glow.compile(Module(), backend=b, example_inputs=(x, y)) for b in ("cpu", "interpreter")],
    )
    for _ in range(2):
        close([f(x, y) for f in (compiled, *nets)], [function(x, y)] * 3)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            compiled(x, zero)
        for net in nets:
            with pytest.raises(glow.GlowError, match="a divisor is 0"):
                net(x, zero)


def test_numbers_that_change() -> None:
    """Whole numbers and others of either sign are inputs of one program; those that are sizes are not."""

    def function(x: Any, n: int, s: float) -> Any:
        return x * (n * 2 - 1) + n // 3 - s, n + 1

    compiled = torch.compile(function, backend="glow")
    x = torch.randn(4)
    for n, s in ((5, 0.5), (7, 1.5), (-9, -2.5), (11, 0.25)):
        close(compiled(x, n, s), function(x, n, s))
    sliced = torch.compile(lambda x, n: torch.arange(n, n + 2) * x[:2], backend="glow")
    for n in (5, 4, -3):
        close(sliced(x, n), torch.arange(n, n + 2) * x[:2])


def test_inference_mode() -> None:
    """Modules and tensors without version counters."""
    with torch.inference_mode():
        module = torch.nn.Linear(4, 4)
        close(torch.compile(module, backend="glow")(torch.ones(1, 4)), module(torch.ones(1, 4)))


def _jagged() -> Any:
    return torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)], layout=torch.jagged)


@pytest.mark.parametrize(
    ("make", "function"),
    [
        (lambda: torch.eye(3).to_sparse(), lambda x: (x * 2).to_dense()),
        (lambda: torch.ones(3, device="meta"), lambda x: (x * 2).shape),
        (lambda: torch.ones(3, dtype=torch.complex64), lambda x: x * 2),
        (_jagged, lambda x: (x * 2).values()),
    ],
)
def test_other_tensors(make: Callable[[], Any], function: Function) -> None:
    """Tensors that programs do not take run in PyTorch."""
    warnings.filterwarnings("ignore", message=".*")
    x = make()
    close(torch.compile(function, backend="glow")(x), function(x))


def test_an_index_out_of_range_raises_what_pytorch_raises() -> None:
    """And later calls are compiled as before."""
    compiled = torch.compile(lambda x, i: x[i] + 1, backend="glow")
    x = torch.randn(3)
    for _ in range(2):
        close(compiled(x, torch.tensor([2, 0])), x[[2, 0]] + 1)
        with pytest.raises(IndexError, match="out of bounds"):
            compiled(x, torch.tensor([1, 9]))
