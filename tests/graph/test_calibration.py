import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from graph.calibration import PRIOR_POINTS, Calibration, CalibrationPoint, calibrate
from graph.edits import Reopen
from graph.transitions import activate, settle
from graph.world_model import ROOT, WorldModel
from tests.strategies import closed, edited, evidence, failed, grown, intent, trees


def points(*pairs: tuple[float, float | None]) -> Calibration:
    return Calibration(
        points=tuple(
            CalibrationPoint(f"n{number}", predicted, measured)
            for number, (predicted, measured) in enumerate(pairs, start=1)
        )
    )


def test_without_points_nothing_is_known_and_nothing_corrected() -> None:
    empty = Calibration()
    assert (empty.count, empty.bias, empty.error, empty.failed_share) == (0, None, None, None)
    assert empty.corrected(1.7) == 1.7


def test_bias_is_the_mean_log_error_and_error_its_size() -> None:
    calibration = points((2.0, 1.0), (1.0, 2.0), (4.0, 1.0))
    assert calibration.bias == pytest.approx(math.log(4) / 3)
    assert calibration.error == pytest.approx(math.log(16) / 3)
    assert calibration.failed_share == 0


def test_failures_have_a_share_of_their_own() -> None:
    calibration = points((2.0, 1.0), (1.5, None), (1.5, None), (3.0, None))
    assert (calibration.count, calibration.failed_share) == (4, 0.75)
    assert calibration.bias == pytest.approx(math.log(2))


def test_with_as_many_points_as_the_prior_half_of_the_bias_is_taken_away() -> None:
    calibration = points(*[(4.0, 1.0)] * PRIOR_POINTS)
    assert calibration.corrected(3.0) == pytest.approx(1.5)
    assert points(*[(1.0, 4.0)] * PRIOR_POINTS).corrected(3.0) == pytest.approx(6.0)


def test_only_failures_correct_nothing() -> None:
    assert points((2.0, None)).corrected(1.7) == 1.7


FACTORS = st.floats(0.1, 10)


@given(st.lists(st.tuples(FACTORS, FACTORS), min_size=1, max_size=20), FACTORS)
def test_the_correction_lies_between_none_and_the_whole_bias(
    pairs: list[tuple[float, float]], predicted: float
) -> None:
    calibration = points(*pairs)
    assert calibration.bias is not None
    whole = predicted * math.exp(-calibration.bias)
    low, high = sorted((predicted, whole))
    assert low * (1 - 1e-9) <= calibration.corrected(predicted) <= high * (1 + 1e-9)
    more = points(*pairs * 50)
    assert abs(more.corrected(predicted) - whole) <= abs(calibration.corrected(predicted) - whole) + 1e-9


def test_points_come_from_the_evidence() -> None:
    model = grown(*((ROOT, intent(f"I{number}")) for number in range(1, 7)))
    model = closed(model, "n1", predicted_gain=1.5, gain=1.2)
    model = failed(model, "n2", predicted_gain=2.0)
    model = closed(model, "n3")  # predicted nothing
    model = closed(model, "n4", predicted_gain=1.5, gain=None)  # its parent was not measured
    cut = evidence(50, None, predicted_gain=3.0, cut_short=True)
    model = settle(activate(model, "n5"), "n5", cut, ended=False)
    assert [(item.node, item.predicted, item.measured) for item in calibrate(model).points] == [
        ("n1", 1.5, 1.2),
        ("n2", 2.0, None),
    ]


def test_every_cycle_of_a_node_is_a_point() -> None:
    model = failed(grown((ROOT, intent("A"))), "n1", predicted_gain=2.0)
    model = closed(edited(model, Reopen(node="n1", description="x")), "n1", predicted_gain=1.5, gain=1.4)
    assert [item.measured for item in calibrate(model).points] == [None, 1.4]


@given(trees())
@settings(max_examples=60)
def test_a_calibration_comes_back_equal_from_json(model: WorldModel) -> None:
    calibration = calibrate(model)
    assert Calibration.model_validate_json(calibration.model_dump_json()) == calibration


def test_gains_are_positive() -> None:
    with pytest.raises(ValidationError):
        Calibration.model_validate({"points": [{"node": "n1", "predicted": 0.0, "measured": 1.0}]})
