"""A jax.export.Exported as StableHLO text in generic form, with information that the text lacks.

JAX's bindings of MLIR print it; what xDSL's parser has no syntax for is put into attributes before:
locations, and the names and symbolic shapes of arguments. Large constants go beside the text.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array
from glow_frontends.stablehlo.importer import LOCATION, NAME, SHAPE, STORED, import_stablehlo

#: Constants of more elements are not printed.
MOST_PRINTED = 64
#: `loc("jit(f)/dot_general"(callsite("f"("model.py":3:4 to :9) at ...)))`: its name, file and line.
_NAMED = re.compile(r'loc\("((?:[^"\\]|\\.)*)"')
_FILE = re.compile(r'"([^"]+)":(\d+):\d+')


def import_exported(exported: Any) -> ModuleOp:
    """The module of a jax.export.Exported: inputs are called as the function's arguments are ("params['w']"),
    outputs by their place in its result ("result[0]"). Symbolic dimensions stay open.

    Raises ImportProblems with every problem of the program, GlowError where jax is missing.
    """
    text, constants = generic_text(exported)
    return import_stablehlo(text, f"jax function {exported.fun_name}", constants)


def deserialized(data: bytes) -> Any:
    """The jax.export.Exported of the bytes that its `serialize` gave; GlowError where they are none."""
    export = _imported("jax.export")
    try:
        return export.deserialize(bytearray(data))
    except Exception as error:
        raise GlowError(f"{len(data)} bytes are no exported function of JAX: {error}") from None


def _imported(name: str) -> Any:
    """A module of JAX; GlowError where it is not installed."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise GlowError(f"this needs JAX, which cannot be imported ({error}): pip install jax") from None


def generic_text(exported: Any) -> tuple[str, list[Array]]:
    """The text of an exported function, and the large constants that it refers to by number."""
    ir: Any = _imported("jaxlib.mlir.ir")
    mlir: Any = _imported("jax._src.interpreters.mlir")
    constants: list[Array] = []
    with mlir.make_ir_context(), ir.Location.unknown():
        module = ir.Module.parse(exported.mlir_module())
        functions = {f.attributes["sym_name"].value: f for f in module.body.operations}
        _ports(ir, functions, exported)
        for function in functions.values():
            _annotate(ir, function.operation, constants)
        return module.operation.get_asm(print_generic_op_form=True, enable_debug_info=False), constants


def _ports(ir: Any, functions: dict[str, Any], exported: Any) -> None:
    """Names and shapes of the arguments of the main function."""
    main = functions["main"]
    block = main.regions[0].blocks[0]
    names = [_name(a) for a in block.arguments]
    inner = functions.get("_wrapped_jax_export_main")
    if inner is not None:  # behind the sizes that the main function reads
        inside = [_name(a) for a in inner.regions[0].blocks[0].arguments]
        names = inside[len(inside) - len(names) :]
    avals: list[Any] = [exported.in_avals[i] for i in exported.module_kept_var_idx]
    avals = [None] * (len(names) - len(avals)) + avals
    attributes: list[Any] = []
    for name, aval in zip(names, avals, strict=True):
        known: dict[str, Any] = {NAME: ir.StringAttr.get(name)} if name else {}
        if aval is not None and not all(isinstance(d, int) for d in aval.shape):
            known[SHAPE] = ir.ArrayAttr.get([ir.StringAttr.get(str(d)) for d in aval.shape])
        attributes.append(ir.DictAttr.get(known))
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)


def _name(argument: Any) -> str:
    """What the function calls an argument."""
    found = _NAMED.match(str(argument.location)) if hasattr(argument, "location") else None
    return "" if found is None else found[1]


def _annotate(ir: Any, op: Any, constants: list[Array]) -> None:
    place = _place(str(op.location))
    if place:
        op.attributes[LOCATION] = ir.StringAttr.get(place)
    if op.name == "stablehlo.constant":
        _store(ir, op, constants)
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                _annotate(ir, inner.operation, constants)


def _place(location: str) -> str:
    """The name that JAX gives to an operation, and the line of the program that it comes from."""
    name, file = _NAMED.match(location), _FILE.search(location)
    texts = [name[1]] if name is not None and ":" not in name[1] else []
    if file is not None:
        texts.append(f"{file[1]}:{file[2]}")
    return " at ".join(texts)


def _store(ir: Any, op: Any, constants: list[Array]) -> None:
    """Take the numbers of a large constant out of the text."""
    try:
        value = op.attributes["value"]
        if value.is_splat:
            return
        array = np.array(value)
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return  # of elements that the bindings do not hand over
    if array.size <= MOST_PRINTED and bool(np.all(np.isfinite(array))):
        return
    op.attributes[STORED] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), len(constants))
    element = value.type.element_type
    zero = ir.FloatAttr.get(element, 0.0) if array.dtype.kind == "f" else ir.IntegerAttr.get(element, 0)
    op.attributes["value"] = ir.DenseElementsAttr.get_splat(value.type, zero)
    constants.append(array)
