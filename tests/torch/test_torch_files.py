"""Files of torch.export.save are data: those that would run code are refused before PyTorch reads them."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.peers

import glow_compiler as glow  # noqa: E402


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, x: Any, more: dict[str, Any]) -> Any:
        return {"y": self.layer(x) + more["a"].sum(), "n": x.shape[0] * 2}


class Evil:
    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.place),)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pt2") / "good.pt2"
    size = {"x": {0: torch.export.Dim("n", max=64)}, "more": {"a": None}}
    example = (torch.randn(3, 4), {"a": torch.randn(2)})
    torch.export.save(torch.export.export(Net(), example, dynamic_shapes=size), path)
    return path


def changed(good: Path, path: Path, change: Callable[[str, bytes], bytes | None], *more: Any) -> Path:
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(path, "w") as new:
        root = old.namelist()[0].partition("/")[0]
        for name in old.namelist():
            data = change(name, old.read(name))
            if data is not None:
                new.writestr(name, data)
        for name, data in more:
            new.writestr(f"{root}/{name}", data)
    return path


def torch_pickle(value: Any, **options: Any) -> bytes:
    made = io.BytesIO()
    torch.save(value, made, **options)
    return made.getvalue()


def test_a_program(good: Path) -> None:
    """One with plain inputs and open sizes is read."""
    net: Any = glow.compile(good)
    out = net(torch.ones(5, 4), {"a": torch.zeros(2)})
    assert out["y"].shape == (5, 2) and out["n"] == 10


def replaced(old: str, new: str) -> Callable[[bytes], bytes]:
    """Bytes with others in place of some that are there."""

    def change(data: bytes) -> bytes:
        assert old.encode() in data
        return data.replace(old.encode(), new.encode())

    return change


def samples(place: Path) -> dict[str, Callable[[str, bytes], bytes | None]]:
    evil = Evil(place)

    def of(end: str, new: Callable[[bytes], bytes]) -> Callable[[str, bytes], bytes | None]:
        return lambda name, data: new(data) if name.endswith(end) else data

    def weights(data: bytes) -> bytes:
        table = json.loads(data)
        for entry in table["config"].values():
            entry["use_pickle"] = True
        return json.dumps(table).encode()

    target = "torch.ops.aten.linear.default"
    size = replaced('"expr_str": "', f"\"expr_str\": \"__import__('os').mkdir('{place}') or ")
    return {
        "inputs": of("sample_inputs/model.pt", lambda _: torch_pickle(evil)),
        "inputs in the old form": of(
            "sample_inputs/model.pt", lambda _: torch_pickle(evil, _use_new_zipfile_serialization=False)
        ),
        "a bare pickle": of("sample_inputs/model.pt", lambda _: pickle.dumps(evil)),
        "a pickle of protocol 0": of("sample_inputs/model.pt", lambda _: pickle.dumps(evil, 0)),
        "weights": lambda name, data: (
            weights(data)
            if name.endswith("weights_config.json")
            else torch_pickle(evil)
            if "weights/weight_" in name
            else data
        ),
        "sizes": of("models/model.json", size),
        **{
            name: of("models/model.json", replaced(target, name))
            for name in (
                "torch.os.system",
                "torch.ops.load_library",
                "_operator.methodcaller",
                "torch.hub.load",
            )
        },
    }


@pytest.mark.parametrize("kind", samples(Path()))
def test_code_is_refused(kind: str, good: Path, tmp_path: Path) -> None:
    """And does not run."""
    place = tmp_path / "ran"
    path = changed(good, tmp_path / "evil.pt2", samples(place)[kind])
    assert path.read_bytes() != good.read_bytes()
    with pytest.raises(glow.GlowError, match=r"evil\.pt2: .* runs code when it is read; if you trust"):
        glow.load(path)
    assert not place.exists()


@pytest.mark.parametrize(
    "name",
    [
        "data/constants/custom_obj_0",
        "data/constants/opaque_obj_0",
        "data/aotinductor/model/a.so",
        "data/weights/model.pt",
    ],
)
def test_more_files_are_refused(name: str, good: Path, tmp_path: Path) -> None:
    place = tmp_path / "ran"
    path = changed(good, tmp_path / "evil.pt2", lambda _, data: data, (name, pickle.dumps(Evil(place))))
    with pytest.raises(glow.GlowError, match="runs code when it is read"):
        glow.load(path)
    assert not place.exists()


def test_the_old_form(tmp_path: Path) -> None:
    """Of PyTorch 2.7 and before."""
    place, path = tmp_path / "ran", tmp_path / "old.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("version", "8.8")
        archive.writestr("serialized_exported_program.json", "{}")
        for name in ("state_dict", "constants", "example_inputs"):
            archive.writestr(f"serialized_{name}.pt", torch_pickle(Evil(place)))
    with pytest.raises(glow.GlowError, match="runs code when it is read"):
        glow.load(path)
    assert not place.exists()


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"\x80\x02."])
def test_no_program(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.pt2").write_bytes(data)
    with pytest.raises(glow.GlowError, match=r"x\.pt2 was not written by torch.export.save"):
        glow.load(tmp_path / "x.pt2")
