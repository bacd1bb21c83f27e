"""glow-generate: continue texts with a language model, and say how fast."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from glow_tools.command_line import Parser
from glow_tools.common import command, count_option, fail, guarded, threads_option
from glow_tools.progress import Progress

if TYPE_CHECKING:
    from glow_compiler.language_model import LanguageModel

EXAMPLES = """\
  glow-generate folder "Once upon a time" --max-tokens 64
  glow-generate model.gguf --chat "Why is the sky blue?" --temperature 0.7 --top-p 0.9 --seed 1
  glow-generate folder --tokens 1,15,27 --weights int4 --bench
  echo "A long prompt" | glow-generate model.gguf -
"""


def arguments() -> Parser:
    """The command line."""
    made = command("glow-generate", "Generate text with a language model.", EXAMPLES)
    add = made.add_argument
    add("model", help="a Hugging Face folder, or a .gguf file")
    add("prompt", nargs="?", help="the text to continue; - reads standard input")
    add("--chat", metavar="MESSAGE", help="answer a message, using the model's chat template")
    told = "the prompt as token numbers; the output is token numbers too"
    add("--tokens", type=_tokens, metavar="N,N...", help=told)
    told = "maximum number of new tokens (default: 128)"
    add("--max-tokens", type=count_option, default=128, metavar="N", help=told)
    told = "randomness; 0 selects the most likely token (default: 0)"
    add("--temperature", type=float, default=0.0, help=told)
    told = "sample from the K most likely tokens (default: all)"
    add("--top-k", type=count_option, default=0, metavar="K", help=told)
    told = "nucleus sampling: sample from the smallest set of tokens with total probability P"
    add("--top-p", type=float, default=1.0, metavar="P", help=told)
    told = "sample from tokens with at least P times the probability of the most likely one"
    add("--min-p", type=float, default=0.0, metavar="P", help=told)
    told = "reduce the probability of tokens that occurred before"
    add("--repetition-penalty", type=float, default=1.0, metavar="X", help=told)
    add("--seed", type=count_option, help="seed of the random numbers")
    add("--stop", action="append", default=[], metavar="TEXT", help="stop before this text")
    told = "weight-only quantisation (default: stored, no change)"
    add("--weights", choices=["stored", "int8", "int4"], default="stored", help=told)
    told = "number of inputs that share a scale (default: 32)"
    add("--group", type=count_option, default=32, metavar="N", help=told)
    told = "size of the key-value cache in tokens (default: it grows)"
    add("--capacity", type=count_option, metavar="N", help=told)
    add("--backend", default="cpu", help="cpu or interpreter (default: cpu)")
    add("--threads", type=threads_option, default=1, help="worker threads, or auto (default: 1)")
    add("--bench", action="store_true", help="print tokens per second for prompt and answer")
    return made


def _tokens(text: str) -> list[int]:
    """Numbers between commas; argparse reports what is wrong with them."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of numbers: 1,15,27") from None


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-generate`."""
    parser = arguments()
    a = parser.parse_args(argv)
    prompts = [a.prompt, a.chat, a.tokens]
    if sum(p is not None for p in prompts) != 1:
        parser.error("one of a prompt, --chat and --tokens is needed")
    return guarded(lambda: _run(a))


def _run(a: argparse.Namespace) -> None:
    import glow_compiler as glow

    if a.group < 1:
        fail(f"--group {a.group}: expected a number of inputs")
    options = {"weights": a.weights, "group": a.group, "capacity": a.capacity}
    with Progress("reading the model"):
        model = glow.LanguageModel(a.model, backend=a.backend, threads=a.threads, **options)
    timed = _Timed(_generated(model, a))
    for number, piece in enumerate(timed):
        separator = "," if a.tokens is not None and number else ""
        print(f"{separator}{piece}", end="", flush=True)
    print()
    if a.bench:
        print(timed.speed(model), file=sys.stderr)


def _generated(model: LanguageModel, a: argparse.Namespace) -> Iterator[Any]:
    """Tokens or pieces of text, as the prompt is."""
    options = {n: getattr(a, n) for n in ("top_k", "top_p", "min_p", "repetition_penalty", "seed", "stop")}
    options |= {"max_tokens": a.max_tokens, "temperature": a.temperature}
    if a.chat is not None:
        return model.chat([{"role": "user", "content": a.chat}], **options)
    if a.tokens is not None:
        return model.generate(a.tokens, **options)
    return model.generate(sys.stdin.read().rstrip("\n") if a.prompt == "-" else a.prompt, **options)


class _Timed:
    """An iterator that notes when its items come."""

    def __init__(self, items: Iterator[Any]) -> None:
        self._items = items
        self.times = [time.perf_counter()]

    def __iter__(self) -> Iterator[Any]:
        for item in self._items:
            self.times.append(time.perf_counter())
            yield item

    def speed(self, model: LanguageModel) -> str:
        """Tokens a second of a prompt that is computed again, and of the answer."""
        text = list(model.programs.slots[0].tokens)
        made = len(self.times) - 1
        prompt = text[: max(1, len(text) - made + 1)]
        seconds: list[float] = []
        for _ in range(3):
            model.programs.forget()
            start = time.perf_counter()
            model.programs.logits([prompt])
            seconds.append(time.perf_counter() - start)
        line = f"prompt: {len(prompt)} tokens, {len(prompt) / min(seconds):.1f} tokens/s"
        if made < 2:
            return line
        steps = sorted(b - a for a, b in zip(self.times[1:], self.times[2:], strict=False))
        return f"{line}; answer: {made} tokens, {1 / steps[len(steps) // 2]:.1f} tokens/s"
