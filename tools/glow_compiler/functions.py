"""Python functions compiled: `jit`, `grad`, `value_and_grad`, and the operators as functions.

f = glow.jit(python_function, backend="cpu")
df = glow.grad(f, argnums=0)
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, overload

import numpy as np

from glow_compiler.type_variables import P, R
from glow_dialects.core.errors import BindingError, GlowError, UnsupportedError
from glow_dialects.core.quiet_gc import quiet_gc
from glow_dialects.fn.domain import NotNative
from glow_runtime.functions import FunctionProgram, Value, checked, type_of

if TYPE_CHECKING:
    import inspect

    from glow_compiler.argument_writes import ArgumentWrites
    from glow_compiler.function_sizes import FunctionSizes
    from glow_compiler.function_states import StatefulFunction
    from glow_runtime.executable import Specialize
    from glow_runtime.function_profile import FunctionProfile

BACKENDS = ("cpu", "interpreter")


#: Kinds of arguments whose machine code calls find at once.
READY = 1024


@dataclass(frozen=True)
class Sizes:
    """What `jit` is told of sizes: shapes of parameters, and which programs there are."""

    shapes: Mapping[str, Any] | None = None
    specialize: Specialize | None = None

    def of(self, function: Callable[..., Any]) -> FunctionSizes | None:
        """The open sizes of a function; None where each set of shapes has a program of its own."""
        if self == UNSIZED:
            return None
        from glow_compiler.function_sizes import FunctionSizes

        name = getattr(function, "__name__", "function")
        return FunctionSizes(name, list(_signature(function).parameters), self.shapes, self.specialize)


UNSIZED = Sizes()


@dataclass
class _Gradient:
    """The source of a compiled function: a Python function, differentiated some times."""

    function: Callable[..., Any]
    positions: tuple[int, ...] = (0,)
    single: bool = True
    with_value: bool = False


@dataclass
class Transformed:
    """The source of a compiled function: a Python function, mapped, or its derivatives; `kind` says what."""

    kind: str
    function: Callable[..., Any]
    options: dict[str, Any]


class CompiledFunction(Generic[P, R]):
    """A Python function that runs compiled; specialised for the types of its arguments."""

    def __init__(
        self,
        function: Callable[..., Any],
        backend: str = "cpu",
        gradient: _Gradient | Transformed | None = None,
        unroll: int = 0,
        sizes: Sizes = UNSIZED,
    ) -> None:
        if backend not in BACKENDS:
            told = getattr(backend, "name", backend)
            raise UnsupportedError(
                f"jit: there is no backend '{told}' for functions; use {' or '.join(BACKENDS)}"
            )
        self.backend = backend
        self.unroll = unroll
        self._gradient = gradient
        self._function = function
        self._program: FunctionProgram | None = None
        #: What it changes of its arguments, and the program that gives that as well.
        self._writes: ArgumentWrites | None = None
        self._writing: FunctionProgram | None = None
        self._ready: dict[Any, Callable[[Sequence[Any]], Any]] = {}
        self.sizes = sizes
        self._sized = sizes.of(function)
        functools.update_wrapper(self, function, updated=())

    @property
    def glow_function(self) -> Callable[..., Any]:
        """The Python function, for functions that call this one."""
        if self._gradient is not None:
            raise AttributeError("glow_function")
        return self._function

    @property
    def glow_gradient(self) -> tuple[Callable[..., Any], tuple[int, ...], bool, bool]:
        """The differentiated function and how, for functions that call this one."""
        g = self._gradient
        if not isinstance(g, _Gradient):
            raise AttributeError("glow_gradient")
        return g.function, g.positions, g.single, g.with_value

    @property
    def glow_transformed(self) -> tuple[str, Callable[..., Any], dict[str, Any]]:
        """What was made of which function, and how, for functions that call this one."""
        g = self._gradient
        if not isinstance(g, Transformed):
            raise AttributeError("glow_transformed")
        return g.kind, g.function, g.options

    @property
    def python(self) -> Callable[..., Any]:
        """The plain Python function."""
        return self._function

    @property
    def program(self) -> FunctionProgram:
        """The program at the functional level, made from the source on first use."""
        if self._program is None:
            self._program = self._imported(())
        return self._program

    def _imported(self, written: Sequence[str]) -> FunctionProgram:
        from glow_frontends.python import import_function

        start = time.perf_counter()
        with quiet_gc():
            module, name = import_function(self, written)
            program = FunctionProgram(module, name, self.backend, self.unroll)
        program.seconds["import"] = time.perf_counter() - start
        return program

    @property
    def writes(self) -> ArgumentWrites:
        """What the function changes of its arguments."""
        if self._writes is None:
            from glow_compiler.argument_writes import ArgumentWrites

            self._writes = ArgumentWrites(self)
        return self._writes

    def __call__(self, *arguments: P.args, **keywords: P.kwargs) -> R:
        """The function's value for numbers, arrays and tuples of them."""
        key = _kind(arguments)
        if keywords:
            named = _kind(tuple(keywords.values()))
            key = None if key is None or named is None else (key, *keywords, named)
        ready = self._ready.get(key)
        if ready is not None:
            try:
                return ready((*arguments, *keywords.values()) if keywords else arguments)
            except NotNative:
                pass  # an int that is too large: the interpreter has it below
        given = self._bound(arguments, keywords)
        values = [checked(v, i) for i, v in enumerate(given)]
        changed = self.writes.of(given)
        if not changed and self._gradient is None and self.writes.viewed(given):
            self._writer().specialize(tuple(map(type_of, values)), values)
        result, native = (
            self._changing(given, values, changed)
            if changed
            else self._run(values, ready is not None, self.program)
        )
        if key is not None and native is not None:
            ready = self._arranged(native, len(arguments), list(keywords), values)
            if ready is not None:
                if len(self._ready) >= READY:
                    self._ready.clear()
                self._ready[key] = ready
        return result

    @property
    def open_sizes(self) -> FunctionSizes | None:
        """Which sizes of the arguments are open; None where each set of shapes has its own program."""
        return self._sized

    def _changing(
        self, given: Sequence[Any], values: Sequence[Value], changed: Sequence[int]
    ) -> tuple[Any, Callable[[Sequence[Any]], Any] | None]:
        """`_run` where the caller's objects change: what they hold is stored when the run is done."""
        writes = self.writes
        if self._gradient is not None:
            writes.refuse(changed, "a function that is made of it")
        writes.check(given, changed)
        program = self._writer()
        (result, finals), native = self._run(values, False, program)
        writes.store(given, changed, finals)
        if native is None:
            return result, None

        def again(given: Sequence[Any]) -> Any:
            writes.check(given, changed)
            result, finals = native(given)
            writes.store(given, changed, finals)
            return result

        return result, again

    def _writer(self) -> FunctionProgram:
        """The program that gives what its arguments hold after a run as well."""
        if self._writing is None:
            self._writing = self._imported([self.writes.names[i] for i in self.writes.writes])
        return self._writing

    def pure(self, *arguments: Any) -> Any:
        """The value for arguments that stay as they are, even if the function changes them."""
        values = [checked(v, i) for i, v in enumerate(arguments)]
        return self._run(values, False, self.program)[0]

    def _run(
        self, values: Sequence[Value], left: bool, program: FunctionProgram
    ) -> tuple[Any, Callable[[Sequence[Any]], Any] | None]:
        """The value, and what runs more calls of such arguments; `left`: a program for any size did not."""
        if self._sized is not None:
            sized = self._sized.of(values, program)
            if not isinstance(sized, str) and not left:
                try:
                    return sized(values), sized
                except NotNative:
                    pass  # of these sizes, or numbers
        return program.run(values), program.native(values)

    def _arranged(
        self, native: Callable[[Sequence[Any]], Any], count: int, keywords: list[str], values: Sequence[Value]
    ) -> Callable[[Sequence[Any]], Any] | None:
        """Machine code that takes `count` arguments, then keywords, and knows the defaults of the others."""
        parameters = _signature(self._function).parameters
        if any(p.kind is p.VAR_POSITIONAL for p in parameters.values()):
            return None
        if count == len(values):
            return native
        order = [
            *range(count),
            *(count + keywords.index(n) for n in list(parameters)[count:] if n in keywords),
        ]
        if len(order) == len(values):
            return lambda values: native([values[i] for i in order])
        if keywords:
            return None
        rest = tuple(values[count:])
        return lambda values: native((*values, *rest))

    def _bound(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Sequence[Any]:
        signature = _signature(self._function)
        try:
            bound = signature.bind(*arguments, **keywords)
        except TypeError as error:
            raise BindingError(f"{getattr(self._function, '__name__', 'function')}: {error}") from None
        bound.apply_defaults()
        values: list[Any] = []
        for name, parameter in signature.parameters.items():
            if parameter.kind is not parameter.VAR_POSITIONAL:
                values.append(bound.arguments[name])
        rest = [p for p in signature.parameters.values() if p.kind is p.VAR_POSITIONAL]
        return [*values, tuple(bound.arguments[rest[0].name])] if rest else values

    @property
    def signature(self) -> inspect.Signature:
        """The parameters, those of the Python function."""
        return _signature(self._function)

    def save(self, path: str | Path) -> None:
        """Write the program as `.mlir`, with arrays above 256 bytes beside it, for `glow.load(path)`.

        What the function read of the names around it is part of it. The file has no shapes: the function is
        specialised for its arguments as before. Results that are named tuples or dataclasses are dicts where
        their classes are not known. UnsupportedError for other extensions, and defaults that are arrays.
        """
        from glow_compiler.saved_functions import save_function

        save_function(self, Path(path))

    def save_graphs(self, folder: str | Path, level: int = 1) -> list[Path]:
        """Write each phase as `.ir` and `.dot` files; level 2 adds specialised code, 3 every pass and SVG."""
        from glow_compiler.function_graphs import save_graphs

        return save_graphs(self, Path(folder), level)

    def profile(self, *arguments: Any, **keywords: Any) -> FunctionProfile:
        """Run once and count: how often each line of the Python text ran, and its share of operations."""
        from glow_runtime.function_profile import profile

        values = [checked(v, i) for i, v in enumerate(self._bound(arguments, keywords))]
        return profile(self.program, tuple(map(type_of, values)), values)

    def report(self) -> dict[str, Any]:
        """Seconds of each phase, operations, what runs where; which sizes are open, or why they are not."""
        sizes = {} if self._sized is None else {"sizes": self._sized.report()}
        report = self.program.report()
        if self._writing is not None:
            report["instances"] += self._writing.report()["instances"]
        return report | sizes

    def __repr__(self) -> str:
        return f"<glow function {getattr(self, '__name__', '')} on {self.backend}>"


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """The parameters of the compiled function: those of a wrapper in Python, not of the wrapped function."""
    import inspect

    try:
        return inspect.signature(function, follow_wrapped=not isinstance(function, FunctionType))
    except ValueError:  # of some functions in C
        name = getattr(function, "__name__", repr(function))
        raise UnsupportedError(
            f"the parameters of {name} are not known; call it in a function of yours"
        ) from None


def _kind(value: Any) -> Any:
    """The key of calls of the same machine code; None where there is no simple one."""
    kind = type(value)
    if kind is np.ndarray:
        return value.shape, value.dtype
    if kind is float or kind is int or kind is bool:
        return kind
    if kind is tuple:
        kinds = tuple([_kind(v) for v in value])
        return None if None in kinds else kinds
    if kind is dict:
        kinds = [_kind(v) for v in value.values()]
        return None if None in kinds else (dict, *value, *kinds)
    return None


@overload
def jit(
    function: Callable[..., Any],
    *,
    backend: str = "cpu",
    unroll: int = 0,
    states: Sequence[str],
    shapes: Mapping[str, Any] | None = None,
    specialize: Specialize | None = None,
) -> StatefulFunction: ...
@overload
def jit(
    function: None = None,
    *,
    backend: str = "cpu",
    unroll: int = 0,
    states: Sequence[str],
    shapes: Mapping[str, Any] | None = None,
    specialize: Specialize | None = None,
) -> Callable[[Callable[..., Any]], StatefulFunction]: ...
@overload
def jit(
    function: Callable[P, R],
    *,
    backend: str = "cpu",
    unroll: int = 0,
    shapes: Mapping[str, Any] | None = None,
    specialize: Specialize | None = None,
) -> CompiledFunction[P, R]: ...
@overload
def jit(
    function: None = None,
    *,
    backend: str = "cpu",
    unroll: int = 0,
    shapes: Mapping[str, Any] | None = None,
    specialize: Specialize | None = None,
) -> Callable[[Callable[P, R]], CompiledFunction[P, R]]: ...
def jit(
    function: Callable[..., Any] | None = None,
    *,
    backend: str = "cpu",
    unroll: int = 0,
    states: Sequence[str] = (),
    shapes: Mapping[str, Any] | None = None,
    specialize: Specialize | None = None,
) -> Any:
    """Compile a Python function; also a decorator.

    Normally there is one program for each set of argument shapes. `shapes` makes sizes dynamic.

    Args:
        function: The function.
        backend: "cpu" or "interpreter".
        unroll: Unroll loops and recursions of at most this many iterations, if the number is constant.
        states: Parameters that get the last results of the previous call; see `StatefulFunction`.
        shapes: For each parameter, one entry per axis: a size, a name for a dynamic size ("n", or with limits
            "n to 512"), or None for a dynamic size without a name. Equal names mean equal sizes. Other
            parameters have a program for each shape.
        specialize: As for `compile`: "never" compiles one program for any size at once, "hot" also compiles
            frequent sizes in the background, "always" compiles each set of shapes. With "never" or "hot" and
            no `shapes`, every size of every array is dynamic.

    Returns:
        The compiled function, or without `function` a decorator.

    Raises:
        ShapeError: `shapes` is wrong.
        BindingError: Raised by a call whose arguments do not fit `shapes`.
        GlowError: Raised by the first call: the message names file, line, construct and what to write
            instead.

    Examples:
        >>> @glow.jit
        ... def power(x, n):
        ...     result = 1.0
        ...     for _ in range(n):
        ...         result = result * x
        ...     return result
        >>> power(2.0, 10)
        1024.0
    """
    sizes = sizes_of(shapes, specialize)
    if states:
        from glow_compiler.function_states import StatefulFunction

        if isinstance(states, str):
            raise UnsupportedError(f"jit: states is a tuple of names, not '{states}'")
        if function is None:
            return lambda f: jit(  # pyright: ignore
                f, backend=backend, unroll=unroll, states=states, shapes=shapes, specialize=specialize
            )
        return StatefulFunction(CompiledFunction(function, backend, unroll=unroll, sizes=sizes), states)
    if function is None:
        return lambda f: jit(f, backend=backend, unroll=unroll, shapes=shapes, specialize=specialize)  # pyright: ignore
    if isinstance(function, CompiledFunction):
        sizes = function.sizes if sizes == UNSIZED else sizes
        if (function.backend, function.unroll, function.sizes) == (backend, unroll, sizes):
            return function
        return CompiledFunction(function.python, backend, function._gradient, unroll, sizes)
    if not callable(function):
        raise UnsupportedError(f"jit needs a function, got a {type(function).__name__}")
    return CompiledFunction(function, backend, unroll=unroll, sizes=sizes)


def sizes_of(shapes: Mapping[str, Any] | None, specialize: Specialize | None) -> Sizes:
    """What `jit` is told of sizes; GlowError where `specialize` is none of its words."""
    if specialize not in (None, "never", "hot", "always"):
        raise GlowError(f"specialize={specialize!r}, expected one of never, hot, always")
    return UNSIZED if shapes is None and specialize in (None, "always") else Sizes(shapes, specialize)


def positions_of(word: str, argnums: object) -> tuple[int, ...]:
    """The arguments that a function is differentiated by; UnsupportedError where they are no numbers."""
    positions: Any = argnums if isinstance(argnums, list | tuple) else (argnums,)
    if not positions or not all(isinstance(p, int) for p in positions):
        raise UnsupportedError(f"{word}: argnums is a number or a tuple of numbers, got {argnums!r}")
    return tuple(positions)


def _differentiated(
    function: Callable[..., Any], argnums: int | Sequence[int], with_value: bool, backend: str | None
) -> CompiledFunction:
    word = "value_and_grad" if with_value else "grad"
    if not callable(function):
        raise UnsupportedError(f"{word} needs a function, got a {type(function).__name__}")
    single = isinstance(argnums, int)
    positions = positions_of(word, argnums)
    chosen = backend or getattr(function, "backend", "cpu")
    _check_named(function, positions, word)
    plain = function.python if isinstance(function, CompiledFunction) else function
    gradient = _Gradient(function, positions, single, with_value)
    unroll, sizes = getattr(function, "unroll", 0), getattr(function, "sizes", UNSIZED)
    return CompiledFunction(plain, chosen, gradient, unroll, sizes if isinstance(sizes, Sizes) else UNSIZED)


def _check_named(function: Callable[..., Any], positions: Sequence[int], word: str) -> None:
    """Refuse to differentiate by one of `*arguments`, which are one tuple where they are compiled."""
    plain = function.python if isinstance(function, CompiledFunction) else function
    try:
        parameters = list(_signature(plain).parameters.values())
    except (TypeError, UnsupportedError):
        return
    packed = [i for i, p in enumerate(parameters) if p.kind is p.VAR_POSITIONAL]
    if packed and any(p < 0 or p > packed[0] for p in positions):
        name = parameters[packed[0]].name
        raise UnsupportedError(
            f"{word}: argnums counts *{name} as one argument, a tuple; name the parameters, or take"
            f" argnums={packed[0]} and an item of the tuple of gradients"
        )


def grad(
    function: Callable[P, Any], argnums: int | Sequence[int] = 0, *, backend: str | None = None
) -> CompiledFunction[P, Any]:
    """The gradient of a function.

    Args:
        function: A function that returns a float; it may be compiled.
        argnums: The argument or arguments to differentiate by.
        backend: "cpu" or "interpreter"; by default that of a compiled function, or "cpu".

    Returns:
        A function with the same parameters. It returns one gradient for a number `argnums`, a tuple for a
        sequence. Each has the type of its argument. It can be differentiated again.

    Raises:
        GlowError: As for `jit`.

    Examples:
        >>> glow.grad(lambda x: x**3)(2.0)
        12.0
        >>> glow.grad(lambda x, y: x * y, argnums=(0, 1))(2.0, 5.0)
        (5.0, 2.0)
    """
    return _differentiated(function, argnums, False, backend)


def value_and_grad(
    function: Callable[P, R], argnums: int | Sequence[int] = 0, *, backend: str | None = None
) -> CompiledFunction[P, tuple[R, Any]]:
    """The value and the gradient of a function.

    Args:
        function: A function that returns a float; it may be compiled.
        argnums: The argument or arguments to differentiate by.
        backend: As for `grad`.

    Returns:
        A function with the same parameters that returns (value, gradient).

    Raises:
        GlowError: As for `jit`.

    Examples:
        >>> glow.value_and_grad(lambda x: x * x)(3.0)
        (9.0, 6.0)
    """
    return _differentiated(function, argnums, True, backend)


jit.glow_transform = "jit"  # pyright: ignore
grad.glow_transform = "grad"  # pyright: ignore
value_and_grad.glow_transform = "value_and_grad"  # pyright: ignore
