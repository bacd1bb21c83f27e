"""glow-serve: serve models over HTTP and gRPC, by the Open Inference Protocol."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import sys
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glow_dialects.core.errors import GlowError
from glow_tools.common import add_exact, command, count_option, fail, guarded

if TYPE_CHECKING:
    from glow_runtime.devices.device import Device
    from glow_runtime.host.tracing import Tracer
    from glow_runtime.serve.http import Limits
    from glow_runtime.serve.repository import ModelRepository

EXAMPLES = """\
  glow-serve model.onnx
  glow-serve resnet=resnet50.onnx --device cpu --device cpu --replicas 2 --batch 8
  glow-serve models/ --device process:0 --device process:1 --grpc-port 8001
  curl localhost:8000/v2/models/resnet
"""


def _arguments() -> argparse.ArgumentParser:
    made = command(
        "glow-serve",
        "Serve models over HTTP (and gRPC), by the Open Inference Protocol (KServe, version 2).",
        EXAMPLES,
    )
    add = made.add_argument
    add(
        "models",
        nargs="+",
        metavar="MODEL",
        help="[NAME=]FILE, a folder with NAME/VERSION/model.onnx, or a language model",
    )
    add("--device", action="append", default=[], metavar="DEVICE", help="cpu, process:0,memory=64M, ...")
    add(
        "--trust-programs",
        action="store_true",
        help="take compiled models (.glow, machine code) from folders, and whoever saved them",
    )
    add("--partition", default="auto", help="auto, memory, balance, none or a number (default: auto)")
    add("--replicas", type=count_option, default=1, help="copies of each model (default: 1)")
    add("--batch", type=count_option, default=0, metavar="N", help="form batches of up to N samples")
    add("--delay", type=float, default=2.0, help="milliseconds that a batch waits for others (default: 2)")
    add("--max-active", type=count_option, default=48, help="requests that run at a time (default: 48)")
    add("--max-queue", type=count_option, default=100, help="requests that wait (default: 100)")
    add_exact(made)
    texts = made.add_argument_group("language models")
    add = texts.add_argument
    add("--texts", type=count_option, default=8, metavar="N", help="continue up to N together (default: 8)")
    add(
        "--capacity", type=count_option, metavar="N", help="tokens that each has room for (default: it grows)"
    )
    add("--weights", choices=["stored", "int8", "int4"], default="stored", help="bits of the weights")
    net = made.add_argument_group("the network")
    add = net.add_argument
    add("--address", default="127.0.0.1", help="where to listen (default: 127.0.0.1, this machine only)")
    add("--port", type=count_option, default=8000, help="of HTTP; 0 is any (default: 8000)")
    add("--grpc-port", type=count_option, help="of gRPC; without it there is none")
    add("--max-bytes", default="64M", help="of a request (default: 64M)")
    add("--timeout", type=float, default=60.0, help="seconds for an answer (default: 60)")
    add("--token-file", type=Path, help="a file with the token that requests must bring")
    add("--tls-key", type=Path, help="key of TLS, with --tls-certificate")
    add("--tls-certificate", type=Path, help="certificate of TLS")
    add("--control", action="store_true", help="let clients load and unload models")
    add(
        "--opentelemetry",
        action="store_true",
        help="send a span of each request to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names",
    )
    add("--verbose", action="store_true", help="log each request")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-serve`."""
    arguments = _arguments().parse_args(argv)
    return guarded(lambda: _run(arguments))


def _run(a: argparse.Namespace) -> int:
    try:
        import uvicorn  # noqa: F401  # pyright: ignore[reportUnusedImport]

        from glow_runtime.serve.http import HttpServer
    except ImportError as error:
        fail(f"glow-serve needs {error.name}: pip install 'glow-compiler[serve]'")
    import glow_compiler as glow
    from glow_backends.base import get_backend
    from glow_compiler.api import trusted
    from glow_runtime.serve.repository import ModelRepository, find_models, is_language_model

    logging.basicConfig(
        level=logging.INFO if a.verbose else logging.WARNING, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("glow").setLevel(logging.INFO)
    _check_tls(a.tls_key, a.tls_certificate)
    limits = _limits(a)
    texts = {n: p for n, p in map(_named, a.models) if is_language_model(p)}
    files = find_models([m for m in a.models if not is_language_model(_named(m)[1])], a.trust_programs)
    if a.trust_programs:
        files = [replace(f, path=trusted(f.path)) for f in files]
    partition = int(a.partition) if a.partition.isdecimal() else a.partition
    options: dict[str, Any] = {"partition": partition, "replicas": a.replicas}
    if a.batch:
        options["batching"] = glow.Batching(a.batch, a.delay / 1e3)
    with contextlib.ExitStack() as opened:
        tracer = opened.enter_context(_telemetry()) if a.opentelemetry else None
        host = opened.enter_context(glow.HostManager(_devices(a), a.max_active, a.max_queue, tracer=tracer))
        models = ModelRepository(host, files, options)
        models.load_all()
        server = HttpServer(models, limits)
        if texts:
            from glow_tools.serve_text import TextServer

            backend = get_backend("cpu").in_float(a.exact)
            loaded = {
                n: glow.LanguageModel(p, backend=backend, weights=a.weights, capacity=a.capacity)
                for n, p in texts.items()
            }
            batches = {
                name: opened.enter_context(glow.ContinuousBatching(model, a.texts, a.max_queue))
                for name, model in loaded.items()
            }
            TextServer(server, batches)
        asyncio.run(_serve(a, len(files) + len(texts), models, server.app, limits))
    return 0


def _devices(a: argparse.Namespace) -> list[Device]:
    """The devices that are asked for, else one for each core."""
    from glow_backends.base import cores
    from glow_runtime.devices.device import Device

    asked = map(Device.parse, a.device) if a.device else [Device()] * cores()
    return [replace(device, exact=device.exact or a.exact) for device in asked]


def _check_tls(key: Path | None, certificate: Path | None) -> None:
    """GlowError where there is one without the other, or they are no pair."""
    if (key is None) != (certificate is None):
        raise GlowError("--tls-key and --tls-certificate go together")
    if key is None or certificate is None:
        return
    import ssl

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, lambda: "")
    except OSError as error:  # ssl.SSLError is one
        reason = error.strerror or str(error)
        raise GlowError(
            f"--tls-key {key}, --tls-certificate {certificate}: expected a key without a password and its "
            f"certificate, in PEM: {reason}"
        ) from None


@contextlib.contextmanager
def _telemetry() -> Generator[Tracer]:
    """A tracer that sends spans to a collector, by HTTP."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # pyright: ignore[reportMissingImports]
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        fail(f"--opentelemetry needs {error.name}: pip install 'glow-compiler[telemetry]'")
    from glow_runtime.host.telemetry import Telemetry

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    yield Telemetry(provider, limit=1)
    provider.shutdown()


def _named(text: str) -> tuple[str, Path]:
    """The name and path of `NAME=PATH`, or of a path alone."""
    name, equals, place = text.rpartition("=")
    return (name if equals else Path(place).stem), Path(place)


def _limits(a: argparse.Namespace) -> Limits:
    from glow_dialects.core.byte_counts import byte_count
    from glow_runtime.serve.http import Limits

    token = a.token_file.read_text(encoding="utf-8").strip() if a.token_file else ""
    if a.token_file and not token:
        raise GlowError(f"{a.token_file}: the file has no token")
    return Limits(byte_count(a.max_bytes), answer=a.timeout, token=token, control=a.control)


async def _serve(
    a: argparse.Namespace, count: int, models: ModelRepository, app: Any, limits: Limits
) -> None:
    """Serve until a signal ends it; requests that run are answered."""
    import uvicorn

    config = uvicorn.Config(
        app,
        host=a.address,
        port=a.port,
        log_level="info" if a.verbose else "warning",
        access_log=a.verbose,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
        ssl_keyfile=a.tls_key,
        ssl_certfile=a.tls_certificate,
    )
    server = uvicorn.Server(config)
    remote: Any = None
    if a.grpc_port is not None:
        try:
            from glow_runtime.serve.grpc_server import GrpcServer
        except ImportError:
            fail("gRPC needs grpcio: pip install 'glow-compiler[serve]'")
        remote = GrpcServer(models, limits)
        pair = [p.read_bytes() if p else b"" for p in (a.tls_key, a.tls_certificate)]
        port = remote.start(f"{a.address}:{a.grpc_port}", *pair)
        print(f"gRPC at {a.address}:{port}", flush=True)
    task = asyncio.create_task(server.serve())
    while not server.started and not task.done():
        await asyncio.sleep(0.01)
    for listener in server.servers if server.started else ():
        for place in listener.sockets:
            scheme = "https" if a.tls_key else "http"
            print(f"{count} models at {scheme}://{a.address}:{place.getsockname()[1]}", flush=True)
    try:
        await task
    finally:
        if remote is not None:
            await asyncio.to_thread(remote.stop)
    if not server.started:
        sys.stdout.flush()
        fail(f"port {a.port} of {a.address} cannot be had")


if __name__ == "__main__":
    raise SystemExit(main())
