"""The CPU backend: native code through LLVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from glow_backends.base import Backend, Program, ProgramFiles
from glow_backends.cpu import cache
from glow_backends.cpu.background import WRITING
from glow_backends.cpu.debug.level import DebugInfo, debug_level
from glow_backends.cpu.target import PRECISIONS, host, named
from glow_dialects.core.errors import UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Dialect
    from xdsl.passes import ModulePass

    from glow_backends.cpu.bundle import Bundle
    from glow_backends.cpu.weights import WeightPool
    from glow_dialects.core.graph_op import GraphOp
    from glow_dialects.core.times import Times
    from glow_dialects.core.types import Array
    from glow_passes.graph.layout import BlockedLayout
    from glow_passes.quantize.light_layers import IntegerGains


_LARGE = 16 << 20
"""Bytes of weights that take as long to write as a small program takes to compile."""


class CpuBackend(Backend):
    """Code for the host (`cpu="host"`) or a named CPU that this machine can run.

    `winograd=False` forbids Winograd convolutions: every sum is then a direct one. `search=True`
    measures the algorithms of each convolution where they are otherwise estimated. `debug_info`, "none",
    "lines" or "full", tells debuggers and perf of the nodes of programs, which are not remembered then;
    the environment's GLOW_DEBUG_INFO is the default.
    """

    name = "cpu"
    OPEN_SIZES = True
    SKIPS = True

    def __init__(
        self,
        threads: int = 1,
        cpu: str = "host",
        winograd: bool = True,
        search: bool = False,
        debug_info: str | None = None,
        precision: str = "float32",
    ) -> None:
        super().__init__(threads)
        self.debug_info: DebugInfo = debug_level(debug_info)
        if precision not in PRECISIONS:
            raise UnsupportedError(f"precision='{precision}' is none; there are: {', '.join(PRECISIONS)}")
        self.target = replace(named(cpu, threads), precision=precision)
        self.cpu, self.winograd, self.search = cpu, winograd, search
        self._pool: WeightPool | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs: not where this one has its constants."""
        return {**vars(self), "_pool": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Each process asks for itself what the system lets it use."""
        vars(self).update(state)
        if self.cpu == "host":
            self.target = replace(self.target, has_amx=self.target.has_amx and host().has_amx)

    def of_one_thread(self) -> CpuBackend:
        """A backend with these options and one thread."""
        options = self.cpu, self.winograd, self.search, self.debug_info, self.target.precision
        made = CpuBackend(1, *options)
        return made.in_float(self.exact)

    @property
    def identity(self) -> str:
        """Everything that generated code depends on."""
        return f"{self.target!r} winograd={self.winograd} search={self.search}"

    def supports(self, op: GraphOp) -> bool:
        from glow_backends.cpu.kernel_table import has_kernel

        if op.VIEW or op.INSTR is None or not op.can_decompose():
            return op.VIEW or op.INSTR is not None
        return has_kernel(op)  # an operator without a kernel is decomposed

    def zeros(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        from glow_backends.cpu.memory import zeros

        return zeros(shape, dtype)

    def integer_gains(self) -> IntegerGains:
        from glow_passes.quantize.light_layers import IntegerGains

        # Below 400 outputs a channel the transforms of Winograd's tiles cost what they save.
        return IntegerGains(tiled_outputs=400)

    def blocked_layout(self) -> BlockedLayout:
        from glow_backends.cpu.passes.cpu_layout import CpuLayout

        return CpuLayout(self.target)

    def outline(self, module: ModuleOp) -> bool:
        from glow_backends.cpu.passes.cpu_turns import have_rows, outline_turns
        from glow_dialects.ops.module import has_open_ports

        return outline_turns(module) and (has_open_ports(module) or have_rows(module))

    def graph_passes(self) -> Sequence[ModulePass]:
        from glow_backends.cpu.pipeline import graph_passes

        return graph_passes(self.cpu, self.target.threads, self.winograd, self.search)

    def instr_passes(self) -> Sequence[ModulePass]:
        from glow_backends.cpu.pipeline import instr_passes

        return instr_passes()

    @classmethod
    def passes(cls) -> Sequence[type[ModulePass]]:
        from glow_backends.cpu.pipeline import own_passes

        return own_passes()

    @classmethod
    def dialects(cls) -> Mapping[str, Callable[[], Dialect]]:
        from glow_backends.cpu.dialect import get_glow_cpu, get_glow_cpu_instr
        from glow_backends.nests.dialect import get_glow_kernel

        return {
            "glow_cpu": get_glow_cpu,
            "glow_cpu_instr": get_glow_cpu_instr,
            "glow_kernel": get_glow_kernel,
        }

    @property
    def remembers(self) -> bool:
        return cache.directory() is not None and self.debug_info == "none"

    def recall_note(self, key: str) -> str | None:
        return cache.note(key)

    def remember_note(self, key: str, text: str) -> None:
        cache.keep_note(key, text)

    def recall(self, key: str) -> Program | None:
        from glow_backends.cpu import bundle

        folder = cache.program_folder(key, self.identity) if self.remembers else None
        if folder is not None:
            WRITING.wait(folder)
        bundle_on_disk = bundle.read(bundle.Folder(folder)) if folder is not None else None
        if bundle_on_disk is None:
            return None
        self._weights().add(bundle_on_disk.weights, bundle_on_disk.places)
        return self._runnable(bundle_on_disk)

    def obstacle(self, program: Program) -> str:
        from glow_backends.cpu.program import CpuProgram

        if not isinstance(program, CpuProgram):
            return "parts of it are compiled while it runs"
        names = set[str]() if program.selection is None else {s.op.name for s in program.selection.host_steps}
        return (
            f"these run on the host, by NumPy: {', '.join(sorted(names))}"
            if program.bundle.host_steps
            else ""
        )

    def needs(self) -> list[str]:
        return self.target.needs

    def write_program(self, program: Program, folder: Path) -> None:
        from glow_backends.cpu import bundle
        from glow_backends.cpu.program import CpuProgram

        assert isinstance(program, CpuProgram)
        bundle.write(program.bundle, folder)

    def read_program(self, files: Path | ProgramFiles) -> Program | None:
        from glow_backends.cpu import bundle

        folder = files if isinstance(files, ProgramFiles) else bundle.Folder(files)
        bundle_in_files = bundle.read(folder)
        return None if bundle_in_files is None else self._runnable(bundle_in_files)

    def _check_architecture(self) -> None:
        """UnsupportedError where no program of the target can be linked into this process."""
        lacking = self.target.lacks
        if self.target.needs[0] in lacking:
            raise UnsupportedError(
                f"cpu='{self.cpu}' is {lacking[0]}, and this machine is {host().needs[0]}: "
                "glow-compile makes code for other machines"
            )

    def _runnable(self, bundle: Bundle) -> Program:
        self._check_architecture()
        if bundle.numbers is None:
            from glow_backends.cpu.program import CpuProgram

            if bundle.steps:
                from glow_backends.cpu.timed import TimedProgram

                return TimedProgram(bundle, self.target)
            return CpuProgram(bundle, self.target)
        from glow_backends.cpu.open_program import OpenProgram

        return OpenProgram(bundle, self.target)

    def remember(self, key: str, program: Program) -> None:
        folder = cache.program_folder(key, self.identity)
        if folder is None or not self.remembers or not self.can_write(program):
            return

        def write() -> None:
            with suppress(OSError):  # a cache that cannot be written is no cache
                self.write_program(program, folder)
                cache.program_written()

        if program.report.weight_bytes < _LARGE:
            write()
        else:
            WRITING.begin(folder, write)  # the first answer need not wait for it

    def compile(self, module: ModuleOp, function: str = "main") -> Program:
        return self._compiled(module, function)

    def compile_timed(self, module: ModuleOp, function: str = "main") -> Program:
        from glow_backends.cpu.profile import stamped_program
        from glow_dialects.instr.memory import instr_function

        self._check_architecture()
        return stamped_program(module, instr_function(module, function), self.target)[0]

    def consume(self, module: ModuleOp, function: str = "main") -> Program:
        return self._compiled(module, function, own=True)

    def _compiled(self, module: ModuleOp, function: str, own: bool = False) -> Program:
        from glow_backends.cpu.build import compiled
        from glow_dialects.instr.memory import instr_function

        self._check_architecture()
        main = instr_function(module, function)
        return compiled(module, main, self.target, own, self._weights(), self.debug_info)

    def _weights(self) -> WeightPool:
        """Where the constants of this backend's programs are."""
        from glow_backends.cpu.weights import WeightPool

        if self._pool is None:
            self._pool = WeightPool()
        return self._pool

    def listing(self, module: ModuleOp, assembly: bool = False, times: Times | None = None) -> str:
        """Kernels and program functions of a planned module as LLVM IR or assembly; `times`: of LLVM."""
        from glow_backends.cpu.listing import listing

        return listing(module, self.target, assembly, times)

    def kernels_listing(self, module: ModuleOp) -> str:
        """The described kernels of a planned module."""
        from glow_backends.cpu.listing import kernels_listing

        return kernels_listing(module, self.target)

    def kernel_times(self, module: ModuleOp, inputs: Mapping[str, Array]) -> list[dict[str, Any]]:
        from dataclasses import asdict

        from glow_backends.cpu.profile import profile
        from glow_dialects.instr.memory import instr_functions

        steps = profile(module, instr_functions(module)[0], self.target, inputs, runs=5).steps
        return [asdict(s) | {"gflops": s.gflops, "gbytes": s.gbytes} for s in steps]
