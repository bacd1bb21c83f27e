"""Networks that compute each layer on real numbers and on integers, and choose by an input.

With one layer on integers and all others exact, the outputs tell what rounding that layer costs the
network: its own noise, and what becomes of it in all that follows.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from glow_dialects.core.builder import Builder
from glow_dialects.core.graph_op import GraphOp
from glow_dialects.core.types import tensor
from glow_dialects.ops.module import GetOp, PlaceholderOp, functions
from glow_dialects.ops.quantize import DequantizeOp, quantized_type
from glow_dialects.ops.requantize import RequantizingOp
from glow_dialects.ops.select import SelectOp
from glow_passes.quantize.apply_profile import hand_on
from glow_passes.quantize.channels import layer_axes
from glow_passes.quantize.fold_conversions import limiting, requantizing_again
from glow_passes.quantize.quantize import Options, Quantizer


class Switching(Quantizer):
    """Quantises layers alone, and keeps them; `switches` are the inputs that choose, by layer."""

    def __init__(self, module: ModuleOp, options: Options) -> None:
        super().__init__(module, next(functions(module)), options)
        self.switches: dict[str, str] = {}

    def replace(self, op: GraphOp, stored: SSAValue, b: Builder | None = None) -> None:
        """Let a switch choose between the integers of a layer, dequantised, and its float result."""
        assert layer_axes(op) is not None
        old, after = op.results[0], Builder.after(op)
        # What only float operators read comes straight from the sums, see FoldConversionsPass.
        if self.wanted(old) or limiting(quantized_type(stored)):
            real = after(DequantizeOp(stored, results=old.type))
        else:
            assert isinstance(stored.owner, RequantizingOp)
            real = requantizing_again(stored.owner, after, old.type)
        chosen = after(SelectOp(self._switch(self.names[old]), real, old))
        hand_on(op, chosen)
        self.kinds[chosen] = quantized_type(stored)
        old.replace_uses_with_if(chosen, lambda use: use.operation is not chosen.owner)

    def _switch(self, layer: str) -> SSAValue:
        place = PlaceholderOp.of(self.symbols.fresh(f"switch.{layer}"), tensor((1,), "bool"))
        self.symbols.module.body.block.insert_op_before(place, self.function)
        self.symbols.table[place.sym_name.data] = place
        self.switches[layer] = place.sym_name.data
        read = GetOp.of(place)
        first = self.function.body.block.first_op
        assert first is not None
        self.function.body.block.insert_op_before(read, first)
        return read.result


def switched(module: ModuleOp, options: Options) -> dict[str, str]:
    """Give every layer of the first function an input: true for integers, false for real numbers.

    `module` has ranges (glow-apply-profile). Returns the names of the inputs by those of the layers.
    """
    quantizer = Switching(module, options)
    quantizer.run()
    return quantizer.switches
