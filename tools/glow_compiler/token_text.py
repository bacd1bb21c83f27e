"""The text of tokens that come one by one: each token's share of the text of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_FEW = 16
"""Tokens of a prompt that are decoded with those after it, at least."""

Decode = Callable[[Sequence[int]], str]


class TokenText:
    """The text of tokens after those of a prompt: that of all without the prompt's.

    Tokens are decoded with some before them, since spaces and characters depend on these, but not with all.
    `open_ended`: whether what a token stands for depends on the next one, as that of a single byte does.
    """

    def __init__(self, decode: Decode, open_ended: Callable[[int], bool], prompt: Sequence[int]) -> None:
        self._decode, self._open_ended = decode, open_ended
        count = min(_FEW, len(prompt))
        while count < len(prompt) and not decode(prompt[-count:]):
            count = min(2 * count, len(prompt))
        self._tokens = [int(t) for t in prompt[len(prompt) - count :]]
        self._given = len(self._tokens)
        #: The text that no later token changes.
        self.text = ""

    def add(self, token: int) -> None:
        """Add a token."""
        self._tokens.append(int(token))
        end = len(self._tokens)
        while end > self._given and self._open_ended(self._tokens[end - 1]):
            end -= 1
        self._advance(end)

    def end(self) -> None:
        """No more tokens come."""
        self._advance(len(self._tokens), last=True)

    def _advance(self, end: int, last: bool = False) -> None:
        """Give the text of tokens up to one; that of an incomplete character is kept."""
        if end <= self._given:
            return
        before, after = self._decode(self._tokens[: self._given]), self._decode(self._tokens[:end])
        gained = after[len(before) :]
        if gained.endswith("\ufffd") and not last:
            return
        self.text += gained
        # What is forgotten must not change what follows: some text is left before it.
        if self._decode(self._tokens[self._given : end]):
            del self._tokens[: self._given]
            end -= self._given
        self._given = end
