"""Function bodies: the standard's own definition of an operator, for operators without a rule."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, TypeProto, helper

from glow_dialects.core.extent import Extent
from glow_frontends.graph import BoundedValue, RuleError, dtype_of_value, shape
from glow_frontends.onnx.node import Node
from glow_frontends.onnx.tensors import onnx_type
from glow_frontends.onnx.values import AnyValue, HostValue, MapValue, NoneValue, SequenceValue


@cache
def _schema(domain: str, op: str, version: int) -> Any:
    """The standard's description of an operator, None where it has none (its stubs lack functions)."""
    try:
        return onnx.defs.get_schema(op, version, domain)
    except (onnx.defs.SchemaError, TypeError):  # a version beyond 32 bits is a TypeError
        return None


def function_body(node: Node) -> FunctionProto | None:
    """The published body of a node's operator for its version and input types; None where it has none."""
    schema = _schema(node.proto.domain, node.op, node.opset)
    if schema is None:
        return None
    if schema.has_context_dependent_function:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= node.opset]
        if versions:
            types = [_type(v).SerializeToString() for v in node.inputs]
            data = schema.get_context_dependent_function_with_opset_version(
                max(versions), _resolved(node).SerializeToString(), types
            )
            if data:
                body = FunctionProto()
                body.ParseFromString(data)
                return body
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= node.opset]
        if versions:
            body = FunctionProto()
            data = schema.get_function_with_opset_version(max(versions))
            if data:
                body.ParseFromString(data)
                return body
    return None


def schema_defaults(node: Node) -> dict[str, AttributeProto]:
    """Values of a standard operator's attributes where a node does not give them."""
    schema = _schema(node.proto.domain, node.op, node.opset)
    if schema is None:
        return {}
    return {n: a.default_value for n, a in schema.attributes.items() if a.default_value.name}


def check_attributes(node: Node) -> None:
    """Raise a RuleError where a standard operator lacks an attribute that it must have, or has another."""
    schema = _schema(node.proto.domain, node.op, node.opset)
    if schema is not None and (others := node.attributes.keys() - schema.attributes.keys()):
        raise RuleError(f"attribute '{min(others)}' is not one of {node.op} in version {node.opset}")
    for name, attribute in schema.attributes.items() if schema is not None else ():
        if attribute.required and name not in node.attributes:
            raise RuleError(f"attribute '{name}' is missing")


def has_body(domain: str, op: str, version: int) -> bool:
    """Whether the standard publishes a body of the operator."""
    schema = _schema(domain, op, version)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def _resolved(node: Node) -> onnx.NodeProto:
    """The node with references to attributes of an enclosing function replaced by their values."""
    twin = onnx.NodeProto()
    twin.CopyFrom(node.proto)
    del twin.attribute[:]
    for name, attribute in node.attributes.items():
        copied = twin.attribute.add()
        copied.CopyFrom(attribute)
        copied.name = name
    return twin


def _type(value: AnyValue | None) -> TypeProto:
    if value is None:
        return TypeProto()
    if isinstance(value, SequenceValue):
        element = onnx_type(value.dtype) if value.dtype is not None else 1
        return helper.make_sequence_type_proto(helper.make_tensor_type_proto(element, None))
    if isinstance(value, NoneValue | HostValue | MapValue):
        return TypeProto()
    if isinstance(value, BoundedValue):
        return helper.make_tensor_type_proto(onnx_type(dtype_of_value(value.value)), None)
    known = [None if isinstance(n, Extent) else n for n in shape(value)]
    return helper.make_tensor_type_proto(onnx_type(dtype_of_value(value)), known)


def reference_attributes(
    function: FunctionProto,
    bound_attributes: Mapping[str, AttributeProto],
    defaults: Mapping[str, AttributeProto],
) -> dict[str, AttributeProto]:
    """Attributes that the body may refer to: the node's, the function's and the schema's defaults."""
    bound = {**defaults, **{a.name: a for a in function.attribute_proto}}
    bound.update(bound_attributes)
    return bound
