"""Commands of gdb for compiled networks: `source` this file in gdb, or start it with -x.

`break node:NAME` stops where a node of the model begins, now or once its program is loaded. Tensors, which
programs with full debug information have as variables, are printed as such: `print x`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import gdb  # pyright: ignore[reportMissingModuleSource]

_MAIN = "glow_main"
_NODE = "node:"
_SHOWN = 8
"""Elements of a tensor that are printed."""


def _sources() -> Iterator[Path]:
    """The printed programs of what is loaded."""
    for symbol in gdb.lookup_static_symbols(_MAIN):
        if symbol.symtab:
            yield Path(symbol.symtab.fullname())


def _line_of(source: Path, node: str) -> int | None:
    """The line of the first instruction that computes a node, by the comment behind it."""
    for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
        _, mark, nodes = line.rpartition("  // ")
        if mark and node in nodes.split(" + "):
            return number
    return None


class _Nodes:
    """Nodes that are to be stopped at once their programs are loaded."""

    def __init__(self) -> None:
        self.pending: list[str] = []
        gdb.events.new_objfile.connect(lambda event: self.loaded())

    def stop_at(self, node: str) -> None:
        """Stop at a node of what is loaded, or of what comes."""
        self.pending.append(node)
        self.loaded()
        if node in self.pending:
            print(f"Node {node} is not loaded yet; the breakpoint waits for it.")

    def loaded(self) -> None:
        """Look for the nodes that are waited for."""
        for source in _sources() if self.pending else ():
            for node in list(self.pending):
                line = _line_of(source, node)
                if line is not None:
                    self.pending.remove(node)
                    gdb.Breakpoint(source=str(source), line=line)


class _Break(gdb.Command):
    """Set a breakpoint: `break node:NAME` at a node of a network, anything else as gdb has it."""

    def __init__(self, nodes: _Nodes) -> None:
        super().__init__("break", gdb.COMMAND_BREAKPOINTS, gdb.COMPLETE_LOCATION)
        self._nodes = nodes

    def invoke(self, argument: str, from_tty: bool) -> None:
        """Run the command."""
        if argument.startswith(_NODE):
            self._nodes.stop_at(argument.removeprefix(_NODE).strip())
        else:
            gdb.Breakpoint(argument or "*$pc")


class _Tensor:
    """Prints a tensor: its type, and its first elements."""

    def __init__(self, value: gdb.Value) -> None:
        self._value = value

    def to_string(self) -> str:
        """The text of the tensor."""
        kind = self._value.type.strip_typedefs().target()
        shape: list[int] = []
        while kind.code == gdb.TYPE_CODE_ARRAY:
            shape.append(kind.range()[1] + 1)
            kind = kind.target()
        count = 1
        for size in shape:
            count *= size
        flat = self._value.cast(kind.pointer())
        shown = ", ".join(str(flat[i]) for i in range(min(count, _SHOWN)))
        rest = ", ..." if count > _SHOWN else ""
        return f"{self._value.type.name} at {int(self._value):#x}: {{{shown}{rest}}}"


def _printer(value: gdb.Value) -> _Tensor | None:
    known = re.match(r"tensor<", value.type.name or "")
    return _Tensor(value) if known else None


_Break(_Nodes())
gdb.pretty_printers.append(_printer)
