"""The commands: `glow NAME` and `glow-NAME` are one and the same, the module glow_tools.NAME."""

from __future__ import annotations

#: What each does, in the order of the help. Names with a dash are modules with an underscore.
COMMANDS = {
    "run": "compile a model and run it; compare it with another engine, time it",
    "info": "what is in a model: inputs, outputs, operators, parameters, what would run where",
    "compile": "ahead of time: object files, C header, weights, a C program that uses them; WebAssembly",
    "bench": "time, load time, memory and error beside the installed peers; time of each kernel",
    "serve": "serve models over HTTP and gRPC",
    "opt": "read or import a program, run passes, print it at any level",
    "translate": "from one form of a model to another; pictures",
    "profile": "record the ranges of a model's values",
    "quantize": "a model on integers, by such a record",
    "train": "train a model on data in files",
    "generate": "continue texts with a language model",
    "transcribe": "write down what sounds say",
    "bisect": "the import rule, pass, rewrite or kernel that makes a model compute something else",
    "reduce": "the smallest model or program on which a command still fails",
    "sample": "write a small model to try commands on",
}
#: What `glow` alone has.
INNER = {
    "new-op": "write a new operator: its module, table entry and test",
    "new-backend": "write a new backend: a package that compiles and passes its tests",
    "completion": "the completion script of a shell: bash, zsh or fish",
    "man": "the manual page of a command",
    "help": "the help of a command",
}


def module_of(name: str) -> str:
    """The module of a command."""
    return f"glow_tools.{name.replace('-', '_')}"
