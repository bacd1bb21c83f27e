"""glow-compile: a model as object file, C header and weights, with a C program that uses them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from glow_tools.common import add_shape, command, fail, guarded

if TYPE_CHECKING:
    from glow_backends.cpu.aot import AotProgram

EXAMPLES = """\
  glow-compile model.onnx -o build                 build/model.{o,h,weights} and model_example.c
  glow-compile model.onnx -o build --mcpu haswell --shape data=1x3x224x224
  glow-compile model.onnx -o build --name classify
  cc -O2 build/model_example.c build/model.o -lm -o example && ./example build/model.weights
"""


def _arguments() -> argparse.ArgumentParser:
    parser = command(
        "glow-compile",
        "Compile a model ahead of time into an object file with one function, a C header that "
        "declares it, and a file of weights. Nothing of this compiler is needed to run it.",
        EXAMPLES,
    )
    add = parser.add_argument
    add("model", help=".onnx or .mlir file")
    add("-o", "--output", type=Path, required=True, metavar="FOLDER", help="where the files go")
    add("--name", help="of the function and the files (default: the model's file name)")
    add("--mcpu", default="host", help="CPU to compile for (default: host)")
    add_shape(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `glow-compile`."""
    a = _arguments().parse_args(argv)
    return guarded(lambda: _run(a))


def _run(a: argparse.Namespace) -> None:
    from glow_backends.cpu.aot import compile_ahead
    from glow_backends.cpu.backend import CpuBackend
    from glow_dialects.core.files import whole
    from glow_tools.bench_kernels import planned

    name = a.name or re.sub(r"\W", "_", Path(a.model).stem)
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        fail(f"'{name}' is not a name in C; give one with --name")
    backend = CpuBackend(cpu=a.mcpu)
    module, function, _ = planned(a.model, dict(a.shape), backend)
    program = compile_ahead(module, function, backend.target, name)
    files = {
        f"{name}.o": program.object,
        f"{name}.weights": program.weights,
        f"{name}.h": header(program).encode(),
        f"{name}_example.c": example(program).encode(),
    }
    a.output.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:  # all of them or none
        for file, data in files.items():
            stack.enter_context(whole(a.output / file)).write_bytes(data)
    for file, data in files.items():
        print(f"wrote {a.output / file} ({len(data)} bytes)")


def macro(program: AotProgram, tensor: str) -> str:
    """The constant that stands for a tensor's place in the table."""
    return f"{program.name}_{re.sub(r'[^A-Za-z0-9_]', '_', tensor)}".upper()


def header(program: AotProgram) -> str:
    """The C header."""
    upper = program.name.upper()
    lines = [
        f"/* {program.name}: compiled by glow-compile. Every pointer is aligned to {upper}_ALIGNMENT. */",
        f"#ifndef {upper}_H",
        f"#define {upper}_H",
        "",
        f"#define {upper}_ALIGNMENT 64",
        f"#define {upper}_WEIGHT_BYTES {len(program.weights)}ull",
        f"#define {upper}_ARENA_BYTES {program.arena_bytes}ull",
        "",
        "/* The places of tensors in the table, their sizes, and for tensors that keep their values",
        "   between calls the offset of their first values in the weights. */",
    ]
    for place, tensor in enumerate(program.tensors):
        shape = "x".join(map(str, tensor.shape)) or "scalar"
        name = macro(program, tensor.name)
        lines.append(f"#define {name} {place} /* {tensor.kind} {shape} {tensor.dtype} */")
        lines.append(f"#define {name}_BYTES {tensor.bytes}ull")
        if tensor.initial is not None:
            lines.append(f"#define {name}_INITIAL {tensor.initial}ull")
    lines += [
        f"#define {upper}_TENSORS {len(program.tensors)}",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "/* Runs once. `arena` is work space; calls with different arenas and outputs may run at a time. */",
        f"void {program.name}(void *const tensors[{upper}_TENSORS], const void *weights, void *arena);",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        "#endif",
        "",
    ]
    return "\n".join(lines)


EXAMPLE = """\
/* Runs {name} once: {name}_example WEIGHTS [INPUT...], inputs as raw files in the order below
   (zeros where none is given), outputs written to NAME.out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "{name}.h"

static void *reserve(size_t bytes) {{
  size_t rounded = (bytes + {upper}_ALIGNMENT) / {upper}_ALIGNMENT * {upper}_ALIGNMENT;
  void *memory = aligned_alloc({upper}_ALIGNMENT, rounded);
  if (!memory) {{
    fprintf(stderr, "not enough memory\\n");
    exit(1);
  }}
  memset(memory, 0, rounded);
  return memory;
}}

static void read_file(const char *path, void *memory, size_t bytes) {{
  FILE *file = fopen(path, "rb");
  if (!file || fread(memory, 1, bytes, file) != bytes) {{
    fprintf(stderr, "%s: %zu bytes expected\\n", path, bytes);
    exit(1);
  }}
  fclose(file);
}}

static void write_file(const char *path, const void *memory, size_t bytes) {{
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(memory, 1, bytes, file) != bytes) {{
    fprintf(stderr, "%s: cannot be written\\n", path);
    exit(1);
  }}
  fclose(file);
}}

int main(int count, char **arguments) {{
  if (count < 2) {{
    fprintf(stderr, "usage: %s WEIGHTS [INPUT...]\\n", arguments[0]);
    return 2;
  }}
  void *tensors[{upper}_TENSORS];
  char *weights = reserve({upper}_WEIGHT_BYTES);
  void *arena = reserve({upper}_ARENA_BYTES);
  int next = 2;
  read_file(arguments[1], weights, {upper}_WEIGHT_BYTES);
{prepare}
  (void)next;
  {name}(tensors, weights, arena);
{finish}
  return 0;
}}
"""


def example(program: AotProgram) -> str:
    """A C program that loads the weights, reads inputs, runs once and writes outputs."""
    prepare: list[str] = []
    finish: list[str] = []
    for tensor in program.tensors:
        name = macro(program, tensor.name)
        prepare.append(f"  tensors[{name}] = reserve({name}_BYTES);")
        if tensor.kind == "input":
            read = f"read_file(arguments[next++], tensors[{name}], {name}_BYTES)"
            prepare.append(f"  if (next < count) {read};")
        elif tensor.initial is not None:
            prepare.append(f"  memcpy(tensors[{name}], weights + {name}_INITIAL, {name}_BYTES);")
        else:
            file = re.sub(r"\W", "_", tensor.name)
            finish.append(f'  write_file("{file}.out", tensors[{name}], {name}_BYTES);')
    return EXAMPLE.format(
        name=program.name,
        upper=program.name.upper(),
        prepare="\n".join(prepare),
        finish="\n".join(finish),
    )


if __name__ == "__main__":
    raise SystemExit(main())
