"""glow-serve with language models: completions and chats as OpenAI's clients ask for them."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from safetensors.numpy import save_file

pytest.importorskip("starlette", reason="the extra 'serve' is not installed")
tokenizers: Any = pytest.importorskip("tokenizers", reason="the extra 'lm' is not installed")

from test_serve import Served, serve  # noqa: E402

import glow_compiler as glow  # noqa: E402
from glow_runtime.serve.http import HttpServer  # noqa: E402
from glow_tools.serve_text import TextServer  # noqa: E402

SIZES = {
    "model_type": "llama",
    "vocab_size": 300,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 64,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "rope_theta": 10000.0,
}
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }} {% endfor %}"


def written(folder: Path) -> Path:
    """A small model of random weights, with a tokenizer of bytes and a chat template."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SIZES))
    layer = "model.layers.0"
    shapes = {
        "model.embed_tokens": (300, 32),
        "lm_head": (300, 32),
        "model.norm": (32,),
        f"{layer}.input_layernorm": (32,),
        f"{layer}.post_attention_layernorm": (32,),
        f"{layer}.self_attn.q_proj": (32, 32),
        f"{layer}.self_attn.k_proj": (16, 32),
        f"{layer}.self_attn.v_proj": (16, 32),
        f"{layer}.self_attn.o_proj": (32, 32),
        f"{layer}.mlp.gate_proj": (64, 32),
        f"{layer}.mlp.up_proj": (64, 32),
        f"{layer}.mlp.down_proj": (32, 64),
    }
    rng = np.random.default_rng(0)
    weights = {f"{n}.weight": rng.standard_normal(s).astype(np.float32) * 0.3 for n, s in shapes.items()}
    save_file(weights, str(folder / "model.safetensors"))
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    letters = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator([], tokenizers.trainers.BpeTrainer(vocab_size=300, initial_alphabet=letters))
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    server = serve(f"small={folder}", "--device", "cpu")
    yield server
    server.process.terminate()
    server.process.wait(60)


def expected(folder: Path, prompt: Any, count: int, **options: Any) -> tuple[list[int], str]:
    model = glow.LanguageModel(folder)
    tokens = model.texts.tokens(prompt) if isinstance(prompt, str) else prompt
    made = [int(t) for t in model.generate(tokens, count, **options)]
    return made, model.texts.text(made)


@pytest.mark.slow
def test_completion(served: Served, folder: Path) -> None:
    body = {"model": "small", "prompt": "abc", "max_tokens": 9}
    status, answer, _ = served.ask("POST", "/v1/completions", body)
    tokens, text = expected(folder, "abc", 9)
    (choice,) = answer["choices"]
    assert status == 200 and answer["object"] == "text_completion"
    assert (choice["tokens"], choice["text"], choice["finish_reason"]) == (tokens, text, "length")
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12}


def test_tokens_and_sampling(served: Served, folder: Path) -> None:
    options = {"temperature": 0.9, "top_p": 0.8, "seed": 5}
    body = {"model": "small", "prompt": [5, 6, 7], "max_tokens": 6, **options}
    _, answer, _ = served.ask("POST", "/v1/completions", body)
    assert answer["choices"][0]["tokens"] == expected(folder, [5, 6, 7], 6, **options)[0]


def test_stop(served: Served, folder: Path) -> None:
    _, text = expected(folder, "abc", 9)
    stop = text[3:5]
    body = {"model": "small", "prompt": "abc", "max_tokens": 9, "stop": stop}
    choice = served.ask("POST", "/v1/completions", body)[1]["choices"][0]
    assert choice["text"] == text[: text.index(stop)] and choice["finish_reason"] == "stop"


def events(served: Served, path: str, body: Any) -> list[Any]:
    """The events of a stream, as they come."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    connection.request("POST", path, json.dumps(body))
    answer = connection.getresponse()
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/event-stream")
    lines = [x for x in answer.read().decode().split("\n\n") if x]
    connection.close()
    assert all(x.startswith("data: ") for x in lines) and lines[-1] == "data: [DONE]"
    return [json.loads(x[6:]) for x in lines[:-1]]


def test_streaming(served: Served, folder: Path) -> None:
    _, text = expected(folder, "abc", 9)
    body = {"model": "small", "prompt": "abc", "max_tokens": 9, "stream": True}
    parts = events(served, "/v1/completions", body)
    assert "".join(p["choices"][0]["text"] for p in parts) == text
    assert (
        parts[-1]["choices"][0]["finish_reason"] == "length" and parts[-1]["usage"]["completion_tokens"] == 9
    )


def test_chat(served: Served, folder: Path) -> None:
    messages = [{"role": "user", "content": "hello"}]
    model = glow.LanguageModel(folder)
    wanted = "".join(model.chat(messages, max_tokens=7))
    body: dict[str, Any] = {"model": "small", "messages": messages, "max_tokens": 7}
    message = served.ask("POST", "/v1/chat/completions", body)[1]["choices"][0]["message"]
    assert message == {"role": "assistant", "content": wanted}
    deltas = [
        e["choices"][0]["delta"] for e in events(served, "/v1/chat/completions", body | {"stream": True})
    ]
    assert deltas[0]["role"] == "assistant"
    assert "".join(d.get("content", "") for d in deltas) == wanted


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"model": "other"}, 404, "no model 'other'; there are: small"),
        ({"prompt": 3}, 400, "'prompt'"),
        ({"prompt": ["a", "b"]}, 400, "'prompt'"),
        ({"prompt": [1, 99999]}, 400, "99999"),
        ({"max_tokens": -1}, 400, "max_tokens"),
        ({"max_tokens": 10_000}, 400, ""),
        ({"temperature": "hot"}, 400, "temperature='hot'"),
        ({"stop": 3}, 400, "stop"),
        ({"n": 2}, 400, "n=2"),
    ],
)
def test_wrong_requests(served: Served, change: Any, status: int, message: str) -> None:
    body = {"model": "small", "prompt": "abc", "max_tokens": 2} | change
    found, answer, _ = served.ask("POST", "/v1/completions", body)
    assert found == status and message in answer["error"]["message"]
    assert served.ask("POST", "/v1/completions", b"x")[0] == 400
    assert served.ask("POST", "/v1/chat/completions", {"model": "small", "messages": 3})[0] == 400


def test_models(served: Served) -> None:
    assert [m["id"] for m in served.ask("GET", "/v1/models")[1]["data"]] == ["small"]
    assert served.ask("GET", "/v2/health/ready")[0] == 200


@pytest.mark.slow
def test_requests_go_together(served: Served, folder: Path) -> None:
    """More requests at a time than are continued together, one of them a stream that nobody reads."""
    unread = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    body = {"model": "small", "prompt": "abc", "max_tokens": 100, "stream": True}
    unread.request("POST", "/v1/completions", json.dumps(body))
    prompts = [[5 + n] * (1 + 7 * n) for n in range(12)]

    def asked(prompt: list[int]) -> list[int]:
        body = {"model": "small", "prompt": prompt, "max_tokens": 20}
        return served.ask("POST", "/v1/completions", body)[1]["choices"][0]["tokens"]

    with ThreadPoolExecutor(len(prompts)) as pool:
        assert list(pool.map(asked, prompts)) == [expected(folder, p, 20)[0] for p in prompts]
    assert unread.getresponse().read().endswith(b"data: [DONE]\n\n")
    unread.close()


def test_a_client_that_leaves_before_its_answer(folder: Path) -> None:
    """Its text ends, whether it wants a stream or not, and the next one gets the place."""

    async def asked(app: Any, body: Any, leaves: asyncio.Event) -> list[Any]:
        sent: list[Any] = []
        messages = [{"type": "http.request", "body": json.dumps(body).encode()}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await leaves.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/completions",
            "headers": [],
            "query_string": b"",
        }
        await app(scope | {"http_version": "1.1", "scheme": "http", "root_path": ""}, receive, send)
        return sent

    async def main(batching: glow.ContinuousBatching) -> None:
        server = HttpServer(cast(Any, None))
        TextServer(server, {"small": batching})
        advance, steps = batching.model.programs.advance, 0

        def counted(
            texts: Sequence[Sequence[int]], slots: Sequence[int], prompts: int = 1
        ) -> list[np.ndarray | None]:
            nonlocal steps
            steps += 1
            if steps >= 3:
                loop.call_soon_threadsafe(leaves.set)
                time.sleep(0.01)
            return advance(texts, slots, prompts)

        loop = asyncio.get_running_loop()
        batching.model.programs.advance = counted
        for stream in (False, True):
            leaves, steps = asyncio.Event(), 0
            body = {"model": "small", "prompt": [5], "max_tokens": 200, "stream": stream}
            await asked(server.app, body, leaves)
            assert 3 <= steps < 200
            body |= {"max_tokens": 2, "stream": False}
            sent = await asked(server.app, body, asyncio.Event())
            assert sent[0]["status"] == 200

    with glow.ContinuousBatching(glow.LanguageModel(folder), size=1) as batching:
        asyncio.run(main(batching))


def test_a_client_that_leaves_frees_the_model(served: Served) -> None:
    for _ in range(3):
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
        body = {"model": "small", "prompt": "abc", "max_tokens": 200, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body))
        connection.getresponse().read(60)
        connection.close()
    body = {"model": "small", "prompt": "abc", "max_tokens": 2}
    assert served.ask("POST", "/v1/completions", body)[0] == 200


# --- parameters ---------------------------------------------------------------------------------

TEXT_NEUTRAL = {
    "n": 1, "best_of": 1, "logprobs": None, "echo": False, "suffix": None, "presence_penalty": 0,
    "frequency_penalty": 0.0, "logit_bias": {}, "user": "me", "seed": None, "stop": None, "top_p": 1,
    "stream_options": None, "max_completion_tokens": None, "stream": False, "metadata": {"a": "b"},
}  # fmt: skip
CHAT_NEUTRAL = {
    "n": 1, "logprobs": False, "top_logprobs": None, "tools": [], "tool_choice": "none", "functions": None,
    "response_format": {"type": "text"}, "parallel_tool_calls": True, "store": False, "modalities": ["text"],
    "service_tier": "auto", "reasoning_effort": None, "presence_penalty": 0, "user": "me", "metadata": None,
}  # fmt: skip


def test_neutral_parameters(served: Served) -> None:
    base = {"model": "small", "prompt": "abc", "max_tokens": 4}
    plain = served.ask("POST", "/v1/completions", base)[1]["choices"]
    status, answer, _ = served.ask("POST", "/v1/completions", base | TEXT_NEUTRAL)
    assert status == 200 and answer["choices"] == plain
    for prompt in (["abc"], [[97, 98, 99]]):
        assert served.ask("POST", "/v1/completions", base | {"prompt": prompt})[0] == 200
    chat = {"model": "small", "messages": [{"role": "user", "content": "hi"}], "max_completion_tokens": 3}
    plain = served.ask("POST", "/v1/chat/completions", chat)[1]["choices"]
    assert served.ask("POST", "/v1/chat/completions", chat | CHAT_NEUTRAL)[1]["choices"] == plain
    parts = [{"role": "user", "content": [{"type": "text", "text": "hi"}], "name": None}]
    assert served.ask("POST", "/v1/chat/completions", chat | {"messages": parts})[1]["choices"] == plain


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temprature", 1),
        ("", 1),
        ("messages", []),
        ("n", 2),
        ("n", True),
        ("best_of", 3),
        ("logprobs", 0),
        ("logprobs", True),
        ("suffix", "x"),
        ("tools", [{"type": "function"}]),
        ("tool_choice", "required"),
        ("response_format", {"type": "json_object"}),
        ("store", True),
        ("min_tokens", 5),
        ("presence_penalty", 3),
        ("presence_penalty", "a"),
        ("frequency_penalty", True),
        ("logit_bias", [1]),
        ("logit_bias", {"a": 1}),
        ("logit_bias", {"300": 1}),
        ("logit_bias", {"5": 101}),
        ("logit_bias", {"5": None}),
        ("seed", -1),
        ("seed", 1.5),
        ("seed", 10**310),
        ("temperature", -1),
        ("temperature", 10**400),
        ("temperature", True),
        ("temperature", []),
        ("top_p", 1.1),
        ("top_k", -2),
        ("top_k", 1.0),
        ("repetition_penalty", 0),
        ("max_tokens", 5.0),
        ("max_tokens", "5"),
        ("max_tokens", True),
        ("max_tokens", 10**310),
        ("max_completion_tokens", -1),
        ("stop", [1]),
        ("stop", {"a": 1}),
        ("stop", ["a"] * 65),
        ("stop", "a" * 100_000),
        ("stream", "yes"),
        ("stream", 1),
        ("stream_options", []),
        ("stream_options", {"include_usage": 1}),
        ("stream_options", {"other": True}),
        ("echo", "yes"),
        ("user", 5),
        ("metadata", "x"),
        ("model", []),
        ("model", {}),
        ("model", None),
        ("prompt", None),
        ("prompt", {}),
        ("prompt", [True]),
        ("prompt", [1.5]),
        ("prompt", [["a"], ["b"]]),
    ],
)
def test_parameters_that_are_refused(served: Served, name: str, value: Any) -> None:
    base = {"model": "small", "prompt": "abc", "max_tokens": 2}
    status, answer, _ = served.ask("POST", "/v1/completions", base | {name: value})
    assert status == 400 and answer["error"]["param"] == name, answer
    assert answer["error"]["type"] == "invalid_request_error" and name in answer["error"]["message"]


@pytest.mark.parametrize(
    "messages",
    [
        3, [], [3], [{}], [{"role": "user"}], [{"role": 1, "content": "a"}], [{"role": "user", "content": 1}],
        [{"role": "user", "content": []}], [{"role": "user", "content": [{"type": "image_url"}]}],
        [{"role": "user", "content": ["a"]}], {"role": "user"}, None,
        [{"role": "assistant", "tool_calls": 5}],
    ],
)  # fmt: skip
def test_wrong_messages(served: Served, messages: Any) -> None:
    body = {"model": "small", "messages": messages, "max_tokens": 2}
    status, answer, _ = served.ask("POST", "/v1/chat/completions", body)
    assert status == 400 and answer["error"]["param"].startswith("messages")
    wrong = {"model": "small", "messages": [{"role": "user", "content": "a"}], "echo": True}
    assert served.ask("POST", "/v1/chat/completions", wrong)[1]["error"]["param"] == "echo"


def test_tokens_that_are_asked_for(served: Served) -> None:
    def asked(**more: Any) -> tuple[int, Any]:
        body = {"model": "small", "prompt": "abc", **more}
        status, answer, _ = served.ask("POST", "/v1/completions", body)
        assert status == 200, answer
        return answer["usage"]["completion_tokens"], answer["choices"][0]

    assert asked(max_tokens=0)[0] == 0 and asked(max_tokens=0, echo=True)[1]["text"] == "abc"
    assert asked(max_tokens=5, max_completion_tokens=None)[0] == 5
    assert asked(max_tokens=5, max_completion_tokens=2)[0] == 2
    plain = asked(max_tokens=6)[1]
    assert asked(max_tokens=6, echo=True)[1]["text"] == "abc" + plain["text"]
    likely = plain["tokens"][0]
    assert likely not in asked(max_tokens=6, logit_bias={str(likely): -100})[1]["tokens"]
    assert set(asked(max_tokens=6, logit_bias={"65": 100})[1]["tokens"]) == {65}
    tokens = asked(max_tokens=40, frequency_penalty=2, presence_penalty=2)[1]["tokens"]
    assert len(set(tokens)) > len(set(asked(max_tokens=40)[1]["tokens"]))
    assert asked(max_tokens=3, temperature=5e-324)[1]["tokens"] == plain["tokens"][:3]


def test_usage_of_streams(served: Served) -> None:
    body = {"model": "small", "prompt": "abc", "max_tokens": 3, "stream": True}
    options = {"stream_options": {"include_usage": True}}
    _, text, _ = served.ask("POST", "/v1/completions", body | options)
    events = [json.loads(x[6:]) for x in text.decode().split("\n\n") if x.startswith("data: {")]
    assert events[-1]["choices"] == [] and events[-1]["usage"]["completion_tokens"] == 3
    assert not any("usage" in event for event in events[:-1])
