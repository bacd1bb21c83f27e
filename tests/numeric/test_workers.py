"""Workers that share the items of a kernel: each item is done once, whoever does it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from llvmlite import ir

from glow_backends.cpu.emit.builder import I64, TICKET_BYTES, KernelBuilder
from glow_backends.cpu.standalone import StandaloneKernel, aligned
from glow_backends.cpu.target import CpuTarget, host

THREADS = 3


def emit(module: ir.Module, name: str, items: int, target: CpuTarget) -> ir.Function:
    """done[item] += 1; who[item] = the worker."""
    k = KernelBuilder(module, name, 2, target)
    done, who = k.operands
    with k.items(items) as item:
        k.store(k.b.add(k.load(done, item, I64), k.i(1)), done, item, I64)
        k.store(k.worker, who, item, I64)
    return k.finish()


@pytest.mark.parametrize("items", [0, 1, 2, 7, 3000])
def test_each_item_is_done_once(items: int) -> None:
    kernel = StandaloneKernel(emit, items, host(THREADS))
    done, who = (aligned(np.zeros(max(items, 1), np.int64)) for _ in range(2))
    tickets = aligned(np.zeros(THREADS * TICKET_BYTES, np.uint8))
    start = Barrier(THREADS)

    def run(worker: int) -> None:
        start.wait()
        kernel.run_worker(worker, tickets, done, who)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, range(THREADS)))
    assert done[:items].tolist() == [1] * items


def test_a_worker_begins_with_its_own_part_and_helps() -> None:
    """The last worker comes alone after the first has begun: its part first, then what is left."""
    kernel = StandaloneKernel(emit, 9, host(THREADS))
    done, who = (aligned(np.zeros(9, np.int64)) for _ in range(2))
    tickets = aligned(np.zeros(THREADS * TICKET_BYTES, np.uint8))
    tickets.view(np.int64)[0] = 2  # worker 0 holds two items of its three
    kernel.run_worker(2, tickets, done, who)
    assert done.tolist() == [0, 0, 1, 1, 1, 1, 1, 1, 1]
    assert who[2:].tolist() == [2] * 7
