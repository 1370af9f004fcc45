"""The saver beyond conformance: plain state only, whole writes, errors in one line, the server's way in."""

import asyncio
import importlib.util
import logging
import operator
import sqlite3
from collections.abc import AsyncIterator
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict
from uuid import uuid4

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Overwrite, Send, interrupt

from checkpoints.serde import PlainSerializer
from checkpoints.sqlite import SearchSaver, open_saver
from evaluators.errors import StoreError
from evaluators.objective import Objective

ROOT = Path(__file__).parents[2]


class State(TypedDict):
    n: int
    xs: Annotated[list[Any], operator.add]


def fan_out(saver: SearchSaver) -> CompiledStateGraph[Any, Any, Any, Any]:
    """a -> three b, of which b1 asks a person -> c."""

    async def a(state: State) -> dict[str, Any]:
        return {"n": state["n"] + 1}

    async def b(state: dict[str, int]) -> dict[str, Any]:
        return {"xs": [interrupt({"ask": "how"}) if state["i"] == 1 else state["i"]]}

    async def c(state: State) -> dict[str, Any]:
        return {"xs": Overwrite([*state["xs"], "end"])}

    builder: Any = StateGraph(State)
    builder.add_node("a", a)
    builder.add_node("b", b)
    builder.add_node("c", c)
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: [Send("b", {"i": i}) for i in range(3)], ["b"])
    builder.add_edge("b", "c")
    builder.add_edge("c", END)
    compiled: CompiledStateGraph[Any, Any, Any, Any] = builder.compile(checkpointer=saver)
    return compiled


@pytest.fixture
async def saver(tmp_path: Path) -> AsyncIterator[SearchSaver]:
    async with open_saver(tmp_path / "ksearch.sqlite", busy_timeout_s=0.2) as opened:
        yield opened


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


def row(step: int, **values: Any) -> dict[str, Any]:
    return {
        "v": 4,
        "ts": "",
        "id": f"{step:08d}",
        "channel_values": values,
        "channel_versions": {},
        "versions_seen": {},
        "updated_channels": None,
    }


async def put(saver: SearchSaver, step: int, **values: Any) -> None:
    target: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    checkpoint: Any = row(step, **values)
    await saver.aput(target, checkpoint, {"step": step}, {})


async def test_sends_interrupts_and_overwrites_pass_without_a_warning(
    saver: SearchSaver, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        graph, thread = fan_out(saver), config(str(uuid4()))
        await graph.ainvoke({"n": 0, "xs": []}, thread, durability="sync")
        assert (await graph.aget_state(thread)).next == ("b",)
        result = await graph.ainvoke(Command(resume="fast"), thread, durability="sync")
    assert result["xs"] == [0, "fast", 2, "end"]
    assert caplog.records == []


class Pair(NamedTuple):
    left: int


class Word(StrEnum):
    A = "a"


@pytest.mark.parametrize(
    "value",
    [
        Path("x"),
        (1, 2),
        {1, 2},
        datetime.now(),
        uuid4(),
        Objective(),
        Pair(1),
        Word.A,
        {1: "one"},
        [Send("b", {"x": (1,)})],
        1 << 70,
    ],
)
def test_anything_but_plain_json_is_refused_when_written(value: Any) -> None:
    with pytest.raises(TypeError):
        PlainSerializer().dumps_typed({"channel_values": {"deep": [{"value": value}]}})


def test_the_refusal_says_where() -> None:
    with pytest.raises(TypeError, match=r"state\.tree\[1\]\.when is a PosixPath"):
        PlainSerializer().dumps_typed({"tree": [{}, {"when": Path("x")}]})


async def test_a_branch_from_a_half_done_fan_out_runs_only_the_missing_part(saver: SearchSaver) -> None:
    graph, source, target = fan_out(saver), str(uuid4()), str(uuid4())
    await graph.ainvoke({"n": 0, "xs": []}, config(source), durability="sync")
    await saver.acopy_thread(source, target)
    copied = await graph.ainvoke(Command(resume="other"), config(target), durability="sync")
    original = await graph.ainvoke(Command(resume="mine"), config(source), durability="sync")
    assert copied["xs"] == [0, "other", 2, "end"]
    assert original["xs"] == [0, "mine", 2, "end"]


async def test_copying_onto_a_thread_with_checkpoints_changes_nothing(saver: SearchSaver) -> None:
    graph, one, two = fan_out(saver), str(uuid4()), str(uuid4())
    await graph.ainvoke({"n": 0, "xs": []}, config(one), durability="sync")
    await saver.acopy_thread(one, two)
    before = [item.config async for item in saver.alist(config(two))]
    with pytest.raises(StoreError):
        await saver.acopy_thread(one, two)
    assert [item.config async for item in saver.alist(config(two))] == before


async def test_a_pruned_thread_goes_on(saver: SearchSaver) -> None:
    graph, thread = fan_out(saver), config(str(uuid4()))
    await graph.ainvoke({"n": 0, "xs": []}, thread, durability="sync")
    await saver.aprune([thread["configurable"]["thread_id"]])
    assert len([item async for item in saver.alist(thread)]) == 1
    assert (await graph.ainvoke(Command(resume="late"), thread))["xs"] == [0, "late", 2, "end"]


async def test_pruning_knows_two_strategies(saver: SearchSaver) -> None:
    with pytest.raises(ValueError, match="keep_latest or delete"):
        await saver.aprune(["t"], strategy="keep_first")


async def test_a_cancelled_put_is_whole_and_leaves_nobody_locked_out(saver: SearchSaver, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "ksearch.sqlite", timeout=0.0, isolation_level=None) as other:
        for step in range(20):
            task = asyncio.create_task(put(saver, step, x="y"))
            for _ in range(step % 5):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            other.execute("BEGIN IMMEDIATE")  # fails at once if the saver has left its transaction open
            other.execute("ROLLBACK")
        stored = other.execute("SELECT count(*) FROM checkpoints").fetchone()[0]
    other.close()
    # Only those cancelled before they had begun are missing.
    assert stored == 16


async def test_a_full_database_says_so_loses_nothing_and_recovers(saver: SearchSaver) -> None:
    await put(saver, 1, x="kept")
    (pages,) = saver.conn.execute("PRAGMA page_count").fetchone()
    saver.conn.execute(f"PRAGMA max_page_count = {pages + 1}")
    big = "z" * 100_000
    with pytest.raises(StoreError, match=r"no space is left for .*free some, then resume") as failure:
        await put(saver, 2, x=big)
    assert "\n" not in str(failure.value)
    target: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "00000001"}}
    results = await asyncio.gather(
        saver.aput_writes(target, [("a", "small"), ("b", big)], "task-1"),
        saver.aput_writes(target, [("a", "small")], "task-2"),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [StoreError, type(None)]
    saver.conn.execute("PRAGMA max_page_count = 1000000")
    latest = await saver.aget_tuple(config("t"))
    assert latest is not None
    assert latest.checkpoint["channel_values"] == {"x": "kept"}
    assert latest.pending_writes == [("task-2", "a", "small")]
    await put(saver, 2, x=big)


async def test_a_write_that_fails_half_way_leaves_nothing_for_the_next_one_to_commit(saver: SearchSaver) -> None:
    await put(saver, 1, x="y")
    saver.conn.execute(
        "CREATE TEMP TRIGGER refuse BEFORE INSERT ON writes WHEN new.channel = 'bad' "
        "BEGIN SELECT RAISE(ABORT, 'refused'); END"
    )
    target: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "00000001"}}
    results = await asyncio.gather(
        saver.aput_writes(target, [("a", 1), ("bad", 2)], "task-1"),
        saver.aput_writes(target, [("a", 1)], "task-2"),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [StoreError, type(None)]
    latest = await saver.aget_tuple(config("t"))
    assert latest is not None
    assert latest.pending_writes == [("task-2", "a", 1)]


async def test_a_locked_database_is_told_in_one_line(saver: SearchSaver, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "ksearch.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match=r"another process keeps .* locked: end it or wait"):
        await put(saver, 1, x="y")
    other.execute("ROLLBACK")
    other.close()
    await put(saver, 1, x="y")


@pytest.mark.parametrize(("power_safe", "synchronous"), [(False, 1), (True, 2)])
async def test_the_settings_hold(tmp_path: Path, power_safe: bool, synchronous: int) -> None:
    async with open_saver(tmp_path / "other.sqlite", power_safe=power_safe) as opened:
        for pragma, expected in (("journal_mode", "wal"), ("synchronous", synchronous), ("busy_timeout", 10_000)):
            found = opened.conn.execute(f"PRAGMA {pragma}").fetchone()
            assert found == (expected,)


async def test_the_server_opens_the_same_file_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSEARCH_HOME", str(tmp_path / "runs"))
    spec = importlib.util.spec_from_file_location("__loaded__", ROOT / "checkpoints" / "server.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    async with module.create_checkpointer() as opened:
        await put(opened, 1, x="from the server")
    async with open_saver(tmp_path / "runs" / "ksearch.sqlite") as again:
        latest = await again.aget_tuple(config("t"))
    assert latest is not None
    assert latest.checkpoint["channel_values"] == {"x": "from the server"}
