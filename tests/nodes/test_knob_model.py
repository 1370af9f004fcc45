"""What measured programs say of unmeasured ones."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.knob_model import KnobModel, Observation, Outlook, Prior

SEED = {"A": "0", "B": "0", "C": "0", "D": "0"}
CONFIDENT = Prior(interactions=0.05)


def model(*observations: tuple[dict[str, str], float | None], prior: Prior = CONFIDENT) -> KnobModel:
    seen = [Observation(SEED, 0.0), *(Observation({**SEED, **changes}, gained) for changes, gained in observations)]
    return KnobModel(seen, prior)


def outlook(known: KnobModel, **changes: str) -> Outlook:
    return known.outlooks([{**SEED, **changes}])[0]


def test_what_was_measured_is_predicted() -> None:
    known = model(({"A": "1"}, 0.3), ({"B": "1"}, -0.1), ({"A": "1", "B": "1"}, 0.4))
    assert outlook(known).mean == pytest.approx(0, abs=0.01)
    assert outlook(known, A="1").mean == pytest.approx(0.3, abs=0.01)
    assert outlook(known, A="1", B="1").mean == pytest.approx(0.4, abs=0.01)
    assert outlook(known, A="1").deviation < 0.02


def test_gains_add_up() -> None:
    known = model(({"A": "1"}, 0.2), ({"B": "1"}, 0.1))
    assert outlook(known, A="1", B="1").mean == pytest.approx(0.3, abs=0.02)


def test_unknown_values_are_expected_to_change_nothing_but_are_uncertain() -> None:
    known = model(({"A": "1"}, 0.2))
    unknown = outlook(known, C="1")
    assert unknown.mean == pytest.approx(0, abs=0.02)
    assert unknown.deviation > 5 * outlook(known, A="1").deviation


def test_pairs_may_add_something_of_their_own() -> None:
    known = model(({"A": "1"}, 0.0), ({"B": "1"}, 0.0), ({"A": "1", "B": "1"}, 0.5), prior=Prior(interactions=0.5))
    assert outlook(known, A="1", B="1").mean == pytest.approx(0.5, abs=0.01)
    assert outlook(known, A="1", B="1", C="1").mean > 0.3
    assert abs(outlook(known, A="1").mean) < 0.01


def test_the_spread_is_learnt() -> None:
    changes = [{"A": "1"}, {"B": "1"}, {"C": "1"}, {"A": "2"}, {"B": "2"}, {"C": "2"}]
    flat = model(*((change, 0.001 * sign) for sign, change in zip([1, -1] * 3, changes, strict=True)))
    steep = model(*((change, 0.8 * sign) for sign, change in zip([1, -1] * 3, changes, strict=True)))
    assert outlook(flat, D="1").deviation < 0.15 < outlook(steep, D="1").deviation


def test_noisy_measurements_are_believed_less() -> None:
    seen = [Observation(SEED, 0.0), Observation({**SEED, "A": "1"}, 0.3, noise=0.15)]
    assert 0.1 < outlook(KnobModel(seen, CONFIDENT), A="1").mean < 0.25


def test_a_value_of_failures_only_is_suspected_and_one_that_passed_is_not() -> None:
    known = model(({"A": "1"}, None), ({"B": "1"}, 0.1))
    assert outlook(known, A="1").works == pytest.approx(0)
    assert outlook(known, A="1", B="1").works < 0.6
    assert outlook(known, B="1").works == 1
    assert outlook(known, C="1").works == 1


def test_values_that_passed_apart_are_suspected_together_only() -> None:
    known = model(({"A": "1"}, 0.1), ({"B": "1"}, 0.1), ({"A": "1", "B": "1"}, None))
    assert outlook(known, A="1").works == 1
    assert outlook(known, A="1", C="1").works == 1
    assert outlook(known, A="1", B="1", C="1").works == pytest.approx(0)


def test_a_single_knob_needs_no_pairs() -> None:
    known = KnobModel([Observation({"A": "0"}, 0.0), Observation({"A": "1"}, 0.2)], Prior())
    assert known.outlooks([{"A": "1"}])[0].mean == pytest.approx(0.2, abs=0.01)
    assert known.outlooks([]) == []


@given(st.floats(-2, 2), st.floats(0.01, 1), st.floats(0, 1), st.floats(-2, 2))
def test_expected_improvement_is_what_it_says(mean: float, deviation: float, works: float, best: float) -> None:
    found = Outlook(mean, deviation, works)
    steps = [mean + deviation * (index + 0.5) / 100 for index in range(-800, 800)]
    density = [math.exp(-(((x - mean) / deviation) ** 2) / 2) / math.sqrt(2 * math.pi) / 100 for x in steps]
    improvement = works * sum(max(x - best, 0) * weight for x, weight in zip(steps, density, strict=True))
    assert found.improvement(best) == pytest.approx(improvement, abs=1e-3)
    chance = works * sum(weight for x, weight in zip(steps, density, strict=True) if x > best)
    assert found.chance(best) == pytest.approx(chance, abs=6e-3)
