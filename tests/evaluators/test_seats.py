"""Where processes run while programs are timed."""

import os

from hypothesis import given
from hypothesis import strategies as st

from evaluators.worker.quick import nearly_quickest, quick
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


@given(st.dictionaries(st.integers(0, 63), st.floats(1.0, 1e9), min_size=1))
def test_programs_run_where_work_takes_hardly_longer_than_on_the_quickest(took: dict[int, float]) -> None:
    least, found = min(took.values()), nearly_quickest(took)
    assert {processor for processor, ns in took.items() if ns <= 1.1 * least} <= found
    assert len(found) >= max(min(2, len(took)), len(took) // 4)
    slow = [processor for processor in found if took[processor] > 1.1 * least]
    assert not slow or len(found) == max(min(2, len(took)), len(took) // 4)


def test_processors_are_tried_where_they_are_ours() -> None:
    here = os.sched_getaffinity(0)
    assert quick(here) <= here
    assert quick([*here, 4000]) <= here
    assert quick([4000, 4001]) == {4000, 4001}
    assert quick([]) == frozenset()
    assert os.sched_getaffinity(0) == here


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
