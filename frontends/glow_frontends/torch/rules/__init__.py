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


#: Rules that users added, by names such as `mylib.gated` or `mylib.gated.default`; they go first.
OWN: dict[str, Rule] = {}


@cache
def rules() -> dict[str, Rule]:
    """All rules by name, such as `add` or `max.dim`."""
    return {
        n: r for module in MODULES.split() for n, r in import_module(f"{__name__}.{module}").RULES.items()
    }


def find_rule(name: str) -> Rule | None:
    """The rule of an operator such as `aten.add.Tensor`; None where there is none."""
    own = OWN.get(name) or OWN.get(name.rpartition(".")[0])
    if own is not None:
        return own
    namespace, _, rest = name.partition(".")
    if namespace not in ("aten", "prims"):
        return None
    return rules().get(rest) or rules().get(rest.rpartition(".")[0])


__all__ = ["MODULES", "OWN", "Rule", "find_rule", "rules"]
