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
from glow_dialects.core.file_kinds import FileKind, is_kind
from glow_dialects.core.types import Array

if TYPE_CHECKING:
    from glow_compiler.onnx_language import OnnxLanguagePrograms
    from glow_frontends.language import LanguageFiles

Prompt = str | Sequence[int]


class LanguageModel:
    """A language model, ready to generate.

    Args:
        path: A Hugging Face folder, a .gguf file, or an .onnx model with past keys and values as inputs and
            present ones as outputs.
        backend: As for `compile`.
        threads: As for `compile`.
        weights: "stored" (as in the files), or "int8" or "int4" for weight-only quantisation.
        group: The number of inputs that share a scale.
        activations: "int8" rounds activations that meet quantised weights to 8 bits; "f32" does not.
        calibration: Texts or lists of tokens. Rounding errors then count more where activations are large.
        capacity: The size of the caches in tokens per text; by default they grow up to the model's maximum.
        **options: Options of the backend.

    Raises:
        GlowError: Files are missing or damaged.
        UnsupportedError: The architecture is unknown.

    Examples:
        >>> model = glow.LanguageModel("tiny")
        >>> len(list(model.generate([3, 1, 4], max_tokens=5)))
        5
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
        if is_kind(path, FileKind.ONNX):
            if weights != "stored":
                raise GlowError(f"weights='{weights}': the weights of an ONNX model cannot be changed")
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
        """Continue a prompt.

        Generation ends after `max_tokens`, at a token that ends texts (the last of the tokens), or at `stop`.

        Args:
            prompt: A text, or token numbers.
            max_tokens: The maximum number of new tokens.
            temperature: 0 selects the most likely token; otherwise sample, more randomly with larger numbers.
            top_k: Sample from the k most likely tokens.
            top_p: Sample from the smallest set of tokens with total probability p.
            min_p: Sample from tokens with at least p times the probability of the most likely one.
            repetition_penalty: Reduces the probability of tokens that occurred before.
            seed: Makes sampling reproducible.
            stop: Texts or tokens that end the answer.
            logprobs: Number of most likely tokens to report in `top`.

        Returns:
            An iterator: pieces of text (`Piece`, a str) for a text, tokens (`Token`, an int) for tokens.

        Raises:
            GlowError: An option is wrong, or the text does not fit into the cache.
        """
        how = Sampling(temperature, top_k, top_p, min_p, repetition_penalty, seed)
        stops = [stop] if isinstance(stop, str | int) else list(stop)
        tokens = self.tokens(prompt)
        prompt_tokens = list(tokens)
        if max_tokens < 0:
            raise GlowError(f"max_tokens={max_tokens}: expected a number from 0")
        ends = {*self.files.ends, *(s for s in stops if isinstance(s, int))}
        made = self._generated(tokens, max_tokens, how, ends, logprobs)
        words = [s for s in stops if isinstance(s, str)]
        if isinstance(prompt, str):
            return self._pieces(made, words, ends, prompt_tokens)
        return self._until(made, words, prompt_tokens) if words else made

    def generate_many(
        self, prompts: Sequence[Prompt], max_tokens: int = 128, temperature: float = 0.0, **options: Any
    ) -> list[list[Token]]:
        """Continue several prompts together; options as for `generate`. Returns a list of tokens for each."""
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
        """Answer messages {"role": ..., "content": ...}; options as for `generate`. Yields pieces of the
        answer.
        """
        prompt = self.texts.tokens(self.texts.conversation(messages), special=False)
        stops = options.pop("stop", ())
        stops = [stops] if isinstance(stops, str | int) else list(stops)
        words = [s for s in stops if isinstance(s, str)]
        ends = {*self.files.ends, *(s for s in stops if isinstance(s, int))}
        return self._pieces(self.generate(prompt, stop=list(ends), **options), words, ends, prompt)

    def logits(self, prompt: Prompt) -> Array:
        """The logits after each token of a prompt, as an array [tokens, vocabulary]."""
        return self.programs.every(self.tokens(prompt))

    def perplexity(self, prompt: Prompt) -> float:
        """The perplexity of a text: e to the mean of -log p over all tokens except the first."""
        tokens = self.tokens(prompt)
        if len(tokens) < 2:
            raise GlowError("the perplexity of a text of less than two tokens is not defined")
        rows = self.logits(tokens)
        losses = [-log_probabilities(row)[t] for row, t in zip(rows, tokens[1:], strict=False)]
        return float(np.exp(np.mean(losses)))

    def save(self, folder: str | Path) -> None:
        """Write the model as a folder with its quantised weights, in GPTQ's layout.

        GlowError if no weights are quantised or the folder cannot be written. UnsupportedError if the model
        did not come from a folder.
        """
        from glow_frontends.language.huggingface_save import save_folder

        save_folder(self.files, Path(folder))

    def report(self) -> list[Report]:
        """The reports of all compiled programs."""
        return [p.report for p in self.programs.programs.values()]

    def tokens(self, prompt: Prompt) -> list[int]:
        """The tokens of a text. GlowError if the argument is neither a text nor tokens."""
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

    def _pieces(
        self, made: Iterator[Token], stops: list[str], ends: set[int], prompt: Sequence[int]
    ) -> Iterator[Piece]:
        """The text of tokens, as it becomes certain."""
        stream, token = Stream(self.texts, stops, prompt), None
        for token in made:
            text = "" if int(token) in ends else stream.add(token)
            if text:
                yield piece_of(text, token)
            if stream.stopped:
                return
        if token is not None and (text := stream.rest()):
            yield piece_of(text, token)

    def _until(self, made: Iterator[Token], stops: list[str], prompt: Sequence[int]) -> Iterator[Token]:
        """Tokens up to the one that completes a stop text."""
        stream = Stream(self.texts, stops, prompt)
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
