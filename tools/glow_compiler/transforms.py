"""Functions made of functions: `vmap`, `jvp`, `vjp`, `jacobian`, `hessian`.

rows = glow.vmap(f, in_axes=(0, None))(xs, w)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from glow_compiler.functions import UNSIZED, CompiledFunction, Sizes, Transformed, jit, positions_of
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
    """A function for one example as the function for all examples along an axis of its arguments.

    `in_axes` is the axis of each argument that is mapped over, None for an argument that all examples
    share: one for all arguments, or a tuple of one an argument; an argument that is a tuple or a dict may
    have a tuple or a dict of axes. Parameters with defaults are mapped where they are given an array.
    `out_axes` is where the axis stands in the result, or in each item of it; None for what is the same for
    all examples. Negative axes count from the end. All axes that are mapped over have one size.

    The operators of `fun` are done for all examples at once. Where mapped values decide what is computed
    (a branch, the number of turns of a loop), it is done for one example after another, in machine code.
    Arithmetic of examples that are Python's numbers is NumPy's, of arrays of them: without errors such as
    that of `math.sqrt(-1.0)`. Source: jax.vmap. Errors are those of `jit`.
    """
    return _made("vmap", fun, {"in_axes": in_axes, "out_axes": out_axes}, backend)


def jacobian(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, *, backend: str | None = None
) -> CompiledFunction:
    """The derivatives of all numbers that a function returns by all numbers of the arguments `argnums`.

    Of a value of shape y by an argument of shape x they have shape (*y, *x); where the function returns a
    tuple or a dict, there is one for each item. Arguments differentiated by are floats or arrays of them.
    Forward mode where the value has no fewer numbers than the argument, else reverse mode. Source:
    jax.jacobian. Errors are those of `jit`.
    """
    return _made("jacobian", fun, _positions("jacobian", argnums), backend)


def hessian(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, *, backend: str | None = None
) -> CompiledFunction:
    """The second derivatives of a function that returns a float by the arguments `argnums`.

    By an argument of shape x they have shape (*x, *x); by several, there is a tuple for each of a tuple by
    each. Forward mode of the gradient. Source: jax.hessian. Errors are those of `jit`.
    """
    return _made("hessian", fun, _positions("hessian", argnums), backend)


def _positions(word: str, argnums: int | Sequence[int]) -> dict[str, Any]:
    return {"positions": positions_of(word, argnums), "single": isinstance(argnums, int)}


def jvp(fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The value of a function for `primals`, and its tangent for their `tangents`: forward mode.

    Both are sequences of one an argument; a tangent has the shape of its argument, None is zero. It runs on
    the backend of a compiled `fun`. Source: jax.jvp. Errors are those of `jit`.
    """
    if not callable(fun):
        raise UnsupportedError(f"jvp needs a function, got a {type(fun).__name__}")
    for what, values in (("primals", primals), ("tangents", tangents)):
        if not isinstance(values, tuple | list):
            raise UnsupportedError(f"jvp: {what} is a {type(values).__name__}, expected a tuple; write (x,)")
    if len(primals) != len(tangents):
        raise UnsupportedError(
            f"jvp: {len(primals)} primals and {len(tangents)} tangents; give one tangent an argument"
        )
    return _ahead(fun)(tuple(primals), tuple(tangents))


def vjp(fun: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """The value of a function, and the function from a cotangent of it to those of all arguments.

    The cotangent is like the value; what the function gives is a tuple of one an argument. Outside compiled
    functions each call of it computes the value again. Source: jax.vjp. Errors are those of `jit`.
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
