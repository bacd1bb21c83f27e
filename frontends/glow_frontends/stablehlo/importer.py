"""import_stablehlo: a StableHLO program in MLIR's generic form becomes a module of the `glow` dialect."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, ComplexType, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from glow_dialects.core.errors import GlowError, ImportProblems, ShapeError, UnsupportedError
from glow_dialects.core.location import names as location_names
from glow_dialects.core.location import node_location
from glow_dialects.core.types import Array, Tensor, shape_of, tensor, typed
from glow_dialects.ops.module import SaveOp
from glow_frontends.graph import Emitter, RuleError, Value
from glow_frontends.stablehlo.node import Blocked, Node, Written, op_name
from glow_frontends.stablehlo.rules import RULES
from glow_frontends.stablehlo.text import parsed

#: What is known of operations and arguments beside StableHLO, as attributes of them: where an operation comes
#: from, the number of a constant that the text does not hold; name and symbolic sizes of an argument.
LOCATION, STORED, NAME, SHAPE = "glow.location", "glow.constant", "glow.name", "glow.shape"

_LINE = re.compile(r":\d+$")
_RETURNS = ("func.return", "stablehlo.return")


def import_stablehlo(text: str, source: str = "program", constants: Sequence[Array] = ()) -> ModuleOp:
    """The module of a StableHLO program in generic form: its function `main`, others inlined.

    `source` is what messages call it; `constants` are those that it names by number. Dynamic dimensions
    become sizes that stay open. Raises ImportProblems with every problem, GlowError for text that is none.
    """
    return _Import(source, constants).module(parsed(text, source))


class _Import:
    """One import: the values so far, and the problems met."""

    def __init__(self, source: str, constants: Sequence[Array]) -> None:
        self.source = source
        self.constants = constants
        self.g = Emitter(source=source)
        self.sizes = self.g.symbols
        self.functions: dict[str, FuncOp] = {}
        self.values: dict[SSAValue, Value] = {}
        self.written: dict[SSAValue, Written] = {}
        self.problems: dict[str, None] = {}
        #: The places of the operations around the one that is imported.
        self.callers: list[str] = []

    def module(self, program: ModuleOp) -> ModuleOp:
        """Inputs, operations, outputs."""
        self.functions = {op.sym_name.data: op for op in program.walk() if isinstance(op, FuncOp)}
        main = self.functions.get("main")
        if main is None:
            raise GlowError(f"{self.source}: there is no function @main, where the program begins")
        arguments = self._inputs(main)
        try:
            results = self.run(main.body.block, arguments)
        except Blocked:
            results = []
        if self.problems:
            raise ImportProblems(self.source, list(self.problems))
        self._outputs(main, results)
        return self.g.finished()

    # --- ports ---------------------------------------------------------------------------------
    def _inputs(self, main: FuncOp) -> list[Value]:
        values: list[Value] = []
        for index, argument in enumerate(main.body.block.args):
            known = _entry(main.arg_attrs, index)
            name = _string(known, NAME) or f"arg{index}"
            try:
                kind = self._input_type(argument.type, name, known)
            except (ShapeError, VerifyException, UnsupportedError) as error:
                raise GlowError(f"{self.source}: input '{name}': {error}") from None
            values.append(self.g.read(self.g.port(self.g.unique(name), kind)))
        return values

    def _input_type(self, kind: Attribute, name: str, known: dict[str, Attribute]) -> Tensor:
        declared = typed(kind)
        if isinstance(declared.element_type, ComplexType):
            raise UnsupportedError(f"{declared} contains complex numbers, which are not supported")
        texts = known.get(SHAPE)
        dims: list[int] = []
        for axis, size in enumerate(shape_of(declared)):
            if size < 0:
                given = texts.data[axis] if isinstance(texts, ArrayAttr) else None
                size = self._size(given.data if isinstance(given, StringAttr) else f"{name}.{axis}")
            dims.append(size)
        return tensor(dims, tensor((), declared.element_type).element_type)

    def _size(self, text: str) -> int:
        """A size of an argument: arithmetic of names as JAX writes it, else a name of its own."""
        try:
            return self.sizes.size(text)
        except ShapeError:
            return self.sizes.named(text)

    def _outputs(self, main: FuncOp, results: Sequence[Value]) -> None:
        for index, value in enumerate(results):
            name = _string(_entry(main.res_attrs, index), "jax.result_info") or f"result[{index}]"
            saved = self.g.value(value)
            self.g.builder.insert(SaveOp.of(saved, self.g.port(self.g.unique(name), typed(saved), "output")))

    # --- operations ------------------------------------------------------------------------------
    def run(self, block: Block, arguments: Sequence[Value]) -> list[Value]:
        """The values that a block returns for arguments; Blocked where problems stand in the way."""
        self.values.update(zip(block.args, arguments, strict=True))
        for op in block.ops:
            if op_name(op) in _RETURNS:
                return [self._value(v) for v in op.operands]
            self._step(op)
        raise RuleError("a block without results")

    def call(self, name: str, arguments: Sequence[Value]) -> list[Value]:
        """The results of another function of the program, inlined."""
        return self.run(self.function(name), arguments)

    def function(self, name: str) -> Block:
        """The body of a function of the program."""
        function = self.functions.get(name)
        if function is None:
            raise RuleError(f"there is no function @{name}")
        return function.body.block

    def size_of(self, block: Block) -> int:
        """How many operations run in a block, those of called functions too, each loop once."""
        count = 0
        for op in block.walk():
            called = (
                self.functions.get(Node(op, [], self).text("callee")) if op_name(op) == "func.call" else None
            )
            count += 1 if called is None else self.size_of(called.body.block)
        return max(count - 1, 1)

    def find(self, value: SSAValue) -> Value | None:
        """What a value is, where it is one yet."""
        return self.values.get(value)

    def _value(self, value: SSAValue) -> Value:
        found = self.values.get(value)
        if found is None:
            raise Blocked
        return found

    def _step(self, op: Operation) -> None:
        for result in op.results:
            self.values.pop(result, None)
        before = self.g.builder.location
        place = self._place(op)
        self.g.builder.location = node_location(place or op_name(op))
        self.callers.append(place)
        try:
            made = self._made(op)
            self.values.update(zip(op.results, made, strict=True))
        except Blocked:
            pass
        except (RuleError, GlowError, VerifyException) as error:
            reason = str(error).strip().splitlines()[-1]
            self.problems[f"{op_name(op)} at {place or 'an unknown place'}: {reason}"] = None
        finally:
            self.callers.pop()
            self.g.builder.location = before

    def _place(self, op: Operation) -> str:
        """Where an operation comes from: a line of the program, if need be that of a call, or of the text."""
        own = _string(op.attributes, LOCATION)
        if not own:
            return next(iter(location_names(op.location)), "")
        caller = next((c for c in reversed(self.callers) if _LINE.search(c)), "")
        return own if _LINE.search(own) or not caller else f"{own} in {caller}"

    def _made(self, op: Operation) -> Sequence[Value]:
        if op_name(op) != "func.call" and any(
            isinstance(typed(r).element_type, ComplexType) for r in op.results
        ):
            raise RuleError("complex numbers, which this compiler does not have")
        node = Node(op, [self._value(v) for v in op.operands], self)
        stored = op.attributes.get(STORED)
        if isinstance(stored, IntegerAttr):
            return [self.constants[stored.value.data]]
        rule = RULES.get(node.name)
        if rule is None:
            raise RuleError("no rule for this operation")
        made = rule(self.g, node)
        return [made] if isinstance(made, np.ndarray | SSAValue) else made


def _entry(attributes: ArrayAttr[DictionaryAttr] | None, index: int) -> dict[str, Attribute]:
    """The attributes of an argument or a result."""
    return {} if attributes is None else dict(attributes.data[index].data)


def _string(attributes: dict[str, Attribute], name: str) -> str:
    found = attributes.get(name)
    return found.data if isinstance(found, StringAttr) else ""
