"""Every sample of every card on our backends, against the cards' references."""

from __future__ import annotations

import pytest
from card_runner import firsts_quick

from glow_backends.base import Backend, get_backend
from glow_backends.conformance import Case, cases, check_case

ALL = list(cases())


@pytest.fixture(scope="module", params=["interpreter", "cpu"])
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each of our backends; the interpreter in one arena, poisoned where nothing lives."""
    return get_backend(request.param, **({"planned": True} if request.param == "interpreter" else {}))


@pytest.mark.slow
@pytest.mark.parametrize("case", firsts_quick(ALL, lambda c: c.sample.op), ids=[c.name for c in ALL])
def test_sample_agrees(case: Case, backend: Backend) -> None:
    """All operands bound at run time: the results are those of the reference."""
    outcome = check_case(backend, case, "inputs")
    assert outcome.status == "agrees", outcome


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in ALL if len(c.sample.arrays()) > 1], ids=lambda c: c.name)
def test_sample_agrees_with_constants(case: Case) -> None:
    """Operands after the first as constants, as weights are: kernels may pack and specialise on them."""
    outcome = check_case(get_backend("cpu"), case, "constants")
    assert outcome.status == "agrees", outcome
