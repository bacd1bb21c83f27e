"""A Python function and all that it calls as one module of `glow_fn` functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr, UnitAttr
from xdsl.ir import Block, Region

from glow_dialects.fn.dialect import FuncOp
from glow_dialects.fn.types import any_type
from glow_frontends.python.calls import as_function
from glow_frontends.python.emit import Static
from glow_frontends.python.errors import FunctionError
from glow_frontends.python.expressions import Env
from glow_frontends.python.functions import compile_body, parameters
from glow_frontends.python.source import Source, read
from glow_frontends.python.statements import Statements


class Importer:
    """The module being made; each Python function becomes one function of it."""

    def __init__(self, written: Sequence[str] = ()) -> None:
        self.module = ModuleOp([])
        #: Parameters of the user's function whose last values stand behind its result.
        self._written = written
        self._names: dict[Any, str] = {}
        self._taken: set[str] = set()
        self._main: Any = None
        self._places = 0

    def function(self, function: Callable[..., Any], called: str = "") -> str:
        """The name of the compiled form of a Python function; of one of ours, as it is `called` somewhere."""
        gradient = getattr(function, "glow_declared", None)
        if gradient is not None:
            function = getattr(function, "glow_function")  # noqa: B009 - of our own decorator
        key = (_key(function), id(gradient) if gradient is not None else 0, called)
        if key in self._names:
            return self._names[key]
        loaded: Any = function
        if hasattr(loaded, "glow_module"):
            self._names[key] = self._loaded(loaded.glow_module, loaded.glow_entry)
            return self._names[key]
        if not hasattr(function, "__code__"):
            raise FunctionError(f"{function!r} cannot be compiled", "use a Python function")
        source = replace(read(function), called=called)
        name = self._fresh(function.__name__ if function.__name__ != "<lambda>" else "lambda")
        self._names[key] = name
        if source.node.args.kwarg is not None:
            where = source.where(source.node)
            raise FunctionError("**keywords cannot be compiled", "name the parameters", where)
        names, _ = parameters(source.node.args)
        env: Env = {}
        if inspect.ismethod(function):  # what its object holds is known now
            env[names.pop(0)] = Static(function.__self__)
        compiler = Statements(source, self, name)
        compiler.main = function is self._main
        compiler.written = self._written if compiler.main else ()
        block = Block(arg_types=[any_type] * len(names))
        for argument, hint in zip(block.args, names, strict=True):
            argument.name_hint = hint
        env.update(zip(names, block.args, strict=True))
        compiler.block = block
        compiler.finish(compile_body(compiler, source.node, env, name, names))
        op = FuncOp.create(properties={"sym_name": StringAttr(name)}, regions=[Region(block)])
        op.attributes["counted"] = UnitAttr()
        if gradient is not None:
            op.attributes["gradient"] = self._gradient(source, name, gradient, len(names))
        self.module.body.block.add_op(op)
        return name

    def _gradient(self, source: Source, name: str, gradient: Callable[..., Any], count: int) -> SymbolRefAttr:
        """The declared gradient of a function of `count` parameters."""
        symbol = self.function(gradient, source.called)
        function = next(
            f for f in self.module.body.block.ops if isinstance(f, FuncOp) and f.sym_name.data == symbol
        )
        if len(function.block.args) != count + 2:
            raise FunctionError(
                f"the gradient of {name} takes {len(function.block.args)} parameters",
                f"give it {count + 2}: the cotangent, the result, and those of {name}",
                source.where(source.node),
            )
        return SymbolRefAttr(symbol)

    def entry(self, function: Any) -> str:
        """The name of the compiled form of what a user asks for: a function, or a gradient of one."""
        self._main = _user_function(function)
        if _made_of(function) is None:
            plain = _plain(function)
            code = getattr(plain, "glow_function", plain)
            if hasattr(code, "__code__") or hasattr(code, "glow_module"):
                return self.function(plain)
        inner = self._main
        source = read(_written_as(inner))
        names = list(inspect.signature(inner, follow_wrapped=False).parameters)
        with_value = getattr(function, "glow_gradient", (None, None, None, False))[3]
        kind = f"{'value_and_' if with_value else ''}grad" if hasattr(function, "glow_gradient") else "entry"
        name = self._fresh(getattr(function, "glow_transformed", (kind,))[0])
        compiler = Statements(source, self, name)
        block = Block(arg_types=[any_type] * len(names))
        compiler.block = block
        compiler.at(source.node)
        target = as_function(compiler, function, source.node, full=True)
        compiler.finish(compiler.call(target, *block.args))
        entry = FuncOp.create(properties={"sym_name": StringAttr(name)}, regions=[Region(block)])
        self.module.body.block.add_op(entry)
        return name

    def _loaded(self, module: ModuleOp, entry: str) -> str:
        """The functions of another module, under names that are free here; the name of one of them."""
        functions = [f for f in module.clone().body.block.ops if isinstance(f, FuncOp)]
        names = {f.sym_name.data: self._fresh(f.sym_name.data) for f in functions}
        for function in functions:
            function.detach()
            for op in function.walk():
                for holder in (op.properties, op.attributes):
                    for name, value in holder.items():
                        if isinstance(value, SymbolRefAttr):
                            holder[name] = SymbolRefAttr(names[value.root_reference.data])
            function.properties["sym_name"] = StringAttr(names[function.sym_name.data])
            self.module.body.block.add_op(function)
        return names[entry]

    def place(self, where: str) -> str:
        """A name for a map that stands somewhere: `file:line`, and a number that only this map has."""
        self._places += 1
        return f"{where}#{self._places}"

    def _fresh(self, name: str) -> str:
        fresh, count = name, 0
        while fresh in self._taken:
            count += 1
            fresh = f"{name}_{count}"
        self._taken.add(fresh)
        return fresh


def _plain(function: Any) -> Any:
    """The function that a compiled one is made of; one with a declared gradient stays what it is."""
    while hasattr(function, "glow_function") and not hasattr(function, "glow_declared"):
        function = function.glow_function
    return function


def _user_function(function: Any) -> Any:
    """The Python function that gradients are taken of."""
    while (inner := _made_of(function)) is not None:
        function = inner
    return getattr(_plain(function), "glow_function", _plain(function))


def _made_of(function: Any) -> Any:
    """The function of which one of ours is the gradient, or that it maps; None of other functions."""
    if hasattr(function, "glow_gradient"):
        return function.glow_gradient[0]
    return function.glow_transformed[1] if hasattr(function, "glow_transformed") else None


def _written_as(function: Any) -> Any:
    """The Python function behind partial applications, methods and objects that can be called."""
    while isinstance(function, functools.partial):
        function = function.func
    if hasattr(function, "__code__") or hasattr(function, "glow_module"):
        return function
    return getattr(function, "__call__", function)  # noqa: B004


def _key(function: Any) -> Any:
    """Functions made several times from one text with equal captured objects are one function."""
    closure = getattr(function, "__closure__", None) or ()
    cells: list[int] = []
    for cell in closure:
        try:
            cells.append(id(cell.cell_contents))
        except ValueError:
            cells.append(0)
    return (id(getattr(function, "__code__", function)), tuple(cells), id(function) if cells else 0)


def written_function(function: Any) -> FunctionType | None:
    """The function in Python whose text says what a user's function, or what is made of it, does."""
    inner = _user_function(function)
    inner = getattr(inner, "python", inner)
    return inner if isinstance(inner, FunctionType) else None


def import_function(function: Callable[..., Any], written: Sequence[str] = ()) -> tuple[ModuleOp, str]:
    """The module of a Python function, and the name of its compiled form in it.

    With `written`, it returns the pair of its value and the tuple of the last values of these parameters.
    FunctionError says what cannot be compiled, in which file and line, and what to write instead.
    """
    importer = Importer(written)
    try:
        name = importer.entry(function)
    except RecursionError:
        raise FunctionError("the program is nested too deeply to compile", "split the function") from None
    return importer.module, name
