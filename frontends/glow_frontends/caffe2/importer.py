"""import_caffe2: an init net and a predict net become a module of the `glow` dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from xdsl.dialects.builtin import ModuleOp

from glow_dialects.core.errors import GlowError, ImportProblems, Problem, ShapeError
from glow_dialects.core.files import unreadable
from glow_frontends.builder import GraphBuilder, Value
from glow_frontends.caffe2.fills import FILLS
from glow_frontends.caffe2.node import Blob, Node
from glow_frontends.caffe2.rules import INTEGER_INPUTS, RULES
from glow_frontends.caffe2.schema import NetDef
from glow_frontends.graph.errors import RuleError

Net = "str | Path | bytes"


def import_caffe2(
    init_net: Any,
    predict_net: Any,
    shapes: Mapping[str, Sequence[int]],
    dtypes: Mapping[str, Any] | None = None,
) -> ModuleOp:
    """The module of a Caffe2 net: function `main`, placeholders for the predict net's own inputs.

    The nets are paths, bytes or NetDef messages. `shapes` gives the shape of every input; inputs
    are float32, lengths int32 and indices int64 unless `dtypes` says otherwise. Raises
    ImportProblems with every problem of the nets, ShapeError where an input has no shape.
    """
    init, predict = read_net(init_net), read_net(predict_net)
    return _Import(_source(predict_net), dict(dtypes or {})).run(init, predict, dict(shapes))


def _source(net: Any) -> str:
    return str(net) if isinstance(net, str | Path) else "net"


def read_net(net: Any) -> Any:
    """The NetDef of a path, bytes or message; a GlowError where it is none."""
    if not isinstance(net, str | Path | bytes):
        return net
    try:
        data = net if isinstance(net, bytes) else Path(net).read_bytes()
    except OSError as error:
        raise unreadable(net, error) from None
    message = NetDef()
    try:
        message.ParseFromString(data)
    except (DecodeError, RuntimeError, ValueError):
        raise GlowError(f"{_source(net)}: not a Caffe2 net, or truncated") from None
    if not message.op:
        raise GlowError(f"{_source(net)}: not a Caffe2 net (no operators)")
    return message


class _Import:
    """One import: blobs so far, and the problems met."""

    def __init__(self, source: str, dtypes: dict[str, Any]) -> None:
        self.source = source
        self.dtypes = dtypes
        self.graph = GraphBuilder("main")
        self.blobs: dict[str, Blob] = {}
        self.constants: dict[str, Value] = {}
        self.problems: list[Problem] = []
        self.blocked: set[str] = set()

    def run(self, init: Any, predict: Any, shapes: dict[str, Sequence[int]]) -> ModuleOp:
        """Weights, inputs, operators, outputs."""
        for op in init.op:
            self._step(op)
        self._inputs(predict, shapes)
        for op in predict.op:
            self._step(op)
        outputs = list(predict.external_output) or list(predict.op[-1].output[:1])
        for name in outputs:
            if name not in self.blobs and name not in self.blocked:
                self.problems.append(Problem(name, "output", 0, "the output is not computed"))
        if self.problems:
            raise ImportProblems(self.source, self.problems)
        for name in outputs:
            value = self.blobs[name]
            output = value if isinstance(value, Value) else self.graph.constant(value)
            self.graph.save(output, self._free(name))
        self.graph.module.verify()
        return self.graph.module

    def _free(self, name: str) -> str:
        """An output that is also an input gets a name of its own."""
        return f"{name}_out" if name in self.inputs else name

    def _inputs(self, predict: Any, shapes: dict[str, Sequence[int]]) -> None:
        self.inputs = [n for n in predict.external_input if n not in self.blobs]
        missing = [n for n in self.inputs if n not in shapes]
        unknown = sorted(set(shapes) - set(self.inputs))
        if missing or unknown:
            texts = [f"input '{n}' has no shape" for n in missing] + [
                f"there is no input '{n}'" for n in unknown
            ]
            raise ShapeError(f"{self.source}: {'; '.join(texts)}")
        integer: dict[str, Any] = {}
        for op in predict.op:
            for position, dtype in INTEGER_INPUTS.get(op.type, {}).items():
                if position < len(op.input):
                    integer[op.input[position]] = dtype
        for name in self.inputs:
            dtype = self.dtypes.get(name, integer.get(name, np.float32))
            self.blobs[name] = self.graph.placeholder(name, tuple(shapes[name]), dtype)

    def _step(self, op: Any) -> None:
        if self.blocked & set(op.input):
            self.blocked |= set(op.output)
            return
        node = Node(op, self.graph, self.blobs, self.constants)
        try:
            fill, rule = FILLS.get(op.type), RULES.get(op.type)
            if fill is not None and not (op.input and op.type == "ConstantFill"):
                self._define(op, [fill(node)])
            elif rule is not None:
                result = rule(node)
                self._define(op, [result] if isinstance(result, np.ndarray | Value) else result)
            else:
                raise RuleError("no rule for this operator")
        except (RuleError, GlowError, ValueError, IndexError, TypeError) as error:
            name = op.name or next(iter(op.output), op.type)
            self.problems.append(Problem(name, op.type, 0, str(error)))
            self.blocked |= set(op.output)

    def _define(self, op: Any, results: Sequence[Blob]) -> None:
        for name, value in zip(op.output, results, strict=False):
            self.blobs[name] = value
            self.constants.pop(name, None)
            self.blocked.discard(name)
