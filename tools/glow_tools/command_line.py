"""Parsers of the commands: help as wide as the terminal, proposals for what was written wrong."""

from __future__ import annotations

import argparse
import difflib
import itertools
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

OK, BAD_INPUT, USAGE = 0, 1, 2
#: Lines longer than this are not easily read.
_WIDEST = 110


def width() -> int:
    """Columns of the terminal, as `COLUMNS` or it says, as far as help uses them."""
    return max(40, min(shutil.get_terminal_size().columns, _WIDEST))


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like one."""
    return next(iter(difflib.get_close_matches(word, list(known), 1, 0.6)), None)


def print_version(program: str) -> None:
    """Print the version of the installed package."""
    from importlib.metadata import version

    print(program, version("glow-compiler"))


def called_as(name: str) -> str:
    """How a command is called here: `glow run` where `glow` has started it, else `glow-run`."""
    start = Path(sys.argv[0])
    one = start.stem == "glow" or (start.name == "__main__.py" and start.parent.name == "glow_tools")
    return name.replace("glow-", "glow ", 1) if one else name


class _Version(argparse.Action):
    """Looks the version up when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print_version(parser.prog)
        raise SystemExit(OK)


class _Help(argparse.HelpFormatter):
    """Text in paragraphs as wide as the terminal; examples as they are."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=width())

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return "".join(indent + line for line in text.splitlines(keepends=True))
        return super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """A parser whose errors propose what was meant; `name` is that of the command as installed."""

    def __init__(self, name: str, description: str, examples: str) -> None:
        self.name, self.examples = name, examples
        program = called_as(name)
        shown = examples if program == name else re.sub(r"\bglow-(?=[a-z])", "glow ", examples)
        super().__init__(
            prog=program,
            description=description,
            epilog=f"examples:\n{shown}\nexit status: 0 success, 1 bad input or failed check, 2 usage",
            formatter_class=_Help,
        )
        self.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")

    def options(self) -> list[str]:
        """The names of its options."""
        return [name for action in self._actions for name in action.option_strings]

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore
        """As argparse has it; an option that is none is the first thing said."""
        words = list(sys.argv[1:] if args is None else args)
        for word in itertools.takewhile(lambda w: w != "--", words):
            name = word.partition("=")[0]
            if name.startswith("--") and not any(o.startswith(name) for o in self.options()):
                self.error(f"unrecognized arguments: {word}")
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        """Print a line of usage and the message, with what is most like the wrong word, and exit with 2."""
        hint = ""
        if unknown := re.match(r"unrecognized arguments: (\S+)", message):
            word = unknown[1].partition("=")[0]
            near = closest(word, self.options()) if word.startswith("-") else None
            hint = f"; did you mean {near}?" if near else ""
        elif choice := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message):
            near = closest(choice[1], re.findall(r"[\w.-]+", choice[2]))
            hint = f"; did you mean {near}?" if near else ""
        names = [a.metavar or a.dest for a in self._actions if not a.option_strings]
        usage = " ".join(["usage:", self.prog, "[OPTIONS]", *(str(n).upper() for n in names)])
        told = f"{self.prog}: error: {message}{hint} (`{self.prog} --help` has the options)"
        self.exit(USAGE, f"{usage}\n{told}\n")
