"""glow-apply-profile: the ranges of a profile, calibrated, as attributes of the nodes."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, ModuleOp, f64
from xdsl.ir import Operation, SSAValue

from glow_dialects.ops.module import functions
from glow_passes.contract import GraphPass
from glow_passes.quantize.calibration import calibrated
from glow_passes.quantize.profile import Profile, observed
from glow_passes.quantize.schema import QuantizationError, Schema

#: `range = array<f64: low, high>` on the operation whose first result lies between them.
ATTRIBUTE = "range"
#: `loss`: noise over signal in the network's outputs that rounding this layer alone makes.
LOSS = "loss"
#: `channels = array<f64: means, least, largest>` on the node that computes the input of a layer.
CHANNELS = "channels"


def annotate(module: ModuleOp, profile: Profile, schema: Schema, calibration: str) -> None:
    """Give every observed value's operation its calibrated range, and layers their losses."""
    profile.check_data()
    profile.check_graph(module)
    for function in functions(module):
        for name, value in observed(function, module).items():
            histogram = profile.values.get(name)
            if histogram is None or not isinstance(value.owner, Operation):
                continue
            if value is not value.owner.results[0]:
                continue
            low, high = calibrated(histogram, schema, calibration)
            value.owner.attributes[ATTRIBUTE] = DenseArrayBase.from_list(f64, [low, high])
            if name in profile.losses:
                value.owner.attributes[LOSS] = FloatAttr(profile.losses[name], 64)
            channels = profile.channels.get(name)
            if channels is not None:
                value.owner.attributes[CHANNELS] = DenseArrayBase.from_list(f64, channels.numbers())


def hand_on(op: Operation, value: SSAValue) -> None:
    """The replacement of a node's result keeps the channels that the profile knows."""
    assert isinstance(value.owner, Operation)
    if CHANNELS in op.attributes:
        value.owner.attributes[CHANNELS] = op.attributes[CHANNELS]


@dataclass(frozen=True)
class ApplyProfilePass(GraphPass):
    """Annotate nodes with the ranges of `profile`, a file that glow-profile wrote."""

    name = "glow-apply-profile"
    profile: str = ""
    schema: str = "asymmetric"
    precision: str = "int8"
    calibration: str = "none"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not self.profile:
            raise QuantizationError("glow-apply-profile needs profile=FILE")
        schema = Schema.of(self.schema, self.precision)
        annotate(op, Profile.load(self.profile), schema, self.calibration)
