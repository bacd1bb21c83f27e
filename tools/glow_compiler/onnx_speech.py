"""Speech decoders as ONNX models: the text so far is a state, the audio features an input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from glow_backends.base import Backend
from glow_backends.report import Report
from glow_compiler.api import compile
from glow_compiler.language_slots import SlotPrograms
from glow_dialects.core.types import Array

if TYPE_CHECKING:
    from glow_frontends.language.whisper import SpeechFiles
    from glow_frontends.onnx.speech import OnnxListener


class OnnxSpeechPrograms(SlotPrograms):
    """The executables of an encoder and a decoder, what was heard, and the past of one text."""

    def __init__(self, files: SpeechFiles, models: OnnxListener, backend: Backend) -> None:
        from glow_frontends.onnx.speech import past_of, written_pasts

        super().__init__(files.decoder, 1, None)
        self.frames = 2 * files.encoder.decoder.places
        self.encoder, self.first = compile(models.encoder, backend), compile(models.first, backend)
        self.following = self._past = None
        if models.following is not None:
            pasts = {name: (past_of(name), 2) for name in written_pasts(models.following)}
            self.following = compile(models.following, backend, states=pasts)
            self._past = self.following.state()
        self._heard: Array | None = None
        #: Its keys and values, by the inputs that take them.
        self._heard_keys: dict[str, Array] = {}

    def listen(self, features: Array) -> None:
        """Hear a sound: what is written from now on is about it."""
        with self._lock:
            (port,) = self.encoder.inputs
            (self._heard,) = list(self.encoder.run({port.name: features.astype(port.dtype)}).values())[:1]
            self.forget()

    def reports(self) -> list[Report]:
        """Of the programs that there are."""
        nets = [self.encoder, self.first, *([] if self.following is None else [self.following])]
        return [net.program.report for net in nets]

    def _advance(
        self, texts: Sequence[Sequence[int]], slots: Sequence[int], prompts: int
    ) -> list[Array | None]:
        return [self._run(text, slot)[-1] for text, slot in zip(texts, slots, strict=True)]

    def _every(self, text: Sequence[int], slot: int) -> Array:
        return self._run(text, slot)

    def _make_room(self, length: int, sequences: int) -> None:
        self.check_length(length)

    def _run(self, text: Sequence[int], slot: int) -> Array:
        """The logits of the tokens that the past does not have: the first ones together, then one by one."""
        state = self.slots[slot]
        before = len(state.tokens) if self.following is not None else 0
        rows = [self._call(text, 0, len(text))] if not before else []
        rows += [self._call(text, at, at + 1) for at in range(before or len(text), len(text))]
        state.tokens[:] = text
        return np.concatenate(rows)

    def _call(self, text: Sequence[int], start: int, end: int) -> Array:
        """One call for some tokens, [tokens, vocabulary]; the past grows by them."""
        from glow_frontends.onnx.speech import is_of_encoder, past_of

        net = self.following if start else self.first
        assert net is not None and self._heard is not None
        given: dict[str, Array] = {}
        for port in net.inputs:
            if len(port.shape) == 4:  # one that the first call has, but does not read, is empty
                empty = np.zeros(tuple(n or 0 for n in port.shape), port.dtype)
                given[port.name] = self._heard_keys[port.name] if start else empty
            elif len(port.shape) == 3:
                given[port.name] = self._heard.astype(port.dtype)
            elif len(port.shape) == 2:
                given[port.name] = np.array([text[start:end]], port.dtype)
            else:  # places in the text
                given[port.name] = np.arange(start, end, dtype=port.dtype)
        if start and self._past is not None:
            self._past.truncate(start)
            made = net.run(given, self._past)
        else:
            made = net.run(given)
            keys = {past_of(name): value for name, value in made.items() if value.ndim == 4}
            self._heard_keys = {name: value for name, value in keys.items() if is_of_encoder(name)}
            if self._past is not None:
                self._past.set({name: value for name, value in keys.items() if not is_of_encoder(name)})
        logits = next(iter(made.values()))
        return logits[0].astype(np.float32)
