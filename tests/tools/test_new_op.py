"""The helper that writes a new operator's card: what it writes works as it stands."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from glow_tools.new_op import card_text, listed, main

ROOT = Path(__file__).parents[2]


def loaded(path: Path) -> ModuleType:
    """A card from its file, without touching the package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The part of a checkout that the helper writes to."""
    (tmp_path / "glow_dialects/ops").mkdir(parents=True)
    shutil.copy(ROOT / "glow_dialects/ops/__init__.py", tmp_path / "glow_dialects/ops")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "expression", "operands"),
    [
        ("made_up_clip", "x / (1 + np.abs(x))", None),
        ("made_up_hypot", "np.hypot(x, y)", None),
        ("made_up_scale", "data * scale[:1]", "data,scale"),
    ],
)
def test_card_works(checkout: Path, name: str, expression: str, operands: str | None) -> None:
    """The card's sample evaluates to the expression, and ruff has nothing to say."""
    more = ["--operands", operands] if operands else []
    assert main([name, expression, "--doc", "Made up", "--root", str(checkout), *more]) == 0
    path = checkout / f"glow_dialects/ops/{name}.py"
    card = loaded(path)
    (sample,) = card.SAMPLES
    _, op = sample.detached()
    names = operands.split(",") if operands else ["x", "y"]
    values = dict(zip(names, sample.arrays(), strict=False))
    expected = eval(expression, {"np": np}, values)
    np.testing.assert_allclose(op.evaluate(sample.arrays())[0], expected, rtol=1e-6)
    assert f'    "{name}": "{name}",\n' in (checkout / "glow_dialects/ops/__init__.py").read_text()
    assert f"glow.{name}" in (checkout / f"tests/filecheck/ops/{name}.mlir").read_text()
    ruff = shutil.which("ruff")
    if ruff is not None:
        config = ["--config", str(ROOT / "pyproject.toml")]
        subprocess.run([ruff, "check", "-q", *config, str(path)], check=True)


@pytest.mark.parametrize(("expression", "operands"), [("x + 1", "x"), ("data + scale", "data,scale")])
def test_what_makes_it_native(
    checkout: Path, capsys: pytest.CaptureFixture[str], expression: str, operands: str
) -> None:
    """The output says that the operator runs on the host, and names the place that changes it."""
    options = ["--operands", operands, "--doc", "Made up", "--root", str(checkout)]
    assert main(["made_up_sum", expression, *options]) == 0
    printed = capsys.readouterr().out
    assert "the CPU runs it on the host, by NumPy" in printed
    (place,) = re.findall(r"backends/glow_backends/cpu[\w/.]*\w", printed)
    assert (ROOT / place).exists()
    if operands == "x":
        table = (ROOT / place).read_text()
        assert all(
            f"\n{name}: " in table or f"\n{name} = " in table for name in ("FLOAT", "INTEGER", "BOOLEAN")
        )


def test_names_at_doors(checkout: Path) -> None:
    """Names stand on the card of an element-wise operator; others have none."""
    options = ["--doc", "Made up", "--root", str(checkout), "--torch", "made_up"]
    assert main(["made_up_clip", "x / (1 + np.abs(x))", *options]) == 0
    card = loaded(checkout / "glow_dialects/ops/made_up_clip.py")
    assert card.MadeUpClipOp.TORCH == "made_up"
    text = (checkout / "glow_dialects/ops/__init__.py").read_text()
    assert "made_up_clip" in text[text.index("ELEMENTWISE = {") : text.index("OPERATORS = {")]
    with pytest.raises(SystemExit):
        main(["made_up_scale", "data * scale", "--operands", "data,scale", *options])


def test_card_is_listed_in_order() -> None:
    """The table stays sorted, and everything else stays as it was."""
    before = (ROOT / "glow_dialects/ops/__init__.py").read_text()
    line = '    "made_up": "made_up",\n'
    after = listed(before, "made_up")
    assert after.replace(line, "") == before
    assert after.index('"lstm"') < after.index(line) < after.index('"matmul"')
    assert listed(before, "zzz").endswith(before[before.index("}\n", before.index("\nOPERATORS = {")) :])


def test_existing_card_is_kept(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A card is never overwritten."""
    path = checkout / "glow_dialects/ops/relu.py"
    path.write_text("mine")
    with pytest.raises(SystemExit, match="1"):
        main(["relu", "x", "--doc", "d", "--root", str(checkout)])
    assert path.read_text() == "mine"
    assert "exists" in capsys.readouterr().err


def test_name_is_checked(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names are snake_case."""
    with pytest.raises(SystemExit, match="1"):
        main(["MyOp", "x", "--doc", "d", "--root", str(checkout)])
    assert "snake_case" in capsys.readouterr().err


def test_no_unused_import() -> None:
    """A card that needs no NumPy does not import it."""
    assert "numpy" not in card_text("twice", "2 x", "x + x", ["x"])
