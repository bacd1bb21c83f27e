"""`glow_instr`: buffers, their lifetimes, and functions of instructions."""
