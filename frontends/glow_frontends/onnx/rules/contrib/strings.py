"""The rule of Tokenizer: texts are known when a model is imported."""

from __future__ import annotations

import re

from glow_dialects.core.types import Array
from glow_frontends.graph import Emitter, RuleError
from glow_frontends.onnx.node import REQUIRED, Node
from glow_frontends.onnx.rules.rule import Versions
from glow_frontends.onnx.rules.strings import text_array, texts_of


def tokenizer(g: Emitter, n: Node) -> Array:
    """Tokenizer (com.microsoft): words by an expression or between separators, or single characters.

    Rows are filled up to the longest with `pad_value`; `mark` puts U+0002 and U+0003 around each.
    """
    del g
    (x,) = texts_of(n, 1)
    least, fill = n.integer("mincharnum", REQUIRED), n.text("pad_value", REQUIRED)
    separators, expression = n.texts("separators", ()), n.text("tokenexp", "")
    try:
        words, cuts = re.compile(expression), [re.compile(s) for s in separators]
    except re.error as error:
        raise RuleError(f"the pattern is no regular expression: {error}") from None

    def tokens(text: str) -> list[str]:
        if expression:
            parts = [m.group() for m in words.finditer(text)]
        elif separators in ((), ("",)):
            parts = list(text)
        else:
            parts = [text]
            for cut in cuts:
                parts = [piece for part in parts for piece in cut.split(part)]
        return [part for part in parts if part and len(part) >= least]

    rows = [tokens(text) for text in x.reshape(-1)]
    if n.flag("mark") and any(rows):
        rows = [["\x02", *row, "\x03"] for row in rows]
    width = max(map(len, rows), default=0)
    flat = [token for row in rows for token in (*row, *[fill] * (width - len(row)))]
    return text_array(flat, (*x.shape, width))


RULES: dict[str, Versions] = {"Tokenizer": tokenizer}
