"""The list of Glow's runtime tests is whole, and what it names is there."""

from __future__ import annotations

from importlib import import_module

from glow_tests import GLOW


def test_the_list_is_whole() -> None:
    counts = {suite: len(tests) for suite, tests in GLOW.items()}
    assert counts == {
        "HostManagerTest": 18, "ThreadPoolExecutorTest": 8, "ThreadPoolTest": 6, "DeviceManagerTest": 13,
        "ProvisionerTest": 3, "DeferredWeightLoaderTest": 3, "PartitionerTest": 43, "TraceEventsTest": 15,
    }  # fmt: skip
    assert sum(counts.values()) == 109


def test_what_it_names_is_there() -> None:
    for name, where in ((n, w) for tests in GLOW.values() for n, w in tests.items()):
        module, colons, function = where.partition("::")
        if colons:
            assert callable(getattr(import_module(module), function, None)), f"{name}: {where}"
        else:
            assert " " in where, f"{name}: neither a test nor a reason"
