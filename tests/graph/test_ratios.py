import pytest

from evaluators.evaluation import Evaluation, Measurement, WorkloadResult
from evaluators.objective import Value
from evaluators.worker.status import Status
from graph.report.ratios import ratios, ratios_text


def evaluation(*values: float | None) -> Evaluation:
    results = tuple(
        WorkloadResult(
            workload=f"w{number}",
            status=Status.PASSED,
            measurement=None
            if value is None
            else Measurement(
                baseline_ms=value,
                candidate_ms=1.0,
                ratio=Value(value=value, low=value, high=value),
                estimates=5,
                repeats=9,
            ),
        )
        for number, value in enumerate(values)
    )
    return Evaluation(
        status=Status.PASSED,
        tier="timed",
        solution="0" * 64,
        task="1" * 64,
        effort="search",
        protocol="cpu-abba-1",
        objective=Value(value=1.0, low=1.0, high=1.0),
        workloads=results,
    )


def test_ratios_are_summed_up_in_several_ways() -> None:
    facts = ratios(evaluation(0.5, 1.0, 8.0))
    assert facts == {
        "mean": pytest.approx(3.1667, rel=1e-3),
        "geometric_mean": pytest.approx(4.0 ** (1 / 3)),
        "minimum": 0.5,
        "faster": 1,
        "workloads": 3,
    }
    assert ratios_text(facts) == "mean 3.17x, geometric mean 1.59x, least 0.50x, faster on 1 of 3 workloads"


def test_nothing_is_summed_up_unless_every_workload_was_timed() -> None:
    assert ratios(evaluation(2.0, None)) is None
    assert ratios(evaluation()) is None
