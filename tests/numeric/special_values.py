"""docs/special_values.md: special values through every door beside its peer, and why they differ.

    python tests/numeric/special_values.py            # or `make special`: all of it, and writes the page
    python tests/numeric/special_values.py ONNX,JAX float32,int8    # some doors and types

It fails where a difference has no reason.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import special_gradients
from special_cards import KINDS, crossed, filled, is_float, mild, run, samples, special, ulps, unequal
from special_doors import DOORS, Name, compared

from glow_dialects.core.sample import Sample
from glow_dialects.core.types import Array

PAGE = Path(__file__).parents[2] / "docs/special_values.md"


@dataclass(frozen=True)
class Case:
    """Results beside a peer's, and the operands, as float64 where they are floats."""

    name: Name
    operands: tuple[Array, ...]
    ours: Array
    theirs: Array

    @property
    def kind(self) -> np.dtype:
        """The operands' type."""
        return self.operands[0].dtype

    def rows(self) -> list[Array]:
        """The operands of each result, [results, numbers]."""
        return [v.reshape(self.ours.size, -1).astype(np.float64) for v in self.operands]

    def result(self) -> tuple[Array, Array]:
        """Both results as flat float64."""
        return self.ours.ravel().astype(np.float64), self.theirs.ravel().astype(np.float64)


Holds = Callable[[Case], Array]


def zeros(case: Case) -> Array:
    """Zeros of two signs."""
    x, y = case.result()
    return (x == 0) & (y == 0)


def denormal(case: Case) -> Array:
    """A number at or below the smallest normal one is read or made."""
    least = float(ml_dtypes.finfo(case.kind).smallest_normal)
    numbers = [*case.rows(), case.result()[0].reshape(-1, 1)]
    return np.any(np.concatenate([(v != 0) & (np.abs(v) <= least) for v in numbers], 1), 1)


def inexact(case: Case) -> Array:
    """Finite results, apart by what rounding does to numbers of the operands' size."""
    x, y = case.result()
    wide = np.float32 if case.kind.itemsize > 4 else case.kind
    size = np.maximum(np.abs(case.rows()[0][:, 0]), np.maximum(np.abs(y), 1))
    with np.errstate(all="ignore"):
        return np.abs(x - y) <= 16 * float(ml_dtypes.finfo(wide).eps) * size


def nearly(case: Case) -> Array:
    """Within 8 units of the last place, or one where elements have 16 bits."""
    return ulps(case.ours, case.theirs).ravel() <= (8 if case.kind.itemsize > 2 else 1)


def overflow(case: Case) -> Array:
    """The peer's product overflows, where the value does not."""
    x, y = case.result()
    return ~np.isfinite(y) & ~np.isnan(x) & (np.abs(x) >= float(ml_dtypes.finfo(case.kind).max) / 8)


def far_quotient(case: Case) -> Array:
    """The quotient of the operands is no finite number, or not exact."""
    x, y = (v[:, 0] for v in case.rows())
    with np.errstate(all="ignore"):
        return np.abs(x / y) >= 2.0 ** (ml_dtypes.finfo(case.kind).nmant + 1)


def outside(case: Case) -> Array:
    """A float that the integer type cannot hold."""
    x = case.rows()[0][:, 0]
    if not is_float(case.kind) or case.theirs.dtype.kind not in "iu":
        return np.zeros(x.shape, bool)
    info = np.iinfo(case.theirs.dtype)
    return ~((x > float(info.min) - 1) & (x < float(info.max) + 1))


def with_nan(case: Case) -> Array:
    """An operand is NaN."""
    return np.any(np.concatenate([np.isnan(v) for v in case.rows()], 1), 1)


@dataclass(frozen=True)
class Reason:
    """Why results differ from a peer's: the condition is checked on every element."""

    peers: str
    operators: str
    """Their names, separated by commas; empty for all."""
    text: str
    holds: Holds

    def explains(self, case: Case, peer: str) -> Array:
        """Which elements."""
        known = not self.operators or case.name.operator in self.operators.split(", ")
        if peer not in self.peers.split(", ") or not known:
            return np.zeros(case.ours.size, bool)
        return self.holds(case)


SOFT = (
    "sigmoid, mish, swish, swish (1.5), gelu, gelu (tanh), elu, selu, celu, tanh, softplus, tanh_shrink, "
    "log_sigmoid, soft_shrink, logit, sinh, cosh, mod (float)"
)
REASONS = (
    Reason("XLA", "", "XLA flushes denormal numbers to 0; Glow does not", denormal),
    Reason(
        "PyTorch",
        "erf, gelu, sigmoid, swish, softplus",
        "PyTorch's vector code flushes denormal numbers to 0",
        denormal,
    ),
    Reason(
        "onnxruntime, PyTorch, XLA",
        SOFT,
        "the peer's formula is inaccurate for small results (see [accuracy](accuracy.md))",
        inexact,
    ),
    Reason(
        "onnxruntime, PyTorch, XLA",
        SOFT + ", floor_div, pow",
        "a difference of a few units in the last place",
        nearly,
    ),
    Reason(
        "onnxruntime, PyTorch, XLA, NumPy",
        "max, min, relu, relu6, reduce_max, reduce_min, clip, hard_tanh",
        "0 and -0 compare equal, so either can be the result",
        zeros,
    ),
    Reason("onnxruntime", "selu, celu", "the sign of 0 is kept, as in PyTorch", zeros),
    Reason(
        "PyTorch", "soft_shrink, mod (float)", "a result of 0 has the sign of the formula, or of NumPy", zeros
    ),
    Reason("XLA", "floor_div, sign, elu, selu, celu, mod (float)", "a result of 0 has NumPy's sign", zeros),
    Reason(
        "onnxruntime", "sign", "onnxruntime's sign of NaN is 0 for 16-bit types, NaN for others", with_nan
    ),
    Reason("PyTorch", "hard_swish, gelu", "PyTorch's product overflows before it is divided", overflow),
    Reason(
        "PyTorch, XLA",
        "fmod, mod (float), floor_div",
        "the peer computes the remainder from a rounded quotient; here it is exact",
        far_quotient,
    ),
    Reason(
        "onnxruntime, PyTorch, NumPy",
        "",
        "undefined in C++: the result depends on processor and loop",
        outside,
    ),
    Reason(
        "onnxruntime",
        "reduce_max, reduce_min, arg_max, arg_min, max, min",
        "onnxruntime's result depends on the position of the NaN",
        with_nan,
    ),
)


def shown(case: Case, index: int) -> str:
    """One element: its operands, our result, theirs."""
    given = ", ".join(" ".join(f"{n:g}" for n in row[index]) for row in case.rows())
    x, y = case.result()
    return f"{given}: {x[index]:g}, peer {y[index]:g} ({case.kind})"


def explained(case: Case, peer: str) -> tuple[Array, dict[str, str]]:
    """(elements without a reason, reasons with an example each)."""
    left = unequal(case.ours, case.theirs, case.name.allowed).ravel()
    found: dict[str, str] = {}
    if case.ours.shape != case.theirs.shape or case.ours.dtype != case.theirs.dtype:
        return left, found
    for reason in REASONS:
        if not left.any():
            break
        mask = left & reason.explains(case, peer)
        if mask.any():
            found[reason.text] = shown(case, int(np.argmax(mask)))
            left = left & ~mask
    return left, found


def through(
    door: str, kind: str, folder: Path, wanted: Callable[[int], bool] = lambda _: True
) -> Iterator[tuple[Case | None, str, dict[str, str]]]:
    """(case, what is wrong with it or nothing, reasons) of every name of a door."""
    peer = DOORS[door][1]
    for name, operands, ours, theirs in compared(door, KINDS[kind], folder, wanted):
        if theirs is None:
            yield None, "", {f"{name.operator}, {kind}": str(ours)}
            continue
        case = Case(name, operands, np.asarray(ours), np.asarray(theirs))
        left, reasons = explained(case, peer)
        wrong = ""
        if left.any():
            same = case.ours.shape == case.theirs.shape
            example = shown(case, int(np.argmax(left))) if same else f"{case.ours.shape}, {case.theirs.shape}"
            if case.ours.dtype != case.theirs.dtype:
                example += f"; {case.ours.dtype} for {case.theirs.dtype}"
            wrong = f"{door} {name.operator} {kind}, {left.sum()} of {left.size}: {example}"
        yield case, wrong, reasons


#: Why the CPU's results differ from the operator's meaning in NumPy.
CARD_REASONS = {
    "conv": "padding is skipped, so an infinite weight times 0 gives no NaN",
    "resize_grad": "weights of 0 are skipped, so infinity times 0 gives no NaN",
    "non_max_suppression": "NaN scores and boxes cannot be ordered",
    "max_pool_backward": "if a window contains several NaN, another one may be selected as the maximum",
    "softmax": "denormal results are 0",
    "dft": "the fast Fourier transform spreads NaN and infinity to all results",
    "recurrent_backward": "infinity times a slope of 0 is NaN in only one of the two orders of computation",
    "lp_pool": "powers are computed in the element type and may overflow",
    "log_softmax": "denormal results are 0",
}
#: Sums are taken in another order: zeros may have another sign, the last digits differ.
SUMMED = 512.0


def card_case(name: str, sample: Sample, kind: str, start: int) -> str | None:
    """What differs between the CPU and an operator's meaning; None where it does not take the type."""
    pointwise = sample.op.DATA_PARALLEL
    values = special(KINDS[kind]) if pointwise else mild(KINDS[kind])
    made = crossed(sample, KINDS[kind]) if pointwise else None
    results = run(made or filled(sample, KINDS[kind], start, values))
    if results is None:
        return None
    for ours, meant in zip(*results, strict=True):
        wrong = unequal(ours, meant, 16 if pointwise else SUMMED)
        if is_float(meant.dtype) and not pointwise:
            small = 64 * float(ml_dtypes.finfo(meant.dtype).smallest_normal)
            x, y = ours.astype(np.float64), meant.astype(np.float64)
            wrong = wrong & ~((np.abs(x) <= small) & (np.abs(y) <= small))
        if wrong.any():
            at = tuple(np.argwhere(np.atleast_1d(wrong))[0])
            pair = f"{np.atleast_1d(ours)[at]} for {np.atleast_1d(meant)[at]}"
            return f"{name} {kind}, {wrong.sum()} of {wrong.size}: {pair}"
    return ""


def every_card(kinds: Sequence[str] = tuple(KINDS), step: int = 1) -> tuple[set[str], list[str]]:
    """(operators, differences without a reason) of every sample and type, or of each `step`-th."""
    seen, wrong = set[str](), list[str]()
    np.seterr(all="ignore")
    for number, (name, sample) in enumerate(samples()):
        for index, kind in enumerate(kinds):
            if (number + index) % step:
                continue
            found = card_case(name, sample, kind, number)
            if found is not None:
                seen.add(name)
            if found and name not in CARD_REASONS:
                wrong.append(found)
    return seen, wrong


INTRODUCTION = """# Special values

Special values are NaN, infinities, zeros of both signs, denormal numbers, the largest and smallest numbers
of a type, ties in rounding, and numbers outside the range of a conversion. Each interface gives the same
results for them as the library that it follows (its *peer*):

| interface | peer |
| --- | --- |
| functions (`glow.jit`) | NumPy |
| ONNX | onnxruntime |
| PyTorch | PyTorch |
| JAX | XLA |

The CPU also agrees with the NumPy reference of each [operator](reference/operators.md): {cards} operators
on {kinds}. Results are bit-identical, with two exceptions. Functions that are rounded differ by at most 16
units in the last place, usually [less than 1](accuracy.md). Sums are computed in another order.

`make special` repeats all comparisons, on more types, and writes this page. The tests run a part of them.

## Where a peer differs

There are {compared} comparisons, each of an operator, an element type and an interface, on all special
values or all pairs of them. These have different elements:

| operator | interface | types | reason | example: operands: Glow, peer |
| --- | --- | --- | --- | --- |
"""
GRADIENTS = """
## Gradients

At zeros, ties and limits a function has no unique slope. Graphs that are trained, and compiled functions in
forward and reverse mode, have the slopes of PyTorch:

- Equal elements share the gradient of a maximum, as in PyTorch's `amax` and `maximum` and in JAX. `torch.max`
  of an axis gives all of it to the first one.
- A norm or a standard deviation of 0 has the gradient 0.
- If a branch of `where` that is not selected has an infinite slope, the gradient is NaN, as in both.

Tests compare {count} functions, in graphs and compiled functions, with PyTorch and JAX. NaN operands are not
compared: there is no right slope. The two differ at these finite operands:

| function | operands | PyTorch, here | JAX |
| --- | --- | --- | --- |
"""
CARDS = """
## Where the CPU differs from the NumPy reference

| operator | reason |
| --- | --- |
"""


Rows = dict[tuple[str, str, str], tuple[list[str], str]]
"""(operator, door, reason): the element types and an example."""


def gathered(door: str, kinds: Sequence[str], folder: Path) -> tuple[Rows, int, list[str]]:
    """(reasons, comparisons, differences without a reason) of a door."""
    rows: Rows = defaultdict(lambda: ([], ""))
    wrong, count = list[str](), 0
    for kind in kinds:
        if door == "functions" and kind == "bfloat16":
            continue
        for case, text, reasons in through(door, kind, folder):
            count += case is not None
            wrong += [text] if text else []
            for reason, example in reasons.items() if case is not None else ():
                known, first = rows[case.name.operator, door, reason]
                rows[case.name.operator, door, reason] = ([*known, kind], first or example)
        print(f"{door} {kind}: {count} comparisons, {len(wrong)} differences without a reason", flush=True)
    return dict(rows), count, wrong


def page(rows: Rows, compared: int, cards: set[str], kinds: Sequence[str]) -> str:
    """The page's text."""
    text = INTRODUCTION.format(cards=len(cards), kinds=", ".join(kinds), compared=compared)
    for (operator, door, reason), (known, example) in sorted(rows.items()):
        text += f"| {operator} | {door} | {', '.join(known)} | {reason} | {example} |\n"
    text += CARDS + "".join(f"| {name} | {reason} |\n" for name, reason in sorted(CARD_REASONS.items()))
    return text + GRADIENTS.format(count=len(special_gradients.NAMES)) + special_gradients.page()


def main() -> None:
    """Compare, write where all doors are compared, fail where something has no reason."""
    doors = sys.argv[1].split(",") if len(sys.argv) > 1 else list(DOORS)
    kinds = sys.argv[2].split(",") if len(sys.argv) > 2 else list(KINDS)
    rows: Rows = {}
    wrong, count = list[str](), 0
    with tempfile.TemporaryDirectory() as folder:
        for door in doors:
            more, number, texts = gathered(door, kinds, Path(folder))
            rows, count, wrong = rows | more, count + number, wrong + texts
    if set(doors) == set(DOORS):
        cards, texts = every_card(kinds)
        wrong += texts
        PAGE.write_text(page(rows, count, cards, kinds), encoding="utf-8")
    print("\n".join(wrong) or "every difference has a reason")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
