"""Where the graph goes next: the conditional edges and the fan-out. Pure."""

from collections.abc import Sequence
from typing import Literal

from graph.config import SearchConfig
from graph.cycles import Cycle
from graph.state import SearchState

END: Literal["__end__"] = "__end__"
"""LangGraph's name of the end (equal to `langgraph.graph.END`, which the core does not import)."""


def after_initialize(
    state: SearchState,
) -> Literal["select_action", "check_stagnation", "update_world_model", "__end__"]:
    """Go on unless there is a reason to stop: with a new round, or where a search that was begun before was left."""
    if state.get("stop") is not None:
        return END
    if state.get("results"):
        return "check_stagnation"
    return "select_action" if len(_active(state)) == len(state.get("cycles", [])) else "update_world_model"


def after_select(state: SearchState) -> Literal["instantiate_program", "__end__"]:
    """Draw programs for the active cycles, unless there is a reason to stop.

    Raises ValueError when there is neither: the fan-out would be empty and the search would end without a reason.
    """
    if state.get("stop") is not None:
        return END
    if not _active(state):
        raise ValueError("select_action left no active cycle and no reason to stop")
    return "instantiate_program"


def after_check(state: SearchState) -> Literal["instantiate_program", "update_world_model"]:
    """Tell the world model when a cycle has ended or the search stops (evidence is attached there), else draw on."""
    active = _active(state)
    all_go_on = len(active) == len(state.get("cycles", []))
    return "instantiate_program" if active and all_go_on and state.get("stop") is None else "update_world_model"


def after_update(state: SearchState) -> Literal["select_action", "__end__"]:
    """Go on unless there is a reason to stop."""
    return "select_action" if state.get("stop") is None else END


def _active(state: SearchState) -> list[object]:
    return [cycle for cycle in state.get("cycles", []) if not cycle["ended"]]


def samples_to_draw(cycles: Sequence[Cycle], config: SearchConfig, room: int) -> tuple[tuple[int, int], ...]:
    """Return (cycle id, number of the sample within the cycle) of every program to draw this round, in Send order.

    Every active cycle draws `config.samples`, oldest cycle first. When only `room` evaluations are left, they are
    dealt out in turn: each cycle gets one before any gets its second.
    """
    active = sorted((cycle for cycle in cycles if not cycle.ended), key=lambda cycle: cycle.id)
    dealt = [(cycle, number) for number in range(1, config.samples + 1) for cycle in active][: max(room, 0)]
    return tuple(sorted((cycle.id, cycle.samples + number) for cycle, number in dealt))
