"""Import rules: each ONNX operator in terms of cards, by domain, name and since-version."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from glow_dialects.core.packages import added, no_mapping
from glow_frontends.onnx.rules import strings
from glow_frontends.onnx.rules.rule import Rule, Versions

#: The modules of every domain, imported when a model names it. A version entry of their rules holds from its
#: version to the next entry's.
MODULES = {
    "": (
        "activation cast control einsum elementwise indexing legacy nn norm bounded_selection pool "
        "quantization random rearrange recurrent reduce resample sampling selection sequence shape "
        "signal strings"
    ),
    "ai.onnx.ml": "ml maps svm trees",
    "ai.onnx.preview.training": "training",
    "com.microsoft": (
        "contrib.attention contrib.few_bit_weights contrib.caches contrib.decoding contrib.diffusion "
        "contrib.experts contrib.fused contrib.hashes contrib.packing contrib.quantized contrib.strings"
    ),
    "com.microsoft.nchwc": "contrib.nchwc",
    "qonnx.custom_op.general": "qonnx",  # of QONNX, from the newest to the oldest
    "onnx.brevitas": "qonnx",
    "finn.custom_op.general": "qonnx",
}


def families(domain: str) -> tuple[Mapping[str, Versions], ...]:
    """The rules of a domain: ours, or those of a package (entry point `glow.onnx_rules`, named so)."""
    if domain in MODULES:
        return _ours(domain)
    rules = added("glow.onnx_rules", no_mapping).get(domain)
    return () if rules is None else (rules,)


@cache
def _ours(domain: str) -> tuple[Mapping[str, Versions], ...]:
    return tuple(import_module(f"{__name__}.{name}").RULES for name in MODULES[domain].split())


def find_rule(domain: str, op: str, version: int) -> Rule | None:
    """The rule of an operator at an opset version; None where only a function body may define it."""
    for family in families(domain):
        versions = family.get(op)
        if versions is None:
            continue
        entries = ((0, versions),) if callable(versions) else versions
        rules = [rule for since, rule in entries if since <= version]
        if not rules:
            return None
        return strings.moving(rules[-1]) if op in strings.MOVING else rules[-1]
    return None


def nearest(domain: str, op: str) -> str | None:
    """A known operator whose name is like `op`."""
    from difflib import get_close_matches

    names = [name for family in families(domain) or families("") for name in family]
    close = get_close_matches(op, names, 1)
    return close[0] if close else None


__all__ = ["MODULES", "families", "find_rule", "nearest"]
