"""Passes, pipelines and their registry. Nothing is imported until it is asked for."""

from __future__ import annotations

from importlib import import_module

from xdsl.passes import ModulePass

#: Every pass by the folder of its module: its name gives module and class. A test compares both.
PASSES = {
    "autodiff": "differentiate freeze-placeholders make-trainable rematerialize",
    "fn": (
        "drop-parameters expand-grad lift-closures outline-control simplify-functions specialize-known "
        "tail-calls unroll-functions"
    ),
    "graph": "bind-sizes branches cse dce place-constants rebatch simplify",
    "instr": (
        "dead-stores eliminate-copies one-memory plan-memory share-buffers shrink-lives spill tile unroll"
    ),
    "lower": "decompose drop-predicates irgen schedule",
    "partition": "partition",
    "quantize": (
        "apply-profile convert-floats exact-quantization fold-conversions instrument match-qdq quantize "
        "quantize-dynamic quantize-weights"
    ),
    "watch": "draw print-ir",
}
_FOLDERS = {f"glow-{name}": folder for folder, names in PASSES.items() for name in names.split()}


def pass_named(name: str) -> type[ModulePass] | None:
    """The pass of a name, `glow-share-buffers`; None where there is none."""
    if name not in _FOLDERS:
        return None
    words = name.split("-")[1:]
    module = import_module(f"{__name__}.{_FOLDERS[name]}.{'_'.join(words)}")
    kind: type[ModulePass] = getattr(module, f"{''.join(word.capitalize() for word in words)}Pass")
    return kind


def passes_of(folder: str) -> list[type[ModulePass]]:
    """The passes of a folder, imported."""
    kinds = (pass_named(f"glow-{name}") for name in PASSES[folder].split())
    return [kind for kind in kinds if kind is not None]


def all_passes() -> dict[str, type[ModulePass]]:
    """Every pass by name, imported."""
    return {kind.name: kind for folder in PASSES for kind in passes_of(folder)}
