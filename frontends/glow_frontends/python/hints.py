"""Hints: replacements of Python that cannot be compiled."""

from __future__ import annotations

import ast

INSTEAD: dict[type[ast.AST], str] = {
    ast.Try: "test the condition with if before the operation",
    ast.With: "call the functions of the context yourself, outside",
    ast.ClassDef: "use tuples and functions; define classes outside",
    ast.Global: "pass the value as an argument and return the new one",
    ast.Nonlocal: "pass the value as an argument and return the new one: closures only read names",
    ast.Import: "import at the top of the file",
    ast.ImportFrom: "import at the top of the file",
    ast.AsyncFunctionDef: "write a plain def",
    ast.AsyncFor: "write a plain for",
    ast.AsyncWith: "write plain calls",
    ast.Await: "write plain calls",
    ast.Yield: "return a tuple",
    ast.YieldFrom: "return a tuple",
    ast.Set: "use a tuple",
    ast.SetComp: "use a tuple",
    ast.JoinedStr: "build texts outside",
    ast.Match: "write values, tuples, classes and | of values as patterns, or if and elif",
    ast.Subscript: "build a new tuple or array: values do not change",
    ast.Attribute: "return the new value: objects do not change",
}


def instead_of(node: ast.AST) -> str:
    """The advice for a construct."""
    return INSTEAD.get(type(node), "use numbers, tuples, arrays and functions")
