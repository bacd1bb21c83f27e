"""The choice of tokens, by their probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from glow_compiler.sampling import Sampling, choose, log_probabilities, probabilities

LOGITS = np.log(np.array([0.05, 0.4, 0.3, 0.2, 0.05], np.float32))


@pytest.mark.parametrize(
    ("how", "want"),
    [
        (Sampling(1.0), [0.05, 0.4, 0.3, 0.2, 0.05]),
        (Sampling(0.5), [0.0025, 0.16, 0.09, 0.04, 0.0025]),
        (Sampling(1.0, top_k=2), [0, 0.4, 0.3, 0, 0]),
        (Sampling(1.0, top_p=0.6), [0, 0.4, 0.3, 0, 0]),
        (Sampling(1.0, top_p=0.0), [0, 0.4, 0, 0, 0]),
        (Sampling(1.0, min_p=0.45), [0, 0.4, 0.3, 0.2, 0]),
        (Sampling(1.0, top_k=3, top_p=0.5, min_p=0.9), [0, 0.4, 0, 0, 0]),
    ],
)
def test_probabilities(how: Sampling, want: list[float]) -> None:
    """Tokens that stay, and how likely they are."""
    np.testing.assert_allclose(probabilities(LOGITS, how), np.array(want) / sum(want), rtol=1e-5)


def test_choices_follow_probabilities() -> None:
    """Many choices, counted; a seed gives them again."""
    how = Sampling(1.0, seed=3)
    random = how.generator()
    counts = np.bincount([choose(LOGITS, [], how, random) for _ in range(4000)], minlength=5)
    np.testing.assert_allclose(counts / 4000, np.exp(LOGITS), atol=0.03)
    again = how.generator()
    assert choose(LOGITS, [], how, again) == choose(LOGITS, [], how, how.generator())


def test_repetitions_are_penalised() -> None:
    """Scores above zero are divided, others multiplied, as transformers does."""
    logits = np.array([2.0, 1.5, -1.0], np.float32)
    how = Sampling(repetition_penalty=1.5)
    assert choose(logits, [0], how, how.generator()) == 1
    assert choose(logits, [], how, how.generator()) == 0
    negative = np.array([-1.0, -1.2], np.float32)
    assert choose(negative, [0, 0], how, how.generator()) == 1


def test_log_probabilities() -> None:
    """They are normalised, for large logits too."""
    np.testing.assert_allclose(log_probabilities(LOGITS + 1000), LOGITS, atol=1e-4)


def test_biases_and_penalties() -> None:
    """OpenAI's formula: logits lose the one, and the other for each time; the prompt is not counted."""
    logits, before = np.array([3.0, 2.0, 1.0, 0.0], np.float32), [1, 1, 0, 0, 0, 1]
    for prompt, presence, frequency, biases in (
        (0, 0.0, 0.6, {}),
        (2, 1.5, 0.0, {}),
        (2, 0.25, 0.5, {3: 4.0}),
        (6, 2.0, 2.0, {}),
        (0, -1.0, -0.3, {0: -100.0}),
    ):
        counts = np.bincount(before[prompt:], minlength=4)
        wanted = logits - frequency * counts - presence * (counts > 0)
        for token, bias in biases.items():
            wanted[token] += bias
        how = Sampling(
            presence_penalty=presence, frequency_penalty=frequency, uncounted=prompt, logit_bias=biases
        )
        assert choose(logits, before, how, how.generator()) == wanted.argmax()


def test_a_temperature_next_to_zero_is_zero() -> None:
    how = Sampling(5e-324, top_p=0.5, min_p=0.1)
    assert choose(LOGITS, [], how, how.generator()) == 1
