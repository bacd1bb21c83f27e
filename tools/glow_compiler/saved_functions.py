"""Compiled functions as files: the program of `glow_fn` that Python's text was made into, before any pass."""

from __future__ import annotations

import inspect
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Attribute
from xdsl.printer import Printer

from glow_dialects.core.attributes import Resource, ResourceAttr, to_attribute, to_python
from glow_dialects.core.errors import GlowError, UnsupportedError
from glow_dialects.core.files import whole
from glow_dialects.core.types import Array
from glow_dialects.fn.prim import ConstantOp
from glow_runtime.weights import SUFFIX, mapped, save_arrays

if TYPE_CHECKING:
    from glow_compiler.functions import CompiledFunction

#: The attributes of the module: the function to be called, its parameters, the last of which may take the
#: rest of the arguments, and values of parameters that need none.
ENTRY, PARAMETERS, REST, DEFAULTS = (f"glow_fn.{n}" for n in ("entry", "parameters", "rest", "defaults"))


class LoadedFunction:
    """A function of a file, for `CompiledFunction`: its module, and the signature that it had in Python."""

    def __init__(self, module: ModuleOp) -> None:
        entry, names = module.attributes[ENTRY], module.attributes[PARAMETERS]
        defaults = module.attributes[DEFAULTS]
        assert isinstance(entry, StringAttr) and isinstance(names, ArrayAttr)
        assert isinstance(defaults, DictionaryAttr)
        self.glow_module = module
        self.__name__ = self.glow_entry = entry.data
        self.glow_names = tuple(n.data for n in names if isinstance(n, StringAttr))
        self.glow_rest = REST in module.attributes
        self.glow_defaults = {n: _value(a) for n, a in defaults.data.items()}
        kinds = [inspect.Parameter.POSITIONAL_OR_KEYWORD] * len(self.glow_names)
        if self.glow_rest:
            kinds[-1] = inspect.Parameter.VAR_POSITIONAL
        parameters = [
            inspect.Parameter(n, kind, default=self.glow_defaults.get(n, inspect.Parameter.empty))
            for n, kind in zip(self.glow_names, kinds, strict=True)
        ]
        self.__signature__ = inspect.Signature(parameters)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """For compiled functions only."""
        raise UnsupportedError(f"{self.__name__} was loaded from a file; call glow.jit of it")


def _value(attribute: Attribute) -> Any:
    return None if isinstance(attribute, UnitAttr) else to_python(attribute)


def save_function(function: CompiledFunction, path: Path) -> None:
    """Write the program of a function as `.mlir`; UnsupportedError for other extensions."""
    if path.suffix != ".mlir":
        raise UnsupportedError(f"{path}: a function is saved as .mlir; give it that extension")
    writes = function.writes
    certain = [i for i, w in writes.writes.items() if w.items]
    writes.refuse(certain, "a file")
    program = function.program
    module = program.source.clone()
    parameters = list(function.signature.parameters.values())
    defaults: dict[str, Attribute] = {}
    for parameter in parameters:
        value = parameter.default
        if value is None:
            defaults[parameter.name] = UnitAttr()
        elif isinstance(value, bool | int | float | str):
            defaults[parameter.name] = to_attribute(value)
        elif value is not parameter.empty:
            what = "an array" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
            raise UnsupportedError(
                f"{path}: the default of '{parameter.name}' is {what}, which a file cannot hold; pass it as"
                " an argument"
            )
    # Named tuples of results are dicts in a process that has not met their classes.
    module.attributes[ENTRY] = StringAttr(program.name)
    module.attributes[PARAMETERS] = ArrayAttr([StringAttr(p.name) for p in parameters])
    module.attributes[DEFAULTS] = DictionaryAttr(defaults)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        module.attributes[REST] = UnitAttr()
    arrays: dict[int, tuple[str, Array]] = {}
    for op in _constants(module):
        assert isinstance(op.value, ResourceAttr)
        array = op.value.data.array
        assert array is not None
        name, _ = arrays.setdefault(id(array), (f"array{len(arrays)}", array))
        op.properties["value"] = ResourceAttr(Resource(name, array))
    out = StringIO()
    Printer(out, print_generic_format=True).print_op(module)  # with the places in the Python text
    with ExitStack() as files:
        if arrays:
            save_arrays(dict(arrays.values()), files.enter_context(whole(path.with_suffix(SUFFIX))))
        files.enter_context(whole(path)).write_text(out.getvalue() + "\n", encoding="utf-8")


def _constants(module: ModuleOp) -> list[ConstantOp]:
    """The arrays that stand in a file of their own."""
    constants = (op for op in module.walk() if isinstance(op, ConstantOp))
    return [op for op in constants if isinstance(op.value, ResourceAttr)]


def loaded_function(module: ModuleOp, path: Path) -> LoadedFunction:
    """The function of a file, with its arrays; GlowError where these are missing."""
    constants = _constants(module)
    beside = path.with_suffix(SUFFIX)
    try:
        arrays = mapped(beside) if constants else {}
        for op in constants:
            assert isinstance(op.value, ResourceAttr)
            op.value.data.array = arrays[op.value.data.name]
    except (OSError, ValueError, KeyError) as error:
        raise GlowError(
            f"{beside}: not the arrays of {path.name}: {error}; save the function again"
        ) from None
    return LoadedFunction(module)


def is_function(module: ModuleOp) -> bool:
    """Whether a module of a file is a function that `save_function` wrote."""
    return ENTRY in module.attributes
