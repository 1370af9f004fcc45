"""The readers agree with LangGraph and do not import it."""

import operator
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

from checkpoints.database import open_connection
from checkpoints.history import Snapshot, read_record, read_snapshot, read_state, read_states
from checkpoints.home import Home, open_home
from checkpoints.ledger import LedgerKey
from checkpoints.lineage import Lineage, add_lineage
from evaluators.errors import UsageError
from tests.snapshots import snapshots

Child = Callable[..., subprocess.Popen[str]]


class State(TypedDict):
    round: int
    xs: Annotated[list[Any], operator.add]
    deep: dict[str, Any]


class Search:
    """select -> three write, of which one asks and one fails until told not to -> fold -> select, for some rounds."""

    def __init__(self, home: Home, rounds: int = 2) -> None:
        self.fails = True
        builder: Any = StateGraph(State)
        builder.add_node("select", self.select)
        builder.add_node("write", self.write)
        builder.add_node("fold", self.fold)
        builder.add_edge(START, "select")
        builder.add_conditional_edges("select", lambda state: [Send("write", {"i": i}) for i in range(3)], ["write"])
        builder.add_edge("write", "fold")
        builder.add_conditional_edges("fold", lambda state: END if state["round"] == rounds else "select")
        self.graph = builder.compile(checkpointer=home.saver)

    async def select(self, state: State) -> dict[str, Any]:
        return {"round": state["round"] + 1, "deep": {"list": [1, None, {"x": 1.5}], "text": "ü"}}

    async def write(self, state: dict[str, int]) -> dict[str, Any]:
        if state["i"] == 1:
            return {"xs": [interrupt({"prompt": "write a kernel"})]}
        if state["i"] == 2 and self.fails:
            raise ConnectionError("no route to the model")
        return {"xs": [state["i"]]}

    async def fold(self, state: State) -> dict[str, Any]:
        return {}


@pytest.fixture
async def search(home: Home) -> tuple[Home, Search, str]:
    thread = await home.threads.create("softmax", "c")
    return home, Search(home), thread.uuid


def config(uuid: str) -> Any:
    return {"configurable": {"thread_id": uuid}}


async def compare(home: Home, search: Search, uuid: str) -> Snapshot:
    """Check what we read against what LangGraph reads, and return it."""
    theirs, ours = await search.graph.aget_state(config(uuid)), read_snapshot(home.folder, uuid)
    assert ours.values == read_state(home.folder, uuid)
    # LangGraph folds the results of a half-done step into the values that it shows.
    assert {**ours.values, "xs": 0} == {**theirs.values, "xs": 0}
    assert ours.values["xs"] == theirs.values["xs"][: len(ours.values["xs"])]
    assert ours.next == theirs.next
    assert ours.checkpoint == theirs.config["configurable"]["checkpoint_id"]
    assert ours.step == theirs.metadata["step"]
    assert ours.at == theirs.created_at
    assert [(item.id, item.value) for item in ours.interrupts] == [(item.id, item.value) for item in theirs.interrupts]
    # LangGraph goes on showing the error of a task that has passed since.
    assert set(ours.errors) <= {task.error for task in theirs.tasks}
    return ours


async def test_each_stage_reads_as_langgraph_reads_it(search: tuple[Home, Search, str]) -> None:
    home, graph, uuid = search
    assert read_snapshot(home.folder, uuid) == Snapshot(thread=await home.threads.find(uuid))
    with pytest.raises(ConnectionError):
        await graph.graph.ainvoke({"round": 0, "xs": [], "deep": {}}, config(uuid), durability="sync")
    failed = await compare(home, graph, uuid)
    assert failed.next == ("write", "write")
    assert failed.errors == ("ConnectionError('no route to the model')",)
    graph.fails = False
    await graph.graph.ainvoke(None, config(uuid), durability="sync")
    asks = await compare(home, graph, uuid)
    assert (asks.next, asks.errors) == (("write",), ())
    assert asks.interrupts[0].value == {"prompt": "write a kernel"}
    await graph.graph.ainvoke(Command(resume="kernel 1"), config(uuid), durability="sync")
    second = await compare(home, graph, uuid)
    assert (second.next, second.values["round"]) == (("write",), 2)
    await graph.graph.ainvoke(Command(resume="kernel 2"), config(uuid), durability="sync")
    ended = await compare(home, graph, uuid)
    assert (ended.next, ended.interrupts, ended.errors) == ((), (), ())
    assert ended.values == (await graph.graph.aget_state(config(uuid))).values
    assert ended.values["xs"] == [0, "kernel 1", 2, 0, "kernel 2", 2]
    await graph.graph.aupdate_state(config(uuid), {"round": 0}, as_node="fold")
    assert (await compare(home, graph, uuid)).next == ("select",)


async def test_checkpoints_tell_where_rounds_begin(search: tuple[Home, Search, str]) -> None:
    home, graph, uuid = search
    graph.fails = False
    await graph.graph.ainvoke({"round": 0, "xs": [], "deep": {}}, config(uuid), durability="sync")
    for _ in range(2):
        await graph.graph.ainvoke(Command(resume="k"), config(uuid), durability="sync")
    ours = snapshots(home.folder, "softmax")
    theirs = [item async for item in graph.graph.aget_state_history(config(uuid))]
    assert [(item.checkpoint, {"xs": [], **item.values}) for item in ours] == [
        (item.config["configurable"]["checkpoint_id"], item.values) for item in theirs
    ]
    assert [item.values["round"] for item in ours if item.next == ("select",)] == [1, 0]
    assert [item.next for item in ours][-3:] == [("write",) * 3, ("select",), ("__start__",)]


async def test_states_of_all_threads_the_latest_first(home: Home, tmp_path: Path) -> None:
    assert read_states(tmp_path / "nothing here") == []
    assert not (tmp_path / "nothing here").exists()
    for rounds in (1, 2):
        thread = await home.threads.create("softmax", "c")
        graph = Search(home)
        graph.fails = False
        await graph.graph.ainvoke({"round": rounds, "xs": [], "deep": {}}, config(thread.uuid), durability="sync")
    await home.threads.create("gelu", "c")
    found = read_states(home.folder)
    assert [(item.thread.name, item.values.get("round")) for item in found] == [
        ("gelu-1", None),
        ("softmax-2", 3),
        ("softmax-1", 2),
    ]


async def test_the_record_beside_the_state(home: Home) -> None:
    thread = await home.threads.create("softmax", "c")
    key = LedgerKey(thread=thread.uuid, round=1, cycle=0, sample=0, role="coder", turn=0, request="r")
    await home.ledger.begin(key)
    await home.threads.configure(thread.uuid, "d")
    with closing(open_connection(home.folder)) as connection:
        add_lineage(connection, Lineage(child=thread.uuid, parent="p", checkpoint="k", round=4))
    record = read_record(home.folder, "latest")
    assert [entry.key for entry in record.entries] == [key]
    assert [event.kind for event in record.events] == ["config"]
    assert [step.round for step in record.ancestors] == [4]


async def test_unknown_names_and_homes(home: Home, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there are no runs in .*nowhere yet: start one"):
        read_state(tmp_path / "nowhere", "latest")
    await home.threads.create("softmax", "c")
    with pytest.raises(UsageError, match="the nearest is 'softmax-1'"):
        read_state(home.folder, "sotfmax")


async def test_a_foreign_or_newer_database_is_not_read(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "ksearch.sqlite") as connection:
        connection.execute("CREATE TABLE threads (uuid TEXT)")
    connection.close()
    with pytest.raises(UsageError, match="belongs to another program"):
        read_states(tmp_path)


@pytest.mark.folder_only
async def test_reading_while_a_run_writes(search: tuple[Home, Search, str]) -> None:
    home, _, uuid = search
    other = sqlite3.connect(home.folder / "ksearch.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert read_states(home.folder)[0].thread.uuid == uuid
    other.execute("ROLLBACK")
    other.close()


async def test_a_read_only_copy_can_be_read(small_disk: Path) -> None:
    async with open_home(small_disk / "home") as home:
        thread = await home.threads.create("softmax", "c")
        graph = Search(home)
        graph.fails = False
        await graph.graph.ainvoke({"round": 0, "xs": [], "deep": {}}, config(thread.uuid), durability="sync")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    assert read_state(small_disk / "home", "latest")["round"] == 1


@pytest.mark.folder_only
async def test_a_copy_taken_while_a_run_writes_can_be_read(search: tuple[Home, Search, str], tmp_path: Path) -> None:
    home, graph, uuid = search
    graph.fails = False
    await graph.graph.ainvoke({"round": 0, "xs": [], "deep": {}}, config(uuid), durability="sync")
    shutil.copytree(home.folder, tmp_path / "copy")
    assert read_state(tmp_path / "copy", uuid) == read_state(home.folder, uuid)


def test_reading_does_not_import_langgraph(child: Child) -> None:
    code = """
import sys
import checkpoints.history
import checkpoints.blobs
print(sorted({name.partition(".")[0] for name in sys.modules} & {"langgraph", "langchain_core", "torch", "numpy"}))
"""
    out, error = child(code).communicate(timeout=200)
    assert (out, error) == ("[]\n", "")
