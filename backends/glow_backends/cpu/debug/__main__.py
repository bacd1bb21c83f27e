"""`python -m glow_backends.cpu.debug` prints where gdb's commands for networks are: gdb -x "$(...)"."""

from glow_backends.cpu.debug import glow_gdb_path

print(glow_gdb_path())
