"""Operators by name on special values, through every door, beside the door's own peer.

A name is an expression of x (and y) in the door's library; ONNX has nodes. Each door compiles all names of
an element type as one program. What peers alone refuse is left out.
"""

from __future__ import annotations

import importlib.util
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from special_cards import KINDS, is_float, special

import glow_compiler as glow
from glow_dialects.core.types import Array


@dataclass(frozen=True)
class Name:
    """One operator's names in the doors; empty where it has none."""

    operator: str
    onnx: str = ""
    torch: str = ""
    numpy: str = ""
    jax: str = ""
    kinds: str = "f"
    """Of element types: f floats, i integers, b booleans."""
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    allowed: float = 4.0
    """Units of the last place between implementations; 0 where there is one right value."""

    @property
    def operands(self) -> int:
        """How many the operator has."""
        text = self.torch or self.numpy or self.jax
        return 2 if "y" in text.replace("type", "") and "(x, y" in text or " y" in text else 1


def _same(
    names: str, torch: str = "torch", numpy: str = "np", jax: str = "jnp", **more: Any
) -> Iterator[Name]:
    """Functions called alike: `card`, or `card:torch:numpy:Onnx` where they differ ("-": none)."""
    for text in names.split():
        card, *others = text.split(":")
        there, array, node = (others + [card, card, card.title()][len(others) :])[:3]
        yield Name(
            card,
            "" if node == "-" else node,
            "" if there == "-" else f"{torch}.{there}(x)",
            "" if array == "-" else f"{numpy}.{array}(x)",
            "" if array == "-" else f"{jax}.{array}(x)",
            **more,
        )


def _activations() -> Iterator[Name]:
    """What networks have between their layers."""
    for card, node, there, jax in (
        ("relu", "Relu", "relu", "relu"),
        ("sigmoid", "Sigmoid", "sigmoid", "sigmoid"),
        ("elu", "Elu", "elu", "elu"),
        ("celu", "Celu", "celu", "celu"),
        ("selu", "Selu", "selu", "selu"),
        ("softplus", "Softplus", "softplus", "softplus"),
        ("softsign", "Softsign", "softsign", "soft_sign"),
        ("mish", "Mish", "mish", "mish"),
        ("swish", "Swish", "silu", "silu"),
        ("hard_swish", "HardSwish", "hardswish", "hard_swish"),
        ("leaky_relu", "LeakyRelu", "leaky_relu", "leaky_relu"),
        ("relu6", "", "relu6", "relu6"),
        ("log_sigmoid", "", "logsigmoid", "log_sigmoid"),
        ("hard_sigmoid", "", "hardsigmoid", "hard_sigmoid"),
        ("hard_tanh", "", "hardtanh", "hard_tanh"),
        ("tanh_shrink", "", "tanhshrink", ""),
        ("soft_shrink", "", "softshrink", ""),
        ("hard_shrink", "", "hardshrink", ""),
    ):
        yield Name(card, node, f"F.{there}(x)", "", f"jax.nn.{jax}(x)" if jax else "", allowed=16)
    yield Name("gelu", "Gelu", "F.gelu(x)", "", "jax.nn.gelu(x, approximate=False)", allowed=16)
    yield Name(
        "gelu (tanh)",
        "Gelu",
        "F.gelu(x, approximate='tanh')",
        "",
        "jax.nn.gelu(x)",
        attributes={"approximate": "tanh"},
        allowed=64,
    )
    yield Name("swish (1.5)", "Swish", "", "", "", attributes={"alpha": 1.5}, allowed=16)
    yield Name("thresholded_relu", "ThresholdedRelu", "F.threshold(x, 1.0, 0.0)", "", "", allowed=0)
    yield Name("logit", "", "torch.logit(x)", "", "jax.scipy.special.logit(x)", allowed=16)
    yield Name("erf", "Erf", "torch.erf(x)", "", "jax.scipy.special.erf(x)")
    yield Name("rsqrt", "", "torch.rsqrt(x)", "", "jax.lax.rsqrt(x)")
    yield Name("reciprocal", "Reciprocal", "torch.reciprocal(x)", "np.reciprocal(x)", "jnp.reciprocal(x)")
    yield Name("is_nan", "IsNaN", "torch.isnan(x)", "np.isnan(x)", "jnp.isnan(x)", allowed=0)
    yield Name("is_inf", "IsInf", "torch.isinf(x)", "np.isinf(x)", "jnp.isinf(x)", allowed=0)
    yield Name("isfinite", "", "torch.isfinite(x)", "np.isfinite(x)", "jnp.isfinite(x)", allowed=0)


def _of_two() -> Iterator[Name]:
    """Operators of two operands, each pair of special values."""
    for card, node, sign in (
        ("add", "Add", "+"),
        ("sub", "Sub", "-"),
        ("mul", "Mul", "*"),
    ):
        text = f"x {sign} y"
        yield Name(card, node, text, text, text, "fi", allowed=0)
    yield Name("div", "Div", "x / y", "x / y", "x / y", "f", allowed=0)
    yield Name("div (int)", "Div", "torch.div(x, y, rounding_mode='trunc')", "", "jax.lax.div(x, y)", "i")
    yield Name("floor_div", "", "x // y", "x // y", "x // y", "fi", allowed=0)
    yield Name("mod", "Mod", "torch.remainder(x, y)", "np.mod(x, y)", "jnp.mod(x, y)", "i")
    yield Name("mod (float)", "", "torch.remainder(x, y)", "np.mod(x, y)", "jnp.mod(x, y)", "f")
    yield Name("fmod", "Mod", "torch.fmod(x, y)", "np.fmod(x, y)", "jnp.fmod(x, y)", "fi", {"fmod": 1})
    yield Name("pow", "Pow", "torch.pow(x, y)", "np.power(x, y)", "jnp.power(x, y)", "f")
    yield Name("max", "Max", "torch.maximum(x, y)", "np.maximum(x, y)", "jnp.maximum(x, y)", "fi", allowed=0)
    yield Name("min", "Min", "torch.minimum(x, y)", "np.minimum(x, y)", "jnp.minimum(x, y)", "fi", allowed=0)
    for card, node, function in (
        ("cmp_eq", "Equal", "equal"),
        ("cmp_ne", "", "not_equal"),
        ("cmp_lt", "Less", "less"),
        ("cmp_le", "LessOrEqual", "less_equal"),
        ("cmp_gt", "Greater", "greater"),
        ("cmp_ge", "GreaterOrEqual", "greater_equal"),
    ):
        there = "eq" if function == "equal" else function
        yield Name(
            card,
            node,
            f"torch.{there}(x, y)",
            f"np.{function}(x, y)",
            f"jnp.{function}(x, y)",
            "fi",
            allowed=0,
        )
    for card, node, function in (
        ("bitwise_and", "BitwiseAnd", "bitwise_and"),
        ("bitwise_or", "BitwiseOr", "bitwise_or"),
        ("bitwise_xor", "BitwiseXor", "bitwise_xor"),
    ):
        yield Name(
            card, node, f"torch.{function}(x, y)", f"np.{function}(x, y)", f"jnp.{function}(x, y)", "ib"
        )
    for card, node, function in (("and", "And", "and"), ("or", "Or", "or"), ("xor", "Xor", "xor")):
        text = f"logical_{function}(x, y)"
        yield Name(card, node, f"torch.{text}", f"np.{text}", f"jnp.{text}", "b")
    yield Name(
        "shift_left", "", "torch.bitwise_left_shift(x, y)", "np.left_shift(x, y)", "jnp.left_shift(x, y)", "i"
    )
    yield Name(
        "shift_right",
        "",
        "torch.bitwise_right_shift(x, y)",
        "np.right_shift(x, y)",
        "jnp.right_shift(x, y)",
        "i",
    )
    for function in ("atan2", "hypot", "copysign", "logaddexp"):
        array = "arctan2" if function == "atan2" else function
        yield Name(function, "", f"torch.{function}(x, y)", f"np.{array}(x, y)", f"jnp.{array}(x, y)", "f")


def _reductions() -> Iterator[Name]:
    """Reductions of the rows of a matrix of special values."""
    for card, node, there, array in (
        ("reduce_max", "ReduceMax", "amax", "max"),
        ("reduce_min", "ReduceMin", "amin", "min"),
        ("arg_max", "ArgMax", "argmax", "argmax"),
        ("arg_min", "ArgMin", "argmin", "argmin"),
    ):
        yield Name(
            card,
            node,
            f"torch.{there}(x.reshape(-1, 3), 1)",
            f"np.{array}(x.reshape(-1, 3), 1)",
            f"jnp.{array}(x.reshape(-1, 3), 1)",
            "fi",
            allowed=0,
        )


def _casts() -> Iterator[Name]:
    """Conversions to every type, out of range, too."""
    for kind in KINDS:
        there = "bool" if kind == "bool" else kind
        array = "np.bool_" if kind == "bool" else f"np.{kind}"
        bf16 = kind == "bfloat16"
        yield Name(
            f"cast to {kind}",
            "Cast",
            f"x.to(torch.{there})",
            "" if bf16 else f"x.astype({array})",
            f"x.astype(jnp.{kind if kind != 'bool' else 'bool_'})",
            "fib",
            {"to": kind},
            allowed=0,
        )


NAMES: tuple[Name, ...] = (
    *_same(
        "exp log sin cos tan sinh cosh tanh sqrt asin:asin:arcsin acos:acos:arccos atan:atan:arctan "
        "asinh:asinh:arcsinh acosh:acosh:arccosh atanh:atanh:arctanh log1p:log1p:log1p:- expm1:expm1:expm1:- "
        "log2:log2:log2:- log10:log10:log10:- exp2:exp2:exp2:- cbrt:-:cbrt:-"
    ),
    *_same("floor ceil trunc:trunc:trunc:- round", allowed=0.0),
    *_same("abs neg:neg:negative sign square:square:square:-", kinds="fi", allowed=0.0),
    *_same("bitwise_not:bitwise_not:invert:BitwiseNot", kinds="i"),
    *_same("not:logical_not:logical_not:Not", kinds="b"),
    *_activations(),
    *_of_two(),
    *_reductions(),
    Name(
        "clip",
        "",
        "torch.clamp(x, -1.0, 2.0)",
        "np.clip(x, -1.0, 2.0)",
        "jnp.clip(x, -1.0, 2.0)",
        "f",
        allowed=0,
    ),
    *_casts(),
)


def kind_letter(kind: np.dtype) -> str:
    """f, i or b."""
    return "b" if kind == bool else "f" if is_float(kind) else "i"


def operands(name: Name, kind: np.dtype) -> tuple[Array, ...]:
    """Special values, every pair of them for two operands."""
    values = special(kind)
    if name.operands == 2:
        x, y = np.meshgrid(values, values)
        return x.ravel(), y.ravel()
    return (np.resize(values, 3 * len(values)),)


Door = Callable[[list[tuple[Name, tuple[Array, ...]]], Path], tuple[list[Any], list[Any]]]
"""Results of ours and of the peer; an exception where either refuses."""


def load_source(text: str, folder: Path) -> Any:
    """A module of source text, which functions need to be read from."""
    path = folder / f"special_{abs(hash(text))}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _function(texts: list[str], arguments: int, head: str, first: str = "") -> str:
    """Source of a function that returns the values of expressions."""
    names = [f"a{i}" for i in range(arguments)]
    lines = [f"{head}", "", f"def f({', '.join(([first] if first else []) + names)}):"]
    return "\n".join([*lines, f"    return ({', '.join(texts)},)", ""])


def _placed(name: Name, text: str, start: int) -> str:
    """An expression of x and y on the arguments from `start` on."""
    text = re.sub(r"\bx\b", f"a{start}", text)
    return re.sub(r"\by\b", f"a{start + 1}", text)


def _expressions(cases: list[tuple[Name, tuple[Array, ...]]], door: str) -> tuple[list[str], list[Array]]:
    texts, arrays = list[str](), list[Array]()
    for name, values in cases:
        texts.append(_placed(name, getattr(name, door), len(arrays)))
        arrays += values
    return texts, arrays


def by_functions(cases: list[tuple[Name, tuple[Array, ...]]], folder: Path) -> tuple[list[Any], list[Any]]:
    """Compiled Python functions beside NumPy."""
    texts, arrays = _expressions(cases, "numpy")
    f = load_source(_function(texts, len(arrays), "import numpy as np"), folder).f
    with np.errstate(all="ignore"):
        return [np.asarray(v) for v in glow.jit(f)(*arrays)], [np.asarray(v) for v in f(*arrays)]


def by_torch(cases: list[tuple[Name, tuple[Array, ...]]], folder: Path) -> tuple[list[Any], list[Any]]:
    """Modules beside PyTorch."""
    import torch

    texts, arrays = _expressions(cases, "torch")
    f = load_source(_function(texts, len(arrays), "import torch\nimport torch.nn.functional as F"), folder).f

    class Module(torch.nn.Module):
        def forward(self, *values: Any) -> Any:
            return f(*values)

    def tensor(a: Array) -> Any:
        if a.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(a)

    def array(t: Any) -> Array:
        if t.dtype == torch.bfloat16:
            return t.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        return t.numpy()

    inputs = tuple(map(tensor, arrays))
    net = glow.compile(Module(), example_inputs=inputs)
    made = net(*inputs)
    return [array(t) for t in (made if isinstance(made, tuple) else (made,))], [array(t) for t in f(*inputs)]


def by_jax(cases: list[tuple[Name, tuple[Array, ...]]], folder: Path) -> tuple[list[Any], list[Any]]:
    """StableHLO of JAX beside XLA."""
    import jax

    texts, arrays = _expressions(cases, "jax")
    f = load_source(_function(texts, len(arrays), "import jax\nimport jax.numpy as jnp"), folder).f
    jitted = jax.jit(f)
    with jax.enable_x64(True):
        exported = jax.export.export(jitted)(*(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays))
        theirs = [np.asarray(v) for v in jitted(*arrays)]
    made = glow.compile(exported).run({f"a{i}": a for i, a in enumerate(arrays)})
    return list(made.values()), theirs


def by_onnx(cases: list[tuple[Name, tuple[Array, ...]]], folder: Path) -> tuple[list[Any], list[Any]]:
    """ONNX nodes beside onnxruntime."""
    import onnxruntime as ort
    from onnx import ValueInfoProto, helper

    nodes, inputs, feeds = list[Any](), list[ValueInfoProto](), dict[str, Array]()
    for number, (name, values) in enumerate(cases):
        attributes = dict(name.attributes)
        if "to" in attributes:
            attributes["to"] = helper.np_dtype_to_tensor_dtype(KINDS[attributes["to"]])
        names = [f"x{number}_{i}" for i in range(len(values))]
        for n, v in zip(names, values, strict=True):
            feeds[n] = v
            inputs.append(helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape))
        if name.onnx.startswith(("Reduce", "Arg")):
            feeds[names[0]] = values[0].reshape(-1, 3)
            inputs[-1] = helper.make_tensor_value_info(
                names[0], helper.np_dtype_to_tensor_dtype(values[0].dtype), (len(values[0]) // 3, 3)
            )
            attributes = {"axis": 1} if name.onnx.startswith("Arg") else {}
            if not attributes:
                axes = helper.make_tensor(f"axes{number}", 7, (1,), [1])
                nodes.append(helper.make_node("Constant", [], [f"axes{number}"], value=axes))
                names.append(f"axes{number}")
            attributes["keepdims"] = 0
        nodes.append(helper.make_node(name.onnx, names, [f"y{number}"], **attributes))
    outputs = [helper.make_empty_tensor_value_info(f"y{i}") for i in range(len(cases))]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    opset = 24 if any(n.onnx == "Swish" for n, _ in cases) else 22
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    theirs = session.run(None, feeds)
    return list(glow.compile(model).run(feeds).values()), list(theirs)


DOORS: dict[str, tuple[str, str, Door]] = {
    "ONNX": ("onnx", "onnxruntime", by_onnx),
    "PyTorch": ("torch", "PyTorch", by_torch),
    "JAX": ("jax", "XLA", by_jax),
    "functions": ("numpy", "NumPy", by_functions),
}


def cases_of(door: str, kind: np.dtype) -> list[tuple[Name, tuple[Array, ...]]]:
    """The names of a door for an element type."""
    column = DOORS[door][0]
    letter = kind_letter(kind)
    chosen = [n for n in NAMES if getattr(n, column) and letter in n.kinds]
    return [(n, _peaceful(n, operands(n, kind), door)) for n in chosen]


QUOTIENTS = ("div (int)", "floor_div", "mod", "fmod")


def _peaceful(name: Name, values: tuple[Array, ...], door: str) -> tuple[Array, ...]:
    """Without the quotients of integers by 0 and by -1 that end PyTorch's and onnxruntime's run."""
    if name.operator not in QUOTIENTS or is_float(values[0].dtype) or door not in ("PyTorch", "ONNX"):
        return values
    x, y = values
    kept = (y != 0) & ((y != -1) if y.dtype.kind == "i" else True)
    return x[kept], y[kept]


def compared(
    door: str, kind: np.dtype, folder: Path, wanted: Callable[[int], bool] = lambda _: True
) -> Iterator[tuple[Name, tuple[Array, ...], Any, Any]]:
    """(name, operands, ours, the peer's) of the wanted numbers; a text in place of refused results."""
    cases = [case for number, case in enumerate(cases_of(door, kind)) if wanted(number)]
    run = DOORS[door][2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from _halved(run, cases, folder)


def _halved(run: Door, cases: list[Any], folder: Path) -> Iterator[tuple[Name, tuple[Array, ...], Any, Any]]:
    """All in one program; where that is refused, in two halves."""
    if not cases:
        return
    try:
        ours, theirs = run(cases, folder)
    except Exception as error:
        if len(cases) == 1:
            yield *cases[0], f"{type(error).__name__}: {error}"[:200], None
            return
        middle = len(cases) // 2
        yield from _halved(run, cases[:middle], folder)
        yield from _halved(run, cases[middle:], folder)
        return
    for (name, values), a, b in zip(cases, ours, theirs, strict=True):
        yield name, values, a, b
