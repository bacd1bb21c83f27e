"""Ahead of time: programs as one object file that any C program can link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import prod
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.llvm import AddressOfOp, FuncOp

from glow_backends.base import public_name, used_symbols
from glow_backends.cpu import library
from glow_backends.cpu.aot_sizes import Part, Size, most_of, sizes_text
from glow_backends.cpu.build import program_text
from glow_backends.cpu.calls import KernelCode
from glow_backends.cpu.debug.level import DebugInfo
from glow_backends.cpu.debug.source import printed
from glow_backends.cpu.guarded import apart
from glow_backends.cpu.jit import optimized
from glow_backends.cpu.memory import rounded
from glow_backends.cpu.select import Selection, select
from glow_backends.cpu.support import MAIN, barrier_text, imported, state_bytes
from glow_backends.cpu.target import CpuTarget, host
from glow_backends.cpu.to_llvm import convert
from glow_backends.cpu.weights import ProgramWeights, WeightPool
from glow_dialects.core.attributes import array_of
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.extent import Extent
from glow_dialects.core.types import Array, dtype_of, shape_of, typed
from glow_dialects.instr.memory import InstrFuncOp, instr_functions
from glow_dialects.ops.module import PlaceholderOp, placeholders


@dataclass(frozen=True)
class Tensor:
    """An entry of the table of pointers that a function takes.

    `initial` is the offset of its first contents in the weights (states and trainables), None for
    inputs and outputs. Dimensions that calls choose are None in `shape`, and `bytes` is for the largest.
    Inputs and outputs of other functions alone are of the kind `unused`.
    """

    name: str
    kind: str
    shape: tuple[int | None, ...]
    dtype: str
    bytes: int
    initial: int | None = None


@dataclass(frozen=True)
class AotFunction:
    """`void NAME(void *const *tensors, const void *weights, void *arena)` and what it needs.

    Where calls choose `sizes`, a table of them comes behind the arena, the result is 0 where there is code
    for them, else 1, and the bytes are for the largest.
    """

    name: str
    tensors: list[Tensor]
    arena_bytes: int
    sizes: list[Size] = field(default_factory=list[Size])

    @property
    def mutable_bytes(self) -> int:
        """Bytes of all tensors: inputs, outputs and states."""
        return sum(t.bytes for t in self.tensors if t.kind != "unused")


@dataclass(frozen=True)
class AotProgram:
    """The object of some functions, and the weights that they share."""

    name: str
    object: bytes
    weights: bytes
    functions: list[AotFunction]
    target: CpuTarget
    #: What debuggers list: files by name.
    listings: dict[str, str] = field(default_factory=dict[str, str])
    #: Whether the weights are in the object, too.
    embedded: bool = False

    @property
    def code_bytes(self) -> int:
        """Bytes of the object's code and constants, without the weights."""
        sections = llvm.ObjectFileRef.from_data(self.object).sections()
        constants = (b".rodata", b".data", b"__const", b"__literal")
        total = sum(s.size() for s in sections if s.is_text() or (s.name() or b"").startswith(constants))
        return total - len(self.weights) if self.embedded else total


@dataclass(frozen=True)
class Source:
    """A planned function, its module, and the name of its C function.

    Several of a name, one after the other, are programs of one function for some of its sizes each: by the
    `sizes`' names a number, or the symbol that the module has for it. `selection` is that of the function
    where it is known.
    """

    module: ModuleOp
    function: InstrFuncOp
    name: str
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    selection: Selection | None = None


def compile_ahead(
    sources: Sequence[Source],
    target: CpuTarget,
    name: str,
    embed: bool = False,
    debug: DebugInfo = "none",
    folder: Path = Path(),
    sizes: Sequence[Size] = (),
    weights: ProgramWeights | None = None,
) -> AotProgram:
    """The object of planned functions.

    All symbols but the functions' names are local, so that several programs link together; with `embed`
    the weights are in it, too, as `NAME_weights`. Where the target has threads, the functions take a
    callback that runs them; that of a WebAssembly module is imported, as `glow_parallel`. Programs that
    are given the same `weights` one after the other share them: those of the last are for all of them.
    `debug` says what debuggers are told, of listings that will be in `folder`. Functions whose sources
    have sizes take all of `sizes`. Indices out of range are brought into range, as nobody could be
    told. Raises UnsupportedError where an instruction has no kernel, since there is no host to run it,
    where functions want several first values of a state, and where nothing bounds the memory that sizes
    need.
    """
    linking = _Linking(target, folder, debug, weights or ProgramWeights(WeightPool()))
    functions: list[AotFunction] = []
    for function, group in groupby(sources, lambda source: source.name):
        programs = [linking.program(source, number) for number, source in enumerate(group)]
        chosen = list(sizes) if programs[0].part.sizes else []
        entry = _Entry(function, [p.part for p in programs], len(programs[0].tensors), chosen, target)
        linking.parts.append(entry.text())
        if chosen:
            names = [size.name for size in chosen]
            linking.parts += [sizes_text(program.part, names, target) for program in programs]
        tensors = [_joined(same) for same in zip(*(p.tensors for p in programs), strict=True)]
        functions.append(AotFunction(function, tensors, entry.arena_bytes, chosen))
    if target.threads > 1:
        linking.parts.append(barrier_text(target))
    data = linking.weights.build().tobytes()
    if embed:
        linking.parts.append(_constant(f"{name}_weights", data, target))
    public = {f.name for f in functions} | {f"{f.name}_plan" for f in functions} | {f"{name}_weights"}
    linking.parts.append(library.library_text(target))

    def link() -> bytes:
        return _link(linking.parts, list(linking.kernels.values()), target, public | library.NAMES)

    ours = target.triple == host().triple and target.cpu == host().cpu
    linked = link() if ours else apart(link, f"{target.triple}/{target.cpu}/{target.features}")
    return AotProgram(name, linked, data, functions, target, linking.listings, embed)


@dataclass(frozen=True)
class _Program:
    """A program function, and the tensors that it takes."""

    part: Part
    tensors: list[Tensor]


@dataclass
class _Linking:
    """What is linked: texts of LLVM IR, kernels by name, and the weights that all of them share."""

    target: CpuTarget
    folder: Path
    debug: DebugInfo
    weights: ProgramWeights
    parts: list[str] = field(default_factory=list[str])
    kernels: dict[str, KernelCode] = field(default_factory=dict[str, KernelCode])
    listings: dict[str, str] = field(default_factory=dict[str, str])
    count: int = 0

    def program(self, source: Source, number: int) -> _Program:
        """Add a program, `number` of its function."""
        selection = source.selection or select(source.function, self.target, checked=False)
        missing = sorted({s.op.name for s in selection.host_steps})
        if missing:
            raise UnsupportedError(f"no kernel for {', '.join(missing)}: it cannot run ahead of time")
        code = convert(source.module, source.function, selection, self.target, weights=self.weights)
        main = f"{MAIN}_{self.count}"
        self.count += 1
        _rename(code.module, main)
        told = None
        if self.debug != "none":
            file = f"{source.name}{f'_{number + 1}' if number else ''}.glow"
            told = printed(source.function, selection, self.debug, self.folder / file)
            self.listings[told.file.name] = told.text
        self.parts.append(program_text(code.module, self.target, told))
        self.kernels |= selection.kernels
        known = placeholders(source.module).values()
        ports = [op for op in known if op.kind.data != "transfer"]  # others come behind them
        state = rounded(state_bytes(self.target.threads)) if self.target.threads > 1 else 0
        work = rounded(selection.arena_bytes) + rounded(selection.scratch_bytes)
        shapes = [shape_of(op.type) for op in ports]
        rows = len(known) - len(ports)
        part = Part(main, source.sizes, selection.numbers, work, state, shapes, rows)
        used, others = used_symbols(source.function), set[str]()
        for function in instr_functions(source.module):
            others |= used_symbols(function)
        unused = others - used
        return _Program(part, [_tensor(op, self.weights, op.sym_name.data in unused) for op in ports])


_IMPORTED = "@glow_parallel"


@dataclass(frozen=True)
class _Entry:
    """The C function around the programs of a function.

    The arena begins with what the workers share, then the table of numbers that a program of open sizes
    reads, and what the program works in.
    """

    name: str
    parts: Sequence[Part]
    tensors: int
    sizes: Sequence[Size]
    target: CpuTarget

    @property
    def arena_bytes(self) -> int:
        """Bytes of the arena, for the largest sizes."""
        return max(part.most_bytes for part in self.parts)

    def text(self) -> str:
        """LLVM IR."""
        texts = [f'target triple = "{self.target.triple}"\n']
        if self.target.threads > 1 and self._called == _IMPORTED:
            texts.append(
                f"declare void {_IMPORTED}(ptr, i32, ptr, ptr){imported(self.target, _IMPORTED[1:])}\n"
            )
        for part in self.parts:
            texts.append(f"declare void @{part.main}(ptr, ptr, ptr, i64)\n")
            texts.append(self._run(part, f"{part.main}_run" if self.sizes else self.name))
        if self.sizes:
            run = "tensors, ptr %weights, ptr %arena, ptr %sizes" + self._caller
            texts.append(self._choice("", run))
            texts.append(self._choice("_plan", "sizes, ptr %shapes, ptr %bytes"))
        return "".join(texts)

    @property
    def _caller(self) -> str:
        """The arguments behind the others where the host calls the workers."""
        given = self.target.threads > 1 and self._called != _IMPORTED
        return ", ptr %parallel, ptr %context" if given else ""

    @property
    def _called(self) -> str:
        """What calls the workers; JavaScript has no pointers to functions to give."""
        return _IMPORTED if self.target.triple.startswith("wasm") else "%parallel"

    def _run(self, part: Part, name: str) -> str:
        """The function that runs a program on its table of pointers."""
        shared, opened, count = self.target.threads > 1, part.numbers is not None, self.tensors + part.rows
        tables = [f"  %work = getelementptr i8, ptr %arena, i64 {part.front}"]
        if shared or opened or part.rows:
            tables += [f"  %io = alloca [{count + opened + 2 * shared} x ptr]", self._copies()]
        if opened:
            tables += [
                f"  %numbers = getelementptr i8, ptr %arena, i64 {part.state}",
                f"  %numbers.at = getelementptr ptr, ptr %io, i64 {count}",
                "  store ptr %numbers, ptr %numbers.at",
            ]
        table = "%io" if opened or part.rows else "%tensors"
        call = f"  call void @{part.main}(ptr {table}, ptr %weights, ptr %work, i64 0)"
        body = self._shared(part) if shared else call
        head = f"define void @{name}(ptr %tensors, ptr %weights, ptr %arena{self._caller}) {{"
        text = "\n".join([head, *tables, body, "  ret void", "}", ""])
        return text + (self._work(part) if shared else "")

    def _copies(self) -> str:
        return "\n".join(
            f"  %from{i} = getelementptr ptr, ptr %tensors, i64 {i}\n"
            f"  %tensor{i} = load ptr, ptr %from{i}\n"
            f"  %to{i} = getelementptr ptr, ptr %io, i64 {i}\n"
            f"  store ptr %tensor{i}, ptr %to{i}"
            for i in range(self.tensors)
        )

    def _shared(self, part: Part) -> str:
        """`parallel(context, threads, work, job)` is to call work(job, n) at once for all n < threads."""
        zeros = "\n".join(
            f"  %zero{i} = getelementptr i8, ptr %arena, i64 {i}\n  store i64 0, ptr %zero{i}"
            for i in range(0, part.state, 8)
        )
        barrier = self.tensors + part.rows + (part.numbers is not None) + 1
        context = "%context" if self._caller else "null"
        return f"""{zeros}
  %barrier = getelementptr ptr, ptr %io, i64 {barrier}
  store ptr %arena, ptr %barrier
  %job = alloca [3 x ptr]
  store ptr %io, ptr %job
  %job.weights = getelementptr ptr, ptr %job, i64 1
  store ptr %weights, ptr %job.weights
  %job.work = getelementptr ptr, ptr %job, i64 2
  store ptr %work, ptr %job.work
  call void {self._called}(ptr {context}, i32 {self.target.threads}, ptr @{part.main}_work, ptr %job)"""

    def _work(self, part: Part) -> str:
        return f"""
define void @{part.main}_work(ptr %job, i32 %number) {{
  %io = load ptr, ptr %job
  %weights.at = getelementptr ptr, ptr %job, i64 1
  %weights = load ptr, ptr %weights.at
  %work.at = getelementptr ptr, ptr %job, i64 2
  %work = load ptr, ptr %work.at
  %worker = zext i32 %number to i64
  call void @{part.main}(ptr %io, ptr %weights, ptr %work, i64 %worker)
  ret void
}}
"""

    def _choice(self, suffix: str, arguments: str) -> str:
        """A function that takes the first program for the sizes: runs it, or says what it needs."""
        lines = [f"define i32 @{self.name}{suffix}(ptr %{arguments}) {{", "  br label %try0"]
        for number, part in enumerate(self.parts):
            lines.append(f"try{number}:")
            check = f"@{part.main}_needs(ptr %sizes, ptr %shapes, ptr %bytes)"
            run = ""
            if not suffix:
                lines.append(f"  %table{number} = getelementptr i8, ptr %arena, i64 {part.state}")
                check = f"@{part.main}_numbers(ptr %sizes, ptr %table{number})"
                run = f"  call void @{part.main}_run(ptr %tensors, ptr %weights, ptr %arena{self._caller})\n"
            lines += [
                f"  %right{number} = call i32 {check}",
                f"  %is{number} = icmp ne i32 %right{number}, 0",
                f"  br i1 %is{number}, label %do{number}, label %try{number + 1}",
                f"do{number}:",
                f"{run}  ret i32 0",
            ]
        lines += [f"try{len(self.parts)}:", "  ret i32 1", "}", ""]
        declared = [f"declare i32 @{p.main}_needs(ptr, ptr, ptr)" for p in self.parts]
        if not suffix:
            declared = [f"declare i32 @{p.main}_numbers(ptr, ptr)" for p in self.parts]
        return "\n".join([*declared, *lines])


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    """A tensor of several programs: where their dimensions differ it is open; bytes of the largest."""
    first = tensors[0]
    dims = zip(*(t.shape for t in tensors), strict=True)
    shape = tuple(d[0] if all(e == d[0] for e in d) else None for d in dims)
    size = max(t.bytes for t in tensors)
    return Tensor(first.name, first.kind, shape, first.dtype, size, first.initial)


def _rename(program: ModuleOp, name: str) -> None:
    """Several program functions, with those of their turns, are in one object."""
    for op in program.walk():
        if isinstance(op, FuncOp) and (called := op.sym_name.data).startswith(MAIN):
            op.properties["sym_name"] = StringAttr(called.replace(MAIN, name, 1))
        elif isinstance(op, AddressOfOp):
            called = op.global_name.root_reference.data
            op.properties["global_name"] = SymbolRefAttr(called.replace(MAIN, name, 1))


def _link(parts: Sequence[str], kernels: Sequence[KernelCode], target: CpuTarget, public: set[str]) -> bytes:
    linked, machine = optimized(f'target triple = "{target.triple}"\n', target)
    for text in parts:
        linked.link_in(optimized(text, target)[0])
    for kernel in kernels:
        linked.link_in(optimized(kernel.text, target, kernel=True)[0])
    for function in linked.functions:
        if not function.is_declaration:
            function.add_function_attribute("nounwind")  # or the linker asks for code that unwinds
            if function.name not in public:
                function.linkage = llvm.Linkage.internal
    return machine.emit_object(linked)


def _constant(name: str, data: bytes, target: CpuTarget) -> str:
    """Bytes as a constant of a module, in 64-bit words, which take less text than the bytes."""
    words = np.frombuffer(data + bytes(-len(data) % 8), "<i8")
    listed = ",".join(map("i64 {}".format, words.tolist()))
    return (
        f'target triple = "{target.triple}"\n@{name} = constant [{len(words)} x i64] [{listed}], align 64\n'
    )


def _tensor(op: PlaceholderOp, weights: ProgramWeights, unused: bool) -> Tensor:
    kind, dtype = op.kind.data, dtype_of(op.type)
    size = most_of(prod(shape_of(op.type)) * dtype.itemsize)
    shape = tuple(None if isinstance(d, Extent) else d for d in shape_of(op.type))
    if kind in ("input", "output"):
        return Tensor(public_name(op), "unused" if unused else kind, shape, dtype.name, size)
    first: Array = np.zeros(shape_of(op.type), dtype)
    if op.init is not None:
        known = array_of(op.init, typed(op.type))
        first = first if known is None else np.ascontiguousarray(known, dtype)
    return Tensor(public_name(op), kind, shape, dtype.name, size, weights.values(first))
