"""Functions made of functions: `vmap`, `jvp`, `vjp`, `jacobian`, `hessian`.

rows = glow.vmap(f, in_axes=(0, None))(xs, w)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from glow_compiler.functions import UNSIZED, CompiledFunction, Sizes, Transformed, jit, positions_of
from glow_compiler.type_variables import P
from glow_dialects.core.errors import UnsupportedError


def _made(
    kind: str, function: Callable[..., Any], options: dict[str, Any], backend: str | None
) -> CompiledFunction:
    if not callable(function):
        raise UnsupportedError(f"{kind} needs a function, got a {type(function).__name__}")
    plain = function.python if isinstance(function, CompiledFunction) else function
    unroll, sizes = getattr(function, "unroll", 0), getattr(function, "sizes", UNSIZED)
    sizes = sizes if isinstance(sizes, Sizes) and kind != "vmap" else UNSIZED
    chosen = backend or getattr(function, "backend", "cpu")
    return CompiledFunction(plain, chosen, Transformed(kind, function, options), unroll, sizes)


def vmap(
    fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, *, backend: str | None = None
) -> CompiledFunction:
    """Map a function over an axis of its arguments.

    The operators of `fun` process all examples at once. If mapped values control what is computed (a branch,
    the number of iterations of a loop), the examples run one after another, in machine code. Python numbers
    in examples are treated like NumPy arrays: `math.sqrt(-1.0)` of an example is NaN. As in jax.vmap.

    Args:
        fun: A function of one example.
        in_axes: The mapped axis of each argument, or None for an argument that all examples share: one value
            for all arguments, or a tuple with one per argument. For an argument that is a tuple or a dict,
            this may be a tuple or a dict. All mapped axes have the same size. Negative axes count from the
            end.
        out_axes: The position of the axis in the result, or in each of its items; None for a result that is
            the same for all examples.
        backend: As for `grad`.

    Returns:
        A function of all examples.

    Raises:
        GlowError: As for `jit`.

    Examples:
        >>> glow.vmap(lambda w, x: np.sum(w * x), in_axes=(None, 0))(np.ones(2), np.arange(6.0).reshape(3, 2))
        array([1., 5., 9.])
    """
    return _made("vmap", fun, {"in_axes": in_axes, "out_axes": out_axes}, backend)


def jacobian(
    fun: Callable[P, Any], argnums: int | Sequence[int] = 0, *, backend: str | None = None
) -> CompiledFunction[P, Any]:
    """All derivatives of a function that returns arrays. As jax.jacobian.

    Forward mode is used if the value has at least as many numbers as the argument, otherwise reverse mode.

    Args:
        fun: The function; it may be compiled.
        argnums: The argument or arguments to differentiate by: floats or arrays of floats.
        backend: As for `grad`.

    Returns:
        A function with the same parameters. For a value of shape y and an argument of shape x, its result has
        the shape (*y, *x). If `fun` returns a tuple or a dict, there is one for each item.

    Raises:
        GlowError: As for `jit`.

    Examples:
        >>> glow.jacobian(lambda x: x * x)(np.array([1.0, 2.0])).tolist()
        [[2.0, 0.0], [0.0, 4.0]]
    """
    return _made("jacobian", fun, _positions("jacobian", argnums), backend)


def hessian(
    fun: Callable[P, Any], argnums: int | Sequence[int] = 0, *, backend: str | None = None
) -> CompiledFunction[P, Any]:
    """The second derivatives of a function that returns a float. As jax.hessian.

    Computed in forward mode over the gradient.

    Args:
        fun: The function; it may be compiled.
        argnums: The argument or arguments to differentiate by.
        backend: As for `grad`.

    Returns:
        A function with the same parameters. For an argument of shape x, its result has the shape (*x, *x).
        For several arguments it is a tuple of tuples.

    Raises:
        GlowError: As for `jit`.

    Examples:
        >>> glow.hessian(lambda x: np.sum(x**3))(np.array([1.0, 2.0])).tolist()
        [[6.0, 0.0], [0.0, 12.0]]
    """
    return _made("hessian", fun, _positions("hessian", argnums), backend)


def _positions(word: str, argnums: int | Sequence[int]) -> dict[str, Any]:
    return {"positions": positions_of(word, argnums), "single": isinstance(argnums, int)}


def jvp(fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The value of a function and its derivative in a direction (forward mode). As jax.jvp.

    Args:
        fun: The function; it may be compiled.
        primals: The arguments.
        tangents: The direction: one per argument, of the same shape, or None for zero.

    Returns:
        The pair (value, tangent of the value).

    Raises:
        GlowError: As for `jit`.

    Examples:
        >>> glow.jvp(lambda x: x * x, (3.0,), (1.0,))
        (9.0, 6.0)
    """
    if not callable(fun):
        raise UnsupportedError(f"jvp needs a function, got a {type(fun).__name__}")
    for what, values in (("primals", primals), ("tangents", tangents)):
        if not isinstance(values, tuple | list):
            raise UnsupportedError(f"jvp: {what} is a {type(values).__name__}, expected a tuple; write (x,)")
    if len(primals) != len(tangents):
        raise UnsupportedError(
            f"jvp: {len(primals)} primals and {len(tangents)} tangents; give one tangent per argument"
        )
    return _ahead(fun)(tuple(primals), tuple(tangents))


def vjp(fun: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """The value of a function, and a function for its gradients (reverse mode). As jax.vjp.

    Outside compiled functions, each call of the returned function computes the value again.

    Args:
        fun: The function; it may be compiled.
        *primals: The arguments.

    Returns:
        The pair (value, pull). `pull` takes a cotangent of the value and returns a tuple with the cotangent
        of each argument.

    Raises:
        GlowError: As for `jit`.

    Examples:
        >>> value, pull = glow.vjp(lambda x, y: x * y, 2.0, 5.0)
        >>> value, pull(1.0)
        (10.0, (5.0, 2.0))
    """
    if not callable(fun):
        raise UnsupportedError(f"vjp needs a function, got a {type(fun).__name__}")
    value, pull = _back(fun)
    return value(primals), lambda cotangent: pull(primals, cotangent)


@lru_cache(maxsize=256)
def _ahead(function: Callable[..., Any]) -> CompiledFunction:
    def tangent(primals: Any, tangents: Any) -> Any:
        return jvp(function, primals, tangents)

    return jit(tangent, backend=getattr(function, "backend", "cpu"))


@lru_cache(maxsize=256)
def _back(function: Callable[..., Any]) -> tuple[CompiledFunction, CompiledFunction]:
    from glow_frontends.python.transforms_written import vjp_of

    def value(primals: Any) -> Any:
        return function(*primals)

    def pull(primals: Any, cotangent: Any) -> Any:
        return vjp_of(function, primals)[1](cotangent)

    backend = getattr(function, "backend", "cpu")
    return jit(value, backend=backend), jit(pull, backend=backend)


for _transform in (vmap, jvp, vjp, jacobian, hessian):
    _transform.glow_transform = _transform.__name__  # pyright: ignore
