"""`manual`: people answer at interrupts; what they answered is asked once, whatever happens in between."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Send

from checkpoints.history import Interrupt, read_snapshot
from checkpoints.home import Home, open_home
from graph import runs
from graph.builder import build_graph
from graph.context import RunContext
from graph.presets import resolve
from nodes.models.asking import ask_paid
from nodes.models.chat import ChatRequest
from nodes.models.factory import Chats
from nodes.models.question import ManualQuestion
from nodes.paid import PaidCalls

PLAN = {
    "reason": "so",
    "summary": None,
    "edits": [
        {"kind": "insert", "parent": "root", "title": title, "description": "Do it.", "rationale": None,
         "priority": 0.5, "difficulty": 1, "predicted_gain": 1.2, "confidence": 0.5}
        for title in ("Tile", "Unroll", "Fuse")
    ],
}  # fmt: skip


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with open_home(tmp_path / "home") as opened:
        yield opened


class State(TypedDict, total=False):
    told: list[str]


class Trouble(Exception):
    """What befalls a node."""


Small = CompiledStateGraph[State, None, State, State]


def small_graph(home: Home, turns: int, troubles: list[int]) -> Small:
    """A graph whose one node asks a person `turns` times, and fails after the questions that `troubles` lists."""
    chat = Chats().get("manual")

    async def node(state: State) -> State:
        calls = PaidCalls(home.ledger, home.blobs, "thread", 1, 2, 3)
        told = []
        for turn in range(turns):
            request = ChatRequest(role="coder", prompt=f"question {turn}", identity={"turn": turn})
            told.append((await ask_paid(chat, calls, request, turn)).text)
            if turn in troubles:
                troubles.remove(turn)
                raise Trouble
        assert len(calls.spent) == turns
        return {"told": told}

    graph = StateGraph(State)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    return graph.compile(checkpointer=home.saver)


WHERE: RunnableConfig = {"configurable": {"thread_id": "00000000-0000-0000-0000-000000000001"}}


async def pending(graph: Small) -> list[Any]:
    return [interrupt for task in (await graph.aget_state(WHERE)).tasks for interrupt in task.interrupts]


async def go_on(graph: Small, given: Any, troubled: bool = False) -> None:
    if troubled:
        with pytest.raises(Trouble):
            await graph.ainvoke(given, WHERE, durability="sync")
    else:
        await graph.ainvoke(given, WHERE, durability="sync")


async def unpaid(home: Home) -> list[int]:
    return [entry.calls for entry in await home.ledger.entries("thread")]


@pytest.mark.parametrize("answers", [["a", "b", "c"], ["a", "a", "a"], ["a", "b", "a"]])
@pytest.mark.parametrize("troubles", [[], [0], [1], [0, 1, 2]])
async def test_each_question_is_asked_once(home: Home, answers: list[str], troubles: list[int]) -> None:
    graph = small_graph(home, 3, list(troubles))
    await go_on(graph, {"told": []})
    asked = []
    for turn, answer in enumerate(answers):
        (question,) = await pending(graph)
        asked.append(ManualQuestion.model_validate(question.value).turn)
        assert await unpaid(home) == [1] * turn
        await go_on(graph, Command(resume={question.id: answer}), troubled=turn in troubles)
        if turn in troubles:
            await go_on(graph, None)
    assert asked == [0, 1, 2]
    assert (await graph.aget_state(WHERE)).values == {"told": answers}
    assert await unpaid(home) == [1, 1, 1]


async def test_what_the_interrupt_carries_and_what_is_recorded(home: Home) -> None:
    graph = small_graph(home, 1, [])
    await go_on(graph, {"told": []})
    (question,) = await pending(graph)
    asked = ManualQuestion.model_validate(question.value)
    assert (asked.role, asked.round, asked.cycle, asked.sample, asked.turn) == ("coder", 1, 2, 3, 0)
    assert (asked.prompt, len(asked.request)) == ("question 0", 64)
    assert question.response_schema["type"] == "string"
    assert await home.ledger.entries("thread") == []
    await go_on(graph, Command(resume={question.id: {"edits": []}}))
    assert json.loads((await graph.aget_state(WHERE)).values["told"][0]) == {"edits": []}
    (entry,) = await home.ledger.entries("thread")
    assert entry.spend == {
        "model": "manual", "input_tokens": 0, "output_tokens": 0, "cached_tokens": 0, "reasoning_tokens": 0, "usd": 0.0,
    }  # fmt: skip


async def test_several_are_pending_at_once(home: Home) -> None:
    chat = Chats().get("manual")

    async def ask(state: Any) -> dict[str, Any]:
        calls = PaidCalls(home.ledger, home.blobs, "thread", 1, 1, state["sample"])
        reply = await ask_paid(chat, calls, ChatRequest(role="coder", prompt="write", identity={}))
        return {"told": [f"{state['sample']}: {reply.text}"]}

    graph = StateGraph(State)
    graph.add_node("ask", ask)
    graph.add_conditional_edges(START, lambda state: [Send("ask", {"sample": number}) for number in (1, 2, 3)], ["ask"])
    compiled = graph.compile(checkpointer=home.saver)
    await compiled.ainvoke({"told": []}, WHERE, durability="sync")
    waiting = {item.value["sample"]: item.id for item in await pending(compiled)}
    assert set(waiting) == {1, 2, 3}
    await compiled.ainvoke(Command(resume={waiting[2]: "two"}), WHERE, durability="sync")
    assert {item.value["sample"] for item in await pending(compiled)} == {1, 3}
    (entry,) = await home.ledger.entries("thread")
    assert entry.key.sample == 2


async def interrupts(folder: Path, name: str) -> dict[tuple[str, int, int, int], Interrupt]:
    found = {}
    for item in read_snapshot(folder, name).interrupts:
        asked = ManualQuestion.model_validate(item.value)
        found[asked.role, asked.cycle, asked.sample, asked.turn] = item
    return found


async def test_a_search_answered_by_hand(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    async with open_home(folder) as home, runs.opened_services(home) as means:
        given = {"task": "scripted", "planner": "manual", "coder": "manual", "evaluator": "scripted", "width": 2}
        config = resolve("paper", {**given, "max_evaluations": 2, "stagnation": 1})
        ended = await runs.start(means, config, lambda event: None)
        assert ended.status == "paused"
        uuid, name = ended.thread.uuid, ended.thread.name

        async def ready() -> Any:
            return means

        graph = build_graph(ready, home.saver)
        where: RunnableConfig = {"configurable": {"thread_id": uuid}}

        async def answer(answers: dict[str, str]) -> None:
            await graph.ainvoke(Command(resume=answers), where, context=RunContext(), durability="sync")

        waiting = await interrupts(folder, name)
        assert set(waiting) == {("planner", 0, 0, 0)}
        await answer({waiting["planner", 0, 0, 0].id: "I have no idea"})
        waiting = await interrupts(folder, name)
        assert set(waiting) == {("planner", 0, 0, 1)}
        assert "no JSON object" in waiting["planner", 0, 0, 1].value["turns"][1]["text"]
        await answer({waiting["planner", 0, 0, 1].id: json.dumps(PLAN)})
        waiting = await interrupts(folder, name)
        assert set(waiting) == {("coder", 1, 1, 0), ("coder", 2, 1, 0)}
        program = '```cpp\n// scripted: objective = {0}\nint a{1};\nextern "C" void scripted() {{}}\n```'
        await answer({waiting["coder", 2, 1, 0].id: program.format(1.5, 2)})
        waiting = await interrupts(folder, name)
        assert set(waiting) == {("coder", 1, 1, 0)}
        await answer({waiting["coder", 1, 1, 0].id: program.format(2.5, 1)})
        state = await graph.aget_state(where)
        assert state.values["spend"]["evaluations"] == 2
        assert state.values["spend"]["by"]["coder manual"]["calls"] == 2
        assert state.values["incumbent"]["objective"]["value"] == 2.5
        assert await home.ledger.unfinished(uuid) == []
