"""The text of a StableHLO program as a module of operations that need no definition."""

from __future__ import annotations

import re

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.utils.exceptions import ParseError, VerifyException

from glow_dialects.core.element_types import by
from glow_dialects.core.errors import GlowError
from glow_dialects.parse import parse_module

#: `dense<[0x7F800000, 1.0]> : tensor<2xf32>`: floats by their bits, which xDSL takes for whole numbers.
_BITS = re.compile(r'dense<([^"<>]*0x[^"<>]*)>(\s*:\s*tensor<[\dx]*(b?f\d+)>)')


def parsed(text: str, source: str) -> ModuleOp:
    """The module of a text in generic form; GlowError for other text."""
    context = Context(allow_unregistered=True)
    context.load_dialect(Builtin)
    context.load_dialect(Func)
    try:
        return parse_module(_BITS.sub(_in_decimal, text), source, context)
    except (ParseError, VerifyException) as error:
        hint = ""
        if '"stablehlo.' not in text:
            hint = "\nIt is not in generic form: print it by `get_asm(print_generic_op_form=True)`"
        raise GlowError(str(error).strip() + hint) from None


def _in_decimal(found: re.Match[str]) -> str:
    """Floats that are written by their bits, in decimal; one NaN alone as a string of bytes."""
    numbers, kind, name = found.groups()
    dtype = by("short")[name].dtype
    size = dtype.itemsize
    if re.fullmatch(r"\s*0x[0-9A-Fa-f]+\s*", numbers):
        return f'dense<"0x{int(numbers, 16).to_bytes(size, "little").hex().upper()}">{kind}'

    def decimal(bits: re.Match[str]) -> str:
        value = float(np.frombuffer(int(bits[0], 16).to_bytes(size, "little"), dtype)[0])
        if np.isnan(value):
            raise GlowError(f"{found[0]}: xDSL's text has no NaN among other numbers")
        return repr(value) if np.isfinite(value) else "-1.0e999" if value < 0 else "1.0e999"

    return f"dense<{re.sub(r'0x[0-9A-Fa-f]+', decimal, numbers)}>{kind}"
