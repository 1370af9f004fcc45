"""When enough estimates have been taken."""

from dataclasses import replace
from typing import Any

from evaluators.jobs import job_data
from evaluators.worker.bench import Effort
from evaluators.worker.figures import MIDDLE
from evaluators.worker.job import Job, decode
from evaluators.worker.timing import Times, _rounds, _settled
from evaluators.worker.visit import Run
from tests.evaluators import tiny

EFFORT = Effort(6, 40, wanted=0.01, seconds=1.0, windows=4, rounds=20, most_s=6.0, hopeless=1.1)


def run() -> Run:
    task = decode(Job, job_data(tiny.softmax(), [tiny.python("def run(x, y): ...")], "search", ())).task
    unused: Any = None
    return Run(unused, unused, task, (), (), EFFORT, set(), unused, planned=False)


def times(ratios: list[float], visits: int) -> Times:
    return Times(MIDDLE, [[[1000.0 * ratio], [1000.0]] for ratio in ratios], visits=visits)


def test_the_estimates_of_one_visit_are_not_believed_however_alike_they_are() -> None:
    alike = [1.0, 1.001, 0.999, 1.0, 1.001, 0.999]
    assert not _settled(times(alike, visits=1), run())
    assert _settled(times(alike, visits=2), run())
    assert not _settled(times(alike[:5], visits=2), run())


def test_the_least_number_of_estimates_comes_from_two_visits() -> None:
    assert [_rounds(EFFORT, visits) for visits in range(3)] == [3, 20, 20]
    assert [_rounds(replace(EFFORT, estimates=5), visits) for visits in range(2)] == [3, 20]
    assert [_rounds(replace(EFFORT, rounds=1), visits) for visits in range(2)] == [1, 1]


def test_more_are_taken_until_they_agree_or_there_are_many_or_time_is_up() -> None:
    apart = [1.0, 1.1, 0.9, 1.0, 1.1, 0.9]
    assert not _settled(times(apart, visits=3), run())
    assert _settled(times([1.0, 1.1, 0.9, 1.0] * 10, visits=3), run())
    late = times(apart, visits=1)
    late.began -= 7
    assert _settled(late, run())


def test_a_program_that_is_certainly_slower_than_its_rival_is_given_up() -> None:
    slower = Times(MIDDLE, [[[1000.0], [1500.0 + step], [1000.0]] for step in range(3)], visits=1)
    assert _settled(slower, run())
    assert not _settled(Times(MIDDLE, slower.call_ns[:2], visits=1), run())
