"""Import rules: each ONNX operator in terms of cards, by domain, name and since-version."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from glow_dialects.core.packages import added, no_mapping
from glow_frontends.onnx.rules import (
    activation,
    bounded_selection,
    cast,
    contrib,
    control,
    einsum,
    elementwise,
    indexing,
    legacy,
    maps,
    ml,
    nn,
    norm,
    pool,
    qonnx,
    quantization,
    random,
    rearrange,
    recurrent,
    reduce,
    resample,
    sampling,
    selection,
    sequence,
    shape,
    signal,
    strings,
    svm,
    training,
    trees,
)
from glow_frontends.onnx.rules.rule import Rule, Versions

#: Rules of every domain; a version entry holds from its version to the next entry's.
RULES: dict[str, tuple[Mapping[str, Versions], ...]] = {
    "": tuple(
        family.RULES
        for family in (
            activation,
            cast,
            control,
            einsum,
            elementwise,
            indexing,
            legacy,
            nn,
            norm,
            bounded_selection,
            pool,
            quantization,
            random,
            rearrange,
            recurrent,
            reduce,
            resample,
            sampling,
            selection,
            sequence,
            shape,
            signal,
            strings,
        )
    ),
    "ai.onnx.ml": (ml.RULES, maps.RULES, svm.RULES, trees.RULES),
    "ai.onnx.preview.training": (training.RULES,),
    "com.microsoft": contrib.FAMILIES,
    "com.microsoft.nchwc": (contrib.nchwc.RULES,),
    **{domain: (qonnx.RULES,) for domain in qonnx.DOMAINS},
}


def families(domain: str) -> tuple[Mapping[str, Versions], ...]:
    """The rules of a domain: ours, or those of a package (entry point `glow.onnx_rules`, named so)."""
    if domain in RULES:
        return RULES[domain]
    rules = added("glow.onnx_rules", no_mapping).get(domain)
    return () if rules is None else (rules,)


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
    names = [name for family in families(domain) or RULES[""] for name in family]
    close = difflib.get_close_matches(op, names, 1)
    return close[0] if close else None


__all__ = ["RULES", "find_rule", "nearest"]
