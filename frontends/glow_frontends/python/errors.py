"""The error of a Python function that cannot be compiled."""

from __future__ import annotations

from glow_dialects.core.errors import UnsupportedError


class FunctionError(UnsupportedError):
    """What cannot be compiled, where (`file`, `line`), and what to write instead."""

    def __init__(self, what: str, instead: str = "", where: str = "", excerpt: str = "") -> None:
        self.where = where
        text = f"{where}: {what}" if where else what
        if instead:
            text += f"; {instead}"
        super().__init__(f"{text}\n{excerpt}" if excerpt else text)


class LengthUnknown(FunctionError):
    """A tuple whose length only its type will give, where the length is needed now.

    A loop around it that turns a known number of times is written out instead.
    """
