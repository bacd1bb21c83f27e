"""What every program is linked with: calls back to the host, and the barrier between its workers."""

from __future__ import annotations

from glow_backends.cpu.target import CpuTarget

MAIN = "glow_main"
HOST = "glow_host"
BARRIER = "glow_barrier"
ENTER = "glow_enter"
#: Bytes of the barrier's state: the count of those who wait, and the generation a line further.
BARRIER_BYTES = 128
_SPINS = 2000
"""Looks at the generation before a waiting thread lets others run."""


def support_text(target: CpuTarget) -> str:
    """LLVM IR of `glow_host(io, slot, step, worker)`, `glow_barrier(io, slot)` and `glow_enter(frame)`.

    `glow_enter` calls frame[0](frame[1], ..., frame[4]): one argument costs a caller less than four.
    Worker 0 calls `io[slot](step)`. The barrier is the usual counter with generations: the last to
    come resets the count and starts the next generation, the others look at it until it changes.
    """
    x86 = "x86" in target.triple
    pause = "call void @llvm.x86.sse2.pause()" if x86 else ""
    declared = "declare void @llvm.x86.sse2.pause()" if x86 else ""
    return f"""
target triple = "{target.triple}"

declare i32 @sched_yield()
{declared}

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
  %ignored = call i32 @sched_yield()
  br label %wait
done:
  ret void
}}
"""
