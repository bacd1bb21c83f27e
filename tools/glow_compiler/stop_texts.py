"""Search for stop texts in a growing text, each character once."""

from __future__ import annotations

from collections.abc import Iterable


class StopTexts:
    """Where the first of some texts begins in a text, and how much of its end may begin one."""

    def __init__(self, stops: Iterable[str]) -> None:
        self._by_first: dict[str, list[_Search]] = {}
        for stop in dict.fromkeys(filter(None, stops)):
            self._by_first.setdefault(stop[0], []).append(_Search(stop))
        self._begun: list[_Search] = []
        self._length = 0

    def add(self, more: str) -> int | None:
        """Where the first stop text begins that ends in `more`, characters behind those so far."""
        if not self._by_first:
            return None
        begins: list[int] = []
        for character in more:
            self._length += 1
            begun = self._begun
            for search in self._by_first.get(character, ()):
                if not search.matched:
                    begun.append(search)
            for search in begun:
                if search.add(character):
                    begins.append(self._length - len(search.text))
            self._begun = [search for search in begun if search.matched]
        return min(begins, default=None)

    @property
    def held(self) -> int:
        """Characters at the end that may begin a stop text."""
        return max((search.matched for search in self._begun), default=0)


class _Search:
    """How much of the end of a text begins another one: the algorithm of Knuth, Morris and Pratt.

    Its table (the longest end of each beginning that is a beginning itself) is made as far as it is needed.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.matched = 0
        self._shorter = [0]

    def add(self, character: str) -> bool:
        """Go on by a character; whether the text ends with it."""
        text, shorter = self.text, self._shorter
        at = self.matched
        while at and text[at] != character:
            at = shorter[at - 1]
        at += text[at] == character
        if at > len(shorter):
            end = shorter[-1]
            while end and text[end] != character:
                end = shorter[end - 1]
            shorter.append(end + (text[end] == character))
        whole = at == len(text)
        self.matched = shorter[at - 1] if whole else at
        return whole
