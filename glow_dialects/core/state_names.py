"""The names of outputs and inputs that pass a state from one call to the next."""

from __future__ import annotations

from collections.abc import Container

_NEXT = (
    ("past_key_values", "present"),
    ("past_key_values", "present_key_values"),
    ("past", "present"),
    ("past_", "present_"),
    ("_in", "_out"),
    ("in_", "out_"),
    ("input_", "output_"),
    ("old", "new"),
    ("prev", "next"),
)
"""What an input is called, and what stands in its place in the name of the output."""
_ENDS = ("N", "n", "_n", "_out", ".out", "_next", "_new", ".next", "_output")
"""What stands behind the name of an input, without a 0, in that of the output."""
_STARTS = ("new_", "next_", "updated_", "out_", "present_")


def next_name(name: str, outputs: Container[str]) -> str:
    """The output whose name says that it is the next value of an input; "" where there is none.

    Of `past_key_values.0.key` it is `present.0.key`, of `h0` it is `hn`.
    """
    plain = name[:-1].rstrip("_") if name.endswith("0") and not name[:-1].endswith(".") else name
    return next(
        (
            other
            for other in (
                *(name.replace(old, new) for old, new in _NEXT if old in name),
                *(plain + end for end in _ENDS),
                *(start + name for start in _STARTS),
            )
            if other != name and other in outputs
        ),
        "",
    )
