"""The C side of a program compiled ahead of time: header, weights as source, a program that runs it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from glow_dialects.core.element_types import dtype_named

if TYPE_CHECKING:
    from glow_backends.cpu.aot import AotFunction, AotProgram, Tensor

_TYPES = """\
#ifndef GLOW_BUNDLE_ABI
/* The same in every bundle of this version. */
#define GLOW_BUNDLE_ABI 2
typedef struct {
  const char *name, *kind, *dtype; /* kind: input, output, state or trainable (they keep their values),
    or unused: another function's */
  const int64_t *shape; /* -1: a call's sizes say */
  int rank;
  size_t bytes; /* for the largest sizes */
  int element_bytes;
  int64_t initial; /* where a state's first values are in the weights; -1: it has none */
} glow_tensor;
/* A size that calls give. */
typedef struct {
  const char *name;
  int64_t least, most;
} glow_size;
/* What a function returns that has no code for some sizes. */
#define GLOW_SIZES 1
/* Calls work(job, n) for all n < workers at once, and returns when all have returned. */
typedef void (*glow_parallel)(void *context, int workers, void (*work)(void *job, int n), void *job);
/* What a call takes; functions without sizes or threads do not look at those. */
typedef struct {
  void *const *tensors;
  const void *weights;
  void *arena;
  const int64_t *sizes;
  glow_parallel parallel;
  void *context;
} glow_call;
typedef struct {
  const char *name;
  const glow_tensor *tensors;
  int tensor_count;
  const glow_size *sizes;
  int size_count;
  size_t arena_bytes;
  int threads;
  int (*plan)(const int64_t *sizes, int64_t *shapes, int64_t *arena_bytes); /* null without sizes */
  int (*run)(const glow_call *call);
} glow_function;
/* All that a program must know to run functions that it finds by name. */
typedef struct {
  int abi;
  const char *name;
  const void *weights; /* null where they are in a file */
  size_t weight_bytes;
  uint64_t weight_checksum;
  const glow_function *functions;
  int function_count;
} glow_bundle;
/* The bytes of a tensor of some shape. */
static inline size_t glow_bytes(const glow_tensor *tensor, const int64_t *shape) {
  size_t bytes = (size_t)tensor->element_bytes;
  for (int i = 0; i < tensor->rank; ++i) bytes *= (size_t)shape[i];
  return bytes;
}
/* Fletcher's two sums of 32-bit words, each modulo 2^32. */
static inline uint64_t glow_checksum(const void *data, size_t bytes) {
  uint32_t first = 0, second = 0, word;
  for (size_t i = 0; i + 4 <= bytes; i += 4) {
    memcpy(&word, (const char *)data + i, 4);
    first += word;
    second += first;
  }
  return (uint64_t)second << 32 | first;
}
#elif GLOW_BUNDLE_ABI != 2
#error "bundles of different versions of glow-compile"
#endif"""


def files(program: AotProgram, weights: str) -> dict[str, bytes]:
    """The files of a bundle by name; `weights`: "file", "embed" or "c"."""
    name = program.name
    content = {
        f"{name}.o": program.object,
        f"{name}.h": header(program, weights != "file").encode(),
        f"{name}_example.c": example(program, weights != "file").encode(),
    }
    if weights == "file":
        content[f"{name}.weights"] = program.weights
    if weights == "c":
        content[f"{name}_weights.c"] = weights_source(program).encode()
    return content


def checksum(weights: bytes) -> int:
    """Fletcher's sums of the words of the weights, which a loader computes in a moment."""
    sums = np.cumsum(np.frombuffer(weights, "<u4"), dtype=np.uint32)
    return int(sums.sum(dtype=np.uint32)) << 32 | (int(sums[-1]) if len(sums) else 0)


def macro(function: str, tensor: str) -> str:
    """The constant that stands for a tensor's place in the table."""
    return f"{function}_{re.sub(r'[^A-Za-z0-9_]', '_', tensor)}".upper()


def header(program: AotProgram, linked: bool = False) -> str:
    """The C header; `linked`: the weights are linked, not read from a file."""
    upper, target = program.name.upper(), program.target
    lines = [
        f"/* {program.name}: compiled by glow-compile for {target.triple} ({target.cpu}). */",
        f"#ifndef {upper}_H",
        f"#define {upper}_H",
        "",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "#include <string.h>",
        "",
        "/* Bytes that the weights and the arena are aligned to; tensors are aligned to 8. */",
        f"#define {upper}_ALIGNMENT 64",
        "/* Constant: the weights. */",
        f"#define {upper}_WEIGHT_BYTES {len(program.weights)}ull",
        f"#define {upper}_WEIGHT_CHECKSUM {checksum(program.weights):#018x}ull",
        "",
        _TYPES,
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
    ]
    if linked:
        lines += [f"extern const uint64_t {program.name}_weights[{_words(program)}];", ""]
    for function in program.functions:
        lines += _function(function, program.target.threads)
    lines += ["#ifdef __cplusplus", "}", "#endif", "", *_checks(program), "", *_bundle(program, linked)]
    lines += ["", "#endif", ""]
    return "\n".join(lines)


def _function(function: AotFunction, threads: int) -> list[str]:
    """Sizes, places of tensors, the table of them and the declaration of a function."""
    name, upper = function.name, function.name.upper()
    lines = [
        f"/* {name}. Mutable: all tensors. Activations: the arena, work space of a run. */",
        f"#define {upper}_MUTABLE_BYTES {function.mutable_bytes}ull",
        f"#define {upper}_ARENA_BYTES {function.arena_bytes}ull",
    ]
    where = 0
    for place, tensor in enumerate(function.tensors):
        shape = "x".join("?" if d is None else str(d) for d in tensor.shape) or "scalar"
        key = macro(name, tensor.name)
        lines.append(f"#define {key} {place} /* {tensor.kind} {shape} {tensor.dtype} */")
        lines.append(f"#define {key}_BYTES {tensor.bytes}ull")
        if function.sizes:
            lines.append(f"#define {key}_SHAPE {where} /* where its dimensions are in all shapes */")
        where += len(tensor.shape)
        if tensor.initial is not None:
            lines.append(f"#define {key}_INITIAL {tensor.initial}ull")
    shapes = [str(-1 if d is None else d) for t in function.tensors for d in t.shape]
    lines += [
        f"#define {upper}_TENSORS {len(function.tensors)}",
        f"static const int64_t {name}_shapes[] = {{{', '.join(shapes) or '0'}}};",
        f"static const glow_tensor {name}_tensors[{upper}_TENSORS] = {{",
    ]
    place = 0
    for tensor in function.tensors:
        lines.append(f"  {{{_row(tensor, f'{name}_shapes + {place}')}}},")
        place += len(tensor.shape)
    lines.append("};")
    table = f"void *const tensors[{upper}_TENSORS], const void *weights, void *arena"
    kind = "void"
    if function.sizes:
        lines += _sizes(function)
        table += f", const int64_t sizes[{upper}_SIZES]"
        kind = "int"
    if threads > 1:
        lines += [
            f"#define {upper}_THREADS {threads}",
            f"/* Runs once, on {upper}_THREADS workers of `parallel`, which gets `context`. Calls with",
            "   different arenas and outputs may run at a time. */",
            f"{kind} {name}({table}, glow_parallel parallel, void *context);",
        ]
    else:
        lines += [
            "/* Runs once. Calls with different arenas and outputs may run at a time. */",
            f"{kind} {name}({table});",
        ]
    return [*lines, ""]


def _sizes(function: AotFunction) -> list[str]:
    """The table of the sizes that calls give, and what tells what they need."""
    name, upper = function.name, function.name.upper()
    rows = ", ".join(f'{{"{_quoted(s.name)}", {s.least}, {s.most}}}' for s in function.sizes)
    return [
        f"#define {upper}_SIZES {len(function.sizes)}",
        *(f"#define {macro(name, f'size_{s.name}')} {i}" for i, s in enumerate(function.sizes)),
        f"static const glow_size {name}_sizes[{upper}_SIZES] = {{{rows}}};",
        f"#define {upper}_DIMENSIONS {sum(len(t.shape) for t in function.tensors)}",
        "/* What a run of some sizes needs: the shapes of all tensors, one after the other, and the bytes",
        "   of the arena. 0, or GLOW_SIZES where there is no code for these sizes. */",
        f"int {name}_plan(const int64_t sizes[{upper}_SIZES], int64_t shapes[{upper}_DIMENSIONS],",
        "    int64_t *arena_bytes);",
        "/* 0, or GLOW_SIZES; then nothing has been computed. */",
    ]


def _row(tensor: Tensor, shape: str) -> str:
    name = _quoted(tensor.name)
    initial = -1 if tensor.initial is None else tensor.initial
    rank, element = len(tensor.shape), dtype_named(tensor.dtype).itemsize
    sizes = f"{rank}, {tensor.bytes}u, {element}, {initial}"
    return f'"{name}", "{tensor.kind}", "{tensor.dtype}", {shape}, {sizes}'


def _quoted(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')


def _bundle(program: AotProgram, linked: bool) -> list[str]:
    """What programs look functions up in that find them by name."""
    name, upper, lines, rows = program.name, program.name.upper(), list[str](), list[str]()
    for f in program.functions:
        several, sized = program.target.threads > 1, bool(f.sizes)
        given = "call->tensors, call->weights, call->arena"
        given += ", call->sizes" * sized + ", call->parallel, call->context" * several
        body = f"return {f.name}({given});" if sized else f"{f.name}({given});\n  return 0;"
        lines += [f"static inline int {f.name}_called(const glow_call *call) {{", f"  {body}", "}"]
        sizes = f"{f.name}_sizes, {f.name.upper()}_SIZES" if sized else "NULL, 0"
        plan = f"{f.name}_plan" if sized else "NULL"
        rows.append(
            f'  {{"{f.name}", {f.name}_tensors, {f.name.upper()}_TENSORS, {sizes}, '
            f"{f.name.upper()}_ARENA_BYTES, {program.target.threads}, {plan}, {f.name}_called}},"
        )
    weights = f"{name}_weights" if linked else "NULL"
    return [
        *lines,
        f"static const glow_function {name}_functions[] = {{",
        *rows,
        "};",
        f'static const glow_bundle {name}_bundle = {{GLOW_BUNDLE_ABI, "{name}", {weights},',
        f"  {upper}_WEIGHT_BYTES, {upper}_WEIGHT_CHECKSUM, {name}_functions, {len(rows)}}};",
    ]


def _checks(program: AotProgram) -> list[str]:
    name, upper = program.name, program.name.upper()
    lines = [
        "/* Whether these are the weights that the code was compiled with; reads all of them. */",
        f"static inline int {name}_weights_right(const void *weights) {{",
        f"  return glow_checksum(weights, {upper}_WEIGHT_BYTES) == {upper}_WEIGHT_CHECKSUM;",
        "}",
    ]
    for function in program.functions:
        own = function.name.upper()
        lines += [
            "/* Whether all pointers are there and aligned: for assert(). */",
            f"static inline int {function.name}_pointers_right(void *const tensors[{own}_TENSORS],",
            "    const void *weights, const void *arena) {",
            f"  int right = weights && arena && !((uintptr_t)weights % {upper}_ALIGNMENT)",
            f"      && !((uintptr_t)arena % {upper}_ALIGNMENT);",
            f"  for (int i = 0; i < {own}_TENSORS; ++i) {{",
            f'    if (!strcmp({function.name}_tensors[i].kind, "unused")) continue;',
            "    right &= tensors[i] && !((uintptr_t)tensors[i] % 8);",
            "  }",
            "  return right;",
            "}",
        ]
    return lines


def _words(program: AotProgram) -> int:
    return -(-len(program.weights) // 8) or 1


def weights_source(program: AotProgram) -> str:
    """The weights as a C file, in words of the target's order, which is little-endian everywhere."""
    data = program.weights + bytes(-len(program.weights) % 8)
    words = [f"0x{int.from_bytes(data[i : i + 8], 'little'):x}" for i in range(0, len(data), 8)] or ["0"]
    rows = ",\n".join(",".join(words[i : i + 8]) for i in range(0, len(words), 8))
    return (
        f'#include "{program.name}.h"\n\n'
        f"__attribute__((aligned({program.name.upper()}_ALIGNMENT)))\n"
        f"const uint64_t {program.name}_weights[{_words(program)}] = {{\n{rows}}};\n"
    )


EXAMPLE = """\
/* Runs {name} once: {usage}, inputs as raw files in the order below
   (zeros where none is given), outputs written to NAME.out, their first values printed. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "{bundle}.h"

static void *reserve(size_t bytes) {{
  char *all = calloc(bytes + 2 * {upper}_ALIGNMENT, 1);
  if (!all) {{
    fprintf(stderr, "not enough memory\\n");
    exit(1);
  }}
  char *memory = all + 2 * {upper}_ALIGNMENT - (uintptr_t)all % {upper}_ALIGNMENT;
  memcpy(memory - sizeof all, &all, sizeof all);
  return memory;
}}

static void release(void *memory) {{
  void *all;
  memcpy(&all, (char *)memory - sizeof all, sizeof all);
  free(all);
}}

static void read_file(const char *path, void *memory, size_t bytes) {{
  FILE *file = fopen(path, "rb");
  if (!file || fread(memory, 1, bytes, file) != bytes || fgetc(file) != EOF) {{
    fprintf(stderr, "%s: %llu bytes expected\\n", path, (unsigned long long)bytes);
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

static void print_number(const char *type, const void *data, size_t i) {{
  if (!strcmp(type, "float32")) printf(" %g", ((const float *)data)[i]);
  else if (!strcmp(type, "float64")) printf(" %g", ((const double *)data)[i]);
  else if (!strcmp(type, "int64")) printf(" %lld", (long long)((const int64_t *)data)[i]);
  else if (!strcmp(type, "uint64")) printf(" %llu", (unsigned long long)((const uint64_t *)data)[i]);
  else if (!strcmp(type, "int32")) printf(" %ld", (long)((const int32_t *)data)[i]);
  else if (!strcmp(type, "uint32")) printf(" %lu", (unsigned long)((const uint32_t *)data)[i]);
  else if (!strcmp(type, "int16")) printf(" %d", ((const int16_t *)data)[i]);
  else if (!strcmp(type, "int8")) printf(" %d", ((const int8_t *)data)[i]);
  else if (!strcmp(type, "uint8") || !strcmp(type, "bool")) printf(" %d", ((const uint8_t *)data)[i]);
  else if (!strcmp(type, "uint16")) printf(" %d", ((const uint16_t *)data)[i]);
  else printf(" ?"); /* C has no such numbers */
}}

/* Prints the name, type, shape and first values of a tensor. */
static void print_tensor(const glow_tensor *tensor, const void *data, const int64_t *shape) {{
  size_t count = 1;
  printf("%s: %s [", tensor->name, tensor->dtype);
  for (int i = 0; i < tensor->rank; ++i) {{
    printf(i ? ", %lld" : "%lld", (long long)shape[i]);
    count *= (size_t)shape[i];
  }}
  printf("]");
  for (size_t i = 0; i < count && i < 5; ++i) print_number(tensor->dtype, data, i);
  printf(count > 5 ? " ...\\n" : "\\n");
}}
{parallel}
int main(int count, char **arguments) {{
  void *tensors[{own}_TENSORS];
  void *arena = reserve({own}_ARENA_BYTES);
{weights}
{sizes}{prepare}
  (void)next;
  (void)read_file;
  assert({name}_pointers_right(tensors, weights, arena));
  {run}
{finish}
  for (int i = 0; i < {own}_TENSORS; ++i) release(tensors[i]);
  release(arena);{release}
  return 0;
}}
"""

_SIZES = """\
  int64_t sizes[{own}_SIZES], shapes[{own}_DIMENSIONS], needed;
  for (int i = 0; i < {own}_SIZES; ++i) {{
    sizes[i] = next < count ? atoll(arguments[next++]) : {name}_sizes[i].most;
  }}
  if ({name}_plan(sizes, shapes, &needed)) {{
    fprintf(stderr, "{name}: no code for these sizes\\n");
    return 1;
  }}
"""

_FROM_FILE = """\
  if (count < 2) {{
    fprintf(stderr, "usage: %s WEIGHTS {sizes}[INPUT...]\\n", arguments[0]);
    return 2;
  }}
  char *weights = reserve({upper}_WEIGHT_BYTES);
  int next = 2;
  read_file(arguments[1], weights, {upper}_WEIGHT_BYTES);
  if (!{name}_weights_right(weights)) {{
    fprintf(stderr, "%s: not the weights that this program was compiled with\\n", arguments[1]);
    return 1;
  }}"""

_LINKED = """\
  const char *weights = (const char *){name}_weights;
  int next = 1;"""

_PARALLEL = """
/* One worker after the other would wait for ever: each needs a thread. */
#include <pthread.h>

typedef struct {{
  void (*work)(void *, int);
  void *job;
  int n;
}} worker;

static void *begin(void *argument) {{
  worker *w = argument;
  w->work(w->job, w->n);
  return NULL;
}}

static void parallel(void *context, int workers, void (*work)(void *, int), void *job) {{
  pthread_t threads[{own}_THREADS];
  worker state[{own}_THREADS];
  (void)context;
  for (int n = 1; n < workers; ++n) {{
    state[n] = (worker){{work, job, n}};
    if (pthread_create(&threads[n], NULL, begin, &state[n])) exit(1);
  }}
  work(job, 0);
  for (int n = 1; n < workers; ++n) pthread_join(threads[n], NULL);
}}
"""


def example(program: AotProgram, linked: bool = False) -> str:
    """A C program that finds the weights, reads inputs, runs the first function once and writes outputs."""
    function, upper = program.functions[0], program.name.upper()
    prepare: list[str] = []
    finish: list[str] = []
    for tensor in function.tensors:
        name = macro(function.name, tensor.name)
        size = f"{name}_BYTES"
        prepare.append(f"  tensors[{name}] = reserve({size});")
        if function.sizes:
            size = f"glow_bytes(&{function.name}_tensors[{name}], shapes + {name}_SHAPE)"
        if tensor.kind == "input":
            read = f"read_file(arguments[next++], tensors[{name}], {size})"
            prepare.append(f"  if (next < count) {read};")
        elif tensor.initial is not None:
            prepare.append(f"  memcpy(tensors[{name}], weights + {name}_INITIAL, {name}_BYTES);")
        elif tensor.kind == "output":
            file = re.sub(r"\W", "_", tensor.name)
            finish.append(f'  write_file("{file}.out", tensors[{name}], {size});')
            entry = f"&{function.name}_tensors[{name}]"
            shape = f"shapes + {name}_SHAPE" if function.sizes else f"{function.name}_tensors[{name}].shape"
            finish.append(f"  print_tensor({entry}, tensors[{name}], {shape});")
    own, threads = function.name.upper(), program.target.threads > 1
    sizes = "".join(f"{re.sub(r'[^A-Za-z0-9_]', '_', s.name).upper()} " for s in function.sizes)
    given = "tensors, weights, arena" + ", sizes" * bool(function.sizes) + ", parallel, NULL" * threads
    return EXAMPLE.format(
        name=function.name,
        bundle=program.name,
        upper=upper,
        own=own,
        usage=f"{program.name}_example {'' if linked else 'WEIGHTS '}{sizes}[INPUT...]",
        weights=(_LINKED if linked else _FROM_FILE).format(name=program.name, upper=upper, sizes=sizes),
        sizes=_SIZES.format(own=own, name=function.name) if function.sizes else "",
        parallel=_PARALLEL.format(own=own) if threads else "",
        run=f"if ({function.name}({given})) return 1;" if function.sizes else f"{function.name}({given});",
        release="" if linked else "\n  release(weights);",
        prepare="\n".join(prepare),
        finish="\n".join(finish),
    )
