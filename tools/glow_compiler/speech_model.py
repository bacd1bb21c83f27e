"""SpeechModel: transcription with an encoder and a decoder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from glow_backends.base import Backend
from glow_backends.report import Report
from glow_compiler.api import backend_of
from glow_compiler.language_programs import LanguagePrograms
from glow_compiler.language_text import Texts
from glow_compiler.language_weights import with_weights
from glow_compiler.onnx_speech import OnnxSpeechPrograms
from glow_compiler.sound import HOP, RATE, log_mel, quiet_cuts, read_sound
from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array

if TYPE_CHECKING:
    from glow_frontends.language.whisper import SpeechFiles


@dataclass(frozen=True)
class Segment:
    """A piece of a sound, from `start` to `end` in seconds, and what it says."""

    start: float
    end: float
    text: str
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Transcript:
    """What a sound says: `text`, the segments that make it, the `language` (None: the model knows one)."""

    text: str
    segments: tuple[Segment, ...]
    language: str | None

    def __str__(self) -> str:
        return self.text


class SpeechModel:
    """A Whisper model, ready to transcribe.

    Args:
        path: A Hugging Face folder, or a folder of ONNX files as optimum writes them.
        backend: As for `compile`.
        threads: As for `compile`.
        weights: As for `LanguageModel`.
        group: As for `LanguageModel`.
        activations: As for `LanguageModel`.
        **options: Options of the backend.

    Raises:
        GlowError: Files are missing or damaged.
        UnsupportedError: The architecture is unknown.

    Examples:
        >>> print(glow.SpeechModel("whisper-base").transcribe("speech.wav"))  # doctest: +SKIP
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
        **options: Any,
    ) -> None:
        from glow_frontends.language.whisper import read_whisper

        made = backend_of(backend, threads, options)
        if not Path(path).is_dir():
            raise GlowError(f"{path}: there is no such folder")
        if activations not in ("int8", "f32"):
            raise GlowError(f"activations='{activations}': expected int8 or f32")
        models = _onnx_models(Path(path))
        self.files = read_whisper(Path(path), stored=models is None)
        if models is None:
            rounded = activations == "int8"
            self.programs = _SpeechPrograms(self.files, made, weights, group, rounded)
        elif weights != "stored":
            raise GlowError(f"weights='{weights}': the weights of an ONNX model cannot be changed")
        else:
            from glow_frontends.onnx.speech import read_onnx_listener

            self.programs = OnnxSpeechPrograms(self.files, read_onnx_listener(models), made)
        self.texts = Texts(self.files.decoder)

    def transcribe(
        self,
        sound: str | Path | Array,
        language: str | None = None,
        *,
        task: str = "transcribe",
        rate: int = RATE,
        max_tokens: int | None = None,
    ) -> Transcript:
        """Transcribe speech.

        Args:
            sound: A .wav file, or samples [time] or [time, channels].
            language: A code such as "en"; None: detected at the beginning.
            task: "transcribe", or "translate" into English.
            rate: Samples per second, for arrays.
            max_tokens: The maximum number of tokens per segment.

        Returns:
            A Transcript with text and segments. Long recordings are split at pauses, into segments of up to
            30 seconds.

        Raises:
            GlowError: The sound cannot be read, or the model does not know the language or task.
        """
        return _joined(list(self.segments(sound, language, task=task, rate=rate, max_tokens=max_tokens)))

    def segments(
        self,
        sound: str | Path | Array,
        language: str | None = None,
        *,
        task: str = "transcribe",
        rate: int = RATE,
        max_tokens: int | None = None,
    ) -> Iterator[tuple[Segment, str | None]]:
        """The segments with their language, as soon as each is ready. Arguments as for `transcribe`."""
        self._check(language, task)
        samples = read_sound(sound, rate)
        cuts = [0, *quiet_cuts(samples, self.programs.frames * HOP), len(samples)]
        return self._segments(samples, cuts, language, task, max_tokens)

    def features(self, sound: str | Path | Array, rate: int = RATE) -> Array:
        """The spectrogram of the first segment, as an array [1, bins, frames]."""
        return log_mel(read_sound(sound, rate), self.files.bins, self.programs.frames)

    def language(self, sound: str | Path | Array, rate: int = RATE) -> str | None:
        """The language at the beginning; None if the model has only one."""
        self.programs.listen(self.features(sound, rate))
        return self._heard_language()

    def report(self) -> list[Report]:
        """The reports of all compiled programs."""
        return self.programs.reports()

    def _segments(
        self, samples: Array, cuts: list[int], language: str | None, task: str, most: int | None
    ) -> Iterator[tuple[Segment, str | None]]:
        for start, end in zip(cuts, cuts[1:], strict=False):
            if start == end:
                continue
            piece = log_mel(samples[start:end], self.files.bins, self.programs.frames)
            self.programs.listen(piece)
            language = language or self._heard_language()
            tokens = list(self._tokens(self._prompt(language, task), most))
            text = self.texts.text(tokens)
            yield Segment(start / RATE, end / RATE, text, tuple(tokens)), language

    def _prompt(self, language: str | None, task: str) -> list[int]:
        """The tokens that say what to write."""
        files = self.files
        made = [files.start]
        if language is not None:
            made.append(files.languages[language])
        if language is not None and files.tasks:
            made.append(files.tasks[task])
        return made if files.no_timestamps is None else [*made, files.no_timestamps]

    def _tokens(self, prompt: list[int], most: int | None) -> Iterator[int]:
        """What is heard, token by token: each time the likeliest that may be written."""
        files, tokens = self.files, list(prompt)
        count = self.programs.limit - len(prompt)
        for number in range(count if most is None else min(most, count)):
            logits = self.programs.logits([tokens])[0]
            logits[[*files.silent, *(files.silent_first if not number else ())]] = -np.inf
            token = int(logits.argmax())
            if token in files.decoder.ends:
                return
            tokens.append(token)
            yield token

    def _heard_language(self) -> str | None:
        """The likeliest language of what is heard."""
        if not self.files.languages:
            return None
        logits = self.programs.logits([[self.files.start]])[0]
        return max(self.files.languages, key=lambda name: logits[self.files.languages[name]])

    def _check(self, language: str | None, task: str) -> None:
        files = self.files
        if language is not None and language not in files.languages:
            known = ", ".join(sorted(files.languages)) or "it knows one only, leave it out"
            raise GlowError(f"language='{language}' is not known to the model; there are: {known}")
        tasks = list(files.tasks) or ["transcribe"]
        if task not in tasks:
            raise GlowError(f"task='{task}' is not known to the model; there are: {', '.join(tasks)}")


def _onnx_models(folder: Path) -> Path | None:
    """Where a folder has ONNX models: itself or its `onnx` folder. None where it has none, or weights of
    Hugging Face's beside them, which run faster."""
    if any(folder.glob("*.safetensors")):
        return None
    return next((p for p in (folder, folder / "onnx") if any(p.glob("encoder_model*.onnx"))), None)


def _joined(segments: list[tuple[Segment, str | None]]) -> Transcript:
    """The segments as one."""
    language = segments[0][1] if segments else None
    text = " ".join(s.text.strip() for s, _ in segments)
    return Transcript(text.strip(), tuple(s for s, _ in segments), language)


class _SpeechPrograms(LanguagePrograms):
    """The programs of a decoder, and the one that listens for it."""

    def __init__(self, files: SpeechFiles, backend: Backend, weights: str, group: int, rounded: bool) -> None:
        super().__init__(with_weights(files.decoder, weights, group), backend, rounded=rounded)
        self.encoder, self.bins = with_weights(files.encoder, weights, group), files.bins
        self._listener: Any = None

    @property
    def frames(self) -> int:
        """Spectra that are heard at once."""
        return 2 * self.encoder.decoder.places

    def listen(self, features: Array) -> None:
        """Hear a sound: what is written from now on is about it."""
        with self._lock:
            bound = self._encoder_program()
            bound.inputs["features"][...] = features
            bound()
            self.forget()

    def reports(self) -> list[Report]:
        """Of the programs that there are."""
        programs = [*self.programs.values(), *([] if self._listener is None else [self._listener[0]])]
        return [p.report for p in programs]

    def _encoder_program(self) -> Any:
        if self._listener is None:
            from glow_frontends.language.encoder_graph import encoder_graph
            from glow_frontends.language.graph import Form
            from glow_runtime.compile import compile_module

            (caches,) = self._caches  # positions are learned: texts of any length have the same
            self._program(caches, self._form(caches, 1, 1))  # it makes the state
            form = Form(1, self.encoder.decoder.places, len(self.slots), 0, rounded=self.rounded)
            graph = encoder_graph(self.encoder, self.files.decoder, self.bins, form)
            program = compile_module(graph.module, self.backend, own=True)
            program.use_state(caches.state)
            empty = {p.name: np.zeros(p.shape, p.dtype) for p in program.inputs}
            self._listener = program, program.bind(empty)
        return self._listener[1]
