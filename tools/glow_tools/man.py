"""glow man: the manual pages of the commands, from their parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from glow_tools.command_line import OK, Parser
from glow_tools.command_table import COMMANDS, INNER
from glow_tools.common import command, guarded

EXAMPLES = """\
  glow man run | man -l -
  glow man --output ~/.local/share/man/man1        every page, for man glow-run
"""


def arguments() -> Parser:
    """The command line."""
    parser = command("glow man", "Print the manual page of a command, or write those of all.", EXAMPLES)
    parser.add_argument("name", nargs="?", choices=(*COMMANDS, "glow"), metavar="COMMAND")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="write every page here")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow man`."""
    parser = arguments()
    a = parser.parse_args(argv)
    if a.output is None and a.name is None:
        parser.error("a command, or -o FOLDER, is needed")
    if a.output is None:
        print(page(a.name))
        return OK
    return guarded(lambda: _write(a.output))


def _write(folder: Path) -> None:
    from glow_dialects.core.files import whole

    folder.mkdir(parents=True, exist_ok=True)
    for name in ("glow", *COMMANDS):
        file = folder / ("glow.1" if name == "glow" else f"glow-{name}.1")
        with whole(file) as temporary:
            temporary.write_text(page(name) + "\n", encoding="utf-8")
    print(f"wrote {len(COMMANDS) + 1} pages to {folder}")


def page(name: str) -> str:
    """The page of a command."""
    return "\n".join(_overview() if name == "glow" else _lines(name))


def _head(name: str, told: str) -> Iterator[str]:
    from importlib.metadata import version

    yield f'.TH "{name.upper()}" 1 "" "Glow {version("glow-compiler")}" "Glow"'
    yield ".ad l"
    yield from (".SH NAME", f"{_text(name)} \\- {_text(told)}")


def _overview() -> Iterator[str]:
    yield from _head("glow", "a neural-network compiler: its commands")
    yield from (".SH SYNOPSIS", ".B glow", "COMMAND [ARGUMENTS]", ".SH COMMANDS")
    for name, told in {**COMMANDS, **INNER}.items():
        yield from (".TP", f".B {_text(name)}", _text(told))
    yield from (".SH SEE ALSO", ", ".join(f"\\fBglow\\-{name}\\fR(1)" for name in COMMANDS))


def _lines(name: str) -> Iterator[str]:
    from importlib import import_module

    from glow_tools.command_table import module_of

    parser: Parser = import_module(module_of(name)).arguments()
    yield from _head(f"glow-{name}", COMMANDS[name])
    positional = [a for a in parser._actions if not a.option_strings]
    words = " ".join(f"[{_value(a)}]" if a.nargs in ("?", "*") else _value(a) for a in positional)
    yield from (".SH SYNOPSIS", f".B glow {_text(name)}", f"[OPTIONS] {_text(words)}")
    yield from (".br", f".B glow\\-{_text(name)}", f"[OPTIONS] {_text(words)}")
    yield from (".SH DESCRIPTION", _text(parser.description or ""))
    if positional:
        yield ".SH ARGUMENTS"
        for action in positional:
            yield from (".TP", f".I {_text(_value(action))}", _text(_help(action)))
    yield ".SH OPTIONS"
    for action in parser._actions:
        if action.option_strings:
            names = ", ".join(f"\\fB{_text(n)}\\fR" for n in action.option_strings)
            value = "" if action.nargs == 0 else f" \\fI{_text(_value(action))}\\fR"
            yield from (".TP", names + value, _text(_help(action)))
    yield from (".SH EXAMPLES", ".nf", *map(_text, parser.examples.rstrip().splitlines()), ".fi")
    yield from (".SH EXIT STATUS", "0 success, 1 bad input or failed check, 2 usage.")
    yield from (".SH SEE ALSO", "\\fBglow\\fR(1)")


def _value(action: argparse.Action) -> str:
    """How help names the value of an argument."""
    if action.choices is not None and action.metavar is None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    plain = action.dest.upper() if action.option_strings else action.dest
    return str(action.metavar or plain)


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%")


def _text(text: str) -> str:
    """Text as roff has it."""
    shown = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + shown if shown.startswith((".", "'")) else shown


if __name__ == "__main__":
    raise SystemExit(main())
