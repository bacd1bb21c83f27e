"""glow-serve and what is wrong with requests: an error each, in no time and little memory, on every door."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra 'serve' is not installed")

from test_serve import Served, model, serve

from glow_runtime.serve.json_body import ProtocolError, read_object
from glow_runtime.serve.protocol import from_bytes, from_json, parse_request

INFER = "/v2/models/double/infer"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("hostile")
    model(made / "one.onnx")
    return made


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    models = [f"double={folder / 'one.onnx'}"]
    limits = ["--head-timeout", "1", "--idle-timeout", "2", "--body-timeout", "1", "--connections", "60"]
    server = serve(*models, "--device", "cpu", "--grpc-port", "0", "--max-bytes", "8M", *limits)
    yield server
    server.process.terminate()
    assert server.process.wait(60) == 0 and server.process.stderr is not None
    assert "Traceback" not in server.process.stderr.read()


# --- tensors as JSON ----------------------------------------------------------------------------


def body_of(**change: Any) -> bytes:
    item = {"name": "x", "datatype": "FP32", "shape": [2, 3], "data": [1.0] * 6} | change
    return json.dumps({"inputs": [item]}).encode()


def raw_of(data: str, datatype: str = "FP32", shape: str = "[1, 3]", more: str = "") -> bytes:
    return (
        f'{{"inputs": [{{"name": "x", "datatype": "{datatype}", "shape": {shape}, "data": {data}}}]{more}}}'
    ).encode()


WRONG = [
    body_of(data=["a"] * 6),
    body_of(data=[True] * 6),
    body_of(data=[None] * 6),
    body_of(data=[{}] * 6),
    body_of(data=[1, 2, 3, 4, 5]),
    body_of(data=[[1, 2, 3], [4, 5]]),
    body_of(data=[[1, 2, 3], 4, 5, 6]),
    body_of(data=[1, [2, 3, 4, 5, 6]]),
    body_of(data=[[[]]] * 6),
    body_of(data={"0": 1}),
    body_of(data="123456"),
    body_of(data=None),
    raw_of("[1, 2, NaN]"),
    raw_of("[1, 2, Infinity]"),
    raw_of("[1, 2, -Infinity]"),
    raw_of("[1, 2, 1e999]"),
    raw_of("[1, 2, 1e39]"),
    raw_of("[1, 2, 1" + "0" * 310 + "]"),
    raw_of("[1, 2, 1" + "0" * 5000 + "]"),
    raw_of("[1, 2.5, 3]", "INT64"),
    raw_of("[1, true, 3]", "INT64"),
    raw_of("[1, 2, 300]", "INT8"),
    raw_of("[1, 2, -1]", "UINT64"),
    raw_of("[1, 2, 18446744073709551616]", "UINT64"),
    raw_of("[0, 1, 0]", "BOOL"),
    raw_of("[1, 2, 3]", "BYTES"),
    raw_of('["a", null, "b"]', "BYTES"),
    raw_of('["a", {"b": 1}, "b"]', "BYTES"),
    raw_of('["a", "\\ud800", "b"]', "BYTES"),
    raw_of("[1, 2, 3]", "FP31"),
    raw_of("[1, 2, 3]", "\\ud800"),
    body_of(shape=["2", 3]),
    body_of(shape=[2.0, 3]),
    body_of(shape=[True, 6]),
    body_of(shape=[-2, -3]),
    body_of(shape=[None, 3]),
    body_of(shape=[[2], 3]),
    body_of(shape=6),
    body_of(shape=None),
    body_of(shape={}),
    body_of(shape=[1] * 33),
    body_of(shape=[1 << 62, 1 << 62]),
    body_of(shape=[10**310]),
    body_of(shape=[0, 1 << 35], data=[]),
    body_of(shape=[0, 3, 1 << 35, 1], data=[]),
    body_of(shape=[1 << 20, 0, 2], data=[]),
    body_of(name=None),
    body_of(name=7),
    body_of(name="\ud800"),
    body_of(datatype=None),
    body_of(datatype=["FP32"]),
    body_of(parameters=[1]),
    body_of(parameters={"binary_data_size": True}),
    body_of(parameters={"binary_data_size": -1}),
    body_of(parameters={"binary_data_size": 1 << 70}),
    body_of(parameters={"binary_data_size": "24"}),
    body_of(parameters={"shared_memory_region": "a"}),
    raw_of("[1, 2, 3]", more=', "outputs": 3'),
    raw_of("[1, 2, 3]", more=', "outputs": [{"name": "z"}]'),
    raw_of("[1, 2, 3]", more=', "outputs": [{"name": 1}]'),
    raw_of("[1, 2, 3]", more=', "outputs": [{"name": "y"}, {"name": "y"}]'),
    raw_of("[1, 2, 3]", more=', "outputs": [{"name": "y", "parameters": {"binary_data": 1}}]'),
    raw_of("[1, 2, 3]", more=', "outputs": [{"name": "y", "parameters": {"classification": 2}}]'),
    raw_of("[1, 2, 3]", more=', "parameters": {"binary_data_output": "yes"}'),
    raw_of("[1, 2, 3]", more=', "parameters": {"timeout": ' + "9" * 310 + "}"),
    raw_of("[1, 2, 3]", more=', "parameters": {"timeout": -1}'),
    raw_of("[1, 2, 3]", more=', "parameters": {"timeout": true}'),
    raw_of("[1, 2, 3]", more=', "parameters": {"timeout": 1.5}'),
    raw_of("[1, 2, 3]", more=', "parameters": {"priority": "high"}'),
    raw_of("[1, 2, 3]", more=', "parameters": {"priority": ' + "9" * 310 + "}"),
    raw_of("[1, 2, 3]", more=', "id": {}'),
    raw_of("[1, 2, 3]", more=', "id": "' + "i" * 5000 + '"'),
    b'{"inputs": [' + b"[" * 60_000 + b"]" * 60_000 + b"]}",
    b'{"inputs": [' + b'{"a":' * 60_000,
    b"\xed\xa0\x80",
    b'{"inputs": "\xed\xa0\x80"}',
    json.dumps({"inputs": []}).encode("utf-16"),
    b"null",
    b"1",
    b"NaN",
    b'{"inputs": null}',
    b"{}",
]


@pytest.mark.parametrize("body", WRONG, ids=[str(n) for n in range(len(WRONG))])
def test_wrong_tensors(served: Served, body: bytes) -> None:
    status, answer, _ = served.ask("POST", INFER, body)
    assert status == 400 and 0 < len(answer["error"]) < 3000
    assert served.ask("GET", "/v2/health/live")[0] == 200


@pytest.mark.slow
@pytest.mark.parametrize("value", ["9" * 5000, "-1", "1e3", "\xb2", "0x10", "", "9" * 19])
def test_wrong_lengths_of_json(served: Served, value: str) -> None:
    headers = {"Inference-Header-Content-Length": value}
    assert served.ask("POST", INFER, body_of(), headers)[0] == 400


def test_compressed_bodies_that_end_early(served: Served) -> None:
    import gzip

    whole = gzip.compress(body_of())
    for body in (whole[:-9], whole + b"more", b"", whole[:5]):
        assert served.ask("POST", INFER, body, {"Content-Encoding": "gzip"})[0] == 400
    assert served.ask("POST", INFER, whole, {"Content-Encoding": "gzip"})[0] == 200
    assert served.ask("POST", INFER, whole, {"Content-Encoding": "b" * 9000})[0] == 400


def test_paths(served: Served) -> None:
    """Errors are JSON, in the form that the clients of a path know."""
    for path, status in (("/v2/nothing", 404), ("/v2/models/%ff", 404), (INFER, 405)):
        got, answer, _ = served.ask("GET", path)
        assert got == status and isinstance(answer["error"], str)
    got, answer, _ = served.ask("POST", "/v1/nothing", b"{}")
    assert got == 404 and answer["error"]["code"] == 404
    assert len(served.ask("GET", "/v2/models/" + "a" * 50_000)[1]["error"]) < 3000


def test_kinds_that_are_right() -> None:
    """What is not refused is what NumPy makes of it."""
    for data, name, shape in (
        ([1, 2.5, -3], "float32", (3,)),
        ([[1], [2]], "float16", (2, 1)),
        ([[1, 2], [3, 4]], "int8", (4,)),
        ([2**64 - 1], "uint64", ()),
        ([-(2**63)], "int64", (1,)),
        ([True, False], "bool", (2,)),
        ([], "float64", (0, 3)),
        ([[], []], "int32", (2, 0)),
    ):
        wanted = np.array(data, np.dtype(name)).reshape(shape)
        np.testing.assert_array_equal(from_json("x", data, np.dtype(name), shape), wanted)
    text = from_json("x", ["", "ü", "👍"], np.dtype(object), (3,))
    assert text.tolist() == ["", "ü", "👍"]
    assert parse_request(raw_of("[1, 2, 3]", more=', "id": null, "outputs": null'), None).id == ""
    with pytest.raises(ProtocolError, match="BOOL are 0 and 1"):
        from_bytes("x", b"\0\1\2", np.dtype(bool), (3,))
    with pytest.raises(ProtocolError, match="more than 2 strings"):
        from_bytes("x", b"\0" * 4000, np.dtype(object), (2,))


@pytest.mark.parametrize("datatype", ["FP32", "FP16", "INT64", "BOOL", "BF16"])
def test_a_small_body_takes_little_memory(datatype: str) -> None:
    """One long string made all of them as long: 140 KB took 3 GB."""
    body = body_of(datatype=datatype, shape=[8000], data=["a" * 100_000] + ["b"] * 7999)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="are not all"):
            parse_request(body, None)
        assert tracemalloc.get_traced_memory()[1] < 50 * len(body)
    finally:
        tracemalloc.stop()


def test_lists_of_a_body_are_counted() -> None:
    with pytest.raises(ProtocolError, match="lists and objects"):
        read_object(b'{"a": [' + b"[]," * (3 << 20) + b"[]]}")


def test_large_json(served: Served) -> None:
    """It is read by a thread, answered in pieces that are one list, and has a size of its own."""
    from glow_runtime.serve.http import HttpServer, Limits

    rows = 20_000
    x = np.random.default_rng(0).standard_normal((rows, 3)).astype(np.float32)
    status, answer, _ = served.infer(shape=[rows, 3], data=x.tolist())
    assert status == 200
    np.testing.assert_array_equal(np.array(answer["outputs"][0]["data"], np.float32), (2 * x).reshape(-1))
    server = HttpServer(Any, Limits(json_bytes=100))  # pyright: ignore[reportArgumentType]
    server.check_json(100)
    with pytest.raises(ProtocolError, match="101 bytes of JSON; 100 are allowed: send tensors as bytes"):
        server.check_json(101)


def test_metrics_have_all_digits() -> None:
    from types import SimpleNamespace

    from glow_runtime.host.network import NetworkStatistics
    from glow_runtime.serve.metrics import prometheus

    counts = NetworkStatistics(succeeded=123456789, failed=2**60 + 1, p50=0.1, timed=7, seconds=1234567.8912)
    host: Any = SimpleNamespace(
        statistics=lambda: {'a"\\': counts},
        device_statistics=lambda: {"cpu:0": SimpleNamespace(
            runs=1234567, errors=0, restarts=0, busy=7654321.123456, queued=0, memory=34359738369, used=1
        )},
    )  # fmt: skip
    lines = prometheus(host).splitlines()
    assert 'glow_requests_total{network="a\\"\\\\",result="succeeded"} 123456789' in lines
    assert 'glow_requests_total{network="a\\"\\\\",result="failed"} 1152921504606846977' in lines
    assert 'glow_request_seconds_sum{network="a\\"\\\\"} 1234567.8912' in lines
    assert 'glow_request_seconds_count{network="a\\"\\\\"} 7' in lines
    assert 'glow_device_busy_total{device="cpu:0"} 7654321.123456' in lines
    assert 'glow_device_memory{device="cpu:0"} 34359738369' in lines


# --- gRPC ---------------------------------------------------------------------------------------


def message(**change: Any) -> Any:
    from glow_runtime.serve.messages import MESSAGES

    request = MESSAGES["ModelInferRequest"](model_name="double")
    numbers = {"fp32_contents": [1, 2, 3]}
    usual: dict[str, Any] = {"name": "x", "datatype": "FP32", "shape": [1, 3], "numbers": numbers}
    given = usual | change
    tensor = request.inputs.add(name=given["name"], datatype=given["datatype"], shape=given["shape"])
    for field, values in given["numbers"].items():
        getattr(tensor.contents, field).extend(values)
    for name, (kind, value) in given.get("parameters", {}).items():
        setattr(request.parameters[name], kind, value)
    for name in given.get("outputs", ()):
        request.outputs.add(name=name)
    request.raw_input_contents.extend(given.get("raw", ()))
    return request


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [-1, 3]},
        {"shape": [1 << 40]},
        {"shape": [0, 1 << 35], "numbers": {}},
        {"shape": [1] * 40},
        {"datatype": "FP31"},
        {"datatype": "FP16"},
        {"datatype": "INT8", "numbers": {"int_contents": [1, 2, 300]}},
        {"datatype": "UINT8", "numbers": {"uint_contents": [1, 2, 1 << 20]}},
        {"datatype": "INT64"},
        {"numbers": {"fp32_contents": [1, 2]}},
        {"numbers": {"fp32_contents": [1, 2, 3], "int_contents": [1]}},
        {"numbers": {"fp64_contents": [1, 2, 3]}},
        {"datatype": "BYTES", "numbers": {"bytes_contents": [b"a", b"\xff", b"b"]}},
        {"raw": [b"123"], "numbers": {}},
        {"raw": [b"1" * 12, b"2"], "numbers": {}},
        {"raw": [b"1" * 12]},
        {"datatype": "BOOL", "numbers": {}, "raw": [b"\0\1\2"]},
        {"outputs": ["z"]},
        {"outputs": ["y", "y"]},
        {"name": "z" * 100_000},
        {"parameters": {"timeout": ("string_param", "now")}},
        {"parameters": {"timeout": ("int64_param", -5)}},
        {"parameters": {"priority": ("bool_param", True)}},
        {"parameters": {"priority": ("double_param", 1.5)}},
        {"parameters": {"sequence_id": ("int64_param", 7)}},
        None,
    ],
)
def test_wrong_calls(served: Served, change: dict[str, Any] | None) -> None:
    grpc = pytest.importorskip("grpc", reason="grpcio is not installed")
    body = b"\xff" * 99 if change is None else message(**change).SerializeToString()
    with grpc.insecure_channel(f"127.0.0.1:{served.grpc_port}") as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.RpcError) as caught:
            call(body, timeout=60)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT, caught.value
        call(message().SerializeToString(), timeout=60)


# --- connections --------------------------------------------------------------------------------


def answer_to(served: Served, data: bytes) -> bytes:
    """What comes until the server closes."""
    parts: list[bytes] = []
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as raw:
        raw.sendall(data)
        while part := raw.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


POST = f"POST {INFER} HTTP/1.1\r\nHost: x\r\n".encode()
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"G", b"408"),
        (b"GET /v2 HTTP/1.1\r\nHost: x\r\nX-A", b"408"),
        (POST + b"Content-Length: 9\r\n\r\n{", b"408"),
        (b"GET /v2 HTTP/1.1\r\nX: " + b"a" * (70 << 10) + b"\r\n\r\n", b"431"),
        (b"GET /v2 HTTP/1.1\r\nX: " + b"a" * (2 << 20), b"431"),
        (b"GET /v2 HTTP/1.1\r\n" + b"X: a\r\n" * 20_000 + b"\r\n", b"431"),
        (b"GET /" + b"a" * (70 << 10) + b" HTTP/1.1\r\n\r\n", b"431"),
        (CHUNKED + b"X: a\r\n" * 20_000, b"431"),
        (CHUNKED + b"X: " + b"a" * (1 << 20), b"431"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * (1 << 20), b"431"),
        (POST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", b"400"),
        (POST + b"Content-Length: -5\r\n\r\n", b"400"),
        (POST + b"Content-Length: 999999999999\r\nConnection: close\r\n\r\n", b"413"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"400"),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"GET http://x HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"GET /v2/no HTTP/1.1\r\nHost: [::1\r\nConnection: close\r\n\r\n", b"404"),
        (b"GET /v2 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", b"200"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"400"),
    ],
)
def test_connections(served: Served, data: bytes, status: bytes) -> None:
    began = time.monotonic()
    assert answer_to(served, data).split(b" ", 2)[1] == status
    assert time.monotonic() - began < 10


def test_silent_connections_end(served: Served) -> None:
    assert answer_to(served, b"") == b"" and answer_to(served, b"\r\n\r\n") == b""


def test_connections_give_way(served: Served) -> None:
    """More of them than are allowed, with half a head each: others are served."""
    held = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(150)]
    for connection in held:
        connection.sendall(b"GET /v2 HTTP/1.1\r\nHo")
    assert served.infer()[0] == 200
    if os.path.isdir(f"/proc/{served.process.pid}/fd"):
        assert len(os.listdir(f"/proc/{served.process.pid}/fd")) < 120
    for connection in held:
        connection.close()


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no SIGHUP")
def test_hangups_are_survived(served: Served) -> None:
    served.process.send_signal(signal.SIGHUP)
    time.sleep(0.2)
    assert served.infer()[0] == 200


@pytest.mark.slow
def test_a_taken_port(served: Served, folder: Path) -> None:
    """One line, before models are loaded."""
    for option, port in (("--port", served.port), ("--grpc-port", served.grpc_port)):
        other = [] if option == "--port" else ["--port", "0"]
        command = [
            sys.executable,
            "-m",
            "glow_tools.serve",
            str(folder / "one.onnx"),
            option,
            str(port),
            *other,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and done.stderr.count("\n") == 1
        assert f"error: port {port} of 127.0.0.1 cannot be had" in done.stderr


# --- the end ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_is_in_time(folder: Path, number: signal.Signals) -> None:
    """What has no answer within the grace, or comes later, is 503, and the status is 0."""
    server = serve(f"double={folder / 'one.onnx'}", "--device", "cpu", "--grace", "0.5")
    kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    kept.request("GET", "/v2")
    assert kept.getresponse().read()
    waiting = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    waiting.sendall(POST + b"Content-Length: 9\r\n\r\n{")
    time.sleep(0.1)
    began = time.monotonic()
    server.process.send_signal(number)
    status = 200
    while status == 200:  # until the signal has arrived
        kept.request("GET", "/v2/health/ready")
        answer = kept.getresponse()
        answer.read()
        status = answer.status
    assert status == 503
    assert waiting.recv(1000).startswith(b"HTTP/1.1 503 ")
    assert server.process.wait(60) == 0 and time.monotonic() - began < 10
    assert server.process.stderr is not None and "Traceback" not in server.process.stderr.read()
    waiting.close()
