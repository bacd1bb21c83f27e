"""PyTorch modules and exported programs, compiled, beside PyTorch."""

from __future__ import annotations

import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.peers

from torch.utils import _pytree  # noqa: E402
from torch_modules import CASES, Counting, Recurrent, resnet  # noqa: E402

import glow_compiler as glow  # noqa: E402
from glow_dialects.ops.module import ConstantOp  # noqa: E402

D = torch.export.Dim.DYNAMIC


def close(have: Any, want: Any) -> None:
    """Equal structures, and tensors that are equal or nearly so."""
    left, right = _pytree.tree_flatten(have), _pytree.tree_flatten(want)
    assert left[1] == right[1]
    for x, y in zip(left[0], right[0], strict=True):
        torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-5)


def other(x: Any, opened: Any) -> Any:
    """An input with other sizes on its open axes."""
    shape = [s + 3 if axis in (opened or {}) else s for axis, s in enumerate(x.shape)]
    return torch.randn(shape) if x.is_floating_point() else torch.randint(0, 5, shape)


@pytest.mark.parametrize(
    "name",
    [n if n in ("resnet", "rotary", "written") else pytest.param(n, marks=pytest.mark.slow) for n in CASES],
)
def test_module(name: str) -> None:
    """A network of fixed sizes, and of any."""
    torch.manual_seed(0)
    make, inputs, opened = CASES[name]
    module, given = make().eval(), inputs()
    with torch.no_grad():
        close(glow.compile(module, given)(*given), module(*given))
        if opened is None:
            return
        net = glow.compile(module, given, dynamic_shapes=opened)
        for arguments in (given, tuple(map(other, given, opened))):
            close(net(*arguments), module(*arguments))


def test_weights_keep_names_and_memory() -> None:
    """Parameters are constants under their own names, in the module's memory."""
    module = resnet().eval()
    graph = glow.load(torch.export.export(module, (torch.randn(1, 3, 32, 32),)))
    constants = {op.sym_name.data: op.array() for op in graph.ops if isinstance(op, ConstantOp)}
    own = dict(module.named_parameters())
    assert {"0.weight", "4.conv1.weight", "8.weight", "8.bias"} <= set(constants)
    assert np.shares_memory(constants["0.weight"], own["0.weight"].detach().numpy())
    assert np.shares_memory(constants["8.weight"], own["8.weight"].detach().numpy())


def test_results_are_tensors_for_tensors_and_arrays_for_arrays() -> None:
    """A call follows the module's signature; `run` is by name."""

    class Named(torch.nn.Module):
        def forward(self, x: Any, *, scale: Any, flag: bool = True) -> Any:
            return {"y": x * scale if flag else x, "size": x.shape[0], "both": (x, scale)}

    x, scale = torch.randn(2, 3), torch.tensor(2.0)
    program = torch.export.export(
        Named(), (x,), {"scale": scale}, dynamic_shapes={"x": {0: D}, "scale": None}
    )
    net = glow.compile(program, backend="interpreter")
    assert [s.name for s in net.inputs] == ["x", "scale"]
    close(net(x, scale=scale), Named()(x, scale=scale))
    assert net(torch.randn(5, 3), scale=scale)["size"] == 5
    found = net(x.numpy(), scale=scale.numpy())
    assert isinstance(found["y"], np.ndarray)
    np.testing.assert_allclose(net.run({"x": x.numpy(), "scale": scale.numpy()})["mul"], found["y"])
    with pytest.raises(glow.BindingError, match="expected x, scale"):
        net(x)


def test_an_argument_that_is_no_tensor_stays() -> None:
    """Numbers among the arguments are part of the program."""

    class Scaled(torch.nn.Module):
        def forward(self, x: Any, factor: float) -> Any:
            return x * factor

    x = torch.ones(2)
    net = glow.compile(Scaled(), (x, 3.0))
    close(net(x, 3.0), x * 3)
    with pytest.raises(glow.BindingError, match=r"argument 1 is 4\.0; the program was exported for 3\.0"):
        net(x, 4.0)


def test_buffers_that_change_are_states() -> None:
    """A call leaves them for the next; each state has its own."""
    x = torch.ones(4)
    net, module = glow.compile(Counting(), (x,)), Counting()
    for _ in range(3):
        close(net(x), module(x))
    assert net.run({"x": x.numpy()}, state=net.state())["mul"][0] == 6


def test_bfloat16() -> None:
    """Weights and inputs of 16 bits go in and come out as such."""
    module = torch.nn.Linear(4, 3).to(torch.bfloat16)
    x = torch.randn(2, 4, dtype=torch.bfloat16)
    net = glow.compile(module, (x,))
    with torch.no_grad():
        torch.testing.assert_close(net(x), module(x), rtol=2e-2, atol=2e-2)


def test_every_problem_is_told_at_once() -> None:
    """With the operator, the module and the line."""

    class Inner(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.special.i0(x)

    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Any) -> Any:
            return self.inner(x) + torch.lgamma(x) + torch.rand(3)

    with pytest.raises(glow.ImportProblems) as told:
        glow.compile(Outer(), (torch.randn(3),))
    assert len(told.value.problems) == 3
    text = str(told.value)
    assert "(aten.i0.default): no rule for this operator" in text and "in module 'inner'" in text
    assert "test_modules.py:" in text and "torch.special.i0(x)" in text
    assert "generates random numbers" in text


def test_messages() -> None:
    """What is missing, and what to do."""
    module = torch.nn.Linear(2, 2)
    with pytest.raises(TypeError, match=r"and needs example inputs: glow\.compile\(module, example_inputs\)"):
        glow.compile(module)
    with pytest.raises(TypeError, match="use shapes= for other models"):
        glow.compile(glow.GraphBuilder(), example_inputs=(torch.ones(2),))
    with pytest.raises(glow.GlowError, match=r"torch\.export cannot export Linear"):
        glow.compile(module, (torch.ones(3),))

    class Chosen(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x[x > 0]

    with pytest.raises(glow.ImportProblems, match="depends on run-time data"):
        glow.compile(Chosen(), (torch.randn(3),))


@pytest.mark.slow
def test_a_file(tmp_path: Path) -> None:
    """Programs of torch.export.save are models of the API and of the commands."""
    module, x = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.GELU()), torch.randn(2, 4)
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(module, (x,), dynamic_shapes=({0: D},)), path)
    net = glow.compile(path, shapes={"input": (5, 4)})
    assert net.inputs[0].shape == (5, 4)
    wide = torch.randn(5, 4)
    with torch.no_grad():
        close(net(wide), module(wide))
    command = [
        sys.executable,
        "-m",
        "glow_tools.run",
        str(path),
        "--random",
        "0",
        "--shape",
        "input=3x4",
        "--compare",
        "interpreter",
    ]
    out = subprocess.run(command, capture_output=True, text=True, check=False)
    assert out.returncode == 0 and "agrees with interpreter" in out.stdout, out.stdout + out.stderr


def test_import_is_lazy() -> None:
    """PyTorch is imported by whoever has a module."""
    code = "import sys, glow_compiler; glow_compiler.GraphBuilder; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("tracked", "training"), [(False, False), (False, True), (True, True)])
def test_statistics_of_the_batch(tracked: bool, training: bool) -> None:
    """Of layers that keep none of their own, and of those in training, as PyTorch computes them."""
    torch.manual_seed(0)
    layer, x = torch.nn.BatchNorm2d(3, track_running_stats=tracked).train(training), torch.randn(4, 3, 5, 5)
    want = deepcopy(layer)(x).detach()
    torch.testing.assert_close(glow.compile(layer, (x,))(x), want)


def test_a_projection() -> None:
    """An LSTM whose states are projected."""
    module, x = Recurrent(torch.nn.LSTM, proj_size=2).eval(), torch.randn(6, 3, 5)
    with torch.no_grad():
        torch.testing.assert_close(glow.compile(module, (x,))(x), module(x))
