"""Quantisation: profiles, calibration, and the passes that turn graphs to integers."""

from __future__ import annotations

from xdsl.passes import ModulePass

from glow_passes.quantize.apply_profile import ApplyProfilePass
from glow_passes.quantize.convert_floats import ConvertFloatsPass
from glow_passes.quantize.fold_conversions import FoldConversionsPass
from glow_passes.quantize.instrument import InstrumentPass
from glow_passes.quantize.match_qdq import MatchQdqPass
from glow_passes.quantize.quantize import QuantizePass
from glow_passes.quantize.quantize_dynamic import QuantizeDynamicPass
from glow_passes.quantize.quantize_weights import QuantizeWeightsPass

#: Every pass of quantisation. A test compares this tuple with the folder.
QUANTIZE_PASSES: tuple[type[ModulePass], ...] = (
    ApplyProfilePass,
    ConvertFloatsPass,
    FoldConversionsPass,
    InstrumentPass,
    MatchQdqPass,
    QuantizePass,
    QuantizeDynamicPass,
    QuantizeWeightsPass,
)
