"""Element types, and their names in file formats, languages and protocols.

A new type is a row here, and an `np.dtype`; what reads the rows knows it then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import Any, Literal

import numpy as np


@dataclass(frozen=True)
class ElementType:
    """One type; "" and None stand where something has no such elements.

    `name` is NumPy's, or that of the package ml_dtypes. `bits` count without padding: elements of fewer than
    8 fill a byte of an array.
    """

    name: str
    bits: int
    #: As kernels and texts of programs call it.
    short: str
    #: Its class in xDSL's builtin dialect; integers and complex numbers are made of bits and sign.
    xdsl: str = ""
    #: Its number in ONNX's TensorProto, in Caffe2's, and in GGUF files.
    onnx: int | None = None
    caffe2: int | None = None
    gguf: int | None = None
    torch: str = ""
    safetensors: str = ""
    #: In KServe's protocol of servers.
    server: str = ""
    #: In listings of instructions, as Glow has them.
    glow: str = ""
    #: JavaScript's arrays of it, or of its bits.
    javascript: str = ""

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """As NumPy has it."""
        return dtype_named(self.name)

    @property
    def kind(self) -> str:
        """What it has: b, whole numbers (u, i), f or c, as NumPy has letters for its own."""
        return "f" if self.xdsl else self.name[0]


def dtype_named(name: str) -> np.dtype[Any]:
    """The dtype with a name, those of the `ml_dtypes` package included."""
    try:
        return np.dtype(name)
    except TypeError:
        return np.dtype(getattr(import_module("ml_dtypes"), name))


def _integer(
    name: str, bits: int, onnx: int, array: str, caffe2: int | None = None, glow: str = ""
) -> ElementType:
    sign = "u" if name.startswith("u") else "i"
    own = {"torch": name, "safetensors": f"{sign}{bits}".upper(), "server": name.upper()} if bits >= 8 else {}
    more: dict[str, Any] = {"onnx": onnx, "caffe2": caffe2, "glow": glow or name, "javascript": array, **own}
    return ElementType(name, bits, f"{sign}{bits}", **more)


def _float(name: str, bits: int, xdsl: str, onnx: int, array: str, **names: Any) -> ElementType:
    short = name.replace("bfloat", "bf").replace("float", "f")
    known: dict[str, Any] = {"torch": name, "glow": name, **names}
    return ElementType(name, bits, short, f"{xdsl}Type", onnx, javascript=array, **known)


ELEMENT_TYPES = (
    ElementType("bool", 1, "i1", "", 9, 5, None, "bool", "BOOL", "BOOL", "bool", "Uint8Array"),
    _integer("uint8", 8, 2, "Uint8Array", 6),
    _integer("uint16", 16, 4, "Uint16Array", 8),
    _integer("uint32", 32, 12, "Uint32Array"),
    _integer("uint64", 64, 13, "BigUint64Array"),
    _integer("int8", 8, 3, "Int8Array", 7),
    _integer("int16", 16, 5, "Int16Array", 9),
    _integer("int32", 32, 6, "Int32Array", 2, "i32"),
    _integer("int64", 64, 7, "BigInt64Array", 10, "index"),
    _float("float16", 16, "Float16", 10, "Uint16Array", caffe2=12, gguf=1, safetensors="F16", server="FP16"),
    _float("float32", 32, "Float32", 1, "Float32Array", caffe2=1, gguf=0, safetensors="F32", server="FP32",
           glow="float"),
    _float("float64", 64, "Float64", 11, "Float64Array", caffe2=13, gguf=28, safetensors="F64", server="FP64",
           glow="double"),
    _float("bfloat16", 16, "BFloat16", 16, "Uint16Array", gguf=30, safetensors="BF16", server="BF16"),
    _integer("uint4", 4, 21, "Uint8Array"),
    _integer("int4", 4, 22, "Uint8Array"),
    _integer("uint2", 2, 25, "Uint8Array"),
    _integer("int2", 2, 26, "Uint8Array"),
    _float("float8_e4m3fn", 8, "Float8E4M3FN", 17, "Uint8Array", safetensors="F8_E4M3"),
    _float("float8_e4m3fnuz", 8, "Float8E4M3FNUZ", 18, "Uint8Array"),
    _float("float8_e5m2", 8, "Float8E5M2", 19, "Uint8Array", safetensors="F8_E5M2"),
    _float("float8_e5m2fnuz", 8, "Float8E5M2FNUZ", 20, "Uint8Array"),
    _float("float8_e8m0fnu", 8, "Float8E8M0FNU", 24, "Uint8Array"),
    _float("float4_e2m1fn", 4, "Float4E2M1FN", 23, "Uint8Array", torch=""),
    ElementType("complex64", 64, "c64", onnx=14, glow="complex64"),
    ElementType("complex128", 128, "c128", onnx=15, glow="complex128"),
)  # fmt: skip


@cache
def by(
    column: Literal["name", "short", "onnx", "caffe2", "gguf", "torch", "safetensors", "server"],
) -> Mapping[Any, ElementType]:
    """The types that something has, by what it calls them."""
    return {key: t for t in ELEMENT_TYPES if (key := getattr(t, column)) not in ("", None)}


#: Numbers from here on are of element types registered with NumPy, as ml_dtypes does.
_FIRST_USER_TYPE = 256


def is_standard(dtype: np.dtype[Any]) -> bool:
    """Whether NumPy itself has the element type; `isbuiltin` is 0 for what came out of a pickle, too."""
    return dtype.num < _FIRST_USER_TYPE


def named(dtype: np.dtype[Any]) -> ElementType | None:
    """The row of a dtype, None for one of strings, objects, times..."""
    return by("name").get(dtype.name)
