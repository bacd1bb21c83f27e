"""`glow`: every command behind one name, proposals for mistakes, completion and manual pages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pytest
from commands import refused, run

import glow_compiler
from glow_tools import completion, glow, man, sample
from glow_tools import run as run_command
from glow_tools.command_table import COMMANDS, INNER, module_of
from glow_tools.completion import every_command

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def started(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`glow` in a process of its own."""
    command = [sys.executable, "-m", "glow_tools", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})


def test_the_table_is_what_is_installed() -> None:
    """A script for each command, and one for all; each module has a parser and a `main`."""
    scripts = {f"glow-{name}": f"glow_tools.entry:{name}" for name in COMMANDS}
    assert PROJECT["scripts"] == {"glow": "glow_tools.entry:glow", **scripts}
    for name, parser in every_command().items():
        assert callable(import_module(module_of(name)).main)
        assert parser.description and "glow" in parser.examples, name


def test_help_and_version() -> None:
    """The list of commands; of one its help, under the name it was called by; no command is a usage error."""
    done = started("--help")
    assert done.returncode == 0 and all(f"\n  {name} " in done.stdout for name in (*COMMANDS, *INNER))
    assert started().returncode == 2
    assert started("--version").stdout == f"glow {glow_compiler.__version__}\n"
    text = started("run", "--help").stdout
    assert text == started("help", "run").stdout
    assert text.startswith("usage: glow run ") and "\n  glow run model.onnx" in text


@pytest.mark.parametrize("columns", [50, 80, 140])
def test_help_is_as_wide_as_the_terminal(columns: int) -> None:
    """Everything but the examples, and words that are longer."""
    for arguments in (["--help"], ["bench", "--help"]):
        text = started(*arguments, COLUMNS=str(columns)).stdout.partition("examples:")[0]
        assert max(map(len, text.splitlines())) <= min(columns, 110)


def test_help_is_fast() -> None:
    """It imports nothing of the compiler."""
    code = (
        "import sys; from glow_tools.glow import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert {"numpy", "xdsl", "rich", "glow_dialects"}.isdisjoint(done.stderr.split())


@pytest.mark.parametrize(
    "words, told",
    [
        (["rnu"], "no command 'rnu'; did you mean 'run'?"),
        (["--verson"], "no option '--verson'; did you mean '--version'?"),
        (["run", "m.onnx", "--ouput", "x"], "--ouput; did you mean --output?"),
        (["run", "--shpe", "x=1"], "did you mean --shape?"),
        (["compile", "m.onnx", "-o", "x", "--weights", "embd"], "did you mean embed?"),
        (["sample", "squeezent"], "did you mean squeezenet?"),
        (["completion", "tcsh"], "invalid choice"),
        (["man", "rn"], "invalid choice"),
        (["man"], "is needed"),
        (["info"], "required: model"),
    ],
)
def test_usage_errors(words: Sequence[str], told: str) -> None:
    """One or two lines with what was meant, and status 2."""
    done = run(lambda argv: glow.main(argv), *words)
    refused(done, told, status=2)
    assert len(done.messages.splitlines()) <= 3


def test_the_file_that_was_meant(tmp_path: Path) -> None:
    """A file that is not there is told with the one that is most like it, from Python too."""
    assert run(sample.main, "squeezenet", "-o", tmp_path / "model.onnx").status == 0
    (tmp_path / "net.mlir").touch()
    for wrong, right in {"modle.onnx": "model.onnx", "net.mlr": "net.mlir"}.items():
        done = run(run_command.main, tmp_path / wrong, "--random", "0")
        refused(done, f"{tmp_path / wrong}: No such file", f"did you mean {tmp_path / right}?")
        with pytest.raises(glow_compiler.GlowError, match="did you mean"):
            glow_compiler.compile(tmp_path / wrong)
    done = run(run_command.main, tmp_path / "model.onnx", "--input", f"data_0={tmp_path}/x.npy")
    refused(done, "No such file")
    assert "did you mean" not in done.messages


@pytest.mark.parametrize(
    "text", ["host\n", "# Notes\n\nmodule\n", "a: 1\nb: [2]\n", "import os\n", "x,y\n1,2\n"]
)
def test_texts_that_are_no_models(text: str, tmp_path: Path) -> None:
    """One line, whatever the extension; IR under another name is read."""
    for name in ("hostname", "notes.md", "table.csv"):
        (tmp_path / name).write_text(text)
        done = run(run_command.main, tmp_path / name, "--random", "0")
        refused(done, f"{tmp_path / name}: not a model, but text; models are")
        assert len(done.messages.splitlines()) == 1
    (tmp_path / "prog.txt").write_text("// a comment\n\nglow.placeholder @x input : tensor<4xf32>\n")
    assert "not a model" not in run(run_command.main, tmp_path / "prog.txt").messages


def test_sample_runs(tmp_path: Path) -> None:
    """The file that the pages begin with."""
    path = tmp_path / "model.onnx"
    assert f"wrote {path}" in run(sample.main, "squeezenet", "-o", path).output
    assert run(run_command.main, path).status == 0
    refused(run(sample.main, "squeezenet", "-o", tmp_path / "none" / "model.onnx"), "cannot write")


def completed(shell: str, line: Sequence[str]) -> list[str]:
    """What bash proposes for the last word of a line."""
    code = 'source /dev/stdin <<< "$SCRIPT"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _glow; '
    code += 'printf "%s\\n" "${COMPREPLY[@]}"'
    script = run(completion.main, shell).output
    done = subprocess.run(
        ["bash", "-c", code, "bash", *line],
        capture_output=True,
        text=True,
        env={**os.environ, "SCRIPT": script},
    )
    assert not done.stderr, done
    return done.stdout.split()


@pytest.mark.slow
def test_completion_of_bash(tmp_path: Path) -> None:
    """Commands, options of a command under both names, values, files."""
    assert completed("bash", ["glow", "tra"]) == ["translate", "train", "transcribe"]
    assert completed("bash", ["glow", "help", "inf"]) == ["info"]
    for start in (["glow", "run"], ["glow-run"]):
        assert completed("bash", [*start, "--comp"]) == ["--compile-budget", "--compare"]
        assert completed("bash", [*start, "--debug-info", ""]) == ["none", "lines", "full"]
    (tmp_path / "model.onnx").touch()
    assert completed("bash", ["glow", "run", f"{tmp_path}/mo"]) == [f"{tmp_path}/model.onnx"]
    assert completed("bash", ["glow", "completion", ""]) == ["bash", "zsh", "fish"]


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_sound(shell: str, tmp_path: Path) -> None:
    """Each command and option is in the script, which its shell (where it is here) reads."""
    text = run(completion.main, shell).output
    for name, parser in every_command().items():
        assert name in text
        for option in parser.options():
            assert (f"-l {option[2:]} " if shell == "fish" and option.startswith("--") else option) in text
    if shutil.which(shell):
        (tmp_path / "script").write_text(text)
        done = subprocess.run([shell, "-n", str(tmp_path / "script")], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_manual_pages(tmp_path: Path) -> None:
    """One for each command, with its options and examples; groff has nothing to say about them."""
    assert run(man.main, "-o", tmp_path).status == 0
    assert {p.name for p in tmp_path.iterdir()} == {"glow.1", *(f"glow-{name}.1" for name in COMMANDS)}
    for name, parser in every_command().items():
        if name in COMMANDS:
            text = (tmp_path / f"glow-{name}.1").read_text().replace("\\-", "-")
            assert all(option in text for option in parser.options())
            assert ".SH EXAMPLES" in text and text.startswith('.TH "GLOW-')
    if shutil.which("groff"):
        for page in tmp_path.iterdir():
            command = ["groff", "-man", "-ww", "-Tutf8", str(page)]
            done = subprocess.run(command, capture_output=True, text=True)
            assert not [line for line in done.stderr.splitlines() if "break line" not in line]
    assert ".SH OPTIONS" in run(man.main, "run").output
