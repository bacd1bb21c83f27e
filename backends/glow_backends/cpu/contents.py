"""What blocks of memory hold, as one number each: a change of any bit is seen at the speed of reading."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from glow_backends.cpu.jit import Linked, emit_object
from glow_backends.cpu.memory import address
from glow_backends.cpu.target import host

_LANES = 8
_CHAINS = 8
_BLOCK = 4 * _LANES * _CHAINS
_AHEAD = 2048
"""Bytes that are fetched ahead, past the caches: what the program needs stays there."""
_VECTOR = f"<{_LANES} x i32>"


def _splat(number: int) -> str:
    return "<" + ", ".join([f"i32 {number}"] * _LANES) + ">"


def _text() -> str:
    """LLVM IR of `glow_contents(table, count)`: rows of an address, its bytes, and where the number goes.

    In each lane of each chain h becomes (h turned by 13 bits, xor the word) times an odd number: one word
    that differs always shows, several that differ hide with a chance of 2^-32 a lane.
    """
    chains = range(_CHAINS)
    begin = "\n".join(f"  %a{c} = phi {_VECTOR} [ {_splat(c + 1)}, %one ], [ %b{c}, %body ]" for c in chains)
    step = "\n".join(
        f"""  %o{c} = add i64 %at, {4 * _LANES * c}
  %p{c} = getelementptr i8, ptr %p, i64 %o{c}
  %x{c} = load {_VECTOR}, ptr %p{c}, align 1
  %r{c} = call {_VECTOR} @llvm.fshl.v{_LANES}i32({_VECTOR} %a{c}, {_VECTOR} %a{c}, {_VECTOR} {_splat(13)})
  %y{c} = xor {_VECTOR} %r{c}, %x{c}
  %b{c} = mul {_VECTOR} %y{c}, {_splat(0x9E3779B1 - (1 << 32))}"""
        for c in chains
    )
    ahead = "\n".join(
        f"""  %f{line} = add i64 %at, {_AHEAD + line}
  %q{line} = getelementptr i8, ptr %p, i64 %f{line}
  call void @llvm.prefetch.p0(ptr %q{line}, i32 0, i32 0, i32 1)"""
        for line in range(0, _BLOCK, 64)
    )
    kept = "\n".join(
        f"  %k{c} = getelementptr i8, ptr %kept, i64 {4 * _LANES * c}\n"
        f"  store {_VECTOR} %a{c}, ptr %k{c}, align 4"
        for c in chains
    )
    return f"""
declare {_VECTOR} @llvm.fshl.v{_LANES}i32({_VECTOR}, {_VECTOR}, {_VECTOR})
declare i64 @llvm.fshl.i64(i64, i64, i64)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)

define void @glow_contents(ptr %table, i64 %count) {{
entry:
  %kept = alloca [{_BLOCK} x i8], align 32
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %i.next, %done ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %end
one:
  %row = mul i64 %i, 24
  %place = getelementptr i8, ptr %table, i64 %row
  %p = load ptr, ptr %place
  %bytes.at = getelementptr i8, ptr %place, i64 8
  %bytes = load i64, ptr %bytes.at
  %result = getelementptr i8, ptr %place, i64 16
  %whole = and i64 %bytes, {-_BLOCK}
  br label %block
block:
  %at = phi i64 [ 0, %one ], [ %at.next, %body ]
{begin}
  %go = icmp ult i64 %at, %whole
  br i1 %go, label %body, label %rest
body:
{ahead}
{step}
  %at.next = add i64 %at, {_BLOCK}
  br label %block
rest:
{kept}
  br label %fold
fold:
  %w = phi i64 [ 0, %rest ], [ %w.next, %fold ]
  %h = phi i64 [ %bytes, %rest ], [ %h.next, %fold ]
  %w.at = getelementptr i8, ptr %kept, i64 %w
  %word = load i64, ptr %w.at
  %h.r = call i64 @llvm.fshl.i64(i64 %h, i64 %h, i64 27)
  %h.x = xor i64 %h.r, %word
  %h.next = mul i64 %h.x, -7046029254386353131
  %w.next = add i64 %w, 8
  %w.go = icmp ult i64 %w.next, {_BLOCK}
  br i1 %w.go, label %fold, label %tail
tail:
  %t = phi i64 [ %whole, %fold ], [ %t.next, %byte ]
  %g = phi i64 [ %h.next, %fold ], [ %g.next, %byte ]
  %t.go = icmp ult i64 %t, %bytes
  br i1 %t.go, label %byte, label %done
byte:
  %t.at = getelementptr i8, ptr %p, i64 %t
  %value = load i8, ptr %t.at
  %wide = zext i8 %value to i64
  %g.r = call i64 @llvm.fshl.i64(i64 %g, i64 %g, i64 27)
  %g.x = xor i64 %g.r, %wide
  %g.next = mul i64 %g.x, -7046029254386353131
  %t.next = add i64 %t, 1
  br label %tail
done:
  store i64 %g, ptr %result
  %i.next = add i64 %i, 1
  br label %each
end:
  ret void
}}
"""


@cache
def _function() -> tuple[Linked, Callable[[int, int], None]]:
    target = host()
    text = f'target triple = "{target.triple}"\n{_text()}'
    linked = Linked([emit_object(text, target, kernel=True)], target)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    return linked, kind(linked.address("glow_contents"))


def contents(addresses: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
    """A number of 64 bits for each block of so many bytes; equal for equal bytes."""
    table = np.empty((len(sizes), 3), np.int64)
    table[:, 0], table[:, 1] = addresses, sizes
    _function()[1](address(table), len(sizes))
    return tuple(table[:, 2].tolist())
