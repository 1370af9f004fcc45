"""The workflow: nodes, edges and fan-outs. What is drawn here is what runs."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, cast

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, Send

from evaluators.errors import StoreError
from graph.context import RunContext
from graph.migrating import migrated
from graph.routing import after_check, after_initialize, after_select, after_update
from graph.state import Candidate, Opening, Sample, SearchState, Stop
from nodes.check_stagnation import check_stagnation
from nodes.evaluate import evaluate
from nodes.initialize import initialize
from nodes.instantiate_program import instantiate_program
from nodes.opening import opened
from nodes.select_action import select_action
from nodes.services import Services
from nodes.telling import Tell
from nodes.update_world_model import update_world_model

StateNode = Callable[[Services, SearchState, str, Tell], Awaitable[dict[str, Any]]]
OpenServices = Callable[[], Awaitable[Services]]
Graph = CompiledStateGraph[SearchState, RunContext, Opening, SearchState]

RECURSION_LIMIT = 2**31 - 1
"""Supersteps of one run: what ends a search is its budget, never LangGraph's limit."""


def build_graph(services: OpenServices, checkpointer: BaseCheckpointSaver[str] | None = None) -> Graph:
    """Return the compiled search.

    Args:
        services: Gives the means of this process; awaited by each node, so it should remember them.
        checkpointer: Where checkpoints go; None where the LangGraph server brings its own.
    """
    graph = StateGraph(SearchState, context_schema=RunContext, input_schema=Opening)

    def state_node(work: StateNode) -> Any:
        async def node(state: SearchState, *, runtime: Runtime[RunContext]) -> dict[str, Any]:
            means, thread = await services(), _thread(runtime)
            async with means.working(thread):
                current = migrated(state)
                update = await work(means, cast(SearchState, current), thread, _tell(runtime))
            return {**_moved(state, current), **update}

        return node

    def ending(work: StateNode) -> StateNode:
        """Let go of the thread when the graph ends after this node."""

        async def node(means: Services, state: SearchState, thread: str, tell: Tell) -> dict[str, Any]:
            update = await work(means, state, thread, tell)
            await _let_go(means, thread, update.get("stop", state["stop"]))
            return update

        return node

    async def begin(state: SearchState, *, runtime: Runtime[RunContext]) -> dict[str, Any]:
        means, thread = await services(), _thread(runtime)
        if "tree" in state:
            # Run with an input as if it were new: it goes on, as `ksearch resume` would.
            async with means.working(thread):
                return {**_moved(state, migrated(state)), "stop": None, "stop_request": ""}
        opening = await opened(means, state, runtime.context, thread)
        async with means.working(thread):
            update = {**opening, **await initialize(means, opening, thread, _tell(runtime))}
            await _let_go(means, thread, update["stop"])
            return update

    async def draw(state: Sample, *, runtime: Runtime[RunContext]) -> Command[Literal["evaluate"]]:
        means, thread = await services(), _thread(runtime)
        async with means.working(thread):
            candidate = await instantiate_program(means, state, thread, _tell(runtime))
        return Command(goto=[Send("evaluate", candidate)])

    async def judge(state: Candidate, *, runtime: Runtime[RunContext]) -> dict[str, Any]:
        means, thread = await services(), _thread(runtime)
        async with means.working(thread):
            return await evaluate(means, state, thread, _tell(runtime))

    graph.add_node("initialize", begin)
    graph.add_node("select_action", state_node(ending(select_action)))
    graph.add_node("instantiate_program", draw, input_schema=Sample, destinations=("evaluate",))
    graph.add_node("evaluate", judge, input_schema=Candidate)
    graph.add_node("check_stagnation", state_node(check_stagnation))
    graph.add_node("update_world_model", state_node(ending(update_world_model)))

    graph.add_edge(START, "initialize")
    graph.add_conditional_edges(
        "initialize", after_initialize, ["select_action", "check_stagnation", "update_world_model", "__end__"]
    )
    graph.add_conditional_edges("select_action", _drawing(after_select), ["instantiate_program", "__end__"])
    graph.add_edge("evaluate", "check_stagnation")
    graph.add_conditional_edges(
        "check_stagnation", _drawing(after_check), ["instantiate_program", "update_world_model"]
    )
    graph.add_conditional_edges("update_world_model", after_update)
    return graph.compile(checkpointer=checkpointer, name="search")


def _drawing(route: Callable[[SearchState], str]) -> Callable[[SearchState], str | list[Send]]:
    """Return the edge that goes where `route` says, as a fan-out when that is instantiate_program."""

    def edge(state: SearchState) -> str | list[Send]:
        target = route(state)
        if target != "instantiate_program":
            return target
        cycles = {cycle["id"]: cycle for cycle in state["cycles"]}
        return [
            Send(
                "instantiate_program",
                Sample(
                    config=state["config"],
                    task=state["task"],
                    tree=state["tree"],
                    round=state["round"] + 1,
                    cycle=cycles[cycle],
                    sample=number,
                    attempts=state["attempts"],
                    spend={**state["spend"], "by": {}},
                ),
            )
            for cycle, number in state["draws"]
        ]

    edge.__name__ = route.__name__
    return edge


def _moved(state: SearchState, current: Mapping[str, Any]) -> dict[str, Any]:
    """Return what bringing a state up to date has changed."""
    return {key: value for key, value in current.items() if key not in state or value != state.get(key)}


async def _let_go(means: Services, thread: str, stop: Stop | None) -> None:
    if stop is not None:
        await means.presence.ended(thread, stop)


def _thread(runtime: Runtime[RunContext]) -> str:
    info = runtime.execution_info
    if info is None or info.thread_id is None:
        raise StoreError("a search needs a thread: pass configurable.thread_id and a checkpointer")
    return info.thread_id


def _tell(runtime: Runtime[RunContext]) -> Tell:
    def tell(event: str, /, **facts: object) -> None:
        runtime.stream_writer({"event": event, **facts})

    return tell
