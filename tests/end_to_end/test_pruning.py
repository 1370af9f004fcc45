"""Retention: what is dropped is never missed; every round can still be shown, branched from and gone on with."""

import asyncio
import os
from pathlib import Path
from typing import Any

from checkpoints.history import read_snapshot
from checkpoints.pruning import every_thread, prune
from graph import runs
from graph.branches import make_branch
from graph.report.chronicle import chronicle
from graph.report.loading import load_material, load_run
from tests.end_to_end.searching import Search
from tests.end_to_end.test_branches import outcome
from tests.snapshots import snapshots

OPTIONS: dict[str, Any] = {"width": 2, "stagnation": 2, "max_evaluations": 16, "seed": 3}


def blobs(home: Path) -> set[str]:
    return {file.parent.name + file.name for file in (home / "blobs").glob("??/*")}


async def test_every_round_is_kept_and_nothing_is_missed(search: Search) -> None:
    original = await search(preset="default", **OPTIONS)
    home, name = original.means.home.folder, original.ended.thread.name
    rounds = original.ended.state["round"]
    before = {at: read_snapshot(home, name, str(at)) for at in range(rounds + 1)}
    told = chronicle(load_material(home, name)[1])
    orphan = original.means.home.blobs.put(b"nothing refers to this")
    pruned = await asyncio.to_thread(prune, home, every_thread, 0.0)
    assert pruned.checkpoints > 2 * rounds
    assert pruned.blobs > 0
    assert not pruned.busy
    assert orphan not in blobs(home)
    kept = snapshots(home, name)
    assert len(kept) <= rounds + 2
    assert {at: read_snapshot(home, name, str(at)).values for at in before} == {
        at: s.values for at, s in before.items()
    }
    assert chronicle(load_material(home, name)[1]) == told
    for at in range(rounds + 1):
        load_run(home, name, str(at))
    config: Any = {"configurable": {"thread_id": original.ended.thread.uuid}}
    history = [item async for item in original.means.home.saver.alist(config)]
    ids = [item.config["configurable"]["checkpoint_id"] for item in history]
    parents = [item.parent_config and item.parent_config["configurable"]["checkpoint_id"] for item in history]
    assert parents == [*ids[1:], None], "each checkpoint follows the one before it"
    for at in (0, rounds // 2, rounds - 1):
        made = await make_branch(home, name, str(at), {}, None)
        ended = await runs.resume(original.means, made.thread.uuid, {}, lambda event: None)
        assert outcome(ended.state) == outcome(original.ended.state)
    again = await asyncio.to_thread(prune, home, lambda connection: [], 0.0)
    assert again.checkpoints == 0


async def test_a_half_done_round_stays_whole(search: Search) -> None:
    script = {"proposals": [{"edits": [{"kind": "insert", "parent": "root", "intent": {"title": "A", "priority": 1}}]}]}
    script["cycles"] = [[1.1, 1.2, 1.3, 1.4, 1.5, 1.6]]
    original = await search(script, stagnation=9, max_evaluations=6)
    home, name = original.means.home.folder, original.ended.thread.name
    middle = next(s for s in snapshots(home, name) if s.next == ("evaluate",) and s.values["round"] == 3)
    made = await make_branch(home, name, str(middle.checkpoint), {}, "middle")
    await asyncio.to_thread(prune, home, every_thread, 0.0)
    assert read_snapshot(home, "middle").next == ("evaluate",)
    ended = await runs.resume(original.means, made.thread.uuid, {}, lambda event: None)
    assert outcome(ended.state) == outcome(original.ended.state)


async def test_what_is_young_or_in_use_stays(search: Search) -> None:
    original = await search(preset="default", **OPTIONS)
    home, store = original.means.home.folder, original.means.home
    orphan = store.blobs.put(b"written a moment ago")
    assert (await asyncio.to_thread(prune, home, every_thread)).blobs == 0
    await store.threads.acquire(original.ended.thread.uuid)
    pruned = await asyncio.to_thread(prune, home, every_thread, 0.0)
    assert (pruned.blobs, pruned.busy) == (0, True)
    await store.threads.release(original.ended.thread.uuid, "paused")
    file = home / "blobs" / orphan[:2] / orphan[2:]
    os.utime(file, (0, 0))
    store.blobs.put(b"written a moment ago")
    assert (await asyncio.to_thread(prune, home, every_thread)).blobs == 0, "it was wanted again"
    os.utime(file, (0, 0))
    assert (await asyncio.to_thread(prune, home, every_thread)).blobs == 1
