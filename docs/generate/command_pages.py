"""The reference of commands: what `--help` of each prints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from importlib import import_module
from io import StringIO
from unittest.mock import patch

from page_text import block

from glow_tools.command_table import COMMANDS, module_of

INTRODUCTION = """# Commands

Exit status: 0 success, 1 bad input or failed check, 2 usage.
"""


def commands() -> dict[str, str]:
    """Every command with the module whose `main` it is."""
    own = {f"glow-{name}": module_of(name) for name in COMMANDS}
    inner = {f"glow {name}": module_of(name) for name in ("completion", "man")}
    return {"glow": module_of("glow"), **own, **inner, "python -m glow_tools.new_op": "glow_tools.new_op"}


def page() -> Iterator[str]:
    """The page's lines."""
    yield INTRODUCTION
    for name, module in commands().items():
        yield f"## {name}\n"
        yield from block(usage(module).splitlines())


def usage(module: str) -> str:
    """The help of a command."""
    out = StringIO()
    with patch.dict(os.environ, COLUMNS="100"), redirect_stdout(out), suppress(SystemExit):
        import_module(module).main(["--help"])
    return out.getvalue().rstrip()
