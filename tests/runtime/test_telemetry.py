"""Requests as spans of OpenTelemetry."""

from __future__ import annotations

from typing import Any

import pytest
from host_networks import feed, layers, number, slow_network, started

import glow_compiler as glow

pytest.importorskip("opentelemetry.sdk", reason="the extra 'telemetry' is not installed")


@pytest.fixture
def exported() -> tuple[Any, Any]:
    """(provider, exporter that keeps spans)."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


def test_a_request_is_a_tree_below_its_caller(exported: tuple[Any, Any]) -> None:
    """Waits and partitions below the request, kernels below their partitions, inside each other's times."""
    provider, exporter = exported
    model = layers(3)
    tracer = glow.Telemetry(provider, kernels=True)
    with glow.HostManager(["cpu", "process"], tracer=tracer) as host:
        host.add_network("net", model, partition=2)
        with provider.get_tracer("test").start_as_current_span("caller") as caller:
            host.run("net", feed(model))
    spans = {s.context.span_id: s for s in exporter.get_finished_spans()}
    (request,) = (s for s in spans.values() if s.name == "net")
    assert request.parent.span_id == caller.get_span_context().span_id
    below = {s.name: s for s in spans.values() if s.parent and s.parent.span_id == request.context.span_id}
    assert {"queue", "device queue", "net@1/main_0", "net@1/main_1"} == below.keys()
    kernels = [s for s in spans.values() if s.attributes.get("glow.category") == "kernel"]
    assert {spans[s.parent.span_id].name for s in kernels} == {"net@1/main_0", "net@1/main_1"}
    for span in spans.values():
        if span.parent and span.name != "net":
            outer = spans[span.parent.span_id]
            assert outer.start_time <= span.start_time + 1000 and span.end_time <= outer.end_time + 1000


def test_errors_and_what_never_ran(exported: tuple[Any, Any]) -> None:
    """Failed, cancelled and late requests end their spans with a reason, and nothing is kept of them."""
    provider, exporter = exported
    tracer = glow.Telemetry(provider)
    with glow.HostManager(["cpu"], max_active=1, max_queue=2, tracer=tracer) as host:
        program = slow_network(host)
        first = host.submit("slow", number(0))
        started(program, 1)
        cancelled, late = host.submit("slow", number(1)), host.submit("slow", number(2), timeout=0.05)
        refused = host.submit("slow", number(3))
        assert isinstance(refused.exception(60), glow.RefusedError) and cancelled.cancel()
        assert isinstance(late.exception(60), glow.DeadlineError)
        program.go.set()
        first.result(60)
    told = sorted(s.status.description or "" for s in exporter.get_finished_spans() if s.name == "slow")
    assert [t.split(":")[0] for t in told] == ["", "cancelled", told[2].split(":")[0], "too many requests"]
    assert "longer than it was allowed" in told[2]
    assert not vars(tracer)["_noted"]


def test_each_request_of_a_batch_has_its_partitions(exported: tuple[Any, Any]) -> None:
    """Those that run together have the same runs below them, and the number of the batch."""
    provider, exporter = exported
    tracer = glow.Telemetry(provider)
    model = layers(1)
    inputs = {"x": feed(model)["x"][:1]}
    with glow.HostManager(["cpu"], tracer=tracer) as host:
        host.add_network("net", model, batching=glow.Batching(4, 600.0))
        for answer in [host.submit("net", inputs) for _ in range(4)]:
            answer.result(60)
    spans = exporter.get_finished_spans()
    requests = [s for s in spans if s.attributes.get("glow.category") == "request"]
    runs = [s for s in spans if s.attributes.get("glow.category") == "partition"]
    assert len(requests) == len(runs) == 4
    assert {s.parent.span_id for s in runs} == {s.context.span_id for s in requests}
    assert [s.attributes.get("glow.batch") for s in runs].count(None) == 1
    assert not vars(tracer)["_noted"] and not vars(tracer)["_batches"]
