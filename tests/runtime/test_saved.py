"""Saved programs: what was compiled runs from one file, without the compiler; what cannot is told."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_compiler as glow
from glow_compiler.api import TrustedPath
from glow_runtime import saved
from glow_runtime.serve.repository import find_models


def network(rows: int | str = "n") -> onnx.ModelProto:
    """softmax(relu(x w) v), with rows as given."""
    rng = np.random.default_rng(0)
    weights = [("w", rng.standard_normal((24, 40))), ("v", rng.standard_normal((40, 10)))]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["z"]),
        helper.make_node("Softmax", ["z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 24])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 10])],
        [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def rows(count: int) -> dict[str, Any]:
    return {"x": np.random.default_rng(count).standard_normal((count, 24)).astype(np.float32)}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with programs of 3 rows and of any number."""
    path = tmp_path_factory.mktemp("saved") / "net.glow"
    net = glow.compile(network())
    for count in (3, 8, 50):
        net.run(rows(count))
    net.save(path)
    return path


def test_programs_of_one_size_and_of_any(file: Path) -> None:
    session = ort.InferenceSession(network().SerializeToString(), providers=["CPUExecutionProvider"])
    net = glow.load_program(file)
    assert [s.name for s in net.inputs] == ["x"] and net.inputs[0].shape == (None, 24)
    for count in (3, 8, 50, 333):
        want = np.asarray(session.run(None, rows(count))[0])
        np.testing.assert_allclose(net.run(rows(count))["y"], want, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(glow.compile(file).run(rows(8))["y"], net.run(rows(8))["y"])
    np.testing.assert_array_equal(net.submit(rows(8)).result()["y"], net(rows(8)["x"]))


def test_it_starts_without_the_compiler(file: Path) -> None:
    code = (
        "import sys, numpy as np, glow_compiler as glow\n"
        f"net = glow.load_program({str(file)!r})\n"
        "for n in (3, 77): assert net.run({'x': np.zeros((n, 24), np.float32)})['y'].shape == (n, 10)\n"
        "print([m for m in ('xdsl', 'onnx', 'glow_passes', 'glow_frontends') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_shapes_are_compiled_before(tmp_path: Path) -> None:
    net = glow.compile(network())
    with pytest.raises(glow.ShapeError, match="nothing has been compiled yet"):
        net.save(tmp_path / "n.glow")
    assert not list(tmp_path.iterdir())
    net.save(tmp_path / "n.glow", shapes=[{"x": (2, 24)}, {"x": (5, 24)}])
    again = glow.load_program(tmp_path / "n.glow")
    for count in (2, 5):
        np.testing.assert_array_equal(again.run(rows(count))["y"], net.run(rows(count))["y"])
    with pytest.raises(glow.ShapeError, match="no program for x 7x24, only for x 2x24; x 5x24"):
        again.run(rows(7))
    with pytest.raises(glow.BindingError, match="missing input 'x'"):
        again.run({})


def test_constants_that_programs_share_are_there_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    w = numpy_helper.from_array(rng.standard_normal((256, 256)).astype(np.float32), "w")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 256]) for n in "xy")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    net = glow.compile(model)
    net.save(tmp_path / "one.glow", shapes=[{"x": (32, 256)}])
    net.save(tmp_path / "two.glow", shapes=[{"x": (64, 256)}])
    sizes = [(tmp_path / f"{n}.glow").stat().st_size for n in ("one", "two")]
    assert sizes[0] > w.ByteSize() and sizes[1] - sizes[0] < w.ByteSize() / 2


def test_states_start_anew(tmp_path: Path) -> None:
    (tmp_path / "s.mlir").write_text("""
glow.placeholder @x : tensor<4xf32>
glow.placeholder @s state : tensor<4xf32>
glow.placeholder @y output : tensor<4xf32>
glow.func @main {
  %x = glow.get @x : tensor<4xf32>
  %s = glow.get @s : tensor<4xf32>
  %t = glow.add %x, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  glow.save %t to @s : tensor<4xf32>
  glow.save %t to @y : tensor<4xf32>
}
""")
    net = glow.compile(tmp_path / "s.mlir")
    for _ in range(2):
        net.run({"x": np.ones(4, np.float32)})
    net.save(tmp_path / "s.glow")
    again = glow.load_program(tmp_path / "s.glow")
    for want in (1, 2):
        np.testing.assert_array_equal(again.run({"x": np.ones(4, np.float32)})["y"], np.full(4, want))


def test_what_cannot_be_saved_is_told(tmp_path: Path) -> None:
    path = tmp_path / "n.glow"
    with pytest.raises(glow.UnsupportedError, match="backend interpreter has no written form"):
        glow.compile(network(2), backend="interpreter").save(path)
    x, y = (helper.make_tensor_value_info(n, TensorProto.INT64, s) for n, s in (("x", [4]), ("y", [None])))
    graph = helper.make_graph([helper.make_node("Unique", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    net = glow.compile(model)
    net.run({"x": np.array([1, 1, 2, 3])})
    with pytest.raises(glow.UnsupportedError, match="cannot be saved: "):
        net.save(path)
    assert not path.exists()
    with pytest.raises(glow.GlowError, match="cannot write"):
        glow.compile(network(2)).save(tmp_path / "no" / "n.glow")


def test_files_that_hold_no_programs(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other.glow"
    with pytest.raises(glow.GlowError, match=r"other\.glow: No such file"):
        glow.load_program(other)
    other.write_bytes(b"GIF89a")
    with pytest.raises(glow.GlowError, match="is not a file of Executable.save, or damaged"):
        glow.load_program(other)
    monkeypatch.setattr(saved, "FORMAT", 7)
    with pytest.raises(glow.GlowError, match="has format 3, this version of Glow reads 7"):
        glow.load_program(file)
    monkeypatch.undo()
    wrongs: list[tuple[dict[str, Any], str]] = [
        ({"backend": "interpreter"}, "so its backend cpu cannot be chosen"),
        ({"shapes": {"x": (2, 24)}}, "so its shapes and pipeline cannot be chosen"),
    ]
    for wrong, message in wrongs:
        with pytest.raises(glow.UnsupportedError, match=message):
            glow.compile(file, **wrong)
    with pytest.raises(glow.UnsupportedError, match="contains compiled programs, not a graph"):
        glow.load(file)


def test_code_for_other_processors_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from glow_backends.cpu.backend import CpuBackend

    monkeypatch.setattr(CpuBackend, "needs", lambda self: ["z80"])  # pyright: ignore
    with pytest.raises(
        glow.UnsupportedError, match="code for processors with .*, which this one does not have"
    ):
        glow.load_program(file)


@pytest.mark.slow
def test_damage_never_answers_wrongly(file: Path, tmp_path: Path) -> None:
    """Bytes changed, pieces cut out, the end missing: a message, or the right answer if nothing was hit."""
    rng, whole = random.Random(0), file.read_bytes()
    want = glow.load_program(file).run(rows(3))["y"]
    damaged = tmp_path / "damaged.glow"
    told = 0
    for number in range(150):
        data = bytearray(whole)
        place = rng.randrange(len(data))
        if number % 3 == 0:
            data[place] ^= 1 << rng.randrange(8)
        elif number % 3 == 1:
            del data[place : place + rng.randrange(1, 5000)]
        else:
            del data[place:]
        damaged.write_bytes(data)
        try:
            got = glow.load_program(damaged).run(rows(3))["y"]
        except glow.GlowError as error:
            assert "damaged" in str(error)
            told += 1
        else:
            np.testing.assert_array_equal(got, want)
    assert told > 100


def test_it_is_an_archive_that_others_read(file: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        assert "manifest.json" in archive.namelist()


def test_sizes_beyond_the_limits_are_told(file: Path, tmp_path: Path) -> None:
    """With the limits of each program, and what to do."""
    net = glow.load_program(file)
    with pytest.raises(glow.ShapeError) as error:
        net.run(rows(100_000))
    text = str(error.value)
    assert "has no program for x 100000x24, only for x 3x24; any n from " in text
    most = max(int(limit) for limit in re.findall(r" to (\d+)", text))
    assert net.run(rows(most))["y"].shape == (most, 10)
    with pytest.raises(glow.ShapeError, match="compile the model for these shapes too"):
        net.run(rows(most + 1))
    fixed = glow.compile(network(3))
    fixed.save(tmp_path / "fixed.glow")
    with pytest.raises(glow.BindingError, match="expected"):
        glow.load_program(tmp_path / "fixed.glow").run(rows(4))


def moved(file: Path, path: Path, change: Any) -> Path:
    """A file with other contents of those in it, its manifest and checksums made to fit."""
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return path


def test_code_of_others_is_refused(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program runs that this user saved, or that somebody trusts; digests are checked in both cases."""
    monkeypatch.setenv("GLOW_KEY_FILE", str(tmp_path / "other" / "key"))
    message = r"net\.glow contains machine code and was not saved with this user's key.*trust=True.*other/key"
    for load in (glow.load_program, glow.compile):
        with pytest.raises(glow.GlowError, match=message):
            load(file)
    np.testing.assert_array_equal(glow.load_program(file, trust=True).run(rows(3))["y"].shape, (3, 10))
    with glow.HostManager(["cpu"]) as host:
        host.add_network("net", TrustedPath(file))
        assert host.run("net", rows(3))["y"].shape == (3, 10)
    net = glow.compile(network(2))
    net.save(tmp_path / "own.glow")
    assert (tmp_path / "other" / "key").stat().st_mode & 0o777 == 0o600
    glow.load_program(tmp_path / "own.glow")
    (tmp_path / "other" / "key").chmod(0o644)
    with pytest.raises(glow.GlowError, match="others can read the key; chmod 600"):
        glow.load_program(tmp_path / "own.glow")


def test_nothing_in_a_file_can_be_exchanged(file: Path, tmp_path: Path) -> None:
    """Code, data, the manifest or its seal of another file, with checksums that are right."""
    other = tmp_path / "other.glow"
    glow.compile(network(4)).save(other)
    with zipfile.ZipFile(other) as archive:
        seal = archive.read("seal")
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()

    for changed in names:

        def change(name: str, data: bytes, changed: str = changed) -> bytes:
            if name != changed:
                return data
            return (
                seal
                if name == "seal"
                else data.replace(b'"y"', b'"z"')
                if name == "manifest.json"
                else data[::-1]
            )

        with pytest.raises(glow.GlowError, match="damaged"):
            glow.load_program(moved(file, tmp_path / "evil.glow", change)).run(rows(3))


def test_folders_of_servers(file: Path, tmp_path: Path) -> None:
    """Compiled models in a folder are taken only if that is asked for."""
    (tmp_path / "net").mkdir()
    place = shutil.copy(file, tmp_path / "net" / "model.glow")
    with pytest.raises(glow.GlowError, match=r"model\.glow is machine code: --trust-programs"):
        find_models([str(tmp_path)])
    assert [f.path for f in find_models([str(tmp_path)], programs=True)] == [Path(place)]
