"""Whisper models against transformers: spectra, tokens, languages; sounds as files, long ones, errors."""

from __future__ import annotations

import json
import shutil
import subprocess
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glow_compiler as glow
from glow_compiler.sound import RATE, log_mel, quiet_cuts, read_sound, resampled
from glow_compiler.speech_model import SpeechModel
from glow_frontends.language.whisper import read_whisper

torch: Any = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")
tokenizers: Any = pytest.importorskip("tokenizers")

TOKENS = 60
START, END, SILENCE = 50, 51, 52
LANGUAGES, TASKS, NO_TIMES = {"<|en|>": 53, "<|de|>": 54}, {"transcribe": 55, "translate": 56}, 57


def _sound(seconds: float, seed: int = 0, rate: int = RATE) -> np.ndarray:
    """Some tones that come and go."""
    r, time = np.random.default_rng(seed), np.arange(int(seconds * rate)) / rate
    tones = (np.sin(2 * np.pi * f * time) * np.sin(time * s) for f, s in r.uniform(1, 3000, (5, 2)))
    return (sum(tones) / 5).astype(np.float32)  # pyright: ignore


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A small model with random weights that hears two seconds, and transformers' own."""
    folder = tmp_path_factory.mktemp("whisper")
    torch.manual_seed(0)
    config = transformers.WhisperConfig(
        vocab_size=TOKENS, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=48, decoder_ffn_dim=64, max_source_positions=100,
        max_target_positions=40, num_mel_bins=20, decoder_start_token_id=START, eos_token_id=END,
        pad_token_id=END, bos_token_id=END, suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    made = transformers.WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        for weight in made.parameters():
            weight.copy_(torch.randn_like(weight) * 0.3 + (1.0 if weight.ndim == 1 else 0.0))
    made.save_pretrained(folder)
    settings = {
        "decoder_start_token_id": START, "eos_token_id": END, "lang_to_id": LANGUAGES, "task_to_id": TASKS,
        "no_timestamps_token_id": NO_TIMES, "suppress_tokens": [3, 4, START, *range(53, 58)],
        "begin_suppress_tokens": [SILENCE, 5],
    }  # fmt: skip
    (folder / "generation_config.json").write_text(json.dumps(settings))
    words = {f"w{i}": i for i in range(TOKENS)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder, made


@pytest.fixture(scope="module")
def model(whisper: tuple[Path, Any]) -> SpeechModel:
    return glow.SpeechModel(whisper[0])


def _greedy(
    own: Any, features: np.ndarray, prompt: list[int], silent: tuple[set[int], set[int]]
) -> list[int]:
    """Tokens by transformers' network alone, the likeliest each time."""
    tokens = list(prompt)
    while len(tokens) < 40:
        with torch.no_grad():
            made = own(torch.tensor(features), decoder_input_ids=torch.tensor([tokens])).logits[0, -1].numpy()
        never = silent[0] | (silent[1] if len(tokens) == len(prompt) else set())
        made[list(never)] = -np.inf
        if int(made.argmax()) == END:
            break
        tokens.append(int(made.argmax()))
    return tokens[len(prompt) :]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_tokens(seed: int, whisper: tuple[Path, Any], model: SpeechModel) -> None:
    """Language and tokens are those of transformers for the same spectra."""
    sound = _sound(1.5, seed)
    features = model.features(sound)
    with torch.no_grad():
        first = whisper[1](torch.tensor(features), decoder_input_ids=torch.tensor([[START]])).logits[0, -1]
    language = max(LANGUAGES, key=lambda name: first[LANGUAGES[name]])
    made = model.transcribe(sound)
    assert made.language == language.strip("<|>") == model.language(sound)
    prompt = [START, LANGUAGES[language], TASKS["transcribe"], NO_TIMES]
    want = _greedy(whisper[1], features, prompt, ({3, 4, START, *range(53, 58)}, {SILENCE, 5}))
    (segment,) = made.segments
    assert want and list(segment.tokens) == want and (segment.start, segment.end) == (0, 1.5)
    assert made.text == " ".join(f"w{t}" for t in want) == str(made)


@pytest.mark.slow
def test_task_and_language(whisper: tuple[Path, Any], model: SpeechModel) -> None:
    """What is asked for stands in the prompt; few bits and several workers hear nearly the same."""
    sound = _sound(1, 7)
    features = model.features(sound)
    prompt = [START, LANGUAGES["<|de|>"], TASKS["translate"], NO_TIMES]
    silent = ({3, 4, START, *range(53, 58)}, {SILENCE, 5})
    made = model.transcribe(sound, "de", task="translate", max_tokens=6)
    assert list(made.segments[0].tokens) == _greedy(whisper[1], features, prompt, silent)[:6]
    for options in ({"threads": 2}, {"weights": "int8", "activations": "f32"}):
        other = glow.SpeechModel(whisper[0], **options)
        other.programs.listen(features)
        model.programs.listen(features)
        near, want = other.programs.logits([prompt])[0], model.programs.logits([prompt])[0]
        np.testing.assert_allclose(
            near, want, atol=(2e-5 if "threads" in options else 0.05) * np.abs(want).max()
        )


@pytest.mark.parametrize("bins", [80, 128])
def test_spectra(bins: int) -> None:
    """As transformers' feature extractor makes them."""
    sound = _sound(3, bins)
    extract = transformers.WhisperFeatureExtractor(feature_size=bins)
    want = extract(sound, sampling_rate=RATE, return_tensors="np").input_features
    np.testing.assert_allclose(log_mel(sound, bins, 3000), want, atol=2e-4)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_wav_files(width: int, tmp_path: Path) -> None:
    """Samples of every width, of two channels, at another rate."""
    sound, other = _sound(0.5, 1, 8000), _sound(0.5, 2, 8000)
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((2, width, 8000, 0, "NONE", ""))
        whole = np.rint(np.stack([sound, other], 1) * (2.0 ** (8 * width - 1) - 1)).astype("<i4")
        if width == 1:
            file.writeframes((whole + 128).astype(np.uint8).tobytes())
        else:
            file.writeframes(np.ascontiguousarray(whole).view(np.uint8).reshape(-1, 4)[:, :width].tobytes())
    want = resampled((sound + other) / 2, 8000, RATE)
    np.testing.assert_allclose(read_sound(tmp_path / "a.wav"), want, atol=2.0 ** (1 - 8 * width) + 1e-6)
    doubled = read_sound(np.stack([sound, other], 1), 8000)
    np.testing.assert_allclose(doubled, want, atol=1e-6)


def test_rates() -> None:
    """A tone stays the tone that it is."""
    tones = [np.sin(2 * np.pi * 440 * np.arange(rate) / rate) for rate in (22050, RATE)]
    np.testing.assert_allclose(resampled(tones[0], 22050, RATE), tones[1], atol=1e-9)


@pytest.mark.slow
def test_long_sounds(model: SpeechModel) -> None:
    """Cut where they are quiet, each piece heard by itself."""
    sound = np.ones(5 * RATE, np.float32)
    sound[25600:29600], sound[54000:58000] = 0, 0
    cuts = quiet_cuts(sound, 2 * RATE)
    assert [25600 < c < 29600 or 54000 < c < 58000 for c in cuts] == [True, True]
    long = np.concatenate([_sound(1.6, 3), np.zeros(4000, np.float32), _sound(1.5, 4)])
    made = model.transcribe(long, "en")
    (cut,) = quiet_cuts(long, 2 * RATE)
    parts = [model.transcribe(part, "en").segments[0].tokens for part in (long[:cut], long[cut:])]
    assert [s.tokens for s in made.segments] == parts
    assert [s.end for s in made.segments] == [cut / RATE, len(long) / RATE]
    assert model.transcribe(np.zeros(0, np.float32)).text == ""


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "language": ({"language": "xx"}, "language='xx' is not known to the model; there are: de, en"),
    "task": ({"task": "sing"}, "task='sing' is not known to the model; there are: transcribe, translate"),
    "shape": ({"sound": np.zeros((2, 2, 2))}, "a sound is an array [time] or [time, channels]"),
    "kind": ({"sound": np.array(["a"])}, "a sound is an array [time] or [time, channels]"),
    "nan": ({"sound": np.array([np.nan])}, "samples that are not finite numbers"),
    "rate": ({"rate": 0}, "rate=0: expected a number of samples a second"),
    "missing": ({"sound": "nothing.wav"}, "nothing.wav: No such file"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_sounds(name: str, model: SpeechModel) -> None:
    options, message = BAD[name]
    given: dict[str, Any] = {"sound": np.zeros(100, np.float32)} | options
    with pytest.raises(glow.GlowError) as caught:
        model.transcribe(**given)
    assert message in str(caught.value)


def test_damaged(whisper: tuple[Path, Any], tmp_path: Path) -> None:
    """Files that are no sounds, folders that are no such models."""
    (tmp_path / "a.wav").write_bytes(b"RIFF1234")
    with pytest.raises(glow.GlowError, match="cannot read this as an uncompressed WAV file"):
        read_sound(tmp_path / "a.wav")
    with pytest.raises(glow.GlowError, match="there is no such folder"):
        glow.SpeechModel(tmp_path / "nothing")
    config = json.loads((whisper[0] / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "bark"}))
    with pytest.raises(glow.UnsupportedError, match="'bark' does not write down sounds; 'whisper' does"):
        glow.SpeechModel(tmp_path)
    with pytest.raises(glow.UnsupportedError, match="whisper.*glow.SpeechModel"):
        glow.LanguageModel(whisper[0])


@pytest.mark.slow
def test_command(whisper: tuple[Path, Any], model: SpeechModel, tmp_path: Path, capsys: Any) -> None:
    """glow-transcribe prints what the model says, with the seconds."""
    from glow_tools.transcribe import main

    sound = _sound(1.5, 1)
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((1, 4, RATE, 0, "NONE", ""))
        file.writeframes((sound * 2.0**31).astype("<i4").tobytes())
    text = model.transcribe(sound, "en", max_tokens=5).text
    options = ["--language", "en", "--max-tokens", "5", "--times", "--bench"]
    assert main([str(whisper[0]), str(tmp_path / "a.wav"), *options]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"[0.00 - 1.50] {text}\n" and printed.err.startswith("1.5 s of sound in ")
    assert main([str(whisper[0]), str(tmp_path / "b.wav")]) == 1
    assert "b.wav: No such file" in capsys.readouterr().err


@pytest.mark.slow
def test_speech(tmp_path: Path) -> None:
    """A sentence that espeak-ng says is what whisper-base writes, token by token as transformers does."""
    packages = pytest.importorskip("whisper_packages")
    if shutil.which("espeak-ng") is None:
        pytest.skip("espeak-ng is not installed")
    folder = packages.whisper_base(tmp_path / "base")
    sentence = "The quick brown fox jumps over the lazy dog. A compiler turns programs into machine code."
    subprocess.run(["espeak-ng", "-w", tmp_path / "a.wav", sentence], check=True)
    model = glow.SpeechModel(folder)
    made = model.transcribe(tmp_path / "a.wav")
    assert made.text.endswith("A compiler turns programs into machine code.") and made.language == "en"
    own = transformers.WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    features = torch.tensor(model.features(tmp_path / "a.wav"))
    want = own.generate(features, language="en", task="transcribe")[0].tolist()
    assert list(made.segments[0].tokens) == [t for t in want if t < 50257]


@pytest.mark.slow
def test_onnx_folders(whisper: tuple[Path, Any], model: SpeechModel, tmp_path: Path) -> None:
    """ONNX files hear what the weights they were made of hear: one decoder, two, and two in one file."""
    whisper_onnx = pytest.importorskip("whisper_onnx")
    sound = _sound(1.2, 3)
    want = model.transcribe(sound, max_tokens=8)
    for path in whisper[0].glob("*.json"):
        shutil.copy(path, tmp_path)
    whisper_onnx.written(whisper[1], tmp_path / "onnx")
    assert glow.SpeechModel(tmp_path).transcribe(sound, max_tokens=8) == want
    following = tmp_path / "onnx" / "decoder_with_past_model.onnx"
    following.rename(tmp_path / "following")
    alone = glow.SpeechModel(tmp_path)
    assert alone.transcribe(sound, max_tokens=8) == want
    assert alone.transcribe(_sound(1, 7), "de", max_tokens=4) == model.transcribe(
        _sound(1, 7), "de", max_tokens=4
    )
    (tmp_path / "following").rename(following)
    whisper_onnx.merge(tmp_path / "onnx")
    assert glow.SpeechModel(tmp_path).transcribe(sound, max_tokens=8) == want
    with pytest.raises(glow.GlowError, match="weights of an ONNX model cannot be changed"):
        glow.SpeechModel(tmp_path, weights="int4")
    (tmp_path / "onnx" / "decoder_model_merged.onnx").unlink()
    with pytest.raises(glow.GlowError, match=r"there is no decoder_model\.onnx"):
        glow.SpeechModel(tmp_path)


def test_languages_of_the_tokenizer(whisper: tuple[Path, Any], tmp_path: Path) -> None:
    """Where no file says which tokens ask for what, the tokenizer's names do."""
    config = json.loads((whisper[0] / "config.json").read_text())
    names = ["<|en|>", "<|haw|>", "<|transcribe|>", "<|translate|>", "<|notimestamps|>", "<|0.00|>"]
    added = [{"id": 50259 + i, "content": name} for i, name in enumerate(names)]
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": added}))
    (tmp_path / "config.json").write_text(json.dumps(config | {"vocab_size": 51865}))
    files = read_whisper(tmp_path, stored=False)
    assert files.languages == {"en": 50259, "haw": 50260}
    assert files.tasks == {"transcribe": 50261, "translate": 50262} and files.no_timestamps == 50263
    (tmp_path / "config.json").write_text(json.dumps(config | {"vocab_size": 51864}))
    assert read_whisper(tmp_path, stored=False).languages == {}
