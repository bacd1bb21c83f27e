"""GraphBuilder: a module and one graph function, written operator by operator.

g = GraphBuilder()
x = g.placeholder("x", (1, 3, 32, 32))
w = g.constant(weights, name="w")
g.save(g.relu(g.conv(x, w, pads=1)), "y")
net = glow_compiler.compile(g)

A dimension with a name in place of a number is open: `g.placeholder("x", ("n", 128))`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from math import inf

import numpy as np
from numpy.typing import DTypeLike
from xdsl.ir import SSAValue

from glow_dialects.core.attributes import INLINE_BYTES
from glow_dialects.core.errors import GlowError, ShapeError
from glow_dialects.core.extent import Extent, is_open
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.plain_arrays import as_plain
from glow_dialects.core.symbols import MOST
from glow_dialects.core.types import Array, Tensor, dtype_of, element_type, shape_of, tensor
from glow_dialects.ops.module import KINDS, GetOp, PlaceholderOp, SaveOp
from glow_frontends.builder.core import Like, Value
from glow_frontends.builder.math import Math
from glow_frontends.builder.nn import Networks
from glow_frontends.builder.shapes import Shapes
from glow_frontends.graph.module import Making

__all__ = ["GraphBuilder", "Value"]


class GraphBuilder(Math, Shapes, Networks):
    """Builds a graph in Python.

    Every operator is a method: operands in order, properties by name. Operators accept values, arrays and
    numbers. They check their operands immediately. `module` is valid after every call.

    Args:
        name: The name of the function.

    Examples:
        >>> g = glow.GraphBuilder()
        >>> x = g.placeholder("x", (1, 4))
        >>> w = g.constant(np.ones((4, 2), np.float32), "w")
        >>> g.save(g.relu(g.matmul(x, w) - 3.0), "y")
        >>> glow.compile(g).run({"x": np.ones((1, 4), np.float32)})["y"].tolist()
        [[1.0, 1.0]]
    """

    def __init__(self, name: str = "main") -> None:
        super().__init__(Making(name))

    def __repr__(self) -> str:
        kinds = [op.kind.data for op in self.module.ops if isinstance(op, PlaceholderOp)]
        nodes = sum(isinstance(op, GraphOp) for op in self.function.body.block.ops)
        counts = f"{kinds.count('input')} inputs, {nodes} nodes, {kinds.count('output')} outputs"
        return f"GraphBuilder(@{self.function.sym_name.data}: {counts})"

    def size(self, name: str, least: int = 0, most: int | None = None, multiple_of: int = 1) -> Extent:
        """Declare a dynamic size, for shapes of placeholders and for arithmetic with them.

        Args:
            name: The name of the size.
            least: The smallest allowed value.
            most: The largest allowed value; None means no limit.
            multiple_of: The value must be a multiple of this.

        Returns:
            The size; Python's arithmetic works on it.

        Raises:
            ShapeError: No number satisfies the limits, or the name is already a size.

        Examples:
            >>> g = glow.GraphBuilder()
            >>> n = g.size("n", 1, 512, multiple_of=8)
            >>> g.save(g.reshape(g.placeholder("x", (n, 2)), (2 * n,)), "y")
        """
        made = self.symbols.declare(name, least, inf if most is None else most, multiple_of)
        self.making.declare_sizes()
        return made

    def placeholder(
        self, name: str, shape: Sequence[int | str], dtype: DTypeLike = np.float32, kind: str = "input"
    ) -> Value:
        """A tensor that gets its value at run time.

        Args:
            name: Its name.
            shape: Sizes. A name, or an expression such as "2*n+1", is a dynamic size.
            dtype: The element type.
            kind: "input", or "state" or "trainable" for a tensor that keeps its value from call to call.

        Returns:
            The value.

        Raises:
            ShapeError: A size is wrong.
            GlowError: The name is already used, or the kind is unknown.

        Examples:
            >>> g = glow.GraphBuilder()
            >>> x = g.placeholder("x", ("batch", 8))
        """
        if kind not in KINDS or kind == "output":
            raise GlowError(f"placeholder '{name}': kind '{kind}' is not input, state or trainable")
        dims = tuple(self._dimension(name, size, shape) for size in shape)
        if is_open(dims) and kind != "input":
            raise ShapeError(f"placeholder '{name}': shape {tuple(shape)}; sizes of a {kind} are numbers")
        return self._port(name, tensor(dims, element_type(dtype)), kind)

    def _dimension(self, name: str, size: object, shape: Sequence[object]) -> int:
        """A size of a placeholder."""
        try:
            made = self.symbols.size(size) if isinstance(size, str) else size
        except ShapeError as error:
            raise ShapeError(f"placeholder '{name}': {error}") from None
        own = isinstance(made, Extent) and made.conditions is self.symbols.conditions
        if not own and not (isinstance(made, int | np.integer) and 0 <= int(made) <= MOST):
            raise ShapeError(
                f"placeholder '{name}': shape {tuple(shape)}; sizes are not negative, names, or of this graph"
            )
        return made  # pyright: ignore[reportReturnType] # NumPy's numbers are made Python's by `tensor`

    def constant(self, array: Array | Sequence[float] | float, name: str | None = None) -> Value:
        """A tensor that is known at compile time.

        Args:
            array: Its value. Lists of floats become float32; arrays keep their type.
            name: A name; by default one is made up.

        Returns:
            The value.

        Raises:
            GlowError: The name is already used.
            UnsupportedError: The elements are not numbers.

        Examples:
            >>> g = glow.GraphBuilder()
            >>> w = g.constant([[1.0, 2.0]], "w")
        """
        values = as_plain("a constant", array)
        if not isinstance(array, np.ndarray | np.generic) and values.dtype == np.float64:
            values = values.astype(np.float32)
        if name is None and values.nbytes <= INLINE_BYTES:
            return Value(self, self.builder.constant(values))
        symbol = self.making.unique("constant") if name is None else self._symbol(name)
        return self._named(self.making.constant(symbol, values), name or "constant")

    def array(self, array: Array) -> Value:
        return self.constant(array)

    def trainable(self, array: Array, name: str) -> Value:
        """A weight that training changes, with its first value; GlowError for a name that is taken."""
        values = as_plain(f"'{name}'", array)
        return self._port(name, tensor(values.shape, values.dtype), "trainable", values)

    def save(self, value: Like, name: str = "output") -> None:
        """Make a value an output.

        Args:
            value: The value.
            name: The name of the output.

        Raises:
            GlowError: The name is already used.

        Examples:
            >>> g = glow.GraphBuilder()
            >>> g.save(g.placeholder("x", (2,)) + 1.0, "y")
        """
        saved = self.value(value)
        target = self.making.port(name, saved.type, "output", symbol=self._symbol(name))
        self.builder.insert(SaveOp.of(saved.ssa, target))

    def update(self, state: Value, value: Like) -> None:
        """Give a state its value for the next call.

        Args:
            state: A placeholder of kind "state" or "trainable".
            value: The next value.

        Raises:
            GlowError: The first argument is not a state or trainable.

        Examples:
            >>> g = glow.GraphBuilder()
            >>> count = g.placeholder("count", (1,), kind="state")
            >>> g.update(count, count + 1.0)
        """
        owner = state.ssa.owner
        target = owner.target() if isinstance(owner, GetOp) else None
        if not isinstance(target, PlaceholderOp) or target.kind.data not in ("state", "trainable"):
            raise GlowError("update: the first operand is no state of the graph; make one with placeholder")
        given = self.value(value)
        if given.type != target.type:
            raise ShapeError(f"update: '{target.sym_name.data}' is {target.type}, the value {given.type}")
        self.builder.insert(SaveOp.of(given.ssa, target))

    @contextmanager
    def predicated(self, predicate: Value) -> Generator[None]:
        """`with g.predicated(p): ...`: results of the operators inside matter only where p is true.

        p is one boolean, or one for each sample: then operators on as many samples, first, are meant.
        Backends may leave out what does not matter, which is anything then. Inner predicates come first.
        ShapeError for a p of another form, and for one that fits none of the operators inside.
        """
        shape = shape_of(predicate.ssa)
        if dtype_of(predicate.ssa.type) != np.dtype(bool) or len(shape) > 1:
            raise ShapeError(f"predicated: {predicate.type} is neither a boolean nor one for each sample")
        first = len(self.builder.inserted)
        yield
        batches: set[tuple[int, ...]] = set()
        for op in self.builder.inserted[first:]:
            if isinstance(op, GraphOp) and op.operands and op.predicate is None:
                sizes = {s[:1] for v in (*op.operands, *op.results) if (s := shape_of(v))}
                batches |= sizes
                if shape in ((), (1,)) or shape in sizes:
                    op.set_predicate(predicate.ssa)
        flags = shape[0] if shape else 1
        if flags != 1 and batches and shape not in batches:
            found = ", ".join(str(size[0]) for size in sorted(batches) if size)
            raise ShapeError(
                f"predicated: {predicate.type} has one flag for each of {flags} samples, but the first "
                f"dimensions of the operators inside are {found}; give one flag per sample, or a single "
                "boolean"
            )

    def _port(self, name: str, kind: Tensor, role: str, first: Array | None = None) -> Value:
        """A tensor bound at run time, read."""
        port = self.making.port(name, kind, role, first, self._symbol(name))
        return self._named(self.making.read(port), name)

    def _named(self, value: SSAValue, name: str) -> Value:
        """A value that the text of the program calls `name`, where it can."""
        if name.isidentifier():
            value.name_hint = name
        return Value(self, value)

    def _symbol(self, name: str) -> str:
        """A symbol for `name`, which must be new, or the function's."""
        if name in self.making.taken and name != self.function.sym_name.data:
            raise GlowError(f"the graph already has a constant, placeholder or output '{name}'")
        return self.making.unique(name)
