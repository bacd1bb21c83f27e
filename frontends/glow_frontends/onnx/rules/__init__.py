"""Import rules: each ONNX operator in terms of our operators, by domain, name and since-version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from glow_dialects.core.packages import added, no_mapping
from glow_frontends.onnx.rules import strings
from glow_frontends.onnx.rules.rule import Rule, Versions

#: The modules of every domain, what most models need first: they are imported one after another, until the
#: operators of a model are found. A version entry of their rules holds from its version to the next entry's.
MODULES = {
    "": (
        "activation cast elementwise bounded_selection reduce strings shape nn pool norm indexing "
        "quantization resample control recurrent rearrange sequence selection einsum sampling random "
        "signal legacy"
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
    return tuple(_each_family(domain))


def _each_family(domain: str) -> Iterator[Mapping[str, Versions]]:
    """The families one by one; ours are imported as they are asked for."""
    if domain in MODULES:
        yield from map(_family, MODULES[domain].split())
    elif (rules := added("glow.onnx_rules", no_mapping).get(domain)) is not None:
        yield rules


@cache
def _family(module: str) -> Mapping[str, Versions]:
    return import_module(f"{__name__}.{module}").RULES


def find_rule(domain: str, op: str, version: int) -> Rule | None:
    """The rule of an operator at an opset version; None where only a function body may define it."""
    for family in _each_family(domain):
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
