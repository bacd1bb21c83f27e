"""The reference of commands: the output of --help."""

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

Exit status: 0 success, 1 bad input or failed check, 2 usage error.
"""


def commands() -> dict[str, str]:
    """Every command with the module whose `main` it is."""
    own = {f"glow-{name}": module_of(name) for name in COMMANDS}
    inner = {f"glow {name}": module_of(name) for name in ("completion", "man")}
    modules = ("new_op", "new_backend")
    others = {f"python -m glow_tools.{name}": f"glow_tools.{name}" for name in modules}
    return {"glow": module_of("glow"), **own, **inner, **others}


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
