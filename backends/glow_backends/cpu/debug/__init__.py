"""Debug information: what gdb and perf need to know of a program."""

from pathlib import Path


def glow_gdb_path() -> Path:
    """The commands of gdb for compiled networks, a file for `gdb -x`."""
    return Path(__file__).with_name("glow_gdb.py")
