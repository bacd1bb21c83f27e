"""Pipelines as text: what `--show-pipeline` prints makes the same program again."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from card_runner import SAMPLES, graph_of
from xdsl.dialects.builtin import ModuleOp

import glow_compiler as glow
from glow_dialects.dialects import context
from glow_passes.instrumentation import text_of
from glow_tools.pipelines import describe, named, parse

#: Operators that the CPU backend keeps, takes apart and fuses.
OPERATORS = [
    "softmax",
    "gelu",
    "layer_norm",
    "conv",
    "rnn",
    "cumprod",
    "cross_entropy",
    "adam",
    "resize_grad",
]
SOME = [name for name in SAMPLES if name.rpartition("-")[0] in OPERATORS][::2]


def text_after(module: ModuleOp, pipeline: str) -> str:
    """The program that a pipeline makes of a module, printed."""
    program = module.clone()
    for step in parse(pipeline):
        step.apply(context(), program)
    return text_of(program)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOME)
def test_the_printed_pipeline_is_the_one_that_ran(name: str) -> None:
    """`-p cpu` and the text of its passes make one program of a sample."""
    module = graph_of(SAMPLES[name])[0].module
    assert text_after(module, describe(parse("cpu"))) == text_after(module, "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_the_printed_pipeline_of_a_model(name: str) -> None:
    """The same for whole networks."""
    light = Path(onnx.__file__).parent / f"backend/test/data/light/light_{name}.onnx"
    module = glow.load(str(light))
    assert text_after(module, describe(parse("cpu"))) == text_after(module, "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(named()))
def test_pipelines_print_as_they_are_read(name: str) -> None:
    """The text of every named pipeline is read as the same passes, for each processor."""
    for mcpu in ("host", "haswell"):
        text = describe(parse(name, mcpu))
        assert describe(parse(text)) == text
        assert [type(p) for p in parse(text)] == [type(p) for p in parse(name, mcpu)]
