"""The run-time support of every program: calls back to the host, and the barrier between its workers."""

from __future__ import annotations

from glow_backends.cpu.emit.builder import TICKET_BYTES
from glow_backends.cpu.target import CpuTarget

MAIN = "glow_main"
HOST = "glow_host"
BARRIER = "glow_barrier"
ENTER = "glow_enter"
#: Where in the workers' state their tickets begin: the barrier's count of those who wait is before them,
#: and its generation a line further.
TICKETS = 128
_SPINS = 64
"""Looks before a waiting thread lets others run: who it waits for may be one of them."""
POST = "glow_post"
SERVE = "glow_serve"
GATE_LINE = 64
"""Bytes of the workers' gate for its run, and for each worker."""
_YIELDS = 100
"""Times that a worker lets others run before it sleeps."""


_CALLS = f"""
define void @{HOST}(ptr %io, i64 %slot, i64 %step, i64 %worker) {{
entry:
  %first = icmp eq i64 %worker, 0
  br i1 %first, label %call, label %done
call:
  %entry.slot = getelementptr ptr, ptr %io, i64 %slot
  %callback = load ptr, ptr %entry.slot
  call void %callback(i64 %step)
  br label %done
done:
  ret void
}}

define void @{ENTER}(ptr %frame) {{
  %main = load ptr, ptr %frame
  %io.at = getelementptr ptr, ptr %frame, i64 1
  %weights.at = getelementptr ptr, ptr %frame, i64 2
  %arena.at = getelementptr ptr, ptr %frame, i64 3
  %worker.at = getelementptr ptr, ptr %frame, i64 4
  %io = load ptr, ptr %io.at
  %weights = load ptr, ptr %weights.at
  %arena = load ptr, ptr %arena.at
  %worker = load i64, ptr %worker.at
  tail call void %main(ptr %io, ptr %weights, ptr %arena, i64 %worker)
  ret void
}}
"""


def state_bytes(threads: int) -> int:
    """Bytes of the state that workers share, zeros before the first run."""
    return TICKETS + TICKET_BYTES * threads


def support_text(target: CpuTarget) -> str:
    """LLVM IR of `glow_host(io, slot, step, worker)`, `glow_barrier(io, slot)` and `glow_enter(frame)`,
    and where there are several threads of `glow_post` and `glow_serve`.

    `glow_enter` calls frame[0](frame[1], ..., frame[4]): one argument costs a caller less than four.
    Worker 0 calls `io[slot](step)`. The barrier is the usual counter with generations: the last to
    come resets the count and the tickets and starts the next generation, the others look at it until it
    changes.
    """
    gate = _gate_text(target) if target.threads > 1 else ""
    return barrier_text(target) + _CALLS + gate


def imported(target: CpuTarget, name: str) -> str:
    """What a declaration ends with of a function that the host gives to a module."""
    named = f' "wasm-import-module"="env" "wasm-import-name"="{name}"'
    return named if target.triple.startswith("wasm") else ""


def _yielding(target: CpuTarget) -> str:
    """The function of the system that lets another thread run; empty where there is no system."""
    if "windows" in target.triple:
        return "SwitchToThread"
    hosted = any(system in target.triple for system in ("linux", "apple", "darwin", "wasm"))
    return "sched_yield" if hosted else ""


def barrier_text(target: CpuTarget) -> str:
    """LLVM IR of `glow_barrier(io, slot)`; where no operating system is, workers that wait only look."""
    x86 = "x86" in target.triple
    pause = "call void @llvm.x86.sse2.pause()" if x86 else ""
    declared = "declare void @llvm.x86.sse2.pause()" if x86 else ""
    yielding = _yielding(target)
    tickets = (TICKETS + TICKET_BYTES * worker for worker in range(target.threads))
    yields = f"%ignored = call i32 @{yielding}()" if yielding else ""
    cleared = (
        "  %t{0} = getelementptr i8, ptr %count, i64 {0}\n  store atomic i64 0, ptr %t{0} monotonic, align 8"
    )
    reset = "\n".join(cleared.format(at) for at in tickets)
    return f"""
target triple = "{target.triple}"

{f"declare i32 @{yielding}()" + imported(target, yielding) if yielding else ""}
{declared}

define void @{BARRIER}(ptr %io, i64 %slot) {{
entry:
  %entry.slot = getelementptr ptr, ptr %io, i64 %slot
  %count = load ptr, ptr %entry.slot
  %generation = getelementptr i8, ptr %count, i64 64
  %mine = load atomic i64, ptr %generation acquire, align 8
  %before = atomicrmw add ptr %count, i64 1 acq_rel
  %last = icmp eq i64 %before, {target.threads - 1}
  br i1 %last, label %release, label %wait
release:
  store atomic i64 0, ptr %count monotonic, align 8
{reset}
  %next = add i64 %mine, 1
  store atomic i64 %next, ptr %generation release, align 8
  ret void
wait:
  %spins = phi i64 [ 0, %entry ], [ %more, %again ], [ 0, %yield ]
  %now = load atomic i64, ptr %generation acquire, align 8
  %changed = icmp ne i64 %now, %mine
  br i1 %changed, label %done, label %look
look:
  {pause}
  %more = add i64 %spins, 1
  %tired = icmp eq i64 %more, {_SPINS}
  br i1 %tired, label %yield, label %again
again:
  br label %wait
yield:
  {yields}
  br label %wait
done:
  ret void
}}
"""


def _gate_text(target: CpuTarget) -> str:
    """`glow_post(gate, frames)` begins a run: frames[w] is for worker w; the bits of its result are
    those who sleep and are to be woken. `glow_serve(gate, worker, seen)` takes part in every run after
    number `seen`, then returns the last one's number when the worker is to sleep, -1 when frames is null.

    A worker says that it sleeps, then looks once more; who takes the mark back is the one to act on it.
    """
    return f"""
define i64 @{POST}(ptr %gate, ptr %frames) {{
entry:
  %frames.at = getelementptr i8, ptr %gate, i64 8
  store ptr %frames, ptr %frames.at
  %before = atomicrmw add ptr %gate, i64 1 seq_cst
  br label %each
each:
  %worker = phi i64 [ 1, %entry ], [ %next, %each ]
  %mask = phi i64 [ 0, %entry ], [ %more, %each ]
  %far = mul i64 %worker, {GATE_LINE}
  %mark = getelementptr i8, ptr %gate, i64 %far
  %sleeps = atomicrmw xchg ptr %mark, i64 0 seq_cst
  %bit = shl i64 %sleeps, %worker
  %more = or i64 %mask, %bit
  %next = add i64 %worker, 1
  %last = icmp eq i64 %next, {target.threads}
  br i1 %last, label %done, label %each
done:
  ret i64 %more
}}

define i64 @{SERVE}(ptr %gate, i64 %worker, i64 %start) {{
entry:
  %frames.at = getelementptr i8, ptr %gate, i64 8
  %far = mul i64 %worker, {GATE_LINE}
  %mark = getelementptr i8, ptr %gate, i64 %far
  br label %wait
{_waiting_text(target)}
ready:
  %run = load atomic i64, ptr %gate seq_cst, align 8
  %frames = load ptr, ptr %frames.at
  %none = icmp eq ptr %frames, null
  br i1 %none, label %end, label %work
work:
  %frame.at = getelementptr ptr, ptr %frames, i64 %worker
  %frame = load ptr, ptr %frame.at
  call void @{ENTER}(ptr %frame)
  br label %wait
end:
  ret i64 -1
}}
"""


def _waiting_text(target: CpuTarget) -> str:
    """The blocks of `glow_serve` in which a worker looks for a run, yields and sleeps."""
    pause = "call void @llvm.x86.sse2.pause()" if "x86" in target.triple else ""
    yields = f"%ignored = call i32 @{name}()" if (name := _yielding(target)) else ""
    return f"""wait:
  %seen = phi i64 [ %start, %entry ], [ %seen, %look ], [ %seen, %yield ], [ %run, %work ]
  %looks = phi i64 [ 0, %entry ], [ %looked, %look ], [ 0, %yield ], [ 0, %work ]
  %yields = phi i64 [ 0, %entry ], [ %yields, %look ], [ %yielded, %yield ], [ 0, %work ]
  %now = load atomic i64, ptr %gate seq_cst, align 8
  %begun = icmp ne i64 %now, %seen
  br i1 %begun, label %ready, label %look
look:
  {pause}
  %looked = add i64 %looks, 1
  %tired = icmp eq i64 %looked, {_SPINS}
  br i1 %tired, label %yield, label %wait
yield:
  {yields}
  %yielded = add i64 %yields, 1
  %enough = icmp eq i64 %yielded, {_YIELDS}
  br i1 %enough, label %sleep, label %wait
sleep:
  %set = atomicrmw xchg ptr %mark, i64 1 seq_cst
  %still = load atomic i64, ptr %gate seq_cst, align 8
  %quiet = icmp eq i64 %still, %seen
  br i1 %quiet, label %leave, label %take
take:
  %mine = atomicrmw xchg ptr %mark, i64 0 seq_cst
  %awake = icmp eq i64 %mine, 1
  br i1 %awake, label %ready, label %leave
leave:
  ret i64 %seen"""
