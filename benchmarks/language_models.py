"""A random Llama of 134 million parameters in GGUF's forms, beside llama.cpp.

    npm pack @node-llama-cpp/linux-x64 && tar xzf *.tgz      # llama.cpp, built
    pip install gguf
    python -m benchmarks.language_models package/bins/linux-x64 [--forms q4_0 q8_0 f16] [--threads 1]

Both read one file and answer in turn in one process; each round has a prompt of its own. `prefill` is tokens
of the prompt a second, `decode` tokens a second after it, medians; `ratio` is ours over llama.cpp's. `error`
is the largest difference of the last token's logits from a computation in double precision with the weights
before rounding, over their standard deviation. `--clock process` counts processor time, for a busy machine.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import glow_compiler as glow

LAYERS, WIDTH, HEADS, KEYS, INNER, WORDS = 30, 576, 9, 3, 1536, 49152
HEAD, THETA, EPSILON = WIDTH // HEADS, 10000.0, 1e-5
ROOM = 1024
#: llama.cpp's numbers of file types.
FORMS = {"f16": 1, "q4_0": 2, "q8_0": 7}


def random_weights() -> dict[str, np.ndarray]:
    """Tensors by GGUF's names, of a size that keeps activations of order one; head and embedding are one."""
    rng = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (rng.standard_normal((rows, columns)) / np.sqrt(columns)).astype(np.float32)

    weights = {"token_embd.weight": matrix(WORDS, WIDTH), "output_norm.weight": np.ones(WIDTH, np.float32)}
    for layer in range(LAYERS):
        for name, rows, columns in (
            ("attn_q", WIDTH, WIDTH),
            ("attn_k", KEYS * HEAD, WIDTH),
            ("attn_v", KEYS * HEAD, WIDTH),
            ("attn_output", WIDTH, WIDTH),
            ("ffn_gate", INNER, WIDTH),
            ("ffn_up", INNER, WIDTH),
            ("ffn_down", WIDTH, INNER),
        ):
            weights[f"blk.{layer}.{name}.weight"] = matrix(rows, columns)
        for name in ("attn_norm", "ffn_norm"):
            weights[f"blk.{layer}.{name}.weight"] = np.ones(WIDTH, np.float32)
    return weights


def write(weights: dict[str, np.ndarray], path: Path) -> None:
    """A GGUF file of 32-bit floats, without a vocabulary."""
    import gguf

    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEYS)
    writer.add_feed_forward_length(INNER)
    writer.add_context_length(ROOM)
    writer.add_rope_dimension_count(HEAD)
    writer.add_rope_freq_base(THETA)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_vocab_size(WORDS)
    writer.add_tokenizer_model("no_vocab")
    for name, array in weights.items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def exact_logits(weights: dict[str, np.ndarray], tokens: Sequence[int]) -> np.ndarray:
    """The last token's logits, in double precision."""

    def times(x: np.ndarray, name: str) -> np.ndarray:
        return x @ weights[f"{name}.weight"].astype(np.float64).T

    def normed(x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + EPSILON) * weights[f"{name}.weight"]

    count = len(tokens)
    angles = np.arange(count)[:, None] * THETA ** (-np.arange(0, HEAD, 2) / HEAD)
    cosine, sine = np.cos(angles)[:, None], np.sin(angles)[:, None]

    def turned(x: np.ndarray) -> np.ndarray:  # pairs of neighbours, as in GGUF's order of rows
        pairs = x.reshape(count, -1, HEAD // 2, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        return np.stack([a * cosine - b * sine, a * sine + b * cosine], -1).reshape(count, -1, HEAD)

    x = weights["token_embd.weight"][list(tokens)].astype(np.float64)
    for layer in range(LAYERS):
        name = f"blk.{layer}"
        h = normed(x, f"{name}.attn_norm")
        queries = turned(times(h, f"{name}.attn_q")).reshape(count, KEYS, HEADS // KEYS, HEAD)
        keys = turned(times(h, f"{name}.attn_k"))
        values = times(h, f"{name}.attn_v").reshape(count, KEYS, HEAD)
        scores = np.einsum("qkgd,skd->kgqs", queries, keys) / np.sqrt(HEAD)
        scores = np.where(np.tri(count, dtype=bool), scores, -np.inf)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        x = x + times(np.einsum("kgqs,skd->qkgd", shares, values).reshape(count, -1), f"{name}.attn_output")
        h = normed(x, f"{name}.ffn_norm")
        gate = times(h, f"{name}.ffn_gate")
        x = x + times(gate / (1 + np.exp(-gate)) * times(h, f"{name}.ffn_up"), f"{name}.ffn_down")
    return times(normed(x[-1:], "output_norm"), "token_embd")[0]


class _Options(ctypes.Structure):
    """A structure of llama.cpp, whose first numbers are known here; the callee reads as much as it has."""

    _fields_ = (("numbers", ctypes.c_int32 * 256),)


class _Batch(ctypes.Structure):
    _fields_ = (("count", ctypes.c_int32), ("pointers", ctypes.c_void_p * 6))


class LlamaCpp:
    """llama.cpp's library through ctypes."""

    def __init__(self, folder: Path) -> None:
        self.base = ctypes.CDLL(str(next(folder.glob("libggml.*so*"))), ctypes.RTLD_GLOBAL)
        self.base.ggml_backend_load_all_from_path(str(folder).encode())
        self.lib: Any = ctypes.CDLL(str(next(p for p in folder.glob("libllama.*so*"))))
        silent = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
        self.log = silent(lambda *_: None)
        self.lib.llama_log_set(self.log, None)
        for name in ("model", "context", "model_quantize"):
            getattr(self.lib, f"llama_{name}_default_params").restype = _Options
        for name in ("llama_model_load_from_file", "llama_init_from_model", "llama_get_memory"):
            getattr(self.lib, name).restype = ctypes.c_void_p
        self.lib.llama_get_logits_ith.restype = ctypes.POINTER(ctypes.c_float)
        self.lib.llama_batch_get_one.restype = _Batch
        self.lib.llama_backend_init()

    def quantize(self, source: Path, target: Path, form: str) -> None:
        """Write a file in another form; head and embedding too."""
        options = self.lib.llama_model_quantize_default_params()
        options.numbers[1] = FORMS[form]
        if self.lib.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(options)):
            raise RuntimeError(f"llama.cpp cannot write {target}")

    def load(self, path: Path, threads: int) -> Callable[[list[int]], np.ndarray]:
        """What computes the last of some tokens' logits after those before it; an empty list begins anew."""
        lib = self.lib
        model = lib.llama_model_load_from_file(str(path).encode(), lib.llama_model_default_params())
        options = lib.llama_context_default_params()
        options.numbers[0] = options.numbers[1] = options.numbers[2] = ROOM
        context = ctypes.c_void_p(lib.llama_init_from_model(ctypes.c_void_p(model), options))
        lib.llama_set_n_threads(context, threads, threads)

        def run(tokens: list[int]) -> np.ndarray:
            if not tokens:
                lib.llama_memory_clear(ctypes.c_void_p(lib.llama_get_memory(context)), True)
                return np.zeros(0, np.float32)
            held = (ctypes.c_int32 * len(tokens))(*tokens)
            if lib.llama_decode(context, lib.llama_batch_get_one(held, len(tokens))):
                raise RuntimeError("llama.cpp cannot decode")
            return np.ctypeslib.as_array(lib.llama_get_logits_ith(context, -1), (WORDS,)).copy()

        return run


def theirs(run: Callable[[list[int]], np.ndarray], prompt: list[int], more: int, now: Callable[[], float]):
    """Seconds of the prompt and of each token after it."""
    run([])
    start = now()
    logits = run(prompt)
    middle = now()
    for _ in range(more):
        logits = run([int(logits.argmax())])
    return middle - start, (now() - middle) / more


def ours(model: glow.LanguageModel, prompt: list[int], more: int, now: Callable[[], float]):
    """Seconds of the prompt and of each token after it."""
    start = now()
    made = model.generate(prompt, max_tokens=more + 1)
    next(made)
    middle = now()
    for _ in made:
        pass
    return middle - start, (now() - middle) / more


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("llama", type=Path, help="folder of llama.cpp's libraries")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=["q4_0", "q8_0", "f16"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=128, help="tokens of a prompt")
    parser.add_argument("--tokens", type=int, default=64, help="tokens after it")
    parser.add_argument("--clock", choices=["wall", "process"], default="wall")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "glow_language_models")
    options = parser.parse_args()
    now = time.perf_counter if options.clock == "wall" else time.process_time
    options.folder.mkdir(exist_ok=True)
    weights = random_weights()
    source = options.folder / "f32.gguf"
    if not source.exists():
        write(weights, source)
    llama = LlamaCpp(options.llama)
    rng = np.random.default_rng(1)
    prompts = [rng.integers(0, WORDS, options.prompt).tolist() for _ in range(options.rounds + 1)]
    exact = exact_logits(weights, prompts[0])
    for form in options.forms:
        path = options.folder / f"{form}.gguf"
        if not path.exists():
            llama.quantize(source, path, form)
        run, model = llama.load(path, options.threads), glow.LanguageModel(path, threads=options.threads)
        run([])
        errors = [
            np.abs(logits - exact).max() / exact.std()
            for logits in (model.logits(prompts[0])[-1], run(prompts[0]))
        ]
        times: list[tuple[float, ...]] = []
        for prompt in prompts[1:]:
            times.append(
                (*ours(model, prompt, options.tokens, now), *theirs(run, prompt, options.tokens, now))
            )
        mine, each, other, other_each = (statistics.median(column) for column in zip(*times, strict=True))
        first, second = options.prompt / mine, options.prompt / other
        print(
            f"{form:5} prefill {first:7.0f} / {second:7.0f} tokens/s, ratio {first / second:.2f}; "
            f"decode {1 / each:6.1f} / {1 / other_each:6.1f}, ratio {other_each / each:.2f}; "
            f"error {errors[0]:.4f} / {errors[1]:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
