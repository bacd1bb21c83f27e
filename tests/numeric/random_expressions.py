"""Random expressions of NumPy, each with its value and how far rounding may move it."""

from __future__ import annotations

import math
import random
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

#: Expressions of operands A and B and of written numbers: I an axis, K a small int, F a float, S a slice.
#: What NumPy leaves open is guarded: 1 / 0 of ints, signs of NaN, percentiles of ints that overflow, and of
#: products with a number NaN times 0, which is for its BLAS to say.
FORMS = """
A + B|A - B|A * B|A / B|A // B|A % B|A ** 2|A ** K|2 ** A|A ** 0.5|-A|+A|abs(A)|A @ B|~A|A + K|A - F|K - A
A * F|F * A|A / F|A / K|F / A|A // K|A % K|A // F|A % F|K % A|A < B|A <= B|A == B|A != B|A > F|A >= K
(A > F) & (B > F)|(A > F) | (B < F)|A ^ B|A & B|A | B|A << 1|A >> 1|np.sin(A)|np.cos(A)|np.tan(A)|np.tanh(A)
np.exp(A)|np.expm1(A)|np.log(A)|np.log1p(A)|np.log2(A)|np.log10(A)|np.sqrt(A)|np.square(A)|np.cbrt(A)
np.abs(A)|np.sign(A)|np.floor(A)|np.ceil(A)|np.trunc(A)|np.rint(A)|np.round(A)|np.round(A, 1)
np.reciprocal(A + (A == 0))|np.negative(A)|np.exp2(A)|np.degrees(A)|np.radians(A)|np.deg2rad(A)|np.fabs(A)
np.float_power(A, 2)|np.divmod(A, B)[1]|np.arctan(A)|np.arcsin(A)|np.arccos(A)|np.sinh(A)|np.cosh(A)
np.arctan2(A, B)|np.hypot(A, B)|np.logaddexp(A, B)|np.isnan(A)|np.isfinite(A)|np.isinf(A)|np.maximum(A, B)
np.minimum(A, B)|np.fmax(A, B)|np.fmin(A, B)|np.power(A, K)|np.mod(A, B)|np.remainder(A, K)|np.fmod(A, F)
np.floor_divide(A, B)|np.fmod(A, B)|np.fmod(A, K)|np.where(A > F, A, B)|np.where(A > B, B, F)
np.where(A, B, K)|np.clip(A, F, K)|np.clip(A, -1, 1)|np.minimum(A, K)|np.maximum(A, F)|np.logical_and(A, B)
np.logical_or(A, B)|np.logical_not(A)|np.copysign(A, F)|np.heaviside(A, F)|np.copysign(A, B)
np.copysign(F, A)|np.positive(A)|np.nan_to_num(A)|np.add(A, B)|np.multiply(A, K)
np.subtract(A, B)|np.sum(A)|np.sum(A, axis=I)|np.sum(A, axis=I, keepdims=True)|A.sum()|A.sum(axis=I)
np.prod(A, axis=I)|np.prod(A)|np.mean(A)|np.mean(A, axis=I)|A.mean(axis=I, keepdims=True)|np.max(A)
np.max(A, axis=I)|A.min(axis=I)|A.max()|np.min(A, axis=I, keepdims=True)|np.var(A)|np.var(A, axis=I)
A.std(axis=I)|np.std(A, ddof=1)|np.ptp(A, axis=I)|np.argmax(A)|np.argmax(A, axis=I)|A.argmin(axis=I)
np.any(A, axis=I)|np.all(A)|np.all(A > F, axis=I)|A.any()|np.count_nonzero(A)|np.count_nonzero(A, axis=I)
np.median(A)|np.median(A, axis=I)|np.percentile(A * 1.0, 30)|np.quantile(A * 1.0, 0.25, axis=I)
np.nansum(A, axis=I)|np.nanmax(A)|np.nanmean(A, axis=I)|np.nanmin(A, axis=I)|np.cumsum(A)
np.cumsum(A, axis=I)|A.cumsum(axis=I)|np.cumprod(A, axis=I)|np.diff(A)|np.diff(A, axis=I)|np.diff(A, n=2)
np.sort(A)|np.sort(A, axis=I)|np.argsort(A, axis=I, kind="stable")|np.flip(A)|np.flip(A, I)|np.roll(A, K)
np.roll(A, K, axis=I)|np.reshape(A, -1)|A.reshape(-1, 2)|A.ravel()|A.flatten()|A.T|np.transpose(A)
np.swapaxes(A, 0, I)|np.expand_dims(A, I)|A[None]|A[..., None]|np.squeeze(A)|A[S]|A[S, S]|A[..., S]|A[K]
A[-1]|A[0]|A[:, 0]|A[::-1]|A[..., ::-1]|A[[0, 1, 0]]|A[:, [1, 0]]|A[np.array([1, 0])]
np.take(A, [0, 1], axis=I)|np.atleast_2d(A)|A.copy()|np.concatenate([A, B])|np.concatenate([A, B], axis=I)
np.stack([A, B])|np.stack([A, B], axis=I)|np.vstack([A, B])|np.hstack([A, B])|np.tile(A, 2)|np.repeat(A, 2)
np.repeat(A, 2, axis=I)|np.broadcast_to(A, (2, 3, 4))|np.pad(A, 1)|np.outer(A, B)|np.dot(A, B)
np.matmul(A, B)|np.inner(A, B)|np.vdot(A, B)|np.kron(A, B)|np.tensordot(A, B, axes=1)
np.einsum("ij,kj->ik", A, B)|np.einsum("ij->j", A)|np.trace(A)|np.diag(A)|np.diagonal(A)|np.tril(A)
np.triu(A, 1)|np.linalg.norm(A)|np.linalg.norm(A, axis=I)|np.cross(A, B)|np.trapezoid(A)
np.searchsorted(np.sort(A), F)|np.zeros_like(A)|np.ones_like(A)|np.full_like(A, K)|np.full_like(A, 200)
np.full((2, 2), K, np.uint8)|np.array([len(A), K], np.int8)|np.arange(4) + A|np.eye(4) @ A
np.array([A[0], A[-1]])|np.array([F, K]) + F|A.astype(np.float64)|A.astype(np.float32)|A.astype(np.int64)
A.astype(np.int32)|A.astype(np.uint8)|A.astype(bool)|A.shape[0] * A|len(A) + A|A.size + A
float(np.sum(A)) + B|int(np.sum(A))|round(float(np.mean(A)), 1)|A + 0 if np.sum(B) > F else A * K
math.sqrt(abs(float(np.sum(A))))|math.floor(float(np.mean(A)))|math.sin(float(np.max(A)))
[v * 2 for v in A][0]|sum(A)|bool(np.any(A))|np.moveaxis(A, 0, I)|np.column_stack([A, B])|np.dstack([A, B])
np.split(A, 2)[1]|np.convolve(A, B)|np.isclose(A, B)|np.allclose(A, A)|np.interp(A, [0.0, 1.0], [2.0, 4.0])
A[A > F].sum()|np.sum(A[A > F])|np.sum(A * B, axis=(0, 1))|A.max(axis=(0, -1))|max(float(np.max(A)), F)
np.amax(A, axis=I)|np.nanmedian(A * 1.0)|np.nanquantile(A * 1.0, 0.25, axis=I)|np.nancumsum(A, axis=I)
np.quantile(A * 1.0, [0.25, 0.5], axis=I)|np.nancumprod(A)|np.nanargmax(A, axis=I)|np.isposinf(A)
np.isneginf(A)|np.signbit(np.nan_to_num(A))|np.logaddexp2(A, B)|np.modf(A)[0]|np.modf(A)[1]|np.ldexp(A, K)
np.gcd(A, B)|np.lcm(A, K)|np.rot90(A)|np.rot90(A, K)|np.atleast_3d(A)|np.append(A, B)|np.append(A, B, axis=I)
np.ediff1d(A)|np.isin(A, B)|np.digitize(A, [-1, 0, 1])|np.gradient(A, axis=I)|np.gradient(A, 2)[0]
np.trapezoid(A, axis=I)|np.delete(A, K, axis=I)|np.insert(A, K, K, axis=I)|np.diagflat(A)|np.cov(A)
np.correlate(A, B)|np.correlate(A, B, "same")|np.vander(A, 3)|np.polyadd(A, B)|np.polyder(A)|np.polyint(A)
np.unwrap(A * 1.0)|np.hsplit(A, 2)[0]|np.array_split(A, 3)[1]|np.block([A, B])
np.concatenate([A, B], axis=None)|np.cumulative_sum(A, axis=I)|np.histogram(A, 4)[0]
np.unravel_index(np.argmax(A), A.shape)[0]|np.size(A)
np.rollaxis(A, I)|np.ravel_multi_index((A, B), (3, 4), mode="clip")|np.apply_along_axis(np.sum, I, A)
np.linalg.norm(A, 1)|np.linalg.svd(A * 1.0, compute_uv=False)|np.linalg.pinv(A * 1.0)|np.sort(A, axis=None)
min(float(np.min(A)), F)|abs(float(np.min(A)))|np.linspace(0, 1, 4) * A
"""
_OPERAND = r"(?<![\w.\"])[AB](?!\w)"
LIMIT = 64
"""Elements of a value at most."""
PERTURBED = 2
"""How often a value is computed of inputs that differ in the last bits."""
_SLICES = (":2", "1:", "::2", "1:3", ":-1", "::-1")


def _forms() -> list[str]:
    """The forms; a bar between them has no spaces beside it."""
    return [form for line in FORMS.strip().split("\n") for form in re.split(r"(?<! )\|(?! )", line)]


TEMPLATES = _forms()
"""The forms one by one."""


def inputs(seed: int) -> dict[str, Any]:
    """Arguments of many types and shapes; some of them have ties, zeros, and numbers that are none."""
    rng = np.random.default_rng(seed)
    made: dict[str, Any] = {
        "x": rng.standard_normal((3, 4)),
        "y": rng.standard_normal(4),
        "q": rng.standard_normal((2, 3, 4)),
        "w": rng.standard_normal((4, 4)),
        "z": rng.standard_normal((3, 4)).astype(np.float32),
        "r": rng.standard_normal(4).astype(np.float32),
        "n": rng.integers(-9, 10, (3, 4)),
        "i": rng.integers(-9, 10, 4).astype(np.int32),
        "u": rng.integers(0, 256, (3, 4)).astype(np.uint8),
        "j": rng.integers(-128, 128, 4).astype(np.int8),
        "m": rng.integers(0, 2, (3, 4)).astype(bool),
        "s": float(rng.standard_normal()),
        "k": int(rng.integers(-3, 4)),
    }
    if seed % 3 == 1:
        for name in ("x", "y", "z"):
            made[name] = np.round(made[name]).astype(made[name].dtype)
    if seed % 5 == 2:
        made["y"][:2] = np.nan, np.inf
        made["z"][0, :3] = np.nan, -np.inf, -0.0
    return made


@dataclass(frozen=True)
class Expression:
    """A form of its operands, which are expressions or names of arguments."""

    form: str
    operands: Mapping[str, Expression | str]

    @property
    def text(self) -> str:
        """The expression in Python."""
        texts = {k: v if isinstance(v, str) else f"({v.text})" for k, v in self.operands.items()}
        return re.sub(_OPERAND, lambda match: texts[match[0]], self.form)

    def value(self, arguments: Mapping[str, Any], moved: np.random.Generator | None = None) -> Any:
        """What it is worth; doubles, ints and bools without axes are Python's numbers, as in glow.

        `moved` moves in the last bits what functions make of ints: halves, and what is not whole.
        """
        known = {
            k: arguments[v] if isinstance(v, str) else v.value(arguments, moved)
            for k, v in self.operands.items()
        }
        worth = number(eval(self.form, {"np": np, "math": math}, known))
        kinds = [np.asarray(v).dtype.kind for v in (worth, *known.values())]
        if moved is None or kinds[0] != "f":
            return worth
        array = np.asarray(worth)
        if array.dtype == np.float16:
            return number(shifted(array, moved))
        return worth if "f" in kinds[1:] else number(np.where(array % 1 == 0, array, shifted(array, moved)))

    def types(self, arguments: Mapping[str, Any]) -> set[np.dtype]:
        """The element types of all values on the way."""
        own = {np.asarray(self.value(arguments)).dtype}
        for v in self.operands.values():
            own |= {np.asarray(arguments[v]).dtype} if isinstance(v, str) else v.types(arguments)
        return own


def number(value: Any) -> Any:
    """A scalar of NumPy as glow has it."""
    scalar = (
        isinstance(value, np.ndarray | np.generic)
        and not value.ndim
        and value.dtype.name in ("float64", "int64", "bool")
    )
    return value.item() if scalar else value


def generate(random_: random.Random, arguments: Mapping[str, Any], depth: int = 3) -> Expression:
    """An expression that NumPy computes."""
    while True:
        made = _one(random_, arguments, depth)
        if isinstance(made, Expression):
            return made


def _one(random_: random.Random, arguments: Mapping[str, Any], depth: int) -> Expression | str:
    if depth == 0 or random_.random() < 0.15:
        return random_.choice(list(arguments))
    for _ in range(40):
        form = _numbers(random_, random_.choice(TEMPLATES))
        first = _one(random_, arguments, depth - 1)
        operands = {"A": first}
        if "B" in re.findall(_OPERAND, form):
            same = random_.random() < 0.2
            operands["B"] = first if same else _one(random_, arguments, max(depth - 2, 0))
        made = Expression(form, operands)
        if sound(made, arguments):
            return made
    return random_.choice(list(arguments))


def _numbers(random_: random.Random, form: str) -> str:
    drawn = {
        "I": lambda: random_.choice(["0", "1", "-1"]),
        "K": lambda: random_.choice(["1", "2", "3"]),
        "F": lambda: random_.choice(["0.5", "1.25", "-0.75", "0.0"]),
        "S": lambda: random_.choice(_SLICES),
    }
    return re.sub(r"(?<![\w.])[IKFS](?!\w)", lambda match: drawn[match[0]](), form)


def sound(made: Expression, arguments: Mapping[str, Any]) -> bool:
    """Whether NumPy computes a small value of it, no int out of its range on the way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", ".*scalar.*")
        warnings.filterwarnings("error", ".*invalid value encountered in cast.*")
        try:
            value = made.value(arguments)
        except Exception:
            return False
    sign = made.operands.get("B", made.operands["A"]) if "copysign" in made.form else "k"
    signs = np.asarray(arguments[sign] if isinstance(sign, str) else sign.value(arguments))
    if np.any(np.isnan(signs)):
        return False
    scaled = "np.inner" in made.form or "np.dot" in made.form
    factors = [
        np.asarray(arguments[v] if isinstance(v, str) else v.value(arguments)) for v in made.operands.values()
    ]
    if scaled and any(not f.ndim for f in factors) and not all(np.all(np.isfinite(f)) for f in factors):
        return False
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or array.size > LIMIT or array.size == 0:
        return False
    large = array.dtype.kind in "iu" and bool(np.any(np.abs(array.astype(np.float64)) > 2.0**31))
    return not isinstance(value, list | tuple) and not large


def difference(made: Expression, arguments: Mapping[str, Any], got: Any) -> str | None:
    """How a result differs from NumPy's; None where rounding explains it."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        want = np.asarray(made.value(arguments))
        have = np.asarray(got)
        if have.shape != want.shape or have.dtype != want.dtype:
            return f"{have.dtype}{list(have.shape)} where NumPy has {want.dtype}{list(want.shape)}"
        moved = [_moved(made, arguments, seed) for seed in range(PERTURBED)]
        if any(m is None or m.shape != want.shape for m in moved):
            return None
        wide, near = want.astype(np.float64), have.astype(np.float64)
        read = made.types(arguments)
        rounding = 4e-3 if np.dtype(np.float16) in read else 2e-5 if np.dtype(np.float32) in read else 1e-10
        slack = rounding * (1 + np.abs(wide))
        for other in moved:
            assert other is not None
            step = np.abs(other.astype(np.float64) - wide)
            slack = slack + np.where(np.isfinite(step), 64 * step, 0)
            unsure = np.isfinite(other.astype(np.float64)) != np.isfinite(wide)
            slack = np.where(unsure, np.inf, slack)
        same = (near == wide) | (np.isnan(near) & np.isnan(wide))
        if any(kind.kind == "f" for kind in read):
            same |= (np.abs(near - wide) <= slack) | np.isinf(slack)
        return None if bool(np.all(same)) else f"{have.tolist()} where NumPy has {want.tolist()}"


def shifted(value: Any, rng: np.random.Generator) -> Any:
    """Floats moved by some of their last bits."""
    by = 1 + rng.uniform(-8, 8, np.shape(value)) * np.finfo(value.dtype).eps
    return (value * by).astype(value.dtype)


def _moved(made: Expression, arguments: Mapping[str, Any], seed: int) -> np.ndarray | None:
    """The value of floats that differ in their last bits."""
    rng = np.random.default_rng(seed)
    moved = dict(arguments)
    for name, value in arguments.items():
        array = np.asarray(value)
        if array.dtype.kind == "f":
            moved[name] = number(shifted(array, rng))
    try:
        return np.asarray(made.value(moved, rng))
    except Exception:
        return None
