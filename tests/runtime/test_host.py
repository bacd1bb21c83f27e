"""HostManager: the behaviours that Glow's HostManagerTest checks, on each kind of device, and what it adds.

Names of the list are in parentheses. Not here: P2P as a switch of its own: values that only partitions of one
device read stay there (DRT), others go through the host's memory, whatever the devices are.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from host_networks import KINDS, expected, feed, layers, number, same, slow_network, started

import glow_compiler as glow
from glow_runtime.devices.manager import Run


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def test_new_host(kind: str) -> None:
    """(newHostManager)"""
    with glow.HostManager([kind, kind]) as host:
        assert host.health() == {f"{kind}:0": "ready", f"{kind}:1": "ready"}
        assert host.ready and host.networks == {}
    assert not host.ready


def test_add_network(kind: str) -> None:
    """(addNetwork) Six functions on one device."""
    models = {f"net{i}": layers(1, seed=i) for i in range(6)}
    with glow.HostManager([kind]) as host:
        for name, model in models.items():
            host.add_network(name, model)
        for name, model in models.items():
            same(host.run(name, feed(model)), expected(model, feed(model), kind))


def test_queue_overflow(kind: str) -> None:
    """(queueOverflow) One runs, one waits, 100 come: each has its answer or is refused, at once."""
    model = layers(1)
    with glow.HostManager([kind], max_active=1, max_queue=1) as host:
        host.add_network("net", model)
        futures = [host.submit("net", feed(model)) for _ in range(100)]
        errors = [f.exception(120) for f in futures]
        assert all(e is None or isinstance(e, glow.RefusedError) for e in errors)
        assert errors[0] is None
        assert host.statistics()["net"].refused == sum(e is not None for e in errors)


def test_overflow_is_refused_with_a_reason() -> None:
    with glow.HostManager(["cpu"], max_active=1, max_queue=1) as host:
        program = slow_network(host)
        first, second, third = (host.submit("slow", number(i)) for i in range(3))
        assert isinstance(third.exception(0), glow.RefusedError)
        assert "1 run and 1 wait" in str(third.exception())
        program.go.set()
        assert first.result(60)["y"] == 0 and second.result(60)["y"] == 1


def test_run_network_twice(kind: str) -> None:
    """(runNetwork) The same inputs again."""
    model = layers()
    inputs = feed(model)
    with glow.HostManager([kind]) as host:
        host.add_network("net", model)
        for _ in range(2):
            same(host.run("net", inputs), expected(model, inputs, kind))


@pytest.mark.slow
def test_concurrent_add_remove_unique(kind: str) -> None:
    """(ConcurrentAddRemoveUnique) Six threads, each with its own names."""
    model = layers(1)
    with glow.HostManager([kind]) as host:

        def work(thread: int) -> None:
            for turn in range(4):
                host.add_network(f"net{thread}-{turn}", model)
                host.remove_network(f"net{thread}-{turn}")

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))
        assert host.networks == {} and host.devices[0].used == 0


def test_concurrent_add_remove_duplicate(kind: str) -> None:
    """(ConcurrentAddRemoveDuplicate) One name: errors are allowed, nothing else."""
    model = layers(1)
    with glow.HostManager([kind]) as host:

        def work(thread: int) -> None:
            for _ in range(4):
                for change in (lambda: host.add_network("net", model), lambda: host.remove_network("net")):
                    with suppress(glow.NetworkError):
                        change()

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))
        host.remove_network("net")
        assert host.networks == {} and host.devices[0].used == 0


def test_run_network_concurrent(kind: str) -> None:
    """(runNetworkConcurrent) 50 at once, each with its own inputs."""
    model = layers()
    with glow.HostManager([kind]) as host:
        host.add_network("net", model)
        futures = [host.submit("net", feed(model, seed)) for seed in range(50)]
        for seed, future in enumerate(futures):
            same(
                future.result(120), expected(model, feed(model, seed), kind) if seed < 5 else future.result()
            )
        assert host.statistics()["net"].succeeded == 50


def test_saturate_host(kind: str) -> None:
    """(testSaturateHost) As many replicas as there is room for; all of them work."""
    model = layers(1)
    with glow.HostManager([kind, kind]) as host:
        network = host.add_network("net", model, replicas="saturate")
        assert {m.name for r in network.replicas for m in r.managers} == {f"{kind}:0", f"{kind}:1"}
        futures = [host.submit("net", feed(model, seed)) for seed in range(50)]
        for future in futures:
            future.result(120)
        assert all(c.runs > 0 for c in host.device_statistics().values())


def test_configured_host() -> None:
    """(ConfigureHostManager) One active, no queue: the second is refused at once."""
    with glow.HostManager(["cpu"], max_active=1, max_queue=0) as host:
        program = slow_network(host)
        first = host.submit("slow", number(1))
        second = host.submit("slow", number(2))
        assert second.done() and isinstance(second.exception(), glow.RefusedError)
        program.go.set()
        assert first.result(60)["y"] == 1
    for limits in ((0, 1), (1, -1)):
        with pytest.raises(glow.NetworkError, match="max_active"):
            glow.HostManager(["cpu"], *limits)


def test_priorities() -> None:
    """(QueueTest) What waits goes by priority, smaller first, then as it came."""
    with glow.HostManager(["cpu"], max_active=1) as host:
        program = slow_network(host)
        futures = [host.submit("slow", number(0))]
        started(program, 1)
        futures += [host.submit("slow", number(n), priority=p) for n, p in ((1, 1), (2, 0), (3, 1), (4, 0))]
        program.go.set()
        for future in futures:
            future.result(60)
        assert program.started == ["0.0", "2.0", "4.0", "1.0", "3.0"]


@pytest.mark.slow
def test_partition_config_replication(kind: str) -> None:
    """(testPartitionConfigReplication) Two partitions, two replicas, four devices."""
    model = layers(4)
    inputs = feed(model)
    with glow.HostManager([kind] * 4) as host:
        network = host.add_network("net", model, partition=2, replicas=2)
        assert len(network.partitions) == len(network.replicas) == 2
        used = [m.name for r in network.replicas for m in r.managers]
        assert sorted(used) == [f"{kind}:{i}" for i in range(4)]
        futures = [host.submit("net", inputs) for _ in range(20)]
        for future in futures:
            same(future.result(120), expected(model, inputs, kind))
        assert all(c.runs > 0 for c in host.device_statistics().values())


def test_single_partition_replication(kind: str) -> None:
    """(testSinglePartitionReplication)"""
    model = layers(1)
    with glow.HostManager([kind] * 3) as host:
        network = host.add_network("net", model, replicas=3)
        assert len({r.managers[0] for r in network.replicas}) == 3
        same(host.run("net", feed(model)), expected(model, feed(model), kind))


@pytest.mark.slow
@pytest.mark.parametrize("requests", [2, 50])
def test_static_assignment(kind: str, requests: int) -> None:
    """(StaticAssignment..., ...Concurrent) Four partitions on three devices, again and again."""
    model = layers(4, join=True)
    inputs = feed(model)
    with glow.HostManager([kind] * 3) as host:
        network = host.add_network("net", model, partition=4)
        assert len(network.partitions) == 4
        wanted = expected(model, inputs, kind)
        for future in [host.submit("net", inputs) for _ in range(requests)]:
            same(future.result(120), wanted)


def test_tensors_stay_on_their_device() -> None:
    """(StaticAssignment with DRT) Two partitions on one device: the value between them never leaves it."""
    model = layers(2)
    inputs = feed(model)
    with glow.HostManager(["process"]) as host:
        network = host.add_network("net", model, partition=2)
        between = network.partitions[0].outputs
        sent: list[dict[str, Any]] = []
        submit = host.devices[0].submit

        def watched(run: Run) -> None:
            sent.append(dict(run.inputs))
            submit(run)

        host.devices[0].submit = watched  # pyright: ignore
        for _ in range(3):
            same(host.run("net", inputs), expected(model, inputs))
        values = [v for arrays in sent for n, v in arrays.items() if n in between]
        assert len(values) == 3 and not any(isinstance(v, np.ndarray) for v in values)


def test_device_registry(kind: str) -> None:
    """(testHostManagerRegistry) Which devices have which network."""
    with glow.HostManager([kind, kind]) as host:
        host.add_network("all", layers(1), replicas="saturate")
        host.add_network("one", layers(2))
        have = {n: s.functions for n, s in host.device_statistics().items()}
        assert sum(any(f.startswith("all@") for f in functions) for functions in have.values()) == 2
        assert sum(any(f.startswith("one@") for f in functions) for functions in have.values()) == 1


@pytest.mark.parametrize("waits", [False, True])
def test_timeout(waits: bool) -> None:
    """(testTimeout) A request fails when its time is over, whether it waits or runs."""
    with glow.HostManager(["cpu"], max_active=1) as host:
        program = slow_network(host)
        first = host.submit("slow", number(0), timeout=None if waits else 0.05)
        late = host.submit("slow", number(1), timeout=0.05) if waits else first
        began = time.perf_counter()
        with pytest.raises(glow.DeadlineError, match="'slow'.*longer"):
            late.result(60)
        with pytest.raises(TimeoutError):
            late.result(60)
        assert time.perf_counter() - began < 30
        program.go.set()
        if waits:
            assert first.result(60)["y"] == 0
        host.remove_network("slow")
        assert program.started == ["0.0"]
