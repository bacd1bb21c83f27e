"""Programs of `torch.export`, and graphs of ATen operators, become modules of the `glow` dialect.

PyTorch is imported when such a program is given.
"""

from glow_frontends.torch.importer import GraphProblems, Input, Output, Refusal, import_graph, import_program

__all__ = ["GraphProblems", "Input", "Output", "Refusal", "import_graph", "import_program"]
