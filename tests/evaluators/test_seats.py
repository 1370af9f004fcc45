"""Where processes run while programs are timed."""

import os

from evaluators.worker.seats import Seating, Seats, twins


def test_on_a_processor_all_share_one_and_take_turns_with_all() -> None:
    here = os.sched_getaffinity(0)
    seating = Seating(together=True)
    taken = [seating.seats(visit) for visit in range(len(here))]
    assert all(one.supervisor == one.programs for one in taken)
    assert {processor for one in taken for processor in one.programs} == here


def test_beside_a_gpu_the_supervisor_keeps_a_core_to_itself() -> None:
    seating = Seating(together=False)
    seating._all, seating._first = [0, 1, 2, 3, 4, 5], 2
    found = seating.seats(0)
    assert found == seating.seats(7)
    assert found.supervisor == {2}
    assert found.programs == set(range(6)) - twins(2)
    seating._all = [0, 1]
    seating._first = 0
    assert seating.seats(0) == Seats()


def test_a_processor_is_its_own_twin() -> None:
    for processor in os.sched_getaffinity(0):
        assert processor in twins(processor)
    assert twins(4000) == {4000}


def test_seats_are_given_back() -> None:
    before = os.sched_getaffinity(0)
    one = frozenset({min(before)})
    with Seats(one, one).taken():
        assert os.sched_getaffinity(0) == one
    assert os.sched_getaffinity(0) == before
    with Seats().taken():
        assert os.sched_getaffinity(0) == before
