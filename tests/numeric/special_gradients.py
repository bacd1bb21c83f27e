"""Gradients at special places, in graphs and functions, beside PyTorch's and JAX's.

A name is an expression of x (and y) in PyTorch, NumPy and JAX; empty where it has none. All names of a
door are one program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from special_doors import load_source
from xdsl.dialects.builtin import StringAttr

import glow_compiler as glow
from glow_compiler.torch_model import TorchModel
from glow_compiler.training_graph import main_of
from glow_dialects.core.types import Array
from glow_passes.autodiff.differentiate import differentiate, save_gradients

NAN, INF = np.nan, np.inf
VALUES = np.array(
    [NAN, INF, -INF, 0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 2.5, 100, -100, 90, 6, -6], np.float32
)
PAIRS = tuple(v.ravel().copy() for v in np.meshgrid(VALUES, VALUES))
ROWS = np.array(
    [
        [1, 2, 3], [0, 0, 0], [1, 1, 0], [2, 2, 2], [0, 1, 2], [0, 0, 3], [-1, -1, -2], [0, -0.0, 0],
        [-3, 0, 3], [NAN, 1, 2], [INF, 1, 2], [-INF, -INF, -INF], [-INF, 1, 2], [INF, INF, 1], [INF, -INF, 0],
    ],
    np.float32,
)  # fmt: skip


@dataclass(frozen=True)
class Name:
    """One function in the doors, and where its gradient is taken."""

    operator: str
    torch: str
    numpy: str
    jax: str
    operands: tuple[Array, ...]


def _alike(names: str, operands: tuple[Array, ...], call: str) -> Iterator[Name]:
    """Functions called alike: `name`, or `torch:numpy` where they differ ("-": none)."""
    for text in names.split():
        there, _, array = text.partition(":")
        array = array or there
        torch = "" if there == "-" else call.format(f"torch.{there}")
        numpy, jax = ("", "") if array == "-" else (call.format(f"{m}.{array}") for m in ("np", "jnp"))
        yield Name(array if there == "-" else there, torch, numpy, jax, operands)


def _one() -> Iterator[Name]:
    x = (VALUES,)
    yield from _alike(
        "exp log sin cos tan sinh cosh tanh sqrt log1p expm1 log2 log10 exp2 square abs "
        "asin:arcsin acos:arccos atan:arctan asinh:arcsinh acosh:arccosh atanh:arctanh -:cbrt erf:- erfc:- "
        "rsqrt:- sinc nan_to_num",
        x,
        "{}(x)",
    )
    for there, jax in (
        ("relu", "relu"), ("sigmoid", "sigmoid"), ("elu", "elu"), ("celu", "celu"), ("selu", "selu"),
        ("softplus", "softplus"), ("softsign", "soft_sign"), ("mish", "mish"), ("silu", "silu"),
        ("gelu", ""), ("hardswish", "hard_swish"), ("leaky_relu", "leaky_relu"), ("relu6", "relu6"),
        ("logsigmoid", "log_sigmoid"), ("hardsigmoid", "hard_sigmoid"), ("hardtanh", "hard_tanh"),
        ("tanhshrink", ""), ("softshrink", ""), ("hardshrink", ""),
    ):  # fmt: skip
        yield Name(there, f"F.{there}(x)", "", f"jax.nn.{jax}(x)" if jax else "", x)
    yield Name("celu (0.5)", "F.celu(x, 0.5)", "", "jax.nn.celu(x, 0.5)", x)
    yield Name("clip", "torch.clamp(x, -1.0, 2.0)", "np.clip(x, -1.0, 2.0)", "jnp.clip(x, -1.0, 2.0)", x)
    yield Name("clip below", "x.clamp(min=0.0)", "np.clip(x, 0.0, None)", "jnp.clip(x, 0.0)", x)
    yield Name("clip above", "x.clamp(max=1.0)", "np.clip(x, None, 1.0)", "jnp.clip(x, None, 1.0)", x)
    texts = [f"x ** {p}" for p in ("2.0", "0.0", "0.5", "1.0", "-1.0", "3.0", "1.5", "-2.0", "2", "3", "0")]
    texts += [f"{p} ** x" for p in ("2.0", "0.0", "0.5")]
    for text in (*texts, "-x", "1 / x", "x * x / x", "abs(x) * x"):
        yield Name(text, text, text, text, x)
    for yes, no in (("{}.log(x)", "0.0"), ("x", "-x"), ("x", "1.0"), ("{}.sqrt(x)", "x")):
        modules = ("torch", "np", "jnp")
        yield Name("where", *(f"{m}.where(x > 0, {yes.format(m)}, {no})" for m in modules), x)  # pyright: ignore


def _two() -> Iterator[Name]:
    for sign in ("+", "-", "*", "/", "**"):
        yield Name(f"x {sign} y", *[f"x {sign} y"] * 3, PAIRS)  # pyright: ignore
    yield from _alike(
        "remainder:mod fmod maximum minimum fmax fmin atan2:arctan2 hypot copysign logaddexp logaddexp2 "
        "xlogy:-",
        PAIRS,
        "{}(x, y)",
    )
    yield Name("xlog1py", "torch.special.xlog1py(x, y)", "", "", PAIRS)
    yield Name(
        "clip (x, y)", "torch.clamp(x, y, y + 1)", "np.clip(x, y, y + 1)", "jnp.clip(x, y, y + 1)", PAIRS
    )
    yield Name(
        "where (x, y)",
        *(f"{m}.where(x > y, x / y, x * y)" for m in ("torch", "np", "jnp")),
        PAIRS,
    )  # pyright: ignore


def _rows() -> Iterator[Name]:
    x = (ROWS,)
    yield from _alike("amax:max amin:min sum mean prod nansum nanmean", x, "{}(x, 1)")
    yield Name("max of an axis", "torch.max(x, 1).values", "", "", x)
    yield Name("min of an axis", "torch.min(x, 1)[0]", "", "", x)
    yield Name("max of all", "torch.max(x[:9])", "np.max(x[:9])", "jnp.max(x[:9])", x)
    for there, free in (("std", 0), ("std", 1), ("var", 0), ("var", 1)):
        for text in ("x", "x[:, :1]"):
            yield Name(
                f"{there}({text}, {free})",
                f"torch.{there}({text}, 1, correction={free})",
                *(f"{m}.{there}({text}, 1, ddof={free})" for m in ("np", "jnp")),
                x,
            )  # pyright: ignore
    for p in ("2", "1", "inf", "-inf", "3", "0.5", "1.5"):
        order = p.replace("inf", "float('inf')")
        texts = [f"{m}.linalg.norm(x, {p.replace('inf', f'{m}.inf')}, 1)" for m in ("np", "jnp")]
        yield Name(f"norm {p}", f"torch.linalg.vector_norm(x, {order}, 1)", *texts, x)  # pyright: ignore
    yield Name("norm", "torch.norm(x[1])", "np.linalg.norm(x[1])", "jnp.linalg.norm(x[1])", x)
    yield Name("normalize", "F.normalize(x, dim=1)", "", "", x)
    yield Name("cosine_similarity", "F.cosine_similarity(x, x.flip(1), dim=1)", "", "", x)
    yield Name("logsumexp", "torch.logsumexp(x, 1)", "", "jax.scipy.special.logsumexp(x, 1)", x)
    for there in ("softmax", "log_softmax"):
        jax = f"jax.nn.{there}(x, 1) * jnp.arange(3.0)"
        yield Name(there, f"F.{there}(x, 1) * torch.arange(3.0)", "", jax, x)
    yield Name("log_softmax of some", "F.log_softmax(x, 1)[:, 2]", "", "jax.nn.log_softmax(x, 1)[:, 2]", x)
    for there in ("cumsum", "cumprod"):
        arrays = (f"{m}.{there}(x, 1) * {m}.arange(1, 4).astype(x.dtype)" for m in ("np", "jnp"))
        yield Name(there, f"torch.{there}(x, 1) * torch.arange(1, 4)", *arrays, x)  # pyright: ignore
    arrays = (f"{m}.sort(x, 1) * {m}.arange(1, 4).astype(x.dtype)" for m in ("np", "jnp"))
    yield Name("sort", "torch.sort(x, 1).values * torch.arange(1, 4)", *arrays, x)  # pyright: ignore
    yield Name(
        "topk",
        "torch.topk(x, 2, 1).values * torch.arange(1, 3)",
        "",
        "jax.lax.top_k(x, 2)[0] * jnp.arange(1, 3)",
        x,
    )
    yield Name("max_pool", "F.max_pool1d(x[None], 2, 1) * torch.arange(1.0, 3.0)", "", "", x)
    places = f"torch.tensor([[0, 0, 1]] * {len(ROWS)})"
    for how in ("prod", "amax", "amin", "sum"):
        yield Name(
            f"scatter_reduce {how}", f"torch.scatter_reduce(x, 1, {places}, x.flip(1), '{how}')", "", "", x
        )


NAMES: tuple[Name, ...] = (*_one(), *_two(), *_rows())

#: A place that only PyTorch's own formula cares for, and why we give something else.
FORMULAS = {
    "copysign": "PyTorch divides two infinities",
    "cumprod": "PyTorch's NaN goes to the elements in front of what is not finite, too",
    "var(x, 0)": "an infinite element: its mean is infinite, and so is no deviation a number",
    "var(x, 1)": "an infinite element: its mean is infinite, and so is no deviation a number",
    "clip (x, y)": "where both limits are equal, or infinite, the lower one has the gradient",
    "x ** 0.5": "of -inf PyTorch's root is NaN, its power infinite",
    "x ** 1.5": "of -inf PyTorch's root is NaN, its power infinite",
    "norm 0.5": "an infinite norm has no slope: 0 for elements that are 0",
    "fmod": "of a divisor of 0 the value is NaN, and so is the slope",
}


def _places(name: Name) -> Array:
    """Whether all operands of an element (of a row) are finite."""
    finite = [np.isfinite(v) for v in name.operands]
    return np.broadcast_to(
        np.all(finite[0], -1, keepdims=True) if finite[0].ndim > 1 else np.all(finite, 0), finite[0].shape
    )


def _nan(name: Name) -> Array:
    nan = [np.isnan(v) for v in name.operands]
    return np.broadcast_to(
        np.any(nan[0], -1, keepdims=True) if nan[0].ndim > 1 else np.any(nan, 0), nan[0].shape
    )


def apart(name: Name, ours: list[Array], theirs: list[Array]) -> list[str]:
    """Where gradients differ without a reason; where an operand is NaN there is none to be right about."""
    texts = list[str]()
    for which, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        with np.errstate(all="ignore"):
            near = np.abs(a.astype(np.float64) - b) <= 2e-4 * np.abs(b) + 1e-6
        wrong = ~(near | (a == b) | (np.isnan(a) & np.isnan(b)) | _nan(name))
        if name.operator in FORMULAS:
            wrong &= _places(name) & (name.operator != "fmod")
        for at in np.argwhere(wrong)[:3]:
            values = name.operands[0][at[0]] if a.ndim > 1 else [float(v[tuple(at)]) for v in name.operands]
            place = f"{values}, operand {which}, element {at}"
            texts.append(f"{name.operator} at {place}: {a[tuple(at)]}, there {b[tuple(at)]}")
    return texts


def _function(text: str, name: Name) -> Callable[..., Any]:
    import jax
    import torch

    scope = {"torch": torch, "F": torch.nn.functional, "jax": jax, "jnp": jax.numpy}
    return eval(f"lambda {', '.join('xy'[: len(name.operands)])}: {text}", scope)


def by_torch(name: Name) -> list[Array]:
    """PyTorch's gradients of the sum."""
    import torch

    operands = [torch.tensor(v, requires_grad=True) for v in name.operands]
    _function(name.torch, name)(*operands).sum().backward()
    return [
        np.zeros_like(v) if p.grad is None else p.grad.numpy()
        for p, v in zip(operands, name.operands, strict=True)
    ]


def by_jax(name: Name) -> list[Array]:
    """JAX's gradients of the sum."""
    import jax

    f = _function(name.jax, name)
    made = jax.grad(lambda *v: f(*v).sum(), tuple(range(len(name.operands))))(*name.operands)
    return [np.asarray(v) for v in made]


def by_graph(names: list[Name], backend: str) -> list[list[Array]]:
    """Gradients of a graph that a PyTorch module became, of all names at once."""
    import torch

    arrays = [v for name in names for v in name.operands]

    class Module(torch.nn.Module):
        def forward(self, *values: Any) -> Any:
            rest, total = iter(values), torch.zeros(())
            for name in names:
                total = total + _function(name.torch, name)(*(next(rest) for _ in name.operands)).sum()
            return total

    module = TorchModel(Module(), tuple(map(torch.tensor, arrays))).module(None)
    function = main_of(module)
    inputs = [f"values_{i}" for i in range(len(arrays))]
    training = differentiate(module, function, "", inputs)
    save_gradients(module, training)
    function.detach()
    function.erase()
    training.function.properties["sym_name"] = StringAttr("main")
    with np.errstate(all="ignore"):
        made = glow.compile(module, backend).run(dict(zip(inputs, arrays, strict=True)))
    return _by_name(
        names, [made.get(f"{n}.grad", np.zeros_like(v)) for n, v in zip(inputs, arrays, strict=True)]
    )


def by_functions(names: list[Name], folder: Path) -> list[list[Array]]:
    """Gradients of a compiled Python function, of all names at once."""
    lines, arguments, arrays = list[str](), list[str](), list[Array]()
    for number, name in enumerate(names):
        own = [f"a{number}", f"b{number}"][: len(name.operands)]
        arguments += own
        arrays += name.operands
        lines.append(f"    x, y = {own[0]}, {own[-1]}\n    total = total + np.sum({name.numpy})")
    text = [
        "import numpy as np",
        f"def f({', '.join(arguments)}):",
        "    total = 0.0",
        *lines,
        "    return total",
    ]
    f = load_source("\n".join([*text, ""]), folder).f
    made = glow.grad(f, argnums=tuple(range(len(arrays))))(*arrays)
    return _by_name(names, [np.asarray(v) for v in made])


def _by_name(names: list[Name], made: list[Array]) -> list[list[Array]]:
    rest = iter(made)
    return [[next(rest) for _ in name.operands] for name in names]


def page() -> str:
    """The table of places where the peers differ, as Markdown."""
    text = ""
    for name in NAMES:
        if not (name.torch and name.jax):
            continue
        first, second, finite = by_torch(name), by_jax(name), _places(name)
        for which, (a, b) in enumerate(zip(first, second, strict=True)):
            with np.errstate(all="ignore"):
                near = (np.abs(a - b) <= 2e-4 * np.abs(b) + 1e-6) | (a == b) | (np.isnan(a) & np.isnan(b))
            different = np.argwhere(finite & ~near)
            if len(different):
                at = tuple(different[0])
                values = name.operands[0][at[0]] if a.ndim > 1 else [v[at] for v in name.operands]
                operand = "" if len(name.operands) == 1 else f" by {'xy'[which]}"
                place = " ".join(f"{float(v):g}" for v in values)
                text += f"| {name.operator}{operand} | {place} | {a[at]:g} | {b[at]:g} |\n"
    return text
