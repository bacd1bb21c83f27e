"""The table of element types beside the packages whose names it has."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from safetensors.numpy import save_file
from xdsl.dialects.builtin import IntegerType, Signedness, i8

from glow_dialects.core.element_types import ELEMENT_TYPES, ElementType, by, named
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.types import dtype_of, element_type, is_float

ROWS = pytest.mark.parametrize("row", ELEMENT_TYPES, ids=lambda row: row.name)


@ROWS
def test_types_of_the_ir_are_the_dtypes(row: ElementType) -> None:
    """Each way and back; NumPy's letter is ours where the type is NumPy's own."""
    kind = element_type(row.dtype)
    assert dtype_of(kind) == row.dtype and named(row.dtype) is row
    assert is_float(kind) == (row.kind == "f")
    assert row.dtype.itemsize == max(1, row.bits // 8)
    assert row.dtype.isbuiltin != 1 or row.dtype.kind == row.kind


@ROWS
def test_numbers_are_those_of_onnx(row: ElementType) -> None:
    """As onnx's own helper has them."""
    assert helper.tensor_dtype_to_np_dtype(row.onnx) == row.dtype
    assert helper.np_dtype_to_tensor_dtype(row.dtype) == row.onnx


def test_names_are_those_of_safetensors(tmp_path: Path) -> None:
    """As its library writes them; floats that NumPy lacks are in its specification."""
    rows = [t for t in ELEMENT_TYPES if t.safetensors and t.dtype.isbuiltin == 1]
    save_file({t.name: np.zeros(3, t.dtype) for t in rows}, tmp_path / "x.safetensors")
    data = (tmp_path / "x.safetensors").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert {t.name: t.safetensors for t in rows} == {n: e["dtype"] for n, e in header.items()}
    assert {t.safetensors for t in ELEMENT_TYPES} - {t.safetensors for t in rows} == {
        "", "BF16", "F8_E4M3", "F8_E5M2"
    }  # fmt: skip


@pytest.mark.peers
def test_names_are_those_of_pytorch() -> None:
    """The element type of a name has as many bytes, and the same largest number."""
    torch = pytest.importorskip("torch")
    for name, row in by("torch").items():
        kind = getattr(torch, name)
        assert torch.zeros(1, dtype=kind).element_size() == row.dtype.itemsize, name
        if row.dtype.isbuiltin == 1:
            assert torch.zeros(1, dtype=kind).numpy().dtype == row.dtype
        elif name != "float8_e8m0fnu":  # of which PyTorch says something else
            assert torch.finfo(kind).max == float(np.array(torch.finfo(kind).max).astype(row.dtype))


def test_names_are_those_of_servers() -> None:
    """As Triton's client has them."""
    utils = pytest.importorskip("tritonclient.utils")
    for name, row in by("server").items():
        if row.dtype.isbuiltin == 1:
            assert utils.np_to_triton_dtype(row.dtype) == name
            assert utils.triton_to_np_dtype(name) == row.dtype


def test_what_no_tensor_holds() -> None:
    """Times and texts have no row; integers of IR have one by bits and sign alone."""
    for dtype in ("datetime64[s]", "U3", object):
        with pytest.raises(UnsupportedError, match="no elements of dtype"):
            element_type(dtype)
    assert dtype_of(IntegerType(8, Signedness.SIGNED)) == dtype_of(i8) == np.int8
    assert dtype_of(IntegerType(1)) == np.bool_
