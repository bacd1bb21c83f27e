"""LanguageModel: a decoder by the path of its files, and the tokens or texts that it generates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from glow_backends.base import Backend
from glow_backends.report import Report
from glow_compiler.api import backend_of
from glow_compiler.language_batching import GrowingText, RunningBatch, Told
from glow_compiler.language_programs import LanguagePrograms
from glow_compiler.language_text import Stream, Texts
from glow_compiler.language_token import Piece, Token, piece_of, token_of
from glow_compiler.language_weights import importance_of, with_weights
from glow_compiler.sampling import Sampling, choose, log_probabilities
from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array

if TYPE_CHECKING:
    from glow_compiler.onnx_language import OnnxLanguagePrograms
    from glow_frontends.language import LanguageFiles

Prompt = str | Sequence[int]


class LanguageModel:
    """A language model ready to generate.

    `path`: a folder of Hugging Face's, a .gguf file, or an .onnx model that takes past keys and values and
    gives present ones. `weights`: "stored", as the files have them, or "int8"
    or "int4", with a scale for each `group` of inputs; what meets weights of few bits has 8 bits itself,
    unless `activations` is "f32"; `calibration`: texts or lists of tokens such as the model will meet, by
    which errors of rounding count more where activations are large. `backend`, `threads` and `options` as
    for `compile`. The caches hold `capacity` tokens of each text (by default they grow up to what the model
    is made for). What they hold of earlier texts is not computed again. GlowError for files that are missing
    or damaged, UnsupportedError for architectures that are not known.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        backend: str | Backend = "cpu",
        threads: int | Literal["auto"] = 1,
        weights: str = "stored",
        group: int = 32,
        activations: str = "int8",
        calibration: Sequence[Prompt] = (),
        capacity: int | None = None,
        **options: Any,
    ) -> None:
        made = backend_of(backend, threads, options)
        if activations not in ("int8", "f32"):
            raise GlowError(f"activations='{activations}': expected int8 or f32")
        if Path(path).suffix == ".onnx":
            if weights != "stored":
                raise GlowError(f"weights='{weights}': an ONNX model's weights stay as they are stored")
            self.files, self.programs = _of_onnx(Path(path), made, capacity)
        else:
            from glow_frontends.language import read_language_model

            self.files = _rounded(read_language_model(path), weights, group, calibration, made)
            rounded = activations == "int8"
            self.programs = LanguagePrograms(self.files, made, capacity, rounded=rounded)
        self.decoder = self.files.decoder
        self.texts = Texts(self.files)

    def __repr__(self) -> str:
        d = self.decoder
        return (
            f"LanguageModel({self.files.source}: {d.layers} layers of width {d.width}, {d.vocabulary} tokens)"
        )

    def generate(
        self,
        prompt: Prompt,
        max_tokens: int = 128,
        temperature: float = 0.0,
        *,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int | None = None,
        stop: str | int | Sequence[str | int] = (),
        logprobs: int = 0,
    ) -> Iterator[Any]:
        """Continue a prompt: tokens (`Token`, an int) after tokens, pieces of text (`Piece`) after a text.

        Ends after `max_tokens`, after a token that ends texts (which is the last of the tokens), a token of
        `stop`, or before a text of `stop`. `logprobs`: how many of the likeliest tokens each one names in
        `top`. The other options are those of `Sampling`: with temperature 0 the likeliest token is taken.
        """
        how = Sampling(temperature, top_k, top_p, min_p, repetition_penalty, seed)
        stops = [stop] if isinstance(stop, str | int) else list(stop)
        tokens = self.tokens(prompt)
        if max_tokens < 0:
            raise GlowError(f"max_tokens={max_tokens}: expected a number from 0")
        ends = {*self.files.ends, *(s for s in stops if isinstance(s, int))}
        made = self._generated(tokens, max_tokens, how, ends, logprobs)
        words = [s for s in stops if isinstance(s, str)]
        if isinstance(prompt, str):
            return self._pieces(made, words, ends)
        return self._until(made, words) if words else made

    def generate_many(
        self, prompts: Sequence[Prompt], max_tokens: int = 128, temperature: float = 0.0, **options: Any
    ) -> list[list[Token]]:
        """The tokens that continue each of several prompts, computed together; options as for `generate`."""
        logprobs, stop = options.pop("logprobs", 0), options.pop("stop", ())
        how = Sampling(temperature, **options)
        ends = {*self.files.ends, *((stop,) if isinstance(stop, int) else stop)}
        made: list[list[Token]] = [[] for _ in prompts]
        batch, tokens = RunningBatch(self.programs), [self.tokens(p) for p in prompts]
        self.programs.check(tokens)
        for text, own in zip(tokens, made, strict=True) if max_tokens > 0 else ():
            batch.join(GrowingText(text, max_tokens, how, ends, logprobs, _kept_in(own)))
        try:
            while batch.texts:
                batch.step(len(batch.texts))
        finally:
            batch.end()
        return made

    def chat(self, messages: Sequence[Mapping[str, str]], **options: Any) -> Iterator[Piece]:
        """Pieces of the answer to messages {"role": ..., "content": ...}; options as for `generate`."""
        prompt = self.texts.tokens(self.texts.conversation(messages), special=False)
        stops = options.pop("stop", ())
        stops = [stops] if isinstance(stops, str | int) else list(stops)
        words = [s for s in stops if isinstance(s, str)]
        ends = {*self.files.ends, *(s for s in stops if isinstance(s, int))}
        return self._pieces(self.generate(prompt, stop=list(ends), **options), words, ends)

    def logits(self, prompt: Prompt) -> Array:
        """The logits after each token of a prompt, [tokens, vocabulary]."""
        return self.programs.every(self.tokens(prompt))

    def perplexity(self, prompt: Prompt) -> float:
        """e to the mean of -log p of each token after the first."""
        tokens = self.tokens(prompt)
        if len(tokens) < 2:
            raise GlowError("the perplexity of a text of less than two tokens is not defined")
        rows = self.logits(tokens)
        losses = [-log_probabilities(row)[t] for row, t in zip(rows, tokens[1:], strict=False)]
        return float(np.exp(np.mean(losses)))

    def save(self, folder: str | Path) -> None:
        """Write a model of a folder with its weights in few bits, so that they need not be rounded again.

        The layout is GPTQ's. GlowError where no weights have few bits, or the folder cannot be written;
        UnsupportedError for models that came from other files.
        """
        from glow_frontends.language.huggingface_save import save_folder

        save_folder(self.files, Path(folder))

    def report(self) -> list[Report]:
        """The report of each program that was compiled."""
        return [p.report for p in self.programs.programs.values()]

    def tokens(self, prompt: Prompt) -> list[int]:
        """The tokens of a text; GlowError for what is neither a text nor tokens."""
        if isinstance(prompt, str):
            return self.texts.tokens(prompt)
        tokens = np.asarray(prompt)
        if tokens.ndim != 1 or (tokens.size and tokens.dtype.kind not in "iu"):
            raise GlowError(f"a prompt is a text or a list of tokens, not {type(prompt).__name__}")
        return [int(t) for t in tokens]

    def _generated(
        self, tokens: list[int], count: int, how: Sampling, ends: set[int], logprobs: int
    ) -> Iterator[Token]:
        random = how.generator()
        for _ in range(count):
            logits = self.programs.logits([tokens])[0]
            token = token_of(choose(logits, tokens, how, random), logits, logprobs)
            tokens.append(int(token))
            yield token
            if int(token) in ends:
                return

    def _pieces(self, made: Iterator[Token], stops: list[str], ends: set[int]) -> Iterator[Piece]:
        """The text of tokens, as it becomes certain."""
        stream, token = Stream(self.texts, stops), None
        for token in made:
            text = "" if int(token) in ends else stream.add(token)
            if text:
                yield piece_of(text, token)
            if stream.stopped:
                return
        if token is not None and (text := stream.rest()):
            yield piece_of(text, token)

    def _until(self, made: Iterator[Token], stops: list[str]) -> Iterator[Token]:
        """Tokens up to the one that completes a stop text."""
        stream = Stream(self.texts, stops)
        for token in made:
            yield token
            stream.add(token)
            if stream.stopped:
                return


def _kept_in(tokens: list[Token]) -> Told:
    """Keeps the tokens that it is told; raises the error that ends them."""

    def tell(told: Token | Exception | None) -> None:
        if isinstance(told, Exception):
            raise told
        if told is not None:
            tokens.append(told)

    return tell


def _rounded(
    files: LanguageFiles, weights: str, group: int, calibration: Sequence[Prompt], backend: Backend
) -> LanguageFiles:
    """The model with weights of few bits, if it is to have such."""
    if isinstance(calibration, str):
        raise GlowError("calibration is a list of texts or of lists of tokens, not one text")
    if weights == "stored" or not calibration:
        return with_weights(files, weights, group)
    texts = Texts(files)
    tokens = [texts.tokens(t) if isinstance(t, str) else [int(i) for i in t] for t in calibration]
    return with_weights(files, weights, group, importance_of(files, tokens, backend))


def _of_onnx(
    path: Path, backend: Backend, capacity: int | None
) -> tuple[LanguageFiles, LanguagePrograms | OnnxLanguagePrograms]:
    """A decoder that is an ONNX model."""
    from glow_compiler.onnx_language import OnnxLanguagePrograms
    from glow_frontends.onnx.decoder import read_onnx_decoder

    files, ports = read_onnx_decoder(path)
    return files, OnnxLanguagePrograms(files, ports, backend, capacity)
