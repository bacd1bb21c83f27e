"""Types of the functional dialect: builtin scalars, tensors, tuples and functions, and the unknown type."""

from __future__ import annotations

from xdsl.dialects.builtin import FunctionType, TupleType
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition


@irdl_attr_definition
class AnyType(ParametrizedAttribute, TypeAttribute):
    """A value whose type the instances of a function give: functions are specialised for arguments."""

    name = "glow_fn.any"


any_type = AnyType()


def fits(have: Attribute, want: Attribute) -> bool:
    """Whether a value of type `have` may stand where `want` is asked: equal up to unknown parts."""
    if isinstance(have, AnyType) or isinstance(want, AnyType):
        return True
    if isinstance(have, TupleType) and isinstance(want, TupleType):
        pairs = list(zip(have.types.data, want.types.data, strict=False))
        return len(have.types) == len(want.types) and all(fits(h, w) for h, w in pairs)
    if isinstance(have, FunctionType) and isinstance(want, FunctionType):
        left = [*have.inputs.data, *have.outputs.data]
        right = [*want.inputs.data, *want.outputs.data]
        same = len(have.inputs) == len(want.inputs) and len(left) == len(right)
        return same and all(fits(h, w) for h, w in zip(left, right, strict=True))
    return have == want
