"""Files of PyTorch's script exporter, which do not tell parameters from buffers: which are trained."""

from __future__ import annotations

import io
import math
import warnings
from typing import Any

import numpy as np
import onnx
import pytest

import glow_compiler as glow
from glow_dialects.core.errors import GlowError
from glow_dialects.core.name_patterns import selected
from glow_dialects.ops.module import placeholders
from glow_frontends.onnx.pytorch_export import ExportWarning
from glow_frontends.onnx.trainable import import_trainable

torch = pytest.importorskip("torch")
nn, functional = torch.nn, torch.nn.functional


def angles(places: int, width: int) -> Any:
    """Sines and cosines of places, side by side."""
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
    turns = torch.arange(places)[:, None] * rates
    return torch.stack([turns.sin(), turns.cos()], -1).reshape(places, width)


class Text(nn.Module):
    """Embeddings with places by table and by number, a mask, attention, a class token."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.table = nn.Parameter(torch.randn(1, 1, 8)), nn.Embedding(30, 8)
        self.register_buffer("position_ids", torch.arange(6)[None])
        self.register_buffer("mask", torch.triu(torch.full((6, 6), -math.inf), 1))
        self.places, self.pe = nn.Embedding(6, 8), nn.Module()
        self.pe.register_buffer("pe", angles(10, 8)[None])
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        """Scores of the class token."""
        h = self.table(x) + self.places(self.position_ids) + self.pe.pe[:, :6]
        h = self.layer(h, src_mask=self.mask)
        return self.head(torch.cat([self.token.expand(len(h), -1, -1), h], 1)[:, 0])


class Image(nn.Module):
    """Pictures whose mean is taken off, blurred, in convolutions with norms of three kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406])[:, None, None])
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225])[:, None, None])
        self.register_buffer("blur", (torch.ones(3, 1, 3, 3) / 9 + torch.eye(3) / 50))
        self.first = torch.nn.utils.spectral_norm(nn.Conv2d(3, 4, 3))
        self.batch, self.groups = nn.BatchNorm2d(4), nn.GroupNorm(2, 4)
        self.scaled, self.head = Scaled(), nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        """Scores."""
        x = functional.conv2d((x - self.mean) / self.std, self.blur, groups=3)
        return self.head(self.scaled(self.groups(self.batch(self.first(x)))).mean((2, 3)))


class Scaled(nn.Module):
    """A parameter, and a buffer behind it, that nothing but their place tells apart."""

    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.rand(4, 1, 1) + 0.5)
        self.register_buffer("shift", torch.rand(4, 1, 1))

    def forward(self, x: Any) -> Any:
        """A factor and an offset for each channel."""
        return x * self.gamma + self.shift


class Turned(nn.Module):
    """Rotations by tables of cosines and sines, and random features."""

    def __init__(self) -> None:
        super().__init__()
        self.sharp = nn.Parameter(torch.tensor(1.5))
        turns = torch.outer(torch.arange(6), torch.tensor([1.0, 0.1])).repeat(1, 2)
        self.register_buffer("cos", turns.cos())
        self.register_buffer("sin", turns.sin())
        self.register_buffer("features", torch.randn(4, 6))
        self.query, self.out = nn.Linear(4, 4), nn.Linear(6, 2)

    def forward(self, x: Any) -> Any:
        """Scores, the mean over places."""
        q = self.query(x)
        x = q * self.cos + torch.cat([-q[..., 2:], q[..., :2]], -1) * self.sin
        return self.out(torch.sin(x @ self.features) * self.sharp).mean(1)


def exported(net: Any, x: Any) -> onnx.ModelProto:
    """The network in a file of the script exporter, nothing folded."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net.eval(), (x,), file, dynamo=False, do_constant_folding=False)
    return onnx.load_from_string(file.getvalue())


def trained(model: onnx.ModelProto, *patterns: str) -> tuple[set[str], list[str]]:
    """Names of what is trained, and the messages."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ExportWarning)
        module = import_trainable(model, names=patterns or ("*",))
    ours = [str(w.message) for w in caught if issubclass(w.category, ExportWarning)]
    known = placeholders(module)
    return {
        str(getattr(p.attributes.get("onnx.name"), "data", n))
        for n, p in known.items()
        if p.kind.data == "trainable"
    }, ours


@pytest.mark.parametrize(
    ("kind", "shape", "unsure"),
    [(Text, None, "token"), (Image, (2, 3, 8, 8), "shift"), (Turned, (2, 6, 4), "sharp")],
)
def test_parameters_are_trained(kind: Any, shape: tuple[int, ...] | None, unsure: str) -> None:
    """All parameters and no buffers but what nothing tells apart, which a warning names."""
    torch.manual_seed(0)
    net = kind()
    x = torch.randint(0, 30, (2, 6)) if shape is None else torch.randn(shape)
    model = exported(net, x)
    names, messages = trained(model)
    expected = {n for n, _ in net.named_parameters()}
    assert names - expected == ({"scaled.shift"} if kind is Image else set())
    # The exporter shares what is equal between layers, which are its parameters still.
    assert {n for n in expected - names if n in {i.name for i in model.graph.initializer}} == set()
    assert len(messages) == 1 and unsure in messages[0] and "trainable=['*', '!" in messages[0]
    left, none = trained(model, "*", f"!*{unsure}")
    assert names - left == {n for n in names if n.endswith(unsure)} and not none


def test_a_name_is_taken_at_its_word() -> None:
    """What is held for a buffer is trained where it is asked for by name."""
    torch.manual_seed(0)
    model = exported(Turned(), torch.randn(2, 6, 4))
    names, messages = trained(model, "cos", "query*")
    assert names == {"cos", "query.weight", "query.bias"} and not messages


def test_other_files_say_what_they_say() -> None:
    """Without PyTorch's names nothing is told apart, and nothing warned of."""
    model = exported(Turned(), torch.randn(2, 6, 4))
    model.producer_name = "other"
    names, messages = trained(model)
    assert {"cos", "sin", "features"} <= names and not messages


def test_patterns_that_leave_out() -> None:
    """`!` leaves out, of all where nothing else is named; each pattern has to match."""
    names = ["a.w", "a.b", "c.w"]
    assert selected(names, ["!a.*"]) == ["c.w"]
    assert selected(names, ["*", "!*.b"]) == ["a.w", "c.w"]
    assert selected(names, ["a*", "!a.b"]) == ["a.w"]
    with pytest.raises(GlowError, match=r"no weight matches '!d\*'; there are: a.w, a.b, c.w"):
        selected(names, ["!d*"])


def test_left_out_of_a_module() -> None:
    """The same patterns for networks that are built in Python."""
    g = glow.GraphBuilder()
    x = g.placeholder("x", (4, 3))
    w, s = g.constant(np.ones((3, 2), np.float32), "w"), g.constant(np.ones(2, np.float32), "s")
    g.save(g.mul(g.matmul(x, w), s), "y")
    trainer = glow.Trainer(g, trainable=["!s"], backend="interpreter")
    assert list(trainer.parameters()) == ["w"]
