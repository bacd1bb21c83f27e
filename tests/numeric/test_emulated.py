"""Kernels compiled for AArch64 (NEON), run by an emulator, against the cards' references."""

from __future__ import annotations

import pytest
from emulated import COMPILER, EMULATOR, INSTALLED, EmulatedBackend

from glow_backends.conformance import Case, cases, check_case

# A few of each: every case is linked and run twice by the emulator.
CARDS = ("conv", "conv_transpose", "matmul", "quantized_conv", "softmax", "layer_norm", "lstm", "max_pool")
SAMPLES = [c for card in CARDS for c in list(cases([card]))[:4]]


@pytest.mark.skipif(not INSTALLED, reason=f"no {COMPILER} or no {EMULATOR}")
@pytest.mark.parametrize("case", SAMPLES, ids=lambda c: c.name)
def test_neon(case: Case) -> None:
    """What the emulator computes is what the reference computes."""
    outcome = check_case(EmulatedBackend(), case, "constants")
    assert outcome.status == "agrees", outcome
