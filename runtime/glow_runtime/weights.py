"""Weights files: the constants' arrays beside a .mlir file, in safetensors, mapped when read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from xdsl.dialects.builtin import ModuleOp

from glow_dialects.core.attributes import Resource, ResourceAttr
from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array, bytes_of, dtype_of, shape_of
from glow_dialects.ops.module import ConstantOp, PlaceholderOp

#: Dtypes that the file format knows; others (bfloat16, int4, ...) are stored as bytes.
_PLAIN = {
    *("float16", "float32", "float64", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
}


def resources(module: ModuleOp) -> list[tuple[Resource, ConstantOp | PlaceholderOp]]:
    """The blocks of weights that the module refers to, each with what it is the value of."""
    found: list[tuple[Resource, ConstantOp | PlaceholderOp]] = []
    for op in module.body.block.ops:
        if not isinstance(op, ConstantOp | PlaceholderOp):
            continue
        value = op.value if isinstance(op, ConstantOp) else op.init
        if isinstance(value, ResourceAttr):
            found.append((value.data, op))
    return found


def write(module: ModuleOp, path: Path) -> int:
    """Write every loaded weight to `path`, an existing file being overwritten; returns how many."""
    arrays: dict[str, Array] = {}
    for resource, op in resources(module):
        if resource.array is None:
            raise GlowError(f"@{op.sym_name.data} has no values: its weights file was not found")
        plain = np.asarray(resource.array, order="C")
        plain = plain if plain.dtype.name in _PLAIN else plain.reshape(-1).view(np.uint8)
        assert arrays.setdefault(resource.name, plain) is plain, f"two weights {resource.name}"
    save_file(arrays, str(path))
    return len(arrays)


def attach(module: ModuleOp, path: Path) -> None:
    """Give the module's weights their arrays; GlowError where the file does not fit the module."""
    try:
        with safe_open(str(path), framework="numpy") as file:
            names = set(file.keys())
            for resource, op in resources(module):
                name = resource.name
                if name not in names:
                    raise GlowError(f"{path}: no weights for @{name}")
                array = file.get_tensor(name)
                dtype, shape = dtype_of(op.type), shape_of(op.type)
                packed = array.dtype == np.uint8 and dtype.name not in _PLAIN
                if packed and array.size == bytes_of(op.type):
                    array = array.reshape(-1).view(dtype).reshape(shape)
                if array.shape != shape or array.dtype != dtype:
                    raise GlowError(
                        f"{path}: @{name} is {array.dtype}{array.shape}, the program wants {op.type}"
                    )
                resource.array = array
    except (SafetensorError, OSError) as error:
        raise GlowError(f"{path}: not a weights file: {error}") from None
