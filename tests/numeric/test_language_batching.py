"""Continuous batching: each text gets the tokens that transformers gives it alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

import language_models as lms

import glow_compiler as glow
from glow_compiler.language_batching import ContinuousBatching
from glow_compiler.language_model import LanguageModel


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("llama")
    return folder, lms.written(folder, "llama")


@pytest.fixture(scope="module")
def model(llama: tuple[Path, Any]) -> LanguageModel:
    return glow.LanguageModel(llama[0])


@pytest.fixture(scope="module")
def batching(model: LanguageModel) -> Iterator[ContinuousBatching]:
    with glow.ContinuousBatching(model, size=4, most_waiting=10) as made:
        yield made


class Steps:
    """What each step of a batch is asked for and gives; a step waits while `go` is clear."""

    def __init__(self, model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[list[bool]] = []
        self.go = threading.Event()
        self.go.set()
        advance = model.programs.advance

        def watched(*given: Any) -> Any:
            assert self.go.wait(60)
            made = advance(*given)
            self.rows.append([row is not None for row in made])
            return made

        monkeypatch.setattr(model.programs, "advance", watched)


@pytest.mark.slow
def test_texts_join_and_leave(
    llama: tuple[Path, Any], batching: ContinuousBatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts and answers of all lengths, more texts than go together."""
    steps = Steps(batching.model, monkeypatch)
    cases = [(lms.prompt_of(n), count) for n, count in ((3, 9), (40, 3), (1, 14), (150, 5), (7, 1), (20, 12))]
    steps.go.clear()
    answers = [batching.submit(prompt, count) for prompt, count in cases]
    steps.go.set()
    for (prompt, count), answer in zip(cases, answers, strict=True):
        assert list(answer) == lms.continued(llama[1], prompt, count)
    assert max(map(len, steps.rows)) == 4 and any(map(all, steps.rows))
    assert batching.active == batching.waiting == 0


def test_a_prompt_holds_nobody_up(
    llama: tuple[Path, Any], batching: ContinuousBatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a long prompt is read piece by piece, each step gives the others a token."""
    steps = Steps(batching.model, monkeypatch)
    batching.model.programs.forget()
    steps.go.clear()
    short, long = lms.prompt_of(2), lms.prompt_of(230, seed=5)
    answers = [batching.submit(short, 20), batching.submit(long, 4)]
    steps.go.set()
    assert list(answers[0]) == lms.continued(llama[1], short, 20)
    assert list(answers[1]) == lms.continued(llama[1], long, 4)
    reading = [rows for rows in steps.rows if len(rows) == 2 and not rows[1]]
    assert reading and sum(rows[0] for rows in reading) >= len(reading) - 1


@pytest.mark.slow
def test_seeds(model: LanguageModel, batching: ContinuousBatching) -> None:
    """Random choices are those of the text's own seed."""
    options: dict[str, Any] = {"temperature": 0.9, "top_p": 0.9, "seed": 7}
    want = list(model.generate([3, 4, 5], 8, **options))
    others = [batching.submit([9, n], 20, 1.0, seed=n) for n in (1, 2)]
    assert list(batching.submit([3, 4, 5], 8, logprobs=2, **options)) == want
    for other in others:
        other.cancel()
        list(other)


def test_cancelled(
    llama: tuple[Path, Any], batching: ContinuousBatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts that are cancelled end, those that wait too; others take their places."""
    steps = Steps(batching.model, monkeypatch)
    steps.go.clear()
    prompt = lms.prompt_of(6)
    first = [batching.submit([n + 2], 200) for n in range(4)]
    late, last = batching.submit([5, 5], 200), batching.submit(prompt, 5)
    late.cancel()
    assert list(late) == []
    for answer in first:
        answer.cancel()
    steps.go.set()
    assert list(last) == lms.continued(llama[1], prompt, 5)
    assert all(len(list(answer)) < 200 for answer in first)


def test_slow_readers(llama: tuple[Path, Any], batching: ContinuousBatching) -> None:
    """Answers that nobody reads do not hold up one that somebody does."""
    unread = [batching.submit([n + 2], 30) for n in range(3)]
    prompt = lms.prompt_of(5)
    assert list(batching.submit(prompt, 40)) == lms.continued(llama[1], prompt, 40)
    assert [len(list(answer)) for answer in unread] == [30] * 3


def test_refused(batching: ContinuousBatching, monkeypatch: pytest.MonkeyPatch) -> None:
    """More texts than may wait are refused, and so is what there cannot be room for."""
    steps = Steps(batching.model, monkeypatch)
    steps.go.clear()
    answers = [batching.submit([3], 2) for _ in range(14)]
    with pytest.raises(glow.RefusedError, match="too many requests: 1[0-4] wait for this model"):
        batching.submit([3], 2)
    steps.go.set()
    assert {len(list(answer)) for answer in answers} == {2}
    for prompt, count, message in (
        ([3, 97], 1, "token 97 is out of range"),
        ([], 1, "a text without tokens"),
        ([3], 0, "max_tokens=0: expected a number from 1"),
        ([3] * 100, 158, "the cache is full: a text of 257 tokens, the model is made for 256"),
    ):
        with pytest.raises(glow.GlowError) as caught:
            batching.submit(prompt, count)
        assert message in str(caught.value)
    with pytest.raises(glow.GlowError, match="size=0, most_waiting=1"):
        glow.ContinuousBatching(batching.model, 0, 1)


def test_a_failed_step(
    llama: tuple[Path, Any], batching: ContinuousBatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure ends the texts that run with it, and no others."""

    def failing(*given: Any) -> Any:
        raise RuntimeError("broken")

    with monkeypatch.context() as broken:
        broken.setattr(batching.model.programs, "advance", failing)
        with pytest.raises(RuntimeError, match="broken"):
            list(batching.submit([3], 5))
    prompt = lms.prompt_of(9)
    assert list(batching.submit(prompt, 5)) == lms.continued(llama[1], prompt, 5)


def test_closed(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs and waits when it is closed is told so, and what comes later."""
    steps = Steps(model, monkeypatch)
    steps.go.clear()
    made = glow.ContinuousBatching(model, size=1)
    answers = [made.submit([3], 100), made.submit([4], 100)]
    opening = threading.Timer(0.1, steps.go.set)
    opening.start()
    made.close()
    opening.join()
    for answer in answers:
        with pytest.raises(glow.RefusedError, match="the model is closed"):
            list(answer)
    with pytest.raises(glow.RefusedError, match="the model is closed"):
        made.submit([3], 1)


def test_many_texts_that_outgrow_the_cache(llama: tuple[Path, Any]) -> None:
    """An error of one text ends the call, and its places are free again."""
    model = glow.LanguageModel(llama[0], capacity=12)
    with pytest.raises(glow.GlowError, match="the cache is full: a text of 13 tokens, capacity=12"):
        model.generate_many([[3] * 9, [4]], 20)
    assert not any(slot.held for slot in model.programs.slots)
    assert model.generate_many([[3] * 9, [4]], 3) == [lms.continued(llama[1], p, 3) for p in ([3] * 9, [4])]


def test_forks_are_refused(model: LanguageModel) -> None:
    """A fork computes nothing: it is told so, of new texts and of those under way; the original goes on."""
    with ContinuousBatching(model, size=1) as batching:
        first = batching.submit([1, 2, 3], 4)
        wanted = list(first)
        running = batching.submit([1, 2, 3], 4)
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            told: list[str] = []
            for ask in (lambda: batching.submit([1, 2, 3], 4), lambda: list(running)):
                try:
                    ask()
                except glow.ClosedError as error:
                    told.append(str(error))
            batching.close()
            os.write(writing, "|".join(told).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as answer:
            told = answer.read().decode().split("|")
        os.waitpid(child, 0)
        assert list(running) == wanted
    assert told == ["the batching is of the process that was forked; make one in this process"] * len(told)
    assert told
