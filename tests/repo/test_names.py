"""Paths can be guessed: operators and passes have a file and an .mlir test named after them."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

import pytest
from xdsl.passes import ModulePass

import glow_dialects.ops
import glow_passes
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.instr_op import InstrOp
from glow_passes.graph.simplify import FAMILIES
from glow_tools.pipelines import every_pass

FILECHECK = Path(__file__).parents[1] / "filecheck"


def defined_names(module: ModuleType) -> list[str]:
    """The names that a module binds itself, imports left out."""
    assert module.__file__ is not None
    names: list[str] = []
    for node in ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                names += [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
    return names


def defined_classes(module: ModuleType, base: type) -> list[type]:
    """The named (registered in IR) classes below `base` that a module defines."""
    found = [vars(module)[name] for name in defined_names(module) if name in vars(module)]
    return [c for c in found if isinstance(c, type) and issubclass(c, base) and "name" in vars(c)]


def modules_below(package: ModuleType) -> list[ModuleType]:
    """Every module of a package, imported."""
    infos = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    return [importlib.import_module(info.name) for info in infos]


def stem(module: ModuleType) -> str:
    """The last part of a module's name."""
    return module.__name__.rpartition(".")[2]


def camel(name: str) -> str:
    """`max_pool` -> `MaxPool`."""
    return "".join(part.capitalize() for part in name.replace("-", "_").split("_"))


CARDS = {
    stem(module): ops
    for module in modules_below(glow_dialects.ops)
    if (ops := defined_classes(module, GraphOp))
}
PASSES = [
    (module, made) for module in modules_below(glow_passes) for made in defined_classes(module, ModulePass)
]
PASS_NAMES = {made.name for _, made in PASSES}


def test_every_card_is_in_the_tuple() -> None:
    """The explicit table of cards equals the folder, in order, and names every operator of each."""
    table = glow_dialects.ops.OPERATORS
    assert sorted(table) == sorted(CARDS)
    for card in glow_dialects.ops.CARDS:
        made = {
            op.name.partition(".")[2] for base in (GraphOp, InstrOp) for op in defined_classes(card, base)
        }
        assert sorted(table[stem(card)].split()) == sorted(made), f"OPERATORS['{stem(card)}']"


def test_every_pass_is_registered() -> None:
    """The explicit registry of passes equals the folder, each once."""
    if hasattr(glow_passes, "all_passes"):
        assert sorted(glow_passes.all_passes()) == sorted(PASS_NAMES)


def test_names_are_unique() -> None:
    """No two operators and no two passes share a name."""
    names = [op.name for ops in CARDS.values() for op in ops] + [made.name for _, made in PASSES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("card", sorted(CARDS))
def test_card_is_named_after_its_operator(card: str) -> None:
    """A card of one operator has its name; the classes follow from the operators' names."""
    ops = CARDS[card]
    if len(ops) == 1:
        assert ops[0].name == f"glow.{card}"
    for op in ops:
        assert op.__name__.lower() == f"{camel(op.name.removeprefix('glow.'))}Op".lower()


@pytest.mark.parametrize("name", sorted(PASS_NAMES))
def test_pass_is_named_after_its_file(name: str) -> None:
    """`glow-share-buffers` stands in `share_buffers.py` as `ShareBuffersPass`."""
    module, made = next(entry for entry in PASSES if entry[1].name == name)
    short = name.removeprefix("glow-")
    assert name == f"glow-{short}"
    assert stem(module) == short.replace("-", "_")
    assert made.__name__ == f"{camel(short)}Pass"


def mlir_stems(folder: str) -> list[str]:
    """The names of the .mlir tests of one kind."""
    return sorted(path.stem for path in (FILECHECK / folder).rglob("*.mlir"))


def file_name(pass_name: str) -> str:
    """`glow-share-buffers` -> `share_buffers`."""
    return pass_name.removeprefix("glow-").replace("-", "_")


#: The names that tests have, by folder of tests/filecheck.
NAMES = {
    "ops": set(CARDS) | {"module"},  # module: the operators that every graph is made of, which are no card
    "passes": {file_name(name) for name in PASS_NAMES},
    "patterns": set(FAMILIES),
}


@pytest.mark.parametrize("folder", sorted(NAMES))
def test_mlir_tests_and_names_agree(folder: str) -> None:
    """ops/X.mlir tests the card X, passes/X.mlir the pass glow-X, patterns/X.mlir a family of patterns."""
    assert mlir_stems(folder) == sorted(NAMES[folder])


def test_passes_of_backends_have_tests() -> None:
    """backends/X.mlir tests the pass glow-X of a backend."""
    wanted = {file_name(name) for name in every_pass().keys() - PASS_NAMES}
    assert sorted(wanted - set(mlir_stems("backends"))) == []
