"""The CPU backend: native code through LLVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from glow_backends.base import Backend, Program
from glow_backends.cpu import cache
from glow_backends.cpu.target import named

if TYPE_CHECKING:
    from pathlib import Path

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Dialect
    from xdsl.passes import ModulePass

    from glow_backends.cpu.weights import WeightPool
    from glow_dialects.core.graph_op import GraphOp
    from glow_passes.quantize.light_layers import IntegerGains


class CpuBackend(Backend):
    """Code for the host (`cpu="host"`) or a named CPU that this machine can run.

    `winograd=False` forbids Winograd convolutions: every sum is then a direct one. `search=True`
    measures the algorithms of each convolution where they are otherwise estimated.
    """

    name = "cpu"
    OPEN_SIZES = True

    def __init__(
        self,
        threads: int = 1,
        cpu: str = "host",
        winograd: bool = True,
        search: bool = False,
    ) -> None:
        super().__init__(threads)
        self.target = named(cpu, threads)
        self.cpu, self.winograd, self.search = cpu, winograd, search
        self._pool: WeightPool | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs: not where this one has its constants."""
        return {**vars(self), "_pool": None}

    def of_one_thread(self) -> CpuBackend:
        """A backend with these options and one thread."""
        return CpuBackend(1, self.cpu, self.winograd, self.search)

    @property
    def identity(self) -> str:
        """Everything that generated code depends on."""
        return f"{self.target!r} winograd={self.winograd} search={self.search}"

    def supports(self, op: GraphOp) -> bool:
        from glow_backends.cpu.kernel_table import has_kernel

        if op.VIEW or op.INSTR is None or not op.can_decompose():
            return op.VIEW or op.INSTR is not None
        return has_kernel(op)  # an operator without a kernel is decomposed

    def integer_gains(self) -> IntegerGains:
        from glow_passes.quantize.light_layers import IntegerGains

        # Below 400 outputs a channel the transforms of Winograd's tiles cost what they save.
        return IntegerGains(tiled_outputs=400)

    def graph_passes(self) -> Sequence[ModulePass]:
        from glow_backends.cpu.passes.cpu_attention import CpuAttentionPass
        from glow_backends.cpu.passes.cpu_channels import CpuChannelsPass
        from glow_backends.cpu.passes.cpu_choose import CpuChoosePass
        from glow_backends.cpu.passes.cpu_fuse import CpuFusePass
        from glow_backends.cpu.passes.cpu_fuse_norms import CpuFuseNormsPass
        from glow_backends.cpu.passes.cpu_fuse_sums import CpuFuseSumsPass
        from glow_backends.cpu.passes.cpu_halves import CpuHalvesPass
        from glow_backends.cpu.passes.cpu_images import CpuImagesPass
        from glow_backends.cpu.passes.cpu_integer_blocks import CpuIntegerBlocksPass
        from glow_backends.cpu.passes.cpu_layout import CpuLayoutPass
        from glow_backends.cpu.passes.cpu_pairs import CpuPairsPass
        from glow_backends.cpu.passes.cpu_recurrent import CpuRecurrentPass
        from glow_backends.cpu.passes.cpu_rows import CpuRowsPass
        from glow_backends.cpu.passes.cpu_stack import CpuStackPass
        from glow_backends.cpu.passes.cpu_widen import CpuWidenPass

        return (
            CpuWidenPass(self.cpu),  # layers on 16-bit floats
            CpuHalvesPass(),  # layers on 16-bit integers
            CpuRowsPass(),  # scatters and gathers of whole rows
            CpuRecurrentPass(),  # one product for all steps of a network
            CpuLayoutPass(self.cpu),  # channel blocks through whole regions
            CpuChannelsPass(),  # shuffles inside those regions
            CpuFusePass(self.cpu),  # epilogues
            CpuAttentionPass(),  # softmax between two products
            CpuFuseNormsPass(),  # around normalisations of training
            CpuFuseSumsPass(),  # residuals of quantised convolutions
            CpuPairsPass(self.cpu),  # 16-bit numbers in place of bytes, where products take pairs
            CpuIntegerBlocksPass(self.cpu),  # 8-bit activations by weights of few bits
            CpuStackPass(),  # the remaining element-wise operators
            CpuImagesPass(self.cpu, self.target.threads, self.winograd),  # batches part by part
            CpuChoosePass(self.cpu, self.target.threads, self.winograd, self.search),
        )

    def instr_passes(self) -> Sequence[ModulePass]:
        from glow_backends.cpu.passes.cpu_place_parts import CpuPlacePartsPass

        return (CpuPlacePartsPass(),)  # parts of a buffer stay in it

    @classmethod
    def passes(cls) -> Sequence[type[ModulePass]]:
        from glow_backends.cpu.to_llvm import ConvertGlowInstrToLLVMPass

        backend = cls()
        own = (type(p) for p in (*backend.graph_passes(), *backend.instr_passes()))
        return (*dict.fromkeys(own), ConvertGlowInstrToLLVMPass)

    @classmethod
    def dialects(cls) -> Mapping[str, Callable[[], Dialect]]:
        from glow_backends.cpu.dialect import get_glow_cpu, get_glow_cpu_instr

        return {"glow_cpu": get_glow_cpu, "glow_cpu_instr": get_glow_cpu_instr}

    @property
    def remembers(self) -> bool:
        return cache.directory() is not None

    def recall_note(self, key: str) -> str | None:
        return cache.note(key)

    def remember_note(self, key: str, text: str) -> None:
        cache.keep_note(key, text)

    def recall(self, key: str) -> Program | None:
        from glow_backends.cpu import bundle
        from glow_backends.cpu.program import CpuProgram

        folder = cache.program_folder(key, self.identity)
        bundle_on_disk = bundle.read(folder) if folder is not None else None
        if bundle_on_disk is None:
            return None
        self._weights().add(bundle_on_disk.weights, bundle_on_disk.places)
        return CpuProgram(bundle_on_disk, self.target)

    def can_write(self, program: Program) -> bool:
        from glow_backends.cpu.program import CpuProgram

        return isinstance(program, CpuProgram) and not program.bundle.host_steps

    def write_program(self, program: Program, folder: Path) -> None:
        from glow_backends.cpu import bundle
        from glow_backends.cpu.program import CpuProgram

        assert isinstance(program, CpuProgram)
        bundle.write(program.bundle, folder)

    def read_program(self, folder: Path) -> Program | None:
        from glow_backends.cpu import bundle
        from glow_backends.cpu.program import CpuProgram

        found = bundle.read(folder)
        return None if found is None else CpuProgram(found, self.target)

    def remember(self, key: str, program: Program) -> None:
        folder = cache.program_folder(key, self.identity)
        if folder is None or not self.can_write(program):
            return
        try:
            self.write_program(program, folder)
            cache.program_written()
        except OSError:
            return  # a cache that cannot be written is no cache

    def compile(self, module: ModuleOp, function: str = "main") -> Program:
        return self._compiled(module, function)

    def consume(self, module: ModuleOp, function: str = "main") -> Program:
        return self._compiled(module, function, own=True)

    def _compiled(self, module: ModuleOp, function: str, own: bool = False) -> Program:
        from glow_backends.cpu.build import compiled
        from glow_dialects.instr.memory import instr_function

        main = instr_function(module, function)
        return compiled(module, main, self.target, own, self._weights())

    def _weights(self) -> WeightPool:
        """Where the constants of this backend's programs are."""
        from glow_backends.cpu.weights import WeightPool

        if self._pool is None:
            self._pool = WeightPool()
        return self._pool

    def listing(self, module: ModuleOp, assembly: bool = False) -> str:
        """Kernels and program functions of a planned module as LLVM IR or assembly."""
        from glow_backends.cpu.listing import listing

        return listing(module, self.target, assembly)
