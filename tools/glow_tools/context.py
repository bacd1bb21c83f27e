"""The context of the tools: our dialects, those of backends, and xDSL's."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.ir import Attribute, Operation, TypeAttribute

from glow_dialects.dialects import GlowContext, context


class ToolContext(GlowContext):
    """Asks the backends for their dialects only when a program names a dialect that is not ours."""

    _asked = False

    def _ask_backends(self, name: str) -> None:
        dialect = name.partition(".")[0]
        if not self._asked and "." in name and dialect not in self._registered_dialects:
            self.ask_backends()

    def ask_backends(self) -> None:
        """Register the dialects of backends, those of packages too."""
        from glow_backends.base import backend_dialects

        self._asked = True
        for offered, make in backend_dialects().items():
            if offered not in self._registered_dialects:
                self.register_dialect(offered, make)

    def get_optional_op(self, name: str, *, dialect_stack: Sequence[str] = ()) -> type[Operation] | None:
        self._ask_backends(name)
        return super().get_optional_op(name, dialect_stack=dialect_stack)

    def get_optional_attr(self, name: str) -> type[Attribute] | None:
        self._ask_backends(name)
        return super().get_optional_attr(name)

    def get_optional_type(self, name: str) -> type[TypeAttribute] | None:
        self._ask_backends(name)
        return super().get_optional_type(name)


def tool_context(everything: bool = False) -> Context:
    """A context that loads each dialect when a program first uses it; with `everything` it names them all."""
    ctx = ToolContext()
    vars(ctx).update(vars(context()))
    known = get_all_dialects()
    for name, make in known.items():
        if name not in ctx.registered_dialect_names:
            ctx.register_dialect(name, make)
    if everything:
        ctx.ask_backends()
    return ctx
