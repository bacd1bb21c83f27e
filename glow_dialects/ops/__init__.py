"""The operator definitions ("cards"): one module contains everything about an operator.

A card is imported when one of its operators is met, so that small programs start fast; `CARDS`
imports them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    #: Every card.
    CARDS: tuple[ModuleType, ...]

#: The cards of operators that work element by element, and have names at the doors: see `named`.
ELEMENTWISE = {
    "activation": (
        "celu clip elu gelu hard_sigmoid hard_swish leaky_relu logit mish prelu selu sigmoid "
        "softplus softsign swish tanh thresholded_relu"
    ),
    "angles": "atan2 deg2rad hypot rad2deg sinc",
    "arithmetic": "add div floor_div fmod max min mod mul pow sub",
    "bits": "count_leading_zeros popcount",
    "cast": "cast",
    "compare": "cmp_eq cmp_ge cmp_gt cmp_le cmp_lt cmp_ne",
    "error_function": "erf_inv erfc",
    "identity": "identity",
    "logarithms": "exp2 log10 log2 logaddexp logaddexp2 xlog1py xlogy",
    "logic": (
        "and bitwise_and bitwise_not bitwise_or bitwise_xor is_inf is_nan not or replace_nan "
        "shift_left shift_right xor"
    ),
    "powers": "cbrt square",
    "relu": "relu",
    "select": "select",
    "shrink": "shrink",
    "signs": "copysign fmax fmin heaviside is_finite nan_to_num nextafter round_away signbit",
    "unary_math": (
        "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor log log1p neg "
        "reciprocal round rsqrt sign sin sinh sqrt tan trunc"
    ),
}
#: Every card with its operators, nodes and instructions. A test compares this table with the folder.
OPERATORS = {
    **ELEMENTWISE,
    "arg_reduce": "arg_max arg_min",
    "avg_pool": "avg_pool avg_pool_backward",
    "batch_norm": "batch_norm batch_norm_backward batch_norm_train",
    "bit_cast": "bit_cast",
    "byte_scale": "byte_scale",
    "cached_attention": "cache_write cached_attention",
    "concat": "concat",
    "conv": "conv",
    "conv_backward_weights": "conv_backward_weights",
    "conv_transpose": "conv_transpose",
    "cumprod": "cumprod",
    "cumsum": "cumsum",
    "depth_to_space": "depth_to_space space_to_depth",
    "dequantize_blocks": "dequantize_blocks",
    "dft": "dft",
    "dropout": "dropout dropout_train",
    "expand": "expand",
    "expert_matmul": "expert_matmul",
    "flip": "flip",
    "fully_connected": "fully_connected",
    "gather": "gather",
    "gather_elements": "gather_elements",
    "gather_nd": "gather_nd",
    "group_norm": "group_norm instance_norm",
    "gru": "gru",
    "insert": "insert",
    "iota": "iota sizes",
    "layer_norm": "layer_norm rms_norm",
    "literal": "literal",
    "lookup": "lookup",
    "loss": (
        "binary_cross_entropy cross_entropy huber_loss l1_loss mean_squared_error regression "
        "sigmoid_cross_entropy"
    ),
    "lp_normalize": "lp_normalize",
    "lp_pool": "lp_pool",
    "lrn": "lrn",
    "lstm": "lstm",
    "matmul": "batch_matmul matmul",
    "matmul_half": "matmul_half",
    "max_pool": "max_pool max_pool_backward max_pool_with_argmax",
    "mean_var_normalize": "mean_var_normalize",
    "non_max_suppression": "non_max_suppression",
    "non_zero": "non_zero",
    "one_hot": "one_hot",
    "optimizer": "adagrad adam momentum rmsprop sgd",
    "pad": "pad",
    "quantize": "dequantize quantize rescale",
    "quantized_arithmetic": "quantized_add quantized_mul quantized_sub",
    "quantized_avg_pool": "quantized_avg_pool",
    "quantized_conv": "quantized_conv",
    "quantized_fully_connected": "quantized_fully_connected",
    "quantized_matmul": "quantized_matmul",
    "recurrent_train": "recurrent_backward recurrent_train",
    "reduce": (
        "reduce_l1 reduce_l2 reduce_log_sum reduce_log_sum_exp reduce_max reduce_mean reduce_min "
        "reduce_prod reduce_sum reduce_sum_square"
    ),
    "reshape": "reshape",
    "resize": "resize resize_grad",
    "rnn": "rnn",
    "rotary": "rotary",
    "round_blocks": "round_blocks",
    "scatter_elements": "scatter_elements",
    "scatter_nd": "scatter_nd",
    "slice": "slice",
    "softmax": "log_softmax softmax",
    "splat": "splat",
    "tile": "tile",
    "top_k": "top_k",
    "transpose": "transpose",
    "tree_sums": "tree_sums",
    "trilu": "trilu",
}


@cache
def _owners() -> dict[str, str]:
    return {operator: card for card, names in OPERATORS.items() for operator in names.split()}


def operators() -> Iterable[str]:
    """The names of all operators."""
    return _owners()


def card_of(operator: str) -> ModuleType | None:
    """The card of an operator (`add`, without the dialect's name), None where there is none."""
    card = _owners().get(operator)
    return None if card is None else import_module(f"{__name__}.{card}")


@cache
def operator_class(name: str) -> Any:
    """The class of an operator of the dialect, whose card is imported when it is first used."""
    members: dict[str, Any] = vars(card_of(name))
    return members["".join(part.capitalize() for part in name.split("_")) + "Op"]


@cache
def pointwise_operators() -> tuple[Any, ...]:
    """The classes of all operators that work element by element."""
    return tuple(operator_class(name) for names in ELEMENTWISE.values() for name in names.split())


@cache
def named(door: str) -> Mapping[str, Any]:
    """The element-wise operators by the names that their cards give them at a door: ONNX, TORCH, STABLEHLO.

    `named("TORCH")["acos"]` is AcosOp; of NumPy's functions see `numpy_operators`.
    """
    return {name: kind for kind in pointwise_operators() for name in vars(kind).get(door, "").split()}


@cache
def numpy_operators() -> Mapping[Any, Any]:
    """The element-wise operators by the functions of NumPy that they are (`NUMPY`, `PYTHON` on the card)."""
    import numpy as np

    return {f: kind for kind in pointwise_operators() for f in kind.functions(np)}


@cache
def _cards() -> tuple[ModuleType, ...]:
    return tuple(import_module(f"{__name__}.{card}") for card in OPERATORS)


def __getattr__(name: str) -> Any:
    if name == "CARDS":
        return _cards()
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
