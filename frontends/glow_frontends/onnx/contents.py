"""What is in an ONNX file: operators, versions, tensors, and operators that no rule imports."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import TensorProto

from glow_frontends.onnx import signature
from glow_frontends.onnx.functions import has_body
from glow_frontends.onnx.model import domain_of, load, opsets
from glow_frontends.onnx.rules import families
from glow_frontends.onnx.signature import Argument
from glow_frontends.onnx.tensors import numpy_type


@dataclass(frozen=True)
class Contents:
    """The facts of a file; operators of other domains than ONNX's own are named with these."""

    versions: dict[str, int]
    ir_version: int
    producer: str
    inputs: list[Argument]
    defaults: list[Argument]
    outputs: list[Argument]
    operators: dict[str, int]
    unsupported: list[str]
    #: Types and shapes of the constants, but for texts.
    tensors: list[tuple[np.dtype, tuple[int, ...]]]


def contents(path: Path) -> Contents:
    """The contents of an ONNX file, those of graphs and functions in it too."""
    model = load(path)
    versions = {"": 1, **opsets(model.opset_import)}
    nodes = [*signature.nodes_of(model.graph), *(n for f in model.functions for n in f.node)]
    kinds = Counter((domain_of(n.domain), n.op_type) for n in nodes)
    own = {(domain_of(f.domain), f.name) for f in model.functions}
    constants = [a.t for n in nodes if n.op_type == "Constant" for a in n.attribute if a.name == "value"]
    tensors = [*signature.tensors_of(model.graph), *constants]

    def known(domain: str, name: str) -> bool:
        rule = any(name in family for family in families(domain))
        return rule or (domain, name) in own or has_body(domain, name, versions.get(domain, 1))

    return Contents(
        {name or "ai.onnx": number for name, number in versions.items()},
        model.ir_version,
        f"{model.producer_name} {model.producer_version}".strip(),
        signature.inputs_of(model),
        signature.defaults_of(model),
        signature.outputs_of(model),
        {".".join(filter(None, kind)): count for kind, count in kinds.most_common()},
        sorted(f"{domain or 'ai.onnx'}.{name}" for domain, name in kinds if not known(domain, name)),
        [(numpy_type(t.data_type), tuple(t.dims)) for t in tensors if t.data_type != TensorProto.STRING],
    )
