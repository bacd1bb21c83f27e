"""Decoders as ONNX models: logits after texts, with keys and values of each text as states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glow_backends.base import Backend, Program
from glow_compiler.api import compile
from glow_compiler.language_slots import Slot, SlotPrograms
from glow_dialects.core.types import Array

if TYPE_CHECKING:
    from glow_frontends.language import LanguageFiles
    from glow_frontends.onnx.decoder import OnnxDecoder
    from glow_runtime.state import State


class OnnxLanguagePrograms(SlotPrograms):
    """One executable, and the past of some texts."""

    def __init__(
        self, files: LanguageFiles, ports: OnnxDecoder, backend: Backend, capacity: int | None = None
    ) -> None:
        super().__init__(files, 1, capacity)
        self.ports = ports
        self.net = compile(ports.path, backend, states={p.output: (p.input, 2) for p in ports.pasts})
        self._pasts = [self._empty()]

    def _empty(self) -> State:
        """The past of no text."""
        return self.net.state(
            {p.input: np.zeros((1, p.shape[0], 0, p.shape[1]), p.dtype) for p in self.ports.pasts}
        )

    @property
    def programs(self) -> dict[Any, Program]:
        """The program used last."""
        return {None: self.net.program}

    def prepare(self, sequences: int) -> None:
        """Have room for so many texts; the program is compiled by the first of them."""
        with self._lock:
            self._make_room(1, sequences)

    def _advance(
        self, texts: Sequence[Sequence[int]], slots: Sequence[int], prompts: int
    ) -> list[Array | None]:
        made: list[Array | None] = []
        for text, slot in zip(texts, slots, strict=True):
            reads = len(text) - len(self.slots[slot].tokens) > 1
            made.append(None if reads and prompts < 1 else self._run(text, slot)[-1])
            prompts -= reads
        return made

    def _every(self, text: Sequence[int], slot: int) -> Array:
        return self._run(text, slot)

    def _make_room(self, length: int, sequences: int) -> None:
        self.check_length(length)
        missing = max(0, sequences - len(self.slots))
        self.slots += [Slot() for _ in range(missing)]
        self._pasts += [self._empty() for _ in range(missing)]

    def _run(self, text: Sequence[int], slot: int) -> Array:
        """One call for the tokens of a text that its slot does not have; their logits."""
        ports, state, past = self.ports, self.slots[slot], self._pasts[slot]
        before, total = len(state.tokens), len(text)
        kinds = {s.name: s.dtype for s in self.net.inputs}
        given: dict[str, Array] = {ports.tokens: np.array([text[before:]], kinds[ports.tokens])}
        if ports.mask is not None:
            given[ports.mask] = np.ones((1, total), kinds[ports.mask])
        if ports.positions is not None:
            given[ports.positions] = np.arange(before, total, dtype=kinds[ports.positions])[None]
        if ports.lengths is not None:
            given[ports.lengths] = np.array([total - 1], kinds[ports.lengths])
        if ports.total is not None:
            shape = next(s.shape for s in self.net.inputs if s.name == ports.total)
            given[ports.total] = np.full(tuple(d or 1 for d in shape), total, kinds[ports.total])
        past.truncate(before)
        made = self.net.run(given, past)
        state.tokens[:] = text
        logits = made[ports.logits]
        return logits.reshape(-1, logits.shape[-1]).astype(np.float32)
