from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.graph import END as LANGGRAPH_END

from graph.config import SearchConfig
from graph.cycles import Cycle
from graph.routing import END, after_check, after_initialize, after_select, after_update, samples_to_draw
from graph.state import SearchState, Stop

STOP = Stop(reason="requested", detail="Ctrl-C")


def cycle(number: int, samples: int = 0, ended: str = "") -> Cycle:
    return Cycle(id=number, node=f"n{number}", parent=None, first_round=1, samples=samples, ended=ended)


def state(*cycles: Cycle, stop: Stop | None = None) -> SearchState:
    return SearchState(cycles=[item.model_dump(mode="json") for item in cycles], stop=stop)


def test_the_end_is_langgraphs() -> None:
    assert END == LANGGRAPH_END


def test_a_reason_to_stop_ends_the_search_but_for_check_stagnation() -> None:
    stopped = state(cycle(1), stop=STOP)
    assert after_initialize(stopped) == END
    assert after_select(stopped) == END
    assert after_check(stopped) == "update_world_model"
    assert after_update(stopped) == END


def test_without_one_it_goes_round() -> None:
    going = state(cycle(1))
    assert after_initialize(going) == "select_action"
    assert after_select(going) == "instantiate_program"
    assert after_check(going) == "instantiate_program"
    assert after_update(going) == "select_action"
    assert after_initialize(SearchState()) == "select_action"


@pytest.mark.parametrize(
    ("ended", "target"),
    [
        (("", "", ""), "instantiate_program"),
        (("", "capped", ""), "update_world_model"),
        (("capped", "capped"), "update_world_model"),
        ((), "update_world_model"),
    ],
)
def test_any_ended_cycle_goes_to_the_world_model(ended: tuple[str, ...], target: str) -> None:
    assert after_check(state(*(cycle(number, ended=why) for number, why in enumerate(ended, start=1)))) == target


@pytest.mark.parametrize("cycles", [(), (cycle(1, ended="capped"),)])
def test_an_empty_fan_out_is_an_error(cycles: tuple[Cycle, ...]) -> None:
    with pytest.raises(ValueError, match="no active cycle and no reason to stop"):
        after_select(state(*cycles))


def draw(*cycles: Cycle, room: int = 99, samples: int = 1) -> tuple[tuple[int, int], ...]:
    return samples_to_draw(cycles, SearchConfig(samples=samples), room)


def test_every_active_cycle_draws_oldest_first_numbered_on() -> None:
    cycles = (cycle(3, samples=5), cycle(1), cycle(2, ended="capped"))
    assert draw(*cycles, samples=2) == ((1, 1), (1, 2), (3, 6), (3, 7))


def test_the_last_evaluations_are_dealt_out_in_turn() -> None:
    cycles = (cycle(1), cycle(2, samples=4), cycle(3))
    assert draw(*cycles, samples=3, room=4) == ((1, 1), (1, 2), (2, 5), (3, 1))
    assert draw(*cycles, samples=3, room=2) == ((1, 1), (2, 5))
    assert draw(*cycles, samples=3, room=0) == ()
    assert draw(*cycles, samples=3, room=-1) == ()


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=6), st.integers(1, 5), st.integers(0, 40))
def test_fair_shares(facts: list[tuple[int, bool]], samples: int, room: int) -> None:
    cycles = [cycle(number, drawn, "capped" if ended else "") for number, (drawn, ended) in enumerate(facts, start=1)]
    dealt: Any = draw(*reversed(cycles), samples=samples, room=room)
    active = [item for item in cycles if not item.ended]
    assert len(dealt) == min(room, samples * len(active))
    assert list(dealt) == sorted(set(dealt))
    counts = []
    for item in active:
        numbers = [sample for owner, sample in dealt if owner == item.id]
        assert numbers == list(range(item.samples + 1, item.samples + 1 + len(numbers)))
        counts.append(len(numbers))
    assert counts == sorted(counts, reverse=True)
    assert not counts or counts[0] - counts[-1] <= 1
