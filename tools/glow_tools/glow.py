"""glow: every command behind one name."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from textwrap import wrap

from glow_tools.command_line import OK, USAGE, closest, print_version, width
from glow_tools.command_table import COMMANDS, INNER, module_of


def usage() -> str:
    """The help: the commands in a line each."""
    columns = width()
    lines = ["usage: glow COMMAND [ARGUMENTS]", ""]
    for title, part in (("commands:", COMMANDS), ("further ones:", INNER)):
        lines.append(title)
        for name, told in part.items():
            first, *rest = wrap(told, max(20, columns - 14)) or [""]
            lines += [f"  {name:12}{first}", *(" " * 14 + line for line in rest)]
        lines.append("")
    lines += [*wrap("`glow COMMAND --help` has the options of one, and examples.", columns), ""]
    lines += ["options:", "  -h, --help  this help", "  --version   print the version and exit"]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow`."""
    words = list(sys.argv[1:] if argv is None else argv)
    match words:
        case [] | ["-h" | "--help"] | ["help"]:
            print(usage())
            return OK if words else USAGE
        case ["--version"]:
            print_version("glow")
            return OK
        case ["help", name]:
            return _run(name, ["--help"])
        case _:
            return _run(words[0], words[1:])


def _run(name: str, arguments: Sequence[str]) -> int:
    """Run a command; 2 where there is none of this name."""
    if name not in COMMANDS and name not in INNER:
        kind = "option" if name.startswith("-") else "command"
        near = closest(name, [*COMMANDS, *INNER, "--help", "--version"])
        hint = f"; did you mean '{near}'?" if near else ""
        print(f"usage: glow COMMAND [ARGUMENTS]\nglow: error: no {kind} '{name}'{hint}", file=sys.stderr)
        print("`glow --help` lists the commands", file=sys.stderr)
        return USAGE
    return import_module(module_of(name)).main(list(arguments))


if __name__ == "__main__":
    raise SystemExit(main())
