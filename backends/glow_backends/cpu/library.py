"""Functions that LLVM calls where a target has no instruction, and no library that has them."""

from __future__ import annotations

from glow_backends.cpu.target import CpuTarget

_HALVES = """
define float @__extendhfsf2(i16 %h) {
  %bits = zext i16 %h to i32
  %signless = and i32 %bits, 32767
  %moved = shl i32 %signless, 13
  %small = bitcast i32 %moved to float
  ; the exponents' biases differ by 112; a product is right for subnormal numbers, too
  %number = fmul float %small, 0x46F0000000000000
  %exponent = and i32 %bits, 31744
  %odd = icmp eq i32 %exponent, 31744
  %infinite = or i32 %moved, 2139095040
  %finite = bitcast float %number to i32
  %chosen = select i1 %odd, i32 %infinite, i32 %finite
  %high = shl i32 %bits, 16
  %sign = and i32 %high, -2147483648
  %signed = or i32 %chosen, %sign
  %result = bitcast i32 %signed to float
  ret float %result
}

define i16 @__truncsfhf2(float %f) {
  %bits = bitcast float %f to i32
  %signless = and i32 %bits, 2147483647
  %high = lshr i32 %bits, 16
  %sign = and i32 %high, 32768
  ; normal numbers: half of the last place less one, and one more where the last place is odd
  %last = lshr i32 %signless, 13
  %odd = and i32 %last, 1
  %based = add i32 %signless, -939520001
  %rounded = add i32 %based, %odd
  %normal = lshr i32 %rounded, 13
  ; subnormal ones: an addition of 0.5 rounds where their last place is
  %number = bitcast i32 %signless to float
  %sum = fadd float %number, 0.5
  %sum.bits = bitcast float %sum to i32
  %subnormal = sub i32 %sum.bits, 1056964608
  %small = icmp ult i32 %signless, 947912704
  %finite = select i1 %small, i32 %subnormal, i32 %normal
  %large = icmp uge i32 %signless, 1199570944
  %bounded = select i1 %large, i32 31744, i32 %finite
  %none = icmp ugt i32 %signless, 2139095040
  %chosen = select i1 %none, i32 32256, i32 %bounded
  %signed = or i32 %chosen, %sign
  %result = trunc i32 %signed to i16
  ret i16 %result
}
"""
#: The same where halves come and go in registers of floats, whose other bits are ones.
_HALVES_IN_FLOATS = (
    _HALVES.replace("define float @__extendhfsf2", "define internal float @widened").replace(
        "define i16 @__truncsfhf2", "define internal i16 @narrowed"
    )
    + """
define weak hidden float @__extendhfsf2(float %boxed) {
  %bits = bitcast float %boxed to i32
  %half = trunc i32 %bits to i16
  %result = call float @widened(i16 %half)
  ret float %result
}

define weak hidden float @__truncsfhf2(float %f) {
  %half = call i16 @narrowed(float %f)
  %bits = zext i16 %half to i32
  %boxed = or i32 %bits, -65536
  %result = bitcast i32 %boxed to float
  ret float %result
}
"""
)


def _extreme(name: str, kind: str, test: str) -> str:
    """The larger or smaller number, the other where one is none."""
    return f"""
define {kind} @{name}({kind} %a, {kind} %b) {{
  %better = fcmp {test} {kind} %a, %b
  %none = fcmp uno {kind} %b, %b
  %first = or i1 %better, %none
  %result = select i1 %first, {kind} %a, {kind} %b
  ret {kind} %result
}}
"""


_EXTREMES = [
    _extreme(name, kind, test)
    for name, kind, test in (
        ("fmaxf", "float", "ogt"),
        ("fminf", "float", "olt"),
        ("fmax", "double", "ogt"),
        ("fmin", "double", "olt"),
    )
]
_ROUNDINGS = "".join(
    f"""
define weak hidden {kind} @{name}({kind} %x) {{
  %size = call {kind} @llvm.fabs.{short}({kind} %x)
  %moved = fadd {kind} %size, {large}
  %back = fsub {kind} %moved, {large}
  %small = fcmp olt {kind} %size, {large}
  %whole = select i1 %small, {kind} %back, {kind} %size
  %result = call {kind} @llvm.copysign.{short}({kind} %whole, {kind} %x)
  ret {kind} %result
}}
declare {kind} @llvm.fabs.{short}({kind})
declare {kind} @llvm.copysign.{short}({kind}, {kind})
"""
    for name, kind, short, large in (
        ("roundevenf", "float", "f32", "0x4160000000000000"),
        ("roundeven", "double", "f64", "0x4330000000000000"),
    )
)
"""Numbers from which on all are whole, added and taken away, leave the nearest whole one, ties to even."""


def library_text(target: CpuTarget) -> str:
    """LLVM IR of what no library of the target has."""
    head = f'target triple = "{target.triple}"\n'
    if target.triple.startswith("wasm"):
        return head + _HALVES + "".join(_EXTREMES)
    halves = _HALVES_IN_FLOATS if target.triple.startswith("riscv64") else ""  # libgcc has them since 13
    return head + halves + (_ROUNDINGS if "-none-" in target.triple else "")


NAMES = {"__extendhfsf2", "__truncsfhf2", "fmaxf", "fminf", "fmax", "fmin", "roundevenf", "roundeven"}
"""Left visible: code generation is what calls them. Linkers leave out what nothing calls."""
