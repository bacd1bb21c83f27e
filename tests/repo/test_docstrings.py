"""The docstrings of the public API say what each parameter is, and their examples run."""

from __future__ import annotations

import contextlib
import doctest
import inspect
import io
import linecache
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from documents import fences, run_python

import glow_compiler as glow

#: Names whose docstring is one sentence, and values that are not called.
PLAIN = {"Problem", "ops", "optim"}
#: Methods of the classes that people use most.
METHODS = {
    glow.Executable: ("run", "state", "submit", "save", "bind"),
    glow.GraphBuilder: ("size", "placeholder", "constant", "save", "update"),
    glow.HostManager: ("add_network", "submit"),
    glow.Trainer: ("step", "fit", "load_weights"),
    glow.LanguageModel: ("generate",),
    glow.ContinuousBatching: ("submit",),
    glow.SpeechModel: ("transcribe",),
}


def public() -> Iterator[tuple[str, Any]]:
    """What the rules hold for: functions, classes but errors, and the methods above."""
    for name in glow.__all__:
        value = getattr(glow, name)
        error = isinstance(value, type) and issubclass(value, Exception)
        if name not in PLAIN and not error and callable(value):
            yield name, value
    for kind, methods in METHODS.items():
        for name in methods:
            yield f"{kind.__name__}.{name}", getattr(kind, name)


PUBLIC = dict(public())


def sections(value: Any) -> dict[str, str]:
    """The sections of a docstring by title; the first has none."""
    parts = re.split(r"^(Args|Returns|Raises|Examples):$", inspect.getdoc(value) or "", flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_parameter_is_described(name: str) -> None:
    """Args names the parameters, in their order."""
    value: Callable[..., Any] = PUBLIC[name]
    parameters = [p for p in inspect.signature(value).parameters.values() if p.name != "self"]
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    wanted = [stars.get(p.kind, "") + p.name for p in parameters]
    described = re.findall(r"^    (\*{0,2}\w+): ", sections(value).get("Args", ""), re.MULTILINE)
    assert described == wanted


@pytest.mark.parametrize("name", [n for n in PUBLIC if "." not in n])
def test_every_name_has_an_example(name: str) -> None:
    """A reader sees how it is used."""
    assert ">>> " in sections(PUBLIC[name]).get("Examples", "")


def run_example(source: str, file: str, names: dict[str, Any]) -> str:
    """What an example prints; functions that it compiles find their source, as in a notebook."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, file, "single"), names)
    return printed.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLIC)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each prints what it shows, in an empty folder, with `np` and `glow`."""
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(PUBLIC[name]) or ""
    if '"tiny"' in text:  # the model that the page of language models writes
        for block in fences("docs/language_models.md"):
            if block.language == "python":
                run_python(block, {"__name__": "document"})
    names: dict[str, Any] = {"np": np, "glow": glow, "__name__": "example"}
    for number, example in enumerate(doctest.DocTestParser().get_examples(text)):
        if not example.options.get(doctest.SKIP):
            printed = run_example(example.source, f"{name}[{number}]", names)
            assert doctest.OutputChecker().check_output(example.want, printed, 0), (
                f"{example.source}{printed}"
            )
