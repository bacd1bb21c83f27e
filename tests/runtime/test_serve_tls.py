"""glow-serve with TLS, a token and limits: connections that are really made."""

from __future__ import annotations

import http.client
import json
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from test_serve import TOKEN, Served, binary, model, serve

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, a token, and a certificate that signs itself, for this machine."""
    folder = tmp_path_factory.mktemp("tls")
    model(folder / "m.onnx")
    (folder / "token").write_text(f"{TOKEN}\n")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -keyout key -out certificate"
    )
    names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    subprocess.run([*command.split(), *names], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def served(files: Path) -> Iterator[Served]:
    tls = ["--tls-key", str(files / "key"), "--tls-certificate", str(files / "certificate")]
    limits = ["--token-file", str(files / "token"), "--max-bytes", "64K", "--device", "cpu"]
    made = serve(str(files / "m.onnx"), *tls, *limits, "--grpc-port", "0")
    yield made
    made.process.terminate()
    assert made.process.wait(60) in (0, -15)


def asked(
    served: Served, files: Path | None, body: bytes, headers: dict[str, str], path: str = "/v2/models/m/infer"
) -> tuple[int, bytes]:
    """(status, body) over TLS; certificates of `files` are trusted."""
    context = ssl.create_default_context(cafile=None if files is None else str(files / "certificate"))
    connection = http.client.HTTPSConnection("127.0.0.1", served.port, timeout=60, context=context)
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


ALLOWED = {"Authorization": f"Bearer {TOKEN}"}


def test_a_client_that_trusts_the_certificate_is_answered(served: Served, files: Path) -> None:
    body, headers = binary(2)
    status, answer = asked(served, files, body, headers | ALLOWED)
    assert status == 200
    np.testing.assert_array_equal(np.frombuffer(answer[-24:], np.float32), 2 * np.arange(6, dtype=np.float32))


@pytest.mark.slow
def test_others_are_not(served: Served, files: Path) -> None:
    """Who does not know the certificate, who speaks no TLS, who has no token or another one."""
    body, headers = binary()
    with pytest.raises(ssl.SSLCertVerificationError):
        asked(served, None, body, headers | ALLOWED)
    plain = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    with pytest.raises((http.client.HTTPException, OSError)):
        plain.request("POST", "/v2/models/m/infer", body, headers | ALLOWED)
        plain.getresponse()
    for wrong in ({}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": TOKEN}):
        status, answer = asked(served, files, body, headers | wrong)
        assert status == 401 and "wants a token" in json.loads(answer)["error"]


def test_larger_requests_are_refused(served: Served, files: Path) -> None:
    """Before they are read; the next one is answered."""
    body, headers = binary(6000)
    status, answer = asked(served, files, body, headers | ALLOWED)
    assert status == 413 and "65536" in json.loads(answer)["error"].replace(",", "")
    body, headers = binary(1)
    assert asked(served, files, body, headers | ALLOWED)[0] == 200


def test_grpc(served: Served, files: Path) -> None:
    grpc = pytest.importorskip("grpc", reason="grpcio is not installed")
    from glow_runtime.serve.messages import MESSAGES

    trusted = grpc.ssl_channel_credentials((files / "certificate").read_bytes())
    request = MESSAGES["ModelInferRequest"](model_name="m")
    request.inputs.add(name="x", datatype="FP32", shape=[1, 3])
    request.raw_input_contents.append(np.ones(3, np.float32).tobytes())
    method = "/inference.GRPCInferenceService/ModelInfer"
    with grpc.secure_channel(f"127.0.0.1:{served.grpc_port}", trusted) as channel:
        call = channel.unary_unary(method)
        answer = call(
            request.SerializeToString(), timeout=60, metadata=[("authorization", f"Bearer {TOKEN}")]
        )
        got = MESSAGES["ModelInferResponse"].FromString(answer)
        np.testing.assert_array_equal(np.frombuffer(got.raw_output_contents[0], np.float32), [2, 2, 2])
        with pytest.raises(grpc.RpcError) as error:
            call(request.SerializeToString(), timeout=60)
        assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED  # pyright: ignore
    for credentials in (grpc.ssl_channel_credentials(), None):
        place = f"127.0.0.1:{served.grpc_port}"
        made = (
            grpc.insecure_channel(place) if credentials is None else grpc.secure_channel(place, credentials)
        )
        with made as channel, pytest.raises(grpc.RpcError):
            channel.unary_unary(method)(request.SerializeToString(), timeout=10)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["m.onnx", "none"])
def test_what_is_no_key_is_told(files: Path, wrong: str) -> None:
    command = [
        sys.executable,
        "-m",
        "glow_tools.serve",
        str(files / "m.onnx"),
        "--port",
        "0",
        "--device",
        "cpu",
    ]
    tls = ["--tls-key", str(files / wrong), "--tls-certificate", str(files / "certificate")]
    done = subprocess.run([*command, *tls], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert wrong in done.stderr and "--tls-key" in done.stderr
