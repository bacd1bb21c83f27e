"""Files of torch.export.save, read as data: what would run code when PyTorch reads it is refused before.

Reading such a file unpickles parts of it, evaluates its expressions of sizes as Python, and loads libraries
that are in it.
"""

from __future__ import annotations

import ast
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from glow_dialects.core.errors import GlowError

_TARGET = re.compile(
    r"(torch\.ops\.(?!load_library|import_module|loaded_libraries)[a-z]\w*\.(?!__)\w+(\.(?!__)\w+)?"
    r"|torch\.(_sym_|sym_)\w+|math\.[a-z]\w*|_operator\.(?!attrgetter|methodcaller|call\b)[a-z]\w*)"
)
"""What nodes may name as their operator; longer paths lead to any function that PyTorch imports."""
_RAW = ("weight_", "tensor_")
"""What names of files of plain numbers begin with."""
_FUNCTION = re.compile(r"[A-Z]\w*|floor|ceiling|log|sqrt")
_NODES = (
    *(ast.Expression, ast.Name, ast.Load, ast.Constant, ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare),
    *(ast.BoolOp, ast.keyword, ast.operator, ast.unaryop, ast.cmpop, ast.boolop),
)


def load(path: Path) -> Any:
    """The program of a file; GlowError where there is none, or where reading it would run code."""
    import torch  # pyright: ignore[reportMissingImports]

    try:
        for name, read, names in _archives(path):
            _check(path, name, read, names)
        return torch.export.load(path)
    except GlowError:
        raise
    except Exception as error:  # of PyTorch's code, of any kind
        raise GlowError(f"{path} was not written by torch.export.save: {error}") from None


def _archives(path: Path) -> Iterator[tuple[str, Callable[[str], bytes], list[str]]]:
    """The names of the files in it and how they are read, as both of PyTorch's readers see them."""
    import torch  # pyright: ignore[reportMissingImports]

    views: list[tuple[Callable[[str], bytes], list[str]]] = []
    try:
        reader = torch._C.PyTorchFileReader(str(path))  # pyright: ignore
        views.append((reader.get_record, list(reader.get_all_records())))
    except RuntimeError:
        pass  # of an old form, or none
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if len(names) != len(set(names)):
            raise GlowError(f"{path}: two files in it have one name")
        if "version" in names or not views:
            views.append((archive.read, names))
        for read, names in views:
            for name in names:
                yield name, read, names


def _check(path: Path, name: str, read: Callable[[str], bytes], names: list[str]) -> None:
    """GlowError for a file in the archive that would run code."""
    place = name.rpartition("/")[2]
    if "aotinductor" in name or place.endswith((".so", ".cubin", ".pyd", ".dll")):
        _refuse(path, name, "holds machine code")
    if place.startswith(("custom_obj_", "opaque_obj_")):
        _refuse(path, name, "is an object of a class of its own")
    if place.endswith("_config.json"):
        for entry in _entries(path, name, read(name)):
            target = f"{name.rpartition('/')[0]}/{entry.get('path_name')}"
            if entry.get("use_pickle"):
                _unpickled(path, target, read(target))
    elif place.endswith(".json"):
        if "models/" in name or place == "serialized_exported_program.json":
            _check_graph(path, name, _parsed(path, name, read(name)))
    elif not place.startswith(_RAW) and place.endswith((".pt", ".pkl", ".pickle", ".bin", ".pth")):
        _unpickled(path, name, read(name))


def _parsed(path: Path, name: str, data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise GlowError(f"{path}: '{name}' in it is damaged") from None


def _entries(path: Path, name: str, data: bytes) -> list[Mapping[str, Any]]:
    """What a table of weights or constants says of each of them."""
    parsed = _parsed(path, name, data)
    config = parsed.get("config") if isinstance(parsed, dict) else None
    if not isinstance(config, dict) or not all(isinstance(e, dict) for e in config.values()):
        raise GlowError(f"{path}: '{name}' in it is damaged")
    return list(cast("dict[str, Mapping[str, Any]]", config).values())


def _unpickled(path: Path, name: str, data: bytes) -> None:
    """GlowError unless a pickle is of tensors and plain values: PyTorch's own list says of which classes."""
    import torch  # pyright: ignore[reportMissingImports]

    if not data:
        return
    try:
        torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    except Exception as error:  # of PyTorch's code, of any kind
        found = re.search(r"(?:GLOBAL |global:? )(\S+)", str(error))
        _refuse(
            path, name, f"is a pickle of more than tensors ({found[1] if found else type(error).__name__})"
        )


def _check_graph(path: Path, name: str, value: Any) -> None:
    """GlowError for an operator or an expression of a program that is none."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            table = cast("dict[str, Any]", one)
            target, sizes = table.get("target"), table.get("expr_str")
            if "inputs" in table and isinstance(target, str) and not _TARGET.fullmatch(target):
                _refuse(path, name, f"has a node of the operator {target[:60]!r}")
            if sizes is not None and not _is_expression(sizes):
                _refuse(path, name, f"has {str(sizes)[:60]!r} for a size")
            left += table.values()
        elif isinstance(one, list):
            left += cast("list[Any]", one)


def _is_expression(text: Any) -> bool:
    """Whether a text is arithmetic of numbers and named sizes."""
    try:
        nodes = list(ast.walk(ast.parse(text, mode="eval")))
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return False
    for node in nodes:
        if not isinstance(node, _NODES):
            return False
        if isinstance(node, ast.Constant) and not (
            isinstance(node.value, int | float)  # or the name of a symbol
            or (isinstance(node.value, str) and node.value.isidentifier())
        ):
            return False
        if isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Name) and _FUNCTION.fullmatch(node.func.id)
        ):
            return False
    return True


def _refuse(path: Path, name: str, why: str) -> None:
    raise GlowError(
        f"{path}: '{name}' in it {why}, which runs code when it is read; if you trust the file's "
        "author, load it yourself: glow.compile(torch.export.load(path))"
    )
