"""`glow_instr`: buffers, their lives, and functions of instructions."""
