"""docs/accuracy.md: errors of unary functions in units of the last place, beside the installed peers'.

    python -m benchmarks.accuracy                          # every function and type, writes docs/accuracy.md
    python -m benchmarks.accuracy --functions exp,tanh --types float32

Numbers of 16 bits are tried all. float32: every bfloat16 and the numbers around it, random bits, dense steps
where a function curves; a float64 value screens them, mpmath measures the worst. float64: mpmath alone.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ml_dtypes
import mpmath
import numpy as np

import glow_compiler as glow
from glow_dialects.core.types import Array

PAGE = Path(__file__).parents[1] / "docs/accuracy.md"
TYPES = {t: np.dtype(getattr(ml_dtypes, t, t)) for t in ("float32", "float64", "float16", "bfloat16")}
#: Bits in which mpmath computes for the largest and the smallest numbers; float64's smallest beside 1 fits.
PRECISION = 1200
#: Elements that mpmath measures: the worst by float64, and all of a float64 sample.
WORST, SAMPLE = 12, 2500

mp = mpmath.mp
mp.prec = 160
Real = Callable[[Any], Any]
Peer = Callable[[Array], Array]


@dataclass(frozen=True)
class Function:
    """A function: its exact value, its names in the doors, and where it is tried densely."""

    exact: Real
    screen: Callable[[Array], Array]
    onnx: tuple[str, dict[str, Any]] | None = None
    torch: str = ""
    numpy: str = ""
    dense: tuple[float, float] = (-10.0, 10.0)
    domain: tuple[float, float] = (-math.inf, math.inf)
    builder: tuple[str, dict[str, Any]] = ("", {})


def _erfc(x: Array) -> Array:
    return np.array([math.erfc(v) for v in x.ravel()]).reshape(x.shape)


def _erf(x: Array) -> Array:
    return np.array([math.erf(v) for v in x.ravel()]).reshape(x.shape)


def _exact_softplus(x: Any) -> Any:
    return mp.log1p(mp.exp(x)) if abs(x) < 2000 else max(x, 0)


def _exact_gelu(x: Any) -> Any:
    return x * mp.erfc(-x / mp.sqrt(2)) / 2 if abs(x) < 100 else max(x, 0)


def _screen_sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def _screen_mish(x: Array) -> Array:
    e = np.exp(np.minimum(x, 60))
    top = e * (e + 2)
    return x * (top / (top + 2))


_ROOT, _CUBIC = mp.sqrt(2 / mp.pi), mp.mpf("0.044715")
_ALPHA, _GAMMA = 1.67326319217681884765625, 1.05070102214813232421875


def _inner(x: Any) -> Any:
    return 2 * _ROOT * (x + _CUBIC * x * x * x)


def _logistic(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x)) if abs(x) < 2000 else mp.mpf(x > 0)


def _elementary() -> Iterator[tuple[str, Function]]:
    """Functions that NumPy, ONNX, PyTorch and mpmath know by a name each."""
    far, unit = (-20.0, 20.0), (-1.0, 1.0)
    for name, there, dense, domain in (
        ("exp", "", (-105.0, 90.0), None), ("log", "", (0.2, 4.0), (0.0, math.inf)), ("sin", "", far, None),
        ("cos", "", far, None), ("tan", "", far, None), ("asin", "arcsin", unit, unit),
        ("acos", "arccos", unit, unit), ("atan", "arctan", far, None), ("sinh", "", far, None),
        ("cosh", "", far, None), ("tanh", "", far, None), ("asinh", "arcsinh", far, None),
        ("acosh", "arccosh", (1.0, 20.0), (1.0, math.inf)), ("atanh", "arctanh", unit, unit),
        ("log1p", "", (-1.0, 4.0), (-1.0, math.inf)), ("expm1", "", far, None),
        ("sqrt", "", (0.0, 4.0), (0.0, math.inf)),
    ):  # fmt: skip
        onnx = None if name in ("log1p", "expm1") else (name.title(), {})
        there = there or name
        yield (
            name,
            Function(
                getattr(mp, name),
                getattr(np, there),
                onnx,
                name,
                there,
                dense,
                domain or (-math.inf, math.inf),
            ),
        )


FUNCTIONS: dict[str, Function] = {
    **dict(_elementary()),
    "rsqrt": Function(
        lambda x: 1 / mp.sqrt(x), lambda x: 1 / np.sqrt(x), None, "rsqrt", "", (0.1, 4.0), (0.0, math.inf)
    ),
    "reciprocal": Function(
        lambda x: 1 / x, lambda x: 1 / x, ("Reciprocal", {}), "reciprocal", "reciprocal", (0.1, 4.0)
    ),
    "erf": Function(mp.erf, _erf, ("Erf", {}), "erf"),
    "sigmoid": Function(_logistic, _screen_sigmoid, ("Sigmoid", {}), "sigmoid", "", (-105.0, 20.0)),
    "softplus": Function(
        _exact_softplus, lambda x: np.logaddexp(x, 0), ("Softplus", {}), "nn.functional.softplus", "",
        (-105.0, 20.0),
    ),
    "softsign": Function(
        lambda x: x / (1 + abs(x)), lambda x: x / (1 + np.abs(x)), ("Softsign", {}), "nn.functional.softsign"
    ),
    "gelu": Function(
        _exact_gelu,
        lambda x: x * _erfc(-x * math.sqrt(0.5)) * 0.5,
        ("Gelu", {}), "nn.functional.gelu", "", (-15.0, 8.0),
    ),
    "gelu (tanh)": Function(
        lambda x: x * _logistic(_inner(x)),
        lambda x: x * _screen_sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)),
        ("Gelu", {"approximate": "tanh"}), "nn.functional.gelu", "", (-11.0, 8.0),
        builder=("gelu", {"approximate": "tanh"}),
    ),
    "swish": Function(
        lambda x: x * _logistic(x), lambda x: x * _screen_sigmoid(x), ("Swish", {}), "nn.functional.silu",
        "", (-110.0, 20.0),
    ),
    "mish": Function(
        lambda x: x * mp.tanh(_exact_softplus(x)), _screen_mish, ("Mish", {}), "nn.functional.mish", "",
        (-110.0, 20.0),
    ),
    "hard_swish": Function(
        lambda x: x * min(max(x + 3, 0), 6) / 6, lambda x: x * np.clip(x + 3, 0, 6) / 6, ("HardSwish", {}),
        "nn.functional.hardswish",
    ),
    "elu": Function(
        lambda x: x if x > 0 else mp.expm1(x), lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
        ("Elu", {}), "nn.functional.elu",
    ),
    "selu": Function(
        lambda x: _GAMMA * (x if x > 0 else _ALPHA * mp.expm1(x)),
        lambda x: _GAMMA * np.where(x > 0, x, _ALPHA * np.expm1(np.minimum(x, 0))),
        ("Selu", {}), "nn.functional.selu",
    ),
    "logit": Function(
        lambda x: mp.log(x / (1 - x)), lambda x: np.log(x / (1 - x)), None, "logit", "",
        (0.0, 1.0), (0.0, 1.0),
    ),
}  # fmt: skip


def points(function: Function, kind: np.dtype) -> Array:
    """Finite numbers of the domain, in the given type."""
    random = np.random.default_rng(1)
    if kind.itemsize == 2:
        x = np.arange(1 << 16, dtype=np.uint16).view(kind)
    elif kind.itemsize == 4:
        every = np.arange(1 << 16, dtype=np.uint32) << 16
        around = [(every + np.uint32(i)).view(np.float32) for i in (0, 1, 0x7FFF, 0xFFFF)]
        bits = random.integers(0, 1 << 32, 200_000, np.uint32).view(np.float32)
        steps = np.linspace(*function.dense, 400_001).astype(np.float32)
        near = (1 + np.arange(-4000, 4000) * 2.0**-23).astype(np.float32)
        x = np.concatenate([*around, bits, steps, near, -near])
    else:
        bits = random.integers(0, 1 << 64, SAMPLE // 2, np.uint64).view(np.float64)
        steps = random.uniform(*function.dense, SAMPLE)
        near = 1 + random.integers(-40, 40, 40) * 2.0**-52
        turns = np.arange(-60, 61) * (np.pi / 2)
        x = np.concatenate([bits, steps, steps * 2.0**-10, near, -near, turns])
    wide = x.astype(np.float64)
    low, high = function.domain
    return x[np.isfinite(wide) & (wide >= low) & (wide <= high)]


def spacing(value: Array, kind: np.dtype) -> Array:
    """The distance of the numbers of a type around values, as float64."""
    info = ml_dtypes.finfo(kind)
    _, exponent = np.frexp(np.abs(value))
    least = int(math.log2(float(info.smallest_normal)))
    return np.ldexp(1.0, np.maximum(exponent - 1, least) - info.nmant)


def ulp(exact: Any, made: float, kind: np.dtype) -> float:
    """The error of one value against mpmath's; an infinity counts as the number behind the largest."""
    info = ml_dtypes.finfo(kind)
    top = mp.mpf(2) ** (int(math.log2(float(info.max))) + 1)
    if math.isnan(made):
        return math.inf
    if abs(exact) >= top - top * mp.mpf(2) ** -(info.nmant + 2):
        return 0.0 if math.isinf(made) and (made > 0) == (exact > 0) else math.inf
    value = mp.mpf(made) if math.isfinite(made) else math.copysign(1, made) * top
    least = int(math.log2(float(info.smallest_normal)))
    exponent = least if exact == 0 else max(int(mp.floor(mp.log(abs(exact), 2))), least)
    return float(abs(value - exact) / mp.mpf(2) ** (exponent - info.nmant))


def exact_values(function: Function, x: Array) -> list[Any]:
    """mpmath's values; infinities at poles."""
    values: list[Any] = []
    for v in x.astype(np.float64):
        mp.prec = 200 if 1e-30 < abs(v) < 1e15 else PRECISION
        try:
            values.append(mp.mpf(function.exact(mp.mpf(float(v)))))
        except (ZeroDivisionError, ValueError):
            values.append(mp.inf)
    return values


def worst(function: Function, x: Array, made: Array) -> tuple[float, float]:
    """(the largest error in ulp, where), by mpmath."""
    kind = x.dtype
    y = made.astype(np.float64)
    if kind.itemsize < 8:
        with np.errstate(all="ignore"):
            near = function.screen(x.astype(np.float64))
            limit = float(ml_dtypes.finfo(kind).max)
            error = np.abs(np.clip(y, -2 * limit, 2 * limit) - near) / spacing(near, kind)
            error[np.isnan(near) | (np.abs(near) >= limit)] = 0
            error[np.isnan(y) & ~np.isnan(near)] = math.inf
        chosen = np.argsort(error)[-WORST:]
    else:
        chosen = np.arange(len(x))
    values = exact_values(function, x[chosen])
    errors = [ulp(e, float(v), kind) for e, v in zip(values, y[chosen], strict=True) if mp.isfinite(e)]
    places = [float(v) for e, v in zip(values, x[chosen], strict=True) if mp.isfinite(e)]
    return max(zip(errors, places, strict=True))


def ours(name: str, backend: str = "cpu") -> Peer:
    """The function by the graph builder."""
    method, options = FUNCTIONS[name].builder

    def run(x: Array) -> Array:
        g = glow.GraphBuilder()
        g.save(getattr(g, method or name)(g.placeholder("x", x.shape, x.dtype), **options), "y")
        return glow.compile(glow.load(g), backend).run({"x": x})["y"]

    return run


def onnxruntime(name: str) -> Peer | None:
    """The same by onnxruntime, where it has a kernel."""
    import onnx
    import onnxruntime as ort
    from onnx import helper

    given = FUNCTIONS[name].onnx
    if given is None:
        return None

    def run(x: Array) -> Array:
        op, attributes = given
        kind = helper.np_dtype_to_tensor_dtype(x.dtype)
        info = [helper.make_tensor_value_info(n, kind, x.shape) for n in ("x", "y")]
        graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], **attributes)], "g", info[:1], info[1:])
        opsets = [helper.make_opsetid("", 24 if op == "Swish" else 22)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        options = ort.SessionOptions()
        options.log_severity_level = 4
        session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        if x.dtype != ml_dtypes.bfloat16:
            return session.run(None, {"x": x})[0]
        value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(x.view(np.uint16), onnx.TensorProto.BFLOAT16)
        made = session.run_with_ort_values(None, {"x": value})[0]
        return made.numpy().view(ml_dtypes.bfloat16)

    return run


def pytorch(name: str) -> Peer:
    """The same by PyTorch."""
    import torch

    function: Any = torch
    for part in FUNCTIONS[name].torch.split("."):
        function = getattr(function, part)
    options = FUNCTIONS[name].builder[1]

    def run(x: Array) -> Array:
        if x.dtype == ml_dtypes.bfloat16:
            return function(torch.from_numpy(x.view(np.int16)).view(torch.bfloat16), **options).view(
                torch.int16).numpy().view(ml_dtypes.bfloat16)  # fmt: skip
        return function(torch.from_numpy(x), **options).numpy()

    return run


def numpy(name: str) -> Peer | None:
    """The same by NumPy, where it has the function."""
    there = FUNCTIONS[name].numpy
    return getattr(np, there) if there else None


ENGINES: dict[str, Callable[[str], Peer | None]] = {
    "glow": ours, "onnxruntime": onnxruntime, "PyTorch": pytorch, "NumPy": numpy,
}  # fmt: skip


def measured(name: str, kind: np.dtype, engines: Sequence[str]) -> dict[str, tuple[float, float] | None]:
    """The largest error of each engine, None where it does not have the function in this type."""
    x = points(FUNCTIONS[name], kind)
    row: dict[str, tuple[float, float] | None] = {}
    for engine in engines:
        run = ENGINES[engine](name)
        try:
            with np.errstate(all="ignore"):
                row[engine] = None if run is None else worst(FUNCTIONS[name], x, run(x))
        except Exception:
            if engine == "glow":
                raise
            row[engine] = None
    return row


def shown(value: tuple[float, float] | None) -> str:
    """An error as the table has it."""
    if value is None:
        return "-"
    return f"{value[0]:.2f}" if value[0] < 100 else f"{value[0]:.0e}"


INTRODUCTION = """# Accuracy of functions

The largest error of each function of one operand, in units in the last place (ULP), compared with mpmath.
An exactly rounded result has an error of at most 0.5.

- The inputs are all numbers of the 16-bit types, a million float32 and some thousand float64 numbers,
  including denormal ones and the largest.
- An error with an exponent, or `inf`, means that most digits are lost, for example because a small result
  is flushed to 0 or a product overflows.
- `-` means that the function does not exist, or not for this type.
- float16 and bfloat16 are computed in float32 and rounded once.
- Some float64 functions are those of the C library: sin, cos, tan and their inverses, hyperbolic functions
  except tanh, erf and erfc.
- `gelu` is 0 if its result would be denormal (below -13.17; in the tanh form below -10), because processors
  need some hundred cycles for a denormal number. This causes the large errors in its rows. Above that, the
  error is at most 6 ULP.

`python -m benchmarks.accuracy` writes this page.

"""


def write(results: Mapping[str, Mapping[str, Mapping[str, tuple[float, float] | None]]]) -> None:
    """The page of results by type and function."""
    versions = ", ".join(f"{n} {version(n)}" for n in ("onnxruntime", "torch", "numpy"))
    lines = [INTRODUCTION + f"{processor()}; {versions}.", ""]
    for kind, rows in results.items():
        lines += [
            f"## {kind}",
            "",
            f"| function | {' | '.join(ENGINES)} |",
            "| --- " + "| ---: " * len(ENGINES) + "|",
        ]
        lines += [f"| {name} | {' | '.join(map(shown, row.values()))} |" for name, row in rows.items()]
        lines.append("")
    PAGE.write_text("\n".join(lines), encoding="utf-8")


def processor() -> str:
    """The processor's name, as Linux tells it."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "a processor"
    )


def main() -> None:
    """Measure and write; the page only where everything was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--functions", default=",".join(FUNCTIONS))
    parser.add_argument("--types", default=",".join(TYPES))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    results: dict[str, dict[str, dict[str, tuple[float, float] | None]]] = {}
    for kind in args.types.split(","):
        print(kind, *ENGINES)
        for name in args.functions.split(","):
            row = results.setdefault(kind, {})[name] = measured(name, TYPES[kind], list(ENGINES))
            places = [f"{shown(v):>7} @{v[1]:<12.6g}" if v else f"{'-':>7}{'':14}" for v in row.values()]
            print(f"  {name:12}", *places, flush=True)
    if list(results) == list(TYPES) and all(list(rows) == list(FUNCTIONS) for rows in results.values()):
        write(results)


if __name__ == "__main__":
    main()
