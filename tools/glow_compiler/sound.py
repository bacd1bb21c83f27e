"""Sounds: WAV files as samples, and the spectra that models of speech listen to."""

from __future__ import annotations

import wave
from functools import cache
from pathlib import Path

import numpy as np

from glow_dialects.core.errors import GlowError
from glow_dialects.core.files import unreadable
from glow_dialects.core.types import Array

RATE = 16000
"""Samples a second of what models listen to."""
HOP = 160
"""Samples from one spectrum to the next."""
_WINDOW = 400


def read_sound(sound: str | Path | Array, rate: int = RATE) -> Array:
    """Samples f32 [time], 16,000 a second, of a .wav file or of samples (in [-1, 1], or integers).

    `rate`: samples a second of an array. Several channels ([time, channels]) become their mean. GlowError
    for what is no such file or array.
    """
    if isinstance(sound, str | Path):
        samples, rate = _read_wav(Path(sound))
    else:
        samples = np.asarray(sound)
    if samples.ndim not in (1, 2) or samples.dtype.kind not in "fi":
        raise GlowError(
            f"a sound is an array [time] or [time, channels] of numbers, not {samples.dtype} {samples.shape}"
        )
    if rate < 1:
        raise GlowError(f"rate={rate}: expected a number of samples a second")
    if samples.dtype.kind == "i":
        samples = samples / -float(np.iinfo(samples.dtype).min)
    mono = samples if samples.ndim == 1 else samples.mean(1)
    if not np.isfinite(mono).all():
        raise GlowError("the sound has samples that are not finite numbers")
    return resampled(mono, rate, RATE).astype(np.float32)


def _read_wav(file: Path) -> tuple[Array, int]:
    """Samples [time, channels] in [-1, 1] and how many there are a second."""
    try:
        with wave.open(str(file)) as source:
            width, channels, rate = source.getsampwidth(), source.getnchannels(), source.getframerate()
            raw = np.frombuffer(source.readframes(source.getnframes()), np.uint8)
    except OSError as error:
        raise unreadable(file, error) from None
    except (wave.Error, EOFError) as error:
        raise GlowError(
            f"{file}: cannot read this as an uncompressed WAV file: {error or 'it is truncated'}"
        ) from None
    raw = raw[: len(raw) // (width * channels) * width * channels].reshape(-1, width)
    if width == 1:
        raw = raw ^ np.uint8(128)  # these alone have no sign
    wide = np.zeros((len(raw), 4), np.uint8)
    wide[:, 4 - width :] = raw
    return (wide.view("<i4")[:, 0] / 2.0**31).reshape(-1, channels), rate


def resampled(samples: Array, rate: int, wanted: int) -> Array:
    """Samples at another rate: all frequencies that both rates have."""
    if rate == wanted or not len(samples):
        return samples
    count = max(1, round(len(samples) * wanted / rate))
    spectrum = np.fft.rfft(samples)
    return np.fft.irfft(spectrum[: count // 2 + 1], count) * (count / len(samples))


def log_mel(samples: Array, bins: int, frames: int) -> Array:
    """The logarithm of the energy in bands of the mel scale, f32 [1, bins, frames], as Whisper has them.

    Samples beyond so many frames are left out, missing ones are silence.
    """
    held = np.zeros(frames * HOP)
    held[: len(samples)] = samples[: len(held)]
    padded = np.pad(held, _WINDOW // 2, "reflect")
    pieces = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::HOP][:frames]
    ring = np.hanning(_WINDOW + 1)[:-1]
    power = np.abs(np.fft.rfft(pieces * ring)) ** 2
    logs = np.log10(np.maximum(mel_bands(bins) @ power.T, 1e-10))
    return ((np.maximum(logs, logs.max() - 8.0) + 4.0) / 4.0).astype(np.float32)[None]


@cache
def mel_bands(bins: int) -> Array:
    """How much of each frequency belongs to each band, [bins, frequencies]: triangles of equal area.

    Slaney's scale: even up to 1000 Hz, then logarithmic.
    """
    frequencies = np.linspace(0, RATE / 2, _WINDOW // 2 + 1)
    break_at, step, growth = 15.0, 200 / 3, np.log(6.4) / 27
    top = break_at + np.log(RATE / 2 / 1000) / growth
    mels = np.linspace(0, top, bins + 2)
    edges = np.where(mels < break_at, mels * step, 1000 * np.exp(growth * (mels - break_at)))
    widths = np.diff(edges)
    slopes = edges[:, None] - frequencies
    rising, falling = -slopes[:-2] / widths[:-1, None], slopes[2:] / widths[1:, None]
    return np.maximum(0, np.minimum(rising, falling)) * (2 / (edges[2:] - edges[:-2]))[:, None]


def quiet_cuts(samples: Array, most: int) -> list[int]:
    """Where to cut a sound into pieces of at most `most` samples: where their last third is quietest."""
    cuts, start, step = list[int](), 0, RATE // 50
    while len(samples) - start > most:
        low = start + most * 2 // 3
        pieces = samples[low : start + most]
        pieces = pieces[: len(pieces) // step * step].reshape(-1, step)
        # The mean of some neighbours: a pause, not a moment between two waves.
        loud = np.convolve(np.square(pieces).mean(1), np.ones(9) / 9, "same")
        start = low + int(loud[4:-4].argmin() + 4) * step + step // 2
        cuts.append(start)
    return cuts
