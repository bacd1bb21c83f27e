"""Results of a language model: tokens, and pieces of text."""

from __future__ import annotations

import numpy as np

from glow_compiler.sampling import log_probabilities
from glow_dialects.core.types import Array


class Token(int):
    """A token that was generated, with its log-probability and those of the likeliest, if asked for."""

    logprob: float
    top: tuple[tuple[int, float], ...]


class Piece(str):
    """A piece of text that was generated, with the token that completed it."""

    token: Token


def token_of(number: int, logits: Array, count: int) -> Token:
    """A token with its log-probability, and those of the `count` likeliest."""
    made = Token(number)
    logs = log_probabilities(logits)
    made.logprob = float(logs[number])
    best = np.argsort(-logs, kind="stable")[:count] if count else ()
    made.top = tuple((int(t), float(logs[t])) for t in best)
    return made


def piece_of(text: str, token: Token) -> Piece:
    """A piece of text with its token."""
    made = Piece(text)
    made.token = token
    return made
