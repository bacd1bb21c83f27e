"""Making: a function of a module under construction, with its ports, constants and sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.extent import size
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.location import node_location
from glow_dialects.core.size_text import SYMBOLS, SymbolsAttr
from glow_dialects.core.symbols import Symbols
from glow_dialects.core.types import Array, Tensor, shape_of
from glow_dialects.ops.module import ConstantOp, FuncOp, GetOp, PlaceholderOp
from glow_frontends.graph.errors import RuleError
from glow_frontends.graph.values import MAX_ELEMENTS

#: Placeholders carry the model's name of the tensor where it could not be the symbol.
NAME_ATTRIBUTE = "onnx.name"


class Making:
    """A module and its function, to which a frontend adds; `symbols` are the sizes that stay open.

    `source` is what messages call the program, `reserved` are symbols that ports will have. An empty
    function of a module that nothing was added to may be given in place of a name.
    """

    def __init__(
        self,
        function: FuncOp | str = "main",
        source: str = "",
        reserved: Iterable[str] = (),
        symbols: Symbols | None = None,
    ) -> None:
        self.function = FuncOp.of(function) if isinstance(function, str) else function
        around = self.function.parent_op()
        self.module = ModuleOp([self.function]) if around is None else cast(ModuleOp, around)
        if source:
            self.module.location = node_location(source)
        self.symbols = symbols or Symbols()
        #: Where operators go.
        self.builder = Builder.at_end(self.function.body.block)
        self.taken = {self.function.sym_name.data, *reserved}

    # --- symbols -----------------------------------------------------------------------------
    def unique(self, name: str) -> str:
        """A symbol of the module that nothing has, like `name`."""
        candidate, count = name, 0
        while candidate in self.taken:
            count += 1
            candidate = f"{name}_{count}"
        self.taken.add(candidate)
        return candidate

    def port(
        self, name: str, kind: Tensor, role: str = "input", first: Array | None = None, symbol: str = ""
    ) -> PlaceholderOp:
        """A tensor bound at run time; it keeps its `name` where the `symbol` is another."""
        op = PlaceholderOp.of(symbol or name, kind, role, first)
        if symbol and symbol != name:
            op.attributes[NAME_ATTRIBUTE] = StringAttr(name)
        self._declare(op)
        self.declare_sizes()
        return op

    def constant(self, symbol: str, array: Array, kind: Tensor | None = None) -> SSAValue:
        """A tensor known at compile time, read."""
        op = ConstantOp.of(symbol, array, kind)
        self._declare(op)
        return self.read(op)

    def read(self, op: ConstantOp | PlaceholderOp) -> SSAValue:
        """What a symbol of the module holds."""
        return self.builder.insert(GetOp.of(op)).result

    def _declare(self, op: ConstantOp | PlaceholderOp) -> None:
        self.module.body.block.insert_op_before(op, self.function)

    def declare_sizes(self) -> None:
        """Say in the module which sizes are open."""
        if self.symbols.conditions.symbols:
            self.module.attributes[SYMBOLS] = SymbolsAttr(self.symbols.conditions)

    # --- operators ---------------------------------------------------------------------------
    def node(
        self,
        kind: type[GraphOp],
        operands: Sequence[Any],
        results: Attribute | Sequence[Attribute] | None,
        properties: dict[str, Any],
        verify: bool = False,
    ) -> GraphOp:
        """An operator that is to be inserted; VerifyException where its operands do not fit, RuleError for
        results that no machine holds.

        Operators are verified again for the sizes of a call: what they ask of open ones now decides nothing.
        """
        with self.symbols.conditions.provisional():
            op = kind(*operands, results=results, **properties)
            if verify:
                op.verify()
            else:
                op.check()
            for result in op.results:
                check_size(shape_of(result))
        return op

    def finished(self, verify: bool = True) -> ModuleOp:
        """The module, verified; OpenSizes where it is not right for all sizes."""
        self.declare_sizes()
        self.symbols.conditions.check_open()
        if verify:
            with self.symbols.conditions.provisional():
                self.module.verify()
        return self.module


def check_size(dims: Sequence[int], most: int = MAX_ELEMENTS) -> None:
    """Refuse tensors that no machine holds, of more elements than `most`, or of negative sizes."""
    if any(dim < 0 for dim in dims):
        raise RuleError(f"a tensor of shape {'x'.join(map(str, dims))} has a negative size")
    count = 1
    for dim in dims:
        count *= size(dim)
    if count > most:
        raise RuleError(f"a tensor of shape {'x'.join(map(str, dims))} is too large")
