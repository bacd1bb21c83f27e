"""glow-transcribe: write down what sounds say."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from glow_tools.command_line import Parser
from glow_tools.common import command, count_option, guarded, threads_option
from glow_tools.progress import Progress

EXAMPLES = """\
  glow-transcribe whisper-base speech.wav
  glow-transcribe whisper-base speech.wav --language de --task translate --weights int8
  glow-transcribe whisper-base a.wav b.wav --times
"""


def arguments() -> Parser:
    """The command line."""
    made = command("glow-transcribe", "Transcribe speech with a Whisper model.", EXAMPLES)
    add = made.add_argument
    add("model", help="a Hugging Face folder of a Whisper model")
    add("sounds", nargs="+", metavar="SOUND", help="a .wav file")
    add("--language", metavar="CODE", help="language of the speech, such as en (default: detected)")
    add("--task", default="transcribe", help="transcribe, or translate into English (default: transcribe)")
    told = "maximum number of tokens per segment (up to 30 seconds)"
    add("--max-tokens", type=count_option, metavar="N", help=told)
    add("--times", action="store_true", help="print one line per segment, with start and end")
    told = "weight-only quantisation (default: stored, no change)"
    add("--weights", choices=["stored", "int8", "int4"], default="stored", help=told)
    add("--backend", default="cpu", help="cpu or interpreter (default: cpu)")
    add("--threads", type=threads_option, default=1, help="worker threads, or auto (default: 1)")
    add("--bench", action="store_true", help="print seconds of speech per second")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-transcribe`."""
    a = arguments().parse_args(argv)
    return guarded(lambda: _run(a))


def _run(a: argparse.Namespace) -> None:
    import glow_compiler as glow

    with Progress("reading the model"):
        model = glow.SpeechModel(a.model, backend=a.backend, threads=a.threads, weights=a.weights)
    for sound in a.sounds:
        start, end = time.perf_counter(), 0.0
        for segment, _ in model.segments(sound, a.language, task=a.task, max_tokens=a.max_tokens):
            end = segment.end
            times = f"[{segment.start:.2f} - {segment.end:.2f}] " if a.times else ""
            print(f"{times}{segment.text.strip()}", flush=True)
        if a.bench:
            took = time.perf_counter() - start
            print(f"{end:.1f} s of sound in {took:.2f} s: {end / took:.1f} times as fast", file=sys.stderr)
