"""The commands: `glow NAME` and `glow-NAME` are one and the same, the module glow_tools.NAME."""

from __future__ import annotations

#: What each does, in the order of the help. Names with a dash are modules with an underscore.
COMMANDS = {
    "run": "compile a model and run it; compare it with another engine, time it",
    "info": "show what is in a model: inputs, outputs, operators, parameters, and where each part would run",
    "compile": "compile ahead of time: object file, C header, weights, an example in C; WebAssembly",
    "bench": "measure time, load time, memory and error next to the installed engines; time of each kernel",
    "serve": "serve models over HTTP and gRPC",
    "opt": "read or import a program, run passes, print it at any level",
    "translate": "convert between file formats; draw pictures",
    "profile": "record the ranges of a model's values, for glow quantize",
    "quantize": "write a quantised model",
    "train": "train a model on data in files",
    "generate": "generate text with a language model",
    "transcribe": "transcribe speech",
    "bisect": "find the import rule, pass, rewrite or kernel that changes a model's result",
    "reduce": "find the smallest model or program on which a command still fails",
    "sample": "write a sample model to try the commands on",
}
#: What `glow` alone has.
INNER = {
    "new-op": "write a new operator: its module, table entry and test",
    "new-backend": "write a new backend: a package that compiles and passes its tests",
    "completion": "print the completion script of a shell: bash, zsh or fish",
    "man": "print the manual page of a command",
    "help": "print the help of a command",
}


def module_of(name: str) -> str:
    """The module of a command."""
    return f"glow_tools.{name.replace('-', '_')}"
