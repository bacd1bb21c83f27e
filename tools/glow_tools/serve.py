"""glow-serve: serve models over HTTP and gRPC with the Open Inference Protocol."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import socket
import sys
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glow_dialects.core.errors import GlowError
from glow_tools.command_line import Parser
from glow_tools.common import add_exact, command, count_option, fail, guarded
from glow_tools.progress import Progress
from glow_tools.serve_signals import Signals

if TYPE_CHECKING:
    from glow_runtime.devices.device import Device
    from glow_runtime.host.tracing import Tracer
    from glow_runtime.serve.http import HttpServer, Limits

EXAMPLES = """\
  glow-serve model.onnx
  glow-serve resnet=resnet50.onnx --device cpu --device cpu --replicas 2 --batch 8
  glow-serve models/ --device process:0 --device process:1 --grpc-port 8001
  curl localhost:8000/v2/models/resnet
"""


def arguments() -> Parser:
    """The command line."""
    made = command(
        "glow-serve",
        "Serve models over HTTP and gRPC with the Open Inference Protocol (KServe, version 2).",
        EXAMPLES,
    )
    add = made.add_argument
    told = "[NAME=]FILE, a folder with NAME/VERSION/model.onnx, or a language model"
    add("models", nargs="+", metavar="MODEL", help=told)
    told = "a device, such as cpu or process:0,memory=64M; may be repeated"
    add("--device", action="append", default=[], metavar="DEVICE", help=told)
    told = "accept compiled models (.glow files, machine code) from anyone, and from model folders"
    add("--trust-programs", action="store_true", help=told)
    told = "how to partition: auto, memory, balance, none or a number (default: auto)"
    add("--partition", default="auto", help=told)
    add("--replicas", type=count_option, default=1, help="copies of each model (default: 1)")
    told = "run requests together in batches of up to N samples"
    add("--batch", type=count_option, default=0, metavar="N", help=told)
    add("--delay", type=_seconds, default=2.0, help="milliseconds to wait for a full batch (default: 2)")
    told = "maximum number of running requests (default: 48)"
    add("--max-active", type=count_option, default=48, help=told)
    told = "maximum number of waiting requests (default: 100)"
    add("--max-queue", type=count_option, default=100, help=told)
    add_exact(made)
    texts = made.add_argument_group("language models")
    add = texts.add_argument
    told = "generate up to N texts together (default: 8)"
    add("--texts", type=count_option, default=8, metavar="N", help=told)
    told = "maximum length of each text in tokens (default: it grows)"
    add("--capacity", type=count_option, metavar="N", help=told)
    told = "weight-only quantisation (default: stored, no change)"
    add("--weights", choices=["stored", "int8", "int4"], default="stored", help=told)
    _add_network(made)
    return made


def _add_network(parser: argparse.ArgumentParser) -> None:
    """Options of addresses, limits and trust."""
    net = parser.add_argument_group("connections and limits")
    add = net.add_argument
    add("--address", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this machine only)")
    add("--port", type=_port, default=8000, help="HTTP port; 0 selects a free one (default: 8000)")
    add("--grpc-port", type=_port, help="gRPC port (default: no gRPC)")
    add("--max-bytes", default="64M", help="maximum size of a request (default: 64M)")
    add("--max-json", default="16M", help="maximum size of the JSON of a request (default: 16M)")
    add("--max-head", default="64K", help="maximum size of the header of a request (default: 64K)")
    told = "maximum number of HTTP connections (default: 1000)"
    add("--connections", type=count_option, default=1000, help=told)
    add("--timeout", type=_seconds, default=60.0, help="seconds until an answer must be ready (default: 60)")
    told = "seconds to receive the header of a request (default: 10)"
    add("--head-timeout", type=_seconds, default=10.0, help=told)
    told = "seconds to receive the body of a request (default: 30)"
    add("--body-timeout", type=_seconds, default=30.0, help=told)
    told = "seconds of inactivity before a connection is closed (default: 30)"
    add("--idle-timeout", type=_seconds, default=30.0, help=told)
    told = "seconds for running requests when the server stops (default: 10)"
    add("--grace", type=_seconds, default=10.0, help=told)
    add("--token-file", type=Path, help="file with the token that requests must contain")
    add("--tls-key", type=Path, help="TLS key file; needs --tls-certificate")
    add("--tls-certificate", type=Path, help="TLS certificate file; needs --tls-key")
    add("--control", action="store_true", help="allow clients to load and unload models")
    told = "send traces to the OpenTelemetry collector at OTEL_EXPORTER_OTLP_ENDPOINT"
    add("--opentelemetry", action="store_true", help=told)
    add("--verbose", action="store_true", help="log each request")


def _seconds(text: str) -> float:
    """A time, as an option has it."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e9:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0")
    return value


def _port(text: str) -> int:
    """The number of a port."""
    if (port := count_option(text)) > 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is not a port, a number up to 65535")
    return port


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-serve`."""
    a = arguments().parse_args(argv)
    return guarded(lambda: _run(a))


def _run(a: argparse.Namespace) -> int:
    try:
        import httptools  # noqa: F401  # pyright: ignore[reportUnusedImport]
        import uvicorn  # noqa: F401  # pyright: ignore[reportUnusedImport]

        from glow_runtime.serve.http import HttpServer
    except ImportError as error:
        fail(f"glow-serve needs {error.name}: pip install 'glow-compiler[serve]'")
    import glow_compiler as glow
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
        signals = opened.enter_context(Signals(a.grace).caught())
        places = opened.enter_context(_bound(a.address, a.port))
        if a.grpc_port:
            with _bound(a.address, a.grpc_port):
                pass  # it can be had: gRPC binds it again
        tracer = opened.enter_context(_telemetry()) if a.opentelemetry else None
        host = opened.enter_context(glow.HostManager(_devices(a), a.max_active, a.max_queue, tracer=tracer))
        models = ModelRepository(host, files, options)
        with Progress(f"loading {len(files)} models"):
            models.load_all()
        server = HttpServer(models, limits)
        if texts:
            _serve_texts(a, texts, server, opened)
        asyncio.run(_serve(a, len(files) + len(texts), server, places, signals))
    return 0


def _serve_texts(
    a: argparse.Namespace, texts: Mapping[str, Path], server: HttpServer, opened: contextlib.ExitStack
) -> None:
    """Load language models, and let the server continue texts with them."""
    import glow_compiler as glow
    from glow_backends.base import get_backend
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


@contextlib.contextmanager
def _bound(address: str, port: int) -> Generator[list[socket.socket]]:
    """Sockets of an address; GlowError where they cannot be had. They listen when there is an answer."""
    with contextlib.ExitStack() as opened:
        sockets: list[socket.socket] = []
        try:
            found = socket.getaddrinfo(
                address or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            for family, kind, protocol, _, place in dict.fromkeys(found):
                made = opened.enter_context(socket.socket(family, kind, protocol))
                if sys.platform != "win32":
                    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                made.bind(place)
                sockets.append(made)
        except (OSError, UnicodeError) as error:
            raise _taken(address, port, error) from None
        yield sockets


def _taken(address: str, port: int, error: Exception) -> GlowError:
    reason = getattr(error, "strerror", None) or str(error)
    return GlowError(f"port {port} of {address} cannot be had: {reason}")


def _devices(a: argparse.Namespace) -> list[Device]:
    """The devices that are asked for, else one for each core."""
    from glow_backends.base import cores
    from glow_runtime.devices.device import Device

    asked = map(Device.parse, a.device) if a.device else [Device()] * cores()
    return [replace(device, exact=device.exact or a.exact) for device in asked]


def _check_tls(key: Path | None, certificate: Path | None) -> None:
    """GlowError where there is one without the other, or they are no pair."""
    if (key is None) != (certificate is None):
        raise GlowError("--tls-key and --tls-certificate must be used together")
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
    from glow_runtime.serve.connections import affordable
    from glow_runtime.serve.http import Limits

    token = a.token_file.read_text(encoding="utf-8").strip() if a.token_file else ""
    if a.token_file and not token:
        raise GlowError(f"{a.token_file}: the file has no token")
    return Limits(
        byte_count(a.max_bytes),
        json_bytes=byte_count(a.max_json),
        head_bytes=byte_count(a.max_head),
        head=a.head_timeout,
        idle=a.idle_timeout,
        connections=affordable(a.connections),
        arrival=a.body_timeout,
        answer=a.timeout,
        token=token,
        control=a.control,
    )


async def _serve(
    a: argparse.Namespace, count: int, server: HttpServer, places: list[socket.socket], signals: Signals
) -> None:
    """Serve until a signal ends it; requests that run are answered."""
    from glow_runtime.serve.connections import BACKLOG, look_after, quiet_errors

    loop, ending = asyncio.get_running_loop(), asyncio.Event()
    loop.set_exception_handler(quiet_errors())
    remote = _remote(a, server)
    listening = _uvicorn(a, server)
    serving = asyncio.create_task(listening.serve(places))
    while not listening.started and not serving.done():
        await asyncio.sleep(0.01)
    if not listening.started:
        try:
            await serving
        except OSError as error:
            raise _taken(a.address, a.port, error) from None
    for place in places:
        place.listen(BACKLOG)
        scheme = "https" if a.tls_key else "http"
        print(f"{count} models at {scheme}://{_host(a.address)}:{place.getsockname()[1]}", flush=True)
    signals.on_end = lambda: loop.call_soon_threadsafe(ending.set)
    looking = asyncio.create_task(look_after(listening.server_state.connections))
    await ending.wait()
    ended = asyncio.create_task(asyncio.to_thread(remote.stop, a.grace)) if remote else None
    if left := await server.stopping.finish(a.grace):
        logging.getLogger("glow").warning("%d requests were ended before their answers", left)
    looking.cancel()
    listening.should_exit = True
    await serving
    if ended is not None:
        await ended


def _uvicorn(a: argparse.Namespace, server: HttpServer) -> Any:
    """The server of HTTP, which leaves signals to us."""
    import uvicorn

    from glow_runtime.serve.connections import TAKEN, Connection

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Generator[None]:
            yield

    http: Any = partial(Connection, limits=server.limits)
    config = uvicorn.Config(
        server.app,
        http=http,
        ws="none",
        lifespan="off",
        backlog=TAKEN,
        log_level="info" if a.verbose else "warning",
        access_log=a.verbose,
        timeout_keep_alive=max(1, int(a.idle_timeout)),
        timeout_graceful_shutdown=1,
        ssl_keyfile=a.tls_key,
        ssl_certfile=a.tls_certificate,
    )
    return Server(config)


def _remote(a: argparse.Namespace, server: HttpServer) -> Any:
    """The server of gRPC, where one is asked for."""
    if a.grpc_port is None:
        return None
    try:
        from glow_runtime.serve.grpc_server import GrpcServer
    except ImportError:
        fail("gRPC needs grpcio: pip install 'glow-compiler[serve]'")
    remote = GrpcServer(server.models, server.limits)
    pair = [p.read_bytes() if p else b"" for p in (a.tls_key, a.tls_certificate)]
    port = remote.start(f"{_host(a.address)}:{a.grpc_port}", *pair)
    print(f"gRPC at {_host(a.address)}:{port}", flush=True)
    return remote


def _host(address: str) -> str:
    """An address as it is before a port."""
    return f"[{address}]" if ":" in address else address


if __name__ == "__main__":
    raise SystemExit(main())
