"""The `ray` device, on a cluster of two nodes on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from host_networks import expected, feed, layers, same

import glow_compiler as glow

ray: Any = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    options = {"num_cpus": 2, "object_store_memory": 80 << 20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=options)
    made.second = made.add_node(num_cpus=2, object_store_memory=80 << 20, resources={"second": 4})
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
    yield made
    ray.shutdown()
    made.shutdown()


def device(**options: Any) -> glow.Device:
    return glow.Device("ray", options={"actor": {"num_cpus": 0.1, **options}}, retry=True)


def test_partitions_and_replicas(cluster: Any) -> None:
    """Two partitions, twice, on four actors."""
    model = layers(4)
    inputs = feed(model)
    with glow.HostManager([device() for _ in range(4)]) as host:
        network = host.add_network("net", model, partition=2, replicas=2)
        assert (len(network.partitions), len(network.replicas)) == (2, 2)
        for future in [host.submit("net", inputs) for _ in range(12)]:
            same(future.result(120), expected(model, inputs))
        with pytest.raises(glow.BindingError, match="missing input"):
            host.run("net", {})


def test_an_actor_that_ends(cluster: Any) -> None:
    """It is replaced; with `retry` nobody notices."""
    model = layers(2)
    inputs = feed(model)
    with glow.HostManager([device()]) as host:
        host.add_network("net", model)
        same(host.run("net", inputs), expected(model, inputs))
        ray.kill(host.devices[0].actor)  # pyright: ignore
        for _ in range(1000):  # it is told to end, and answers until it does
            same(host.run("net", inputs), expected(model, inputs))
            if host.device_statistics()["ray:0"].restarts:
                break
        assert host.device_statistics()["ray:0"].restarts == 1


def test_a_node_that_ends(cluster: Any) -> None:
    """Replicas on two nodes, one of which is killed: service goes on."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    model = layers(2)
    inputs = feed(model)
    second = NodeAffinitySchedulingStrategy(cluster.second.node_id, soft=True)
    with glow.HostManager([device(), device(scheduling_strategy=second)]) as host:
        host.add_network("net", model, replicas=2)
        for future in [host.submit("net", inputs) for _ in range(8)]:
            same(future.result(120), expected(model, inputs))
        cluster.remove_node(cluster.second)
        answers = [host.submit("net", inputs) for _ in range(8)]
        good = 0
        for future in answers:
            error = future.exception(120)
            assert error is None or isinstance(error, glow.DeviceError)
            good += error is None
        assert good >= 4
        same(host.run("net", inputs), expected(model, inputs))
