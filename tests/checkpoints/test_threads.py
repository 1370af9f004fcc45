"""Threads: names, search by name, the lock and its stale holders, events, lineage."""

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.types import ERROR

from checkpoints.database import open_connection, open_database
from checkpoints.holder import LEASE_S, Holder, alive, this_process
from checkpoints.home import Home, open_home
from checkpoints.ledger import LedgerKey
from checkpoints.lineage import Lineage, add_lineage
from checkpoints.place import ServerHome
from evaluators.errors import StoreError, UsageError

Child = Callable[..., subprocess.Popen[str]]

HOLD = """
import asyncio, sys
from pathlib import Path
from checkpoints.home import open_home
from evaluators.errors import UsageError

async def main():
    async with open_home(sys.argv[1]) as home:
        thread = await home.threads.find(sys.argv[2])
        sys.stdin.readline()
        try:
            await home.threads.acquire(thread.uuid)
        except UsageError as error:
            print("refused:", error, flush=True)
            return
        print("acquired", flush=True)
        sys.stdin.readline()
        await home.threads.release(thread.uuid, "finished", "done")

asyncio.run(main())
"""


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


async def test_names_count_by_task(home: Home) -> None:
    names = [
        (await home.threads.create(task, "c")).name for task in ("softmax", "softmax", "RMS norm/v2", "softmax", "?")
    ]
    assert names == ["softmax-1", "softmax-2", "rms-norm-v2-1", "softmax-3", "run-1"]


async def test_a_name_that_ends_like_another_is_told_apart(home: Home) -> None:
    names = [(await home.threads.create(task, "c")).name for task in ("softmax", "softmax-1", "softmax", "softmax-1")]
    assert names == ["softmax-1", "softmax-1-1", "softmax-2", "softmax-1-2"]


async def test_a_new_thread_is_paused_and_free(home: Home) -> None:
    thread = await home.threads.create("softmax", "digest")
    assert (thread.status, thread.holder, thread.config, thread.task) == ("paused", None, "digest", "softmax")
    assert thread.created_at == thread.updated_at


async def test_a_given_id_is_kept_and_taken_once(home: Home) -> None:
    uuid = str(uuid4())
    assert (await home.threads.create("softmax", "c", uuid)).uuid == uuid
    with pytest.raises(UsageError, match="is taken"):
        await home.threads.create("softmax", "c", uuid)


async def test_finding(home: Home) -> None:
    with pytest.raises(UsageError, match="nor any other yet: start one"):
        await home.threads.find("latest")
    threads = [await home.threads.create(task, "c") for task in ["softmax"] * 11 + ["layernorm"]]
    assert await home.threads.find("softmax-1") == threads[0]  # though it also begins softmax-10 and softmax-11
    assert await home.threads.find("layer") == threads[11]
    assert await home.threads.find(threads[4].uuid) == threads[4]
    assert await home.threads.find(threads[4].uuid[:13]) == threads[4]
    assert await home.threads.find("latest") == threads[11]
    await home.threads.acquire(threads[2].uuid)
    assert (await home.threads.find("latest")).uuid == threads[2].uuid
    with pytest.raises(UsageError, match="begins several runs: softmax-1, softmax-10, softmax-11, softmax-2"):
        await home.threads.find("softm")
    with pytest.raises(UsageError, match="there is no run 'sofmax-4'; the nearest is 'softmax-4'"):
        await home.threads.find("sofmax-4")
    with pytest.raises(UsageError, match="there is no run ''"):
        await home.threads.find("")


async def test_holding_and_letting_go(home: Home) -> None:
    thread = await home.threads.create("softmax", "c")
    assert (await home.threads.acquire(thread.uuid)).status == "paused"
    held = await home.threads.find(thread.name)
    assert (held.status, held.holder) == ("running", this_process())
    with pytest.raises(UsageError, match="softmax-1 is already running in this process"):
        await home.threads.acquire(thread.uuid)
    await home.threads.release(thread.uuid, "finished", "budget used")
    free = await home.threads.find(thread.name)
    assert (free.status, free.reason, free.holder) == ("finished", "budget used", None)
    with pytest.raises(StoreError, match="not held by this process but by nobody"):
        await home.threads.release(thread.uuid, "paused")
    assert (await home.threads.acquire(thread.uuid)).status == "finished"


async def test_an_unknown_id_cannot_be_acquired(home: Home) -> None:
    with pytest.raises(UsageError, match="there is no run with the id"):
        await home.threads.acquire(str(uuid4()))


async def test_a_live_process_keeps_others_out_and_a_dead_one_does_not(home: Home, child: Child) -> None:
    thread = await home.threads.create("softmax", "c")
    holder = child(HOLD, home.folder, thread.name)
    go(holder)
    assert answer(holder) == "acquired"
    with pytest.raises(UsageError, match=rf"held by process {holder.pid} on .*\(kill {holder.pid}\)") as refusal:
        await home.threads.acquire(thread.uuid)
    assert "\n" not in str(refusal.value)
    with pytest.raises(UsageError, match="held by process"):
        await home.threads.acquire(thread.uuid, take_over=True)  # only for holders out of sight
    holder.send_signal(signal.SIGKILL)
    # It is dead once its parent could collect it, whether or not the parent has.
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
    stale = await home.threads.find(thread.name)
    assert stale.status == "interrupted"
    assert f"process {holder.pid}" in stale.reason
    assert (await home.threads.acquire(thread.uuid)).status == "interrupted"
    assert (await home.threads.find(thread.name)).holder == this_process()


async def test_of_two_processes_that_race_one_wins(home: Home, child: Child) -> None:
    thread = await home.threads.create("softmax", "c")
    rivals = [child(HOLD, home.folder, thread.name) for _ in range(3)]
    for rival in rivals:
        go(rival)
    answers = [answer(rival) for rival in rivals]
    assert sorted(answer.split(":")[0] for answer in answers) == ["acquired", "refused", "refused"]
    winner = rivals[answers.index("acquired")]
    assert all(f"held by process {winner.pid}" in answer for answer in answers if answer != "acquired")
    go(winner)
    assert winner.wait(200) == 0
    free = await home.threads.find(thread.name)
    assert (free.status, free.reason) == ("finished", "done")


def other(**changes: Any) -> Holder:
    return this_process().model_copy(update=changes)


def test_who_counts_as_alive() -> None:
    assert alive(this_process())
    assert alive(other(pid=os.getppid(), started=started(os.getppid())))
    assert not alive(other(started="1"))  # the number was given to a later process
    assert not alive(other(pid=4_194_305))  # beyond the largest process number
    assert not alive(other(boot="an earlier one"))
    assert alive(other(boot="another kernel", host="another machine"))
    assert alive(other(host="another container", pid=4_194_305))
    assert alive(other(space="pid:[1]", pid=4_194_305))


def started(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


async def hold_as(home: Home, uuid: str, holder: Holder) -> None:
    """Put a holder into the thread's row that no process of this machine could write."""
    await change(
        home, "UPDATE threads SET status = 'running', holder = ? WHERE uuid = ?", holder.model_dump_json(), uuid
    )


async def change(home: Home, sql: str, *values: Any) -> None:
    async with open_database(home.folder) as database:
        await database.run(lambda connection: connection.execute(sql, values))


async def test_a_recycled_process_number_does_not_keep_the_lock(home: Home) -> None:
    thread = await home.threads.create("softmax", "c")
    await hold_as(home, thread.uuid, other(pid=os.getppid(), started="1"))
    assert (await home.threads.acquire(thread.uuid)).status == "interrupted"


async def test_a_holder_out_of_sight_can_be_overruled_and_cannot_release(home: Home) -> None:
    thread = await home.threads.create("softmax", "c")
    await hold_as(home, thread.uuid, other(host="elsewhere", boot="unknown"))
    with pytest.raises(UsageError, match=r"held by process .* on elsewhere: wait for it, or take it over"):
        await home.threads.acquire(thread.uuid)
    with pytest.raises(StoreError, match=r"not held by this process but by process .* on elsewhere"):
        await home.threads.release(thread.uuid, "finished")
    assert (await home.threads.acquire(thread.uuid, take_over=True)).status == "running"
    assert (await home.threads.find(thread.name)).holder == this_process()
    assert this_process().host == socket.gethostname()


async def test_the_lease_of_a_holder_out_of_sight_expires(home: Home) -> None:
    thread = await home.threads.create("softmax", "c")
    await home.threads.acquire(thread.uuid)
    await hold_as(home, thread.uuid, other(host="elsewhere", boot="unknown"))
    await change(home, "UPDATE threads SET beat_at = beat_at - ?", LEASE_S - 10)
    assert (await home.threads.find(thread.uuid)).status == "running"
    await change(home, "UPDATE threads SET beat_at = beat_at - ?", 11.0)
    found = await home.threads.find(thread.uuid)
    assert found.status == "interrupted"
    assert "on elsewhere has said nothing for 3" in found.reason
    async with open_home(home.folder) as rival:
        assert (await rival.threads.acquire(thread.uuid)).status == "interrupted"
        assert (await rival.threads.find(thread.uuid)).holder == this_process()
        await rival.threads.release(thread.uuid, "paused")


async def test_a_process_in_sight_needs_no_heartbeat(home: Home) -> None:
    thread = await home.threads.create("softmax", "c")
    await home.threads.acquire(thread.uuid)
    await change(home, "UPDATE threads SET beat_at = 0")
    assert (await home.threads.find(thread.uuid)).status == "running"
    await home.threads.release(thread.uuid, "paused")


async def test_a_heartbeat_renews_the_leases_of_this_process_only(home: Home) -> None:
    ours, theirs = [await home.threads.create("softmax", "c") for _ in range(2)]
    await home.threads.acquire(ours.uuid)
    await home.threads.acquire(theirs.uuid)
    await hold_as(home, theirs.uuid, other(host="elsewhere", boot="unknown"))
    await change(home, "UPDATE threads SET beat_at = beat_at - 1000")
    await home.threads.beat()
    async with open_database(home.folder) as database:
        sql = "SELECT uuid FROM threads WHERE beat_at > "
        rows = await database.run(lambda connection: connection.execute(f"{sql}{connection.clock} - 100").fetchall())
    assert rows == [(ours.uuid,)]
    assert (await home.threads.find(theirs.uuid)).status == "interrupted"
    await home.threads.release(ours.uuid, "paused")


async def test_whoever_has_lost_a_thread_pays_for_nothing_more_and_changes_nothing(home: Home) -> None:
    thread = await home.threads.create("softmax", "c")
    await home.threads.acquire(thread.uuid)
    config: Any = {"configurable": {"thread_id": thread.uuid, "checkpoint_ns": ""}}
    put = await home.saver.aput(config, empty_checkpoint(), {}, {})
    await hold_as(home, thread.uuid, other(host="elsewhere", boot="unknown"))
    key = LedgerKey(thread=thread.uuid, round=1, cycle=0, sample=0, role="coder", turn=0, request="r")
    with pytest.raises(StoreError, match=r"softmax-1 was taken over by process .* on elsewhere"):
        await home.ledger.claim(key)
    assert await home.ledger.find(key) is None
    if isinstance(home.folder, ServerHome):
        await asyncio.sleep(1.1)  # longer than a saver relies on what it knows
        with pytest.raises(StoreError, match="was taken over by"):
            await home.saver.aput_writes(put, [("round", 1)], "task")
        with pytest.raises(StoreError, match="was taken over by"):
            await home.saver.aput(put, empty_checkpoint(), {}, {})
    with pytest.raises(StoreError, match="not held by this process"):
        await home.threads.release(thread.uuid, "finished")


async def test_a_change_of_configuration_is_an_event(home: Home) -> None:
    thread = await home.threads.create("softmax", "one")
    await home.threads.configure(thread.uuid, "one")
    await home.threads.configure(thread.uuid, "two")
    assert await home.threads.add_event(thread.uuid, "note", ["by", "hand"]) == 2
    events = await home.threads.events(thread.uuid)
    assert [(event.seq, event.kind, event.data) for event in events] == [
        (1, "config", {"before": "one", "after": "two"}),
        (2, "note", ["by", "hand"]),
    ]
    assert (await home.threads.find(thread.name)).config == "two"
    assert await home.threads.events(str(uuid4())) == []


async def test_lineage_leads_to_the_first_ancestor(home: Home) -> None:
    with closing(open_connection(home.folder)) as connection:
        for child_, parent, round_ in (("b", "a", 3), ("c", "b", 7), ("x", "a", 1)):
            add_lineage(connection, Lineage(child=child_, parent=parent, checkpoint=f"of {parent}", round=round_))
    assert [(step.parent, step.round) for step in await home.threads.ancestors("c")] == [("b", 7), ("a", 3)]
    assert await home.threads.ancestors("a") == []
    assert json.loads((await home.threads.ancestors("b"))[0].model_dump_json())["checkpoint"] == "of a"


async def test_names_are_given_once_when_processes_create_at_once(tmp_path: Path, child: Child) -> None:
    code = """
import asyncio, sys
from pathlib import Path
from checkpoints.home import open_home
async def main():
    async with open_home(sys.argv[1]) as home:
        for _ in range(20):
            print((await home.threads.create("softmax", "c")).name)
asyncio.run(main())
"""
    processes = [child(code, tmp_path / "new home") for _ in range(4)]
    names: list[str] = []
    for process in processes:
        out, error = process.communicate(timeout=200)
        assert process.returncode == 0, error
        names += out.split()
    assert sorted(names) == sorted(f"softmax-{index}" for index in range(1, 81))
    async with open_home(tmp_path / "new home") as home:
        assert len(await home.threads.all()) == 80


async def test_of_a_task_that_was_cancelled_half_way_nothing_is_kept_but_that_it_was(home: Home) -> None:
    thread = await home.threads.create("softmax", "c")
    await home.threads.acquire(thread.uuid)
    config: Any = {"configurable": {"thread_id": thread.uuid, "checkpoint_ns": ""}}
    put = await home.saver.aput(config, empty_checkpoint(), {}, {})
    await home.saver.aput_writes(put, [("round", 1), ("branch:to:select_action", None)], "finished")
    await home.saver.aput_writes(put, [("round", 1), (ERROR, asyncio.CancelledError())], "cancelled")
    found = await home.saver.aget_tuple(config)
    assert found is not None
    assert found.pending_writes is not None
    assert [(task, channel) for task, channel, _ in found.pending_writes] == [
        ("cancelled", ERROR),
        ("finished", "round"),
        ("finished", "branch:to:select_action"),
    ]
    await home.threads.release(thread.uuid, "paused")
