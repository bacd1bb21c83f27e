"""Tokens: the results of asynchronous instructions, which other instructions wait for."""

from __future__ import annotations

from xdsl.ir import ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition


@irdl_attr_definition
class TokenType(ParametrizedAttribute, TypeAttribute):
    """`!glow_instr.token`: an instruction that is under way. Every token is waited for exactly once."""

    name = "glow_instr.token"


TOKEN = TokenType()


def is_token(value: SSAValue) -> bool:
    """Whether a value is a token, and so no buffer."""
    return type(value.type) is TokenType
