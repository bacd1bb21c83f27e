"""Texts that a language model continues together: others join and leave between two tokens."""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from glow_compiler.language_slots import SlotPrograms
from glow_compiler.language_token import Token, token_of
from glow_compiler.sampling import Sampling, choose
from glow_dialects.core.errors import ClosedError, GlowError, RefusedError
from glow_dialects.core.forks import renew_after_fork
from glow_dialects.core.types import Array

if TYPE_CHECKING:
    from glow_compiler.language_model import LanguageModel

_CLOSED = "the model is closed"
_FORKED = "the batching is of the process that was forked; make one in this process"
LOG = logging.getLogger("glow")
Told = Callable[[Token | Exception | None], None]
"""Is told each token of a text, and at its end None or the error that ended it."""
_Queue = queue.SimpleQueue[Token | Exception | None]


@dataclass(eq=False)
class GrowingText:
    """A text, and how its next tokens are chosen: `count` more at most, up to one of `ends`."""

    tokens: list[int]
    count: int
    how: Sampling
    ends: set[int]
    logprobs: int
    tell: Told
    slot: int = -1
    cancelled: bool = False
    random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.random = self.how.generator()

    def add(self, logits: Array) -> bool:
        """Choose the next token, and tell it; whether it was the last."""
        token = token_of(choose(logits, self.tokens, self.how, self.random), logits, self.logprobs)
        self.tokens.append(int(token))
        self.count -= 1
        self.tell(token)
        return self.count < 1 or int(token) in self.ends


class RunningBatch:
    """The texts that grow: a step gives each of them a token, or reads on in its prompt."""

    def __init__(self, programs: SlotPrograms) -> None:
        self.programs = programs
        self.texts: list[GrowingText] = []

    def join(self, text: GrowingText) -> None:
        """Have a text grow, too; GlowError where there cannot be room for it."""
        text.slot = self.programs.take(text.tokens)
        self.texts.append(text)

    def leave(self, text: GrowingText, error: Exception | None = None) -> None:
        """End a text."""
        self.texts.remove(text)
        self.programs.give_back(text.slot)
        text.tell(error)

    def end(self, error: Exception | None = None) -> None:
        """End all texts."""
        for text in list(self.texts):
            self.leave(text, error)

    def step(self, prompts: int = 1) -> None:
        """The next token of all, except of prompts that are still read, `prompts` of them a piece."""
        for text in [t for t in self.texts if len(t.tokens) > self.programs.limit]:
            try:
                self.programs.check_length(len(text.tokens))
            except GlowError as error:
                self.leave(text, error)
        texts = list(self.texts)
        if not texts:
            return
        rows = self.programs.advance([t.tokens for t in texts], [t.slot for t in texts], prompts)
        for text, row in zip(texts, rows, strict=True):
            if row is not None and text.add(row):
                self.leave(text)


class Answer:
    """The tokens that continue a text, as they come: an iterator that raises what ended them early."""

    def __init__(self, batching: ContinuousBatching, text: GrowingText, told: _Queue) -> None:
        self._batching, self._text, self._told = batching, text, told
        self._ended = False

    def cancel(self) -> None:
        """Let the text end after the step that runs; the iterator ends after what was made."""
        self._batching.cancel(self._text)

    def __iter__(self) -> Iterator[Token]:
        return self

    def __next__(self) -> Token:
        if self._ended:
            raise StopIteration
        try:
            told = self._told.get(block=not self._batching.forked)
        except queue.Empty:
            self._ended = True
            raise ClosedError(_FORKED) from None
        if isinstance(told, Token):
            return told
        self._ended = True
        if told is None:
            raise StopIteration
        raise told


class ContinuousBatching:
    """Generates the texts of many callers together.

    A text joins when there is room and leaves when it ends. A long prompt is processed in pieces, so the
    other texts wait for at most one piece. Each text gets the same tokens as alone. A thread does the
    computation, so slow callers do not delay others. In a forked process, all calls are a ClosedError.

    Args:
        model: A LanguageModel; its caches hold `size` texts.
        size: The largest number of texts at a time.
        most_waiting: The largest number of waiting texts; a further one is a RefusedError.

    Examples:
        >>> with glow.ContinuousBatching(glow.LanguageModel("tiny"), size=4) as batching:
        ...     answers = [batching.submit(prompt, 5) for prompt in ([3, 1, 4], [1, 5])]
        ...     [len(list(answer)) for answer in answers]
        [5, 5]
    """

    def __init__(self, model: LanguageModel, size: int = 8, most_waiting: int = 100) -> None:
        if size < 1 or most_waiting < 0:
            raise GlowError(
                f"size={size}, most_waiting={most_waiting}: expected a number from 1, and one from 0"
            )
        self.model, self.size, self.most_waiting = model, size, most_waiting
        model.programs.prepare(size)
        self._batch = RunningBatch(model.programs)
        self._waiting: deque[GrowingText] = deque()
        self._changed = threading.Condition()
        self._closing = self.forked = False
        renew_after_fork(self)
        self._thread = threading.Thread(target=self._work, name="glow-continuous-batching", daemon=True)
        self._thread.start()

    def renew(self) -> None:
        """Be closed: called in a fork, where nothing computes."""
        self._changed = threading.Condition()
        self._closing = self.forked = True

    def submit(
        self,
        prompt: str | Sequence[int],
        max_tokens: int = 128,
        temperature: float = 0.0,
        *,
        stop: int | Sequence[int] = (),
        logprobs: int = 0,
        on_token: Told | None = None,
        **sampling: Any,
    ) -> Answer:
        """Continue a prompt.

        Args:
            prompt: A text, or token numbers.
            max_tokens: The maximum number of new tokens.
            temperature: As for `LanguageModel.generate`.
            stop: Tokens that end the answer.
            logprobs: As for `LanguageModel.generate`.
            on_token: A function that gets each token instead of the iterator, and at the end None or an
                error. It is called by the computing thread.
            **sampling: As for `LanguageModel.generate`.

        Returns:
            An iterator of tokens, with `cancel`.

        Raises:
            RefusedError: Too many texts are waiting.
            GlowError: The text can never fit.
        """
        how = Sampling(temperature, **sampling)
        tokens = self.model.tokens(prompt)
        if max_tokens < 1:
            raise GlowError(f"max_tokens={max_tokens}: expected a number from 1")
        self.model.programs.check([tokens], max_tokens - 1)
        ends = {*self.model.files.ends, *((stop,) if isinstance(stop, int) else stop)}
        told: _Queue = queue.SimpleQueue()
        text = GrowingText(tokens, max_tokens, how, ends, logprobs, on_token or told.put)
        with self._changed:
            if self._closing:
                raise ClosedError(_FORKED) if self.forked else RefusedError(_CLOSED)
            if len(self._waiting) >= self.most_waiting + self.size - len(self._batch.texts):
                waiting = len(self._waiting)
                raise RefusedError(f"too many requests: {waiting} wait for this model; try again later")
            self._waiting.append(text)
            self._changed.notify()
        return Answer(self, text, told)

    def cancel(self, text: GrowingText) -> None:
        """Let a text end."""
        text.cancelled = True
        with self._changed:
            waits = text in self._waiting
            if waits:
                self._waiting.remove(text)
        if waits:
            text.tell(None)

    @property
    def active(self) -> int:
        """Texts that grow."""
        return len(self._batch.texts)

    @property
    def waiting(self) -> int:
        """Texts that wait for room."""
        return len(self._waiting)

    def close(self) -> None:
        """End all texts, with RefusedError, and the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *caught: object) -> None:
        self.close()

    # --- the thread -------------------------------------------------------------------------------
    def _work(self) -> None:
        batch = self._batch
        while self._admit():
            try:
                batch.step()
            except Exception as error:
                if not isinstance(error, GlowError):
                    LOG.exception("a batch of texts failed")
                batch.end(error)
                batch.programs.forget()
        closed = RefusedError(_CLOSED)
        batch.end(closed)
        for text in self._waiting:
            text.tell(closed)

    def _admit(self) -> bool:
        """Let texts leave that were cancelled, and others in; False at the end."""
        batch = self._batch
        for text in [t for t in batch.texts if t.cancelled]:
            batch.leave(text)
        while len(batch.texts) < self.size:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or self._waiting or batch.texts)
                if self._closing or not self._waiting:
                    break
                text = self._waiting.popleft()
            try:
                batch.join(text)
            except Exception as error:
                text.tell(error)
        return not self._closing
