"""Rules of ATen operators, by name and, where needed, by overload.

A rule takes the emitter, the node, and the operands in the order of the operator's schema: arrays and values
of the graph for tensors, numbers and sizes as they are. It refuses by RuleError what it does not do, and
leaves by Decomposed what PyTorch takes apart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

Rule: TypeAlias = Callable[..., Any]

MODULES = "elementwise division create shape indexing reduce nn norm pool resample recurrent transformer"


@cache
def rules() -> dict[str, Rule]:
    """All rules by name, such as `add` or `max.dim`."""
    return {
        n: r for module in MODULES.split() for n, r in import_module(f"{__name__}.{module}").RULES.items()
    }


def find_rule(name: str) -> Rule | None:
    """The rule of an operator such as `aten.add.Tensor`; None where there is none."""
    namespace, _, rest = name.partition(".")
    if namespace not in ("aten", "prims"):
        return None
    return rules().get(rest) or rules().get(rest.rpartition(".")[0])


__all__ = ["MODULES", "Rule", "find_rule", "rules"]
