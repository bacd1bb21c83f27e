"""Latency of servers at fixed rates of requests, and throughput: `python -m benchmarks.serving MODEL`.

Requests leave when their time has come, whether earlier ones are answered or not (an open loop), by
`tritonclient`, from processes of their own; latencies count from that moment. Compared are glow-serve, the
same server with onnxruntime in the place of our programs, and MLServer (`--mlserver COMMAND`, of
an environment that has onnxruntime), to which tensors go as JSON, as it takes no others; `bare` is an answer
of fixed bytes by Starlette and uvicorn alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

MLSERVER = """
import onnxruntime, numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse

class Onnx(MLModel):
    async def load(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(self.settings.parameters.uri, options)
        return True

    async def predict(self, payload):
        feed = {i.name: NumpyCodec.decode_input(i) for i in payload.inputs}
        names = [o.name for o in self.session.get_outputs()]
        results = self.session.run(names, feed)
        outputs = [NumpyCodec.encode_output(n, r) for n, r in zip(names, results)]
        return InferenceResponse(model_name=self.name, outputs=outputs)
"""


class OrtNet:
    """A session of onnxruntime, run as a device runs a program."""

    def __init__(self, path: str) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.names = [o.name for o in self.session.get_outputs()]

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name."""
        return dict(zip(self.names, self.session.run(self.names, dict(inputs)), strict=True))


def serve_bare(port: int) -> None:
    """Starlette and uvicorn with the least that answers: what any such server costs."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    async def infer(request: Request) -> Response:
        body = await request.body()
        length = int(request.headers["inference-header-content-length"])
        (given,) = json.loads(body[:length])["inputs"]
        data = np.frombuffer(body[length:], np.uint8).tobytes()
        answer = {"model_name": "model", "model_version": "1", "outputs": [given | {"name": "y"}]}
        head = json.dumps(answer).encode()
        return Response(head + data, headers={"inference-header-content-length": str(len(head))})

    async def ready(request: Request) -> Response:
        return JSONResponse({})

    routes = [
        Route("/v2/models/model/infer", infer, methods=["POST"]),
        Route("/v2/models/model/ready", ready),
    ]
    uvicorn.run(Starlette(routes=routes), port=port, log_level="warning")


def serve_onnxruntime(path: str, port: int) -> None:
    """Our server, with onnxruntime on the device in the place of our program."""
    import uvicorn

    import glow_compiler as glow
    from glow_runtime.serve.http import HttpServer
    from glow_runtime.serve.repository import ModelFile, ModelRepository

    host = glow.HostManager(["cpu"])
    models = ModelRepository(host, [ModelFile("model", "1", Path(path))], {})
    models.load_all()
    manager = host.devices[0]
    (name,) = vars(manager)["_runners"]
    vars(manager)["_runners"][name] = OrtNet(path)
    uvicorn.run(HttpServer(models).app, port=port, log_level="warning")


@contextlib.contextmanager
def server(kind: str, path: str, mlserver: str) -> Generator[int]:
    """The port of a server of a kind that is ready."""
    port = free_port()
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, "-m", "benchmarks.serving", path, f"--serve-{kind}", str(port)]
        if kind == "glow":
            command = [sys.executable, "-m", "glow_tools.serve", f"model={path}", "--port", str(port)]
        elif kind == "mlserver":
            folder = Path(name)
            (folder / "onnx_model.py").write_text(MLSERVER)
            model = {"name": "model", "implementation": "onnx_model.Onnx", "parameters": {"uri": path}}
            (folder / "model-settings.json").write_text(json.dumps(model))
            ports = {"http_port": port, "grpc_port": free_port(), "metrics_port": free_port()}
            (folder / "settings.json").write_text(
                json.dumps({"debug": False, "parallel_workers": 0, **ports})
            )
            command = [mlserver, "start", name]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(port)
            yield port
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(port: int) -> None:
    from urllib.request import urlopen

    for _ in range(600):
        with (
            contextlib.suppress(OSError),
            urlopen(f"http://127.0.0.1:{port}/v2/models/model/ready") as answer,
        ):
            if answer.status == 200:
                return
        time.sleep(0.1)
    raise SystemExit("the server does not come up")


def client_call(port: int, name: str, output: str, array: np.ndarray, binary: bool) -> Callable[[], None]:
    """One request by a client of its own."""
    from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput
    from tritonclient.utils import np_to_triton_dtype

    client = InferenceServerClient(f"127.0.0.1:{port}")
    given = InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    wanted = [InferRequestedOutput(output, binary_data=binary)]

    def call() -> None:
        given.set_data_from_numpy(array, binary_data=binary)
        client.infer("model", [given], outputs=wanted).as_numpy(output)

    return call


#: Processes that send, and seconds of each measurement.
CLIENTS, SECONDS = 6, 5.0


def send(
    make: Callable[[], Callable[[], None]], first: int, rate: float, count: int, told: Any, starts: Any
) -> None:
    """A client's part of the requests: every one that is due, late where it still waits for an answer."""
    call = make()
    for _ in range(3):
        call()
    told.put(None)
    start = starts.get()
    latencies: list[float] = []
    for number in range(first, count, CLIENTS):
        due = start + number / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        call()
        latencies.append(time.perf_counter() - due)
    told.put(latencies)


def open_loop(make: Callable[[], Callable[[], None]], rate: float, seconds: float) -> list[float]:
    """Seconds from the moment at which each request was due to its answer, sorted."""
    forks = multiprocessing.get_context("fork")
    told, starts = forks.Queue(), forks.Queue()
    count = max(40, int(rate * seconds))
    clients = [forks.Process(target=send, args=(make, n, rate, count, told, starts)) for n in range(CLIENTS)]
    for client in clients:
        client.start()
    for _ in clients:
        told.get(timeout=60)
    begin = time.perf_counter() + 0.1
    for _ in clients:
        starts.put(begin)
    latencies = [latency for _ in clients for latency in told.get(timeout=seconds * 20)]
    for client in clients:
        client.join()
    return sorted(latencies)


def measure(kind: str, a: argparse.Namespace, name: str, output: str, array: np.ndarray) -> None:
    """Print the latencies of a server."""
    with server(kind, a.model, a.mlserver) as port:
        for rate in a.rates:
            make = partial(client_call, port, name, output, array, kind != "mlserver")
            told = open_loop(make, rate, a.seconds)
            p50, p99 = (1e3 * told[int(q * len(told))] for q in (0.5, 0.99))
            print(f"{kind:12} {rate:7g}/s  p50 {p50:8.2f} ms  p99 {p99:8.2f} ms", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--rates", type=float, nargs="+", default=[20, 100, 400])
    parser.add_argument("--servers", nargs="+", default=["glow", "onnxruntime"])
    parser.add_argument("--mlserver", default="", metavar="COMMAND")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--shape", type=int, nargs="+", help="of the input, where the model leaves it open")
    parser.add_argument("--serve-bare", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--serve-onnxruntime", type=int, default=0, help=argparse.SUPPRESS)
    a = parser.parse_args()
    a.model = os.path.abspath(a.model)
    if a.serve_bare:
        serve_bare(a.serve_bare)
    if a.serve_onnxruntime:
        serve_onnxruntime(a.model, a.serve_onnxruntime)
    if a.serve_bare or a.serve_onnxruntime:
        return
    net = OrtNet(a.model)
    (only,) = net.session.get_inputs()
    shape = a.shape or [d if isinstance(d, int) else 1 for d in only.shape]
    dtype = {"tensor(float)": np.float32, "tensor(int32)": np.int32, "tensor(int64)": np.int64}[only.type]
    array = (np.random.default_rng(0).random(shape) * 8).astype(dtype)
    for kind in [*a.servers, *(["mlserver"] if a.mlserver else [])]:
        measure(kind, a, only.name, net.names[0], array)


if __name__ == "__main__":
    main()
