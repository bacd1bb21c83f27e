"""Passes on some functions of a module: the others are not there meanwhile, and stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

from glow_dialects.core.errors import UnsupportedError


def run_on(module: ModuleOp, pattern: str, run: Callable[[ModuleOp], None]) -> None:
    """`run` passes on a module of the functions whose name a glob fits, with all symbols, and take them back.

    Symbols that the others read stay. UnsupportedError where there is no such function, or where the passes
    give a symbol that others read another meaning.
    """
    names = [n for op in module.ops if op.regions and (n := _name(op)) is not None]
    chosen = {n for n in names if fnmatchcase(n, pattern)}
    if not chosen:
        raise UnsupportedError(f"there is no function '{pattern}'; there are: {', '.join(names) or 'none'}")
    work = module.clone()
    for op in [o for o in work.ops if o.regions and _name(o) not in chosen]:
        op.detach()
        op.erase()
    run(work)
    _take_back(module, work, chosen)


def _take_back(module: ModuleOp, work: ModuleOp, chosen: set[str]) -> None:
    block = module.body.block
    old = {name: op for op in block.ops if (name := _name(op)) is not None}
    first = next(old[name] for name in old if name in chosen)
    for op in list(work.ops):
        op.detach()
        name = _name(op)
        there = None if name is None else old.get(name)
        if there is None:
            block.insert_op_before(op, first)
        elif there.regions:
            block.insert_op_before(op, there)
            first = op if there is first else first
            there.detach()
            there.erase()
        elif there.properties != op.properties:
            raise UnsupportedError(
                f"the passes change @{name}, which other functions may read; run them on all"
            )


def _name(op: Operation) -> str | None:
    name = op.get_attr_or_prop("sym_name")
    return name.data if isinstance(name, StringAttr) else None
