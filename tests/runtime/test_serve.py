"""glow-serve: the Open Inference Protocol over HTTP and gRPC, by clients of others and by hostile ones."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

pytest.importorskip("starlette", reason="the extra 'serve' is not installed")
pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")

TOKEN = "letmein"


def model(path: Path, factor: float = 2.0) -> Path:
    """y = factor * x, for any number of rows of three."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 3]) for n in "xy")
    weight = helper.make_tensor("f", TensorProto.FLOAT, [1], [factor])
    graph = helper.make_graph([helper.make_node("Mul", ["x", "f"], ["y"])], "g", [x], [y], [weight])
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@dataclass
class Served:
    """A running server."""

    port: int
    grpc_port: int
    process: subprocess.Popen[str]

    def ask(self, method: str, path: str, body: Any = None, headers: Any = None) -> tuple[int, Any, Any]:
        """(status, answer, headers) of a request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        connection.request(method, path, data, headers or {})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return answer.status, json.loads(text) if is_json else text, answer.headers

    def infer(self, rows: int = 2, target: str = "double", **more: Any) -> tuple[int, Any, Any]:
        """A JSON request."""
        item = {"name": "x", "datatype": "FP32", "shape": [rows, 3], "data": [1.0] * (3 * rows)} | more
        return self.ask("POST", f"/v2/models/{target}/infer", {"inputs": [item]})


def serve(*arguments: str) -> Served:
    """Start the command; it says where it listens."""
    command = [sys.executable, "-m", "glow_tools.serve", "--port", "0", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    ports = {"http": 0, "gRPC": 0}
    for _ in range(1 + ("--grpc-port" in arguments)):
        line = process.stdout.readline()
        assert line, process.stderr.read()
        ports["gRPC" if line.startswith("gRPC") else "http"] = int(line.rpartition(":")[2])
    return Served(ports["http"], ports["gRPC"], process)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("models")
    model(folder / "many" / "1" / "model.onnx", 10)
    model(folder / "many" / "2" / "model.onnx", 20)
    file = model(folder / "one.onnx")
    arguments = [f"double={file}", str(folder), "--grpc-port", "0", "--max-bytes", "1M", "--control"]
    made = serve(*arguments, "--device", "cpu", "--device", "process")
    yield made
    made.process.terminate()
    assert made.process.wait(60) in (0, -15)


# --- HTTP ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_health_and_metadata(served: Served) -> None:
    assert served.ask("GET", "/v2/health/live")[:2] == (200, {"live": True})
    assert served.ask("GET", "/v2/health/ready")[0] == 200
    assert served.ask("GET", "/v2/models/double/ready")[0] == 200
    assert served.ask("GET", "/v2")[1]["name"] == "glow-serve"
    status, about, _ = served.ask("GET", "/v2/models/many")
    assert status == 200 and about["versions"] == ["1", "2"]
    assert about["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}]


def test_json(served: Served) -> None:
    status, answer, _ = served.infer()
    assert status == 200 and answer["model_name"] == "double"
    assert answer["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [2, 3], "data": [2.0] * 6}]


def test_nested_lists_and_ids(served: Served) -> None:
    item = {"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [[1, 2, 3]]}
    body = {"id": "seven", "inputs": [item], "outputs": [{"name": "y"}]}
    status, answer, _ = served.ask("POST", "/v2/models/double/infer", body)
    assert status == 200 and answer["id"] == "seven" and answer["outputs"][0]["data"] == [2.0, 4.0, 6.0]


def binary(rows: int = 1) -> tuple[bytes, dict[str, str]]:
    """A request with its tensor as bytes, and outputs as bytes."""
    x = np.arange(3 * rows, dtype=np.float32)
    item = {"name": "x", "datatype": "FP32", "shape": [rows, 3], "parameters": {"binary_data_size": x.nbytes}}
    head = json.dumps({"inputs": [item], "parameters": {"binary_data_output": True}}).encode()
    return head + x.tobytes(), {"Inference-Header-Content-Length": str(len(head))}


@pytest.mark.parametrize("encoding", ["", "gzip", "deflate"])
def test_bytes(served: Served, encoding: str) -> None:
    body, headers = binary()
    if encoding:
        packing = zlib.compressobj(wbits=31 if encoding == "gzip" else 15)
        body, headers["Content-Encoding"] = packing.compress(body) + packing.flush(), encoding
    status, answer, headers = served.ask("POST", "/v2/models/double/infer", body, headers)
    assert status == 200
    at = int(headers["Inference-Header-Content-Length"])
    output = json.loads(answer[:at])["outputs"][0]
    assert output["parameters"] == {"binary_data_size": 12}
    np.testing.assert_array_equal(np.frombuffer(answer[at:], np.float32), [0, 2, 4])


def test_versions(served: Served) -> None:
    item = {"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 1, 1]}
    for version, factor in (("/versions/1", 10), ("/versions/2", 20), ("", 20)):
        _, answer, _ = served.ask("POST", f"/v2/models/many{version}/infer", {"inputs": [item]})
        assert answer["outputs"][0]["data"] == [factor] * 3
    status, answer, _ = served.ask("POST", "/v2/models/many/versions/3/infer", {"inputs": [item]})
    assert status == 404 and "has no version '3'; there are: 1, 2" in answer["error"]


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"name": "z"}, 400, "unknown input 'z'"),
        ({"datatype": "FP64"}, 400, "dtype float64"),
        ({"datatype": "FP31"}, 400, "'FP31' is not one of"),
        ({"shape": [2, 4]}, 400, "6 elements for shape"),
        ({"shape": [6]}, 400, "input 'x'"),
        ({"shape": [-1, 3]}, 400, "no dimension"),
        ({"shape": "2x3"}, 400, "list"),
        ({"shape": [1 << 39, 1 << 39]}, 400, "more elements"),
        ({"data": ["a"] * 6}, 400, "not all float32"),
        ({"data": None}, 400, "list"),
        ({"data": [[1, 2], [3]]}, 400, "not all float32"),
        ({"parameters": {"binary_data_size": 24}}, 400, "24 bytes, the body has 0"),
        ({"parameters": 3}, 400, "'parameters' is an object"),
    ],
)
def test_wrong_requests(served: Served, change: dict[str, Any], status: int, message: str) -> None:
    got, answer, _ = served.infer(**change)
    assert got == status and message in answer["error"]
    assert served.infer()[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v2/models/nothing/infer", b"{}", 404),
        ("GET", "/v2/models/../../etc/passwd", None, 404),
        ("GET", "/v2/models/%2e%2e%2f%2e%2e%2fetc%2fpasswd", None, 404),
        ("POST", "/v2/models/double/infer", b"", 400),
        ("POST", "/v2/models/double/infer", b"[]", 400),
        ("POST", "/v2/models/double/infer", b"\xff\xfe", 400),
        ("POST", "/v2/models/double/infer", b"[" * 100_000, 400),
        ("POST", "/v2/models/double/infer", b'{"inputs": 3}', 400),
        ("POST", "/v2/models/double/infer", b'{"inputs": [3]}', 400),
        ("POST", "/v2/models/double/infer", b'{"inputs": []}', 400),
        ("POST", "/v2/models/double/infer", b"x" * (1 << 20) + b"y", 413),
        ("GET", "/v2/models/double/infer", None, 405),
        ("POST", "/nothing", b"", 404),
    ],
)
def test_hostile_requests(served: Served, method: str, path: str, body: bytes | None, status: int) -> None:
    assert served.ask(method, path, body)[0] == status
    assert served.infer()[0] == 200


def test_a_small_body_that_unpacks_to_a_large_one(served: Served) -> None:
    packing = zlib.compressobj(9, wbits=31)
    body = packing.compress(b" " * (64 << 20)) + packing.flush()
    headers = {"Content-Encoding": "gzip"}
    assert served.ask("POST", "/v2/models/double/infer", body, headers)[0] == 413


def test_random_bytes_never_end_the_server(served: Served) -> None:
    rng = np.random.default_rng(0)
    body, headers = binary()
    for turn in range(150):
        mutant = bytearray(body)
        for _ in range(1 + turn % 4):
            mutant[rng.integers(len(mutant))] = rng.integers(256)
        changed = dict(headers)
        if turn % 3 == 0:
            changed["Inference-Header-Content-Length"] = str(rng.integers(-5, 200))
        status, _, _ = served.ask("POST", "/v2/models/double/infer", bytes(mutant), changed)
        assert status in (200, 400), mutant
    for junk in (b"\0" * 1000, rng.bytes(5000), b"GET / HTTP/9.9\r\n\r\n", b"POST /v2 HTTP/1.1\r\n" * 50):
        with socket.create_connection(("127.0.0.1", served.port), timeout=60) as raw:
            raw.sendall(junk)
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(4096):
                pass
    assert served.infer()[0] == 200


def test_slow_clients_do_not_block_others(served: Served) -> None:
    slow = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(20)]
    try:
        for connection in slow:
            connection.sendall(
                b"POST /v2/models/double/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n{"
            )
        began = time.perf_counter()
        for _ in range(10):
            assert served.infer()[0] == 200
        assert time.perf_counter() - began < 20
    finally:
        for connection in slow:
            connection.close()


def test_many_clients(served: Served) -> None:
    statuses: list[int] = []

    def work() -> None:
        for _ in range(10):
            statuses.append(served.infer(rows=1)[0])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert statuses == [200] * 80


def test_metrics_and_page(served: Served) -> None:
    served.infer()
    status, text, _ = served.ask("GET", "/metrics")
    assert status == 200
    lines = text.decode().splitlines()
    counted = next(
        x for x in lines if x.startswith('glow_requests_total{network="double:1",result="succeeded"}')
    )
    assert float(counted.rpartition(" ")[2]) >= 1
    assert any(x.startswith('glow_device_memory{device="cpu:0"}') for x in lines)
    status, page, headers = served.ask("GET", "/")
    assert status == 200 and b"<table" in page and headers["content-type"].startswith("text/html")
    assert served.ask("GET", "/status")[1]["devices"]["process:0"]["state"] == "ready"


def test_models_are_loaded_and_unloaded(served: Served) -> None:
    assert served.ask("POST", "/v2/repository/models/many/unload")[0] == 200
    assert served.infer(target="many")[0] == 404
    states = {(m["name"], m["version"]): m["state"] for m in served.ask("POST", "/v2/repository/index")[1]}
    assert states[("many", "2")] == "UNAVAILABLE" and states[("double", "1")] == "READY"
    for _ in range(2):  # the second time in the place of the first
        assert served.ask("POST", "/v2/repository/models/many/load")[0] == 200
    assert served.infer(target="many")[0] == 200
    assert served.ask("POST", "/v2/repository/models/nothing/load")[0] == 404


def test_triton_http_client(served: Served) -> None:
    client = pytest.importorskip("tritonclient.http", reason="tritonclient is not installed")
    with client.InferenceServerClient(f"127.0.0.1:{served.port}") as c:
        assert c.is_server_live() and c.is_server_ready() and c.is_model_ready("double")
        assert c.get_model_metadata("double")["name"] == "double"
        x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
        for as_bytes in (True, False):
            given = client.InferInput("x", [5, 3], "FP32")
            given.set_data_from_numpy(x, binary_data=as_bytes)
            wanted = client.InferRequestedOutput("y", binary_data=as_bytes)
            result = c.infer("double", [given], outputs=[wanted], request_id="1")
            np.testing.assert_allclose(result.as_numpy("y"), 2 * x, rtol=1e-6)
        from tritonclient.utils import InferenceServerException

        with pytest.raises(InferenceServerException, match="no model 'nothing'"):
            c.infer("nothing", [given])


# --- gRPC ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_triton_grpc_client(served: Served) -> None:
    client = pytest.importorskip("tritonclient.grpc", reason="tritonclient is not installed")
    with client.InferenceServerClient(f"127.0.0.1:{served.grpc_port}") as c:
        assert c.is_server_live() and c.is_server_ready() and c.is_model_ready("double")
        assert not c.is_model_ready("nothing")
        assert list(c.get_model_metadata("many").versions) == ["1", "2"]
        x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
        given = client.InferInput("x", [5, 3], "FP32")
        given.set_data_from_numpy(x)
        result = c.infer("double", [given], outputs=[client.InferRequestedOutput("y")], request_id="3")
        np.testing.assert_array_equal(result.as_numpy("y"), 2 * x)
        assert result.get_response().id == "3"
        from tritonclient.utils import InferenceServerException

        wrong = client.InferInput("x", [2, 3], "FP32")
        wrong.set_data_from_numpy(np.zeros((2, 3), np.float32))
        wrong._input.shape[0] = 9
        with pytest.raises(InferenceServerException, match="24 bytes, 108"):
            c.infer("double", [wrong])
        with pytest.raises(InferenceServerException, match="no model"):
            c.infer("nothing", [given])


def test_grpc_messages_are_those_of_the_protocol() -> None:
    """What we write another implementation of the protocol reads, field by field."""
    theirs = pytest.importorskip("tritonclient.grpc.service_pb2", reason="tritonclient is not installed")
    from glow_runtime.serve.messages import MESSAGES

    for path, kind in MESSAGES.items():
        other: Any = theirs
        for part in path.split("."):
            other = getattr(other, part)
        numbers = {f.name: f.number for f in other.DESCRIPTOR.fields}
        for field in kind.DESCRIPTOR.fields:
            assert numbers[field.name] == field.number, f"{path}.{field.name}"
    request = MESSAGES["ModelInferRequest"](model_name="m", raw_input_contents=[b"12"])
    request.inputs.add(name="x", datatype="FP32", shape=[2]).contents.fp32_contents.extend([1, 2])
    request.parameters["priority"].int64_param = 3
    read = theirs.ModelInferRequest.FromString(request.SerializeToString())
    assert read.inputs[0].contents.fp32_contents == [1, 2] and read.parameters["priority"].int64_param == 3


def test_random_grpc_messages_never_end_the_server(served: Served) -> None:
    grpc = pytest.importorskip("grpc", reason="grpcio is not installed")
    rng = np.random.default_rng(1)
    with grpc.insecure_channel(f"127.0.0.1:{served.grpc_port}") as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        for turn in range(60):
            with pytest.raises(grpc.RpcError):
                call(rng.bytes(1 + turn * 7), timeout=60)
    assert served.infer()[0] == 200


# --- the command --------------------------------------------------------------------------------


def test_token_and_fixed_models(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    server = serve(
        str(model(tmp_path / "m.onnx")), "--token-file", str(token), "--device", "cpu", "--batch", "4"
    )
    try:
        assert server.ask("GET", "/v2/health/live")[0] == 200
        assert server.infer(target="m")[0] == 401
        allowed = {"Authorization": f"Bearer {TOKEN}"}
        assert server.ask("GET", "/v2/models/m", headers=allowed)[0] == 200
        assert server.ask("POST", "/v2/repository/models/m/unload", headers=allowed)[0] == 403
        body, headers = binary(2)
        assert server.ask("POST", "/v2/models/m/infer", body, allowed | headers)[0] == 200
    finally:
        server.process.terminate()
        server.process.wait(60)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.onnx"], "no such file"),
        (["."], "no NAME/VERSION/model.onnx"),
        (["{m}", "{m}"], "two models have name 'm'"),
        (["{m}", "--device", "abacus"], "no kind of device"),
        (["{m}", "--tls-key", "{m}"], "used together"),
        (["{m}", "--partition", "thin"], "is not one of"),
    ],
)
def test_wrong_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str, capsys: Any
) -> None:
    from glow_tools.serve import main

    file = model(tmp_path / "m.onnx")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert main([a.format(m=file) for a in arguments]) == 1
    assert message in capsys.readouterr().err


# --- the protocol's tensors ---------------------------------------------------------------------


def test_strings_and_odd_types() -> None:
    from glow_runtime.serve.protocol import ProtocolError, from_bytes, to_bytes

    strings = np.array(["a", "", "grüße"], object)
    np.testing.assert_array_equal(from_bytes("s", to_bytes(strings), np.dtype(object), (3,)), strings)
    for data in (b"\1\0", struct.pack("<I", 9) + b"abc", struct.pack("<I", 1) + b"\xff"):
        with pytest.raises(ProtocolError, match="input 's'"):
            from_bytes("s", data, np.dtype(object), (1,))
