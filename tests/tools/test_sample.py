"""The sample models: each can be written and loaded; wrong names and places are one message."""

from __future__ import annotations

from pathlib import Path

import pytest

import glow_compiler as glow
from glow_tools.sample import SAMPLES, main, sample


def test_a_sample_is_written_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under its own name in the current folder, or where `-o` says."""
    monkeypatch.chdir(tmp_path)
    assert main(["squeezenet"]) == 0 and main(["squeezenet", "-o", "model.onnx"]) == 0
    assert Path("model.onnx").read_bytes() == Path("squeezenet.onnx").read_bytes()
    assert glow.load("squeezenet.onnx").body.block.ops


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_exists(name: str) -> None:
    """The onnx package has the file of each."""
    assert sample(name).stat().st_size > 1000


def test_a_wrong_name_and_a_wrong_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Usage errors name the samples, others the file."""
    with pytest.raises(SystemExit, match="2"):
        main(["squeeze"])
    assert "choose from squeezenet" in capsys.readouterr().err.replace("'", "")
    assert main(["squeezenet", "-o", str(tmp_path / "no" / "x.onnx")]) == 1
    assert "cannot write" in capsys.readouterr().err
