"""States of another version: brought up to date in the middle of a search, or refused in one line."""

from typing import Any

import pytest

from checkpoints.history import read_snapshot
from evaluators.errors import UsageError
from graph import runs
from graph.branches import make_branch
from graph.state import SCHEMA_VERSION
from tests.end_to_end.searching import Search, Searched
from tests.snapshots import snapshots

OPTIONS: dict[str, Any] = {"width": 2, "stagnation": 2, "max_evaluations": 8, "seed": 3}


async def rewritten(searched: Searched, checkpoint: str, version: int) -> str:
    """Branch at a checkpoint and write it as another version would have; return the branch's uuid."""
    saver = searched.means.home.saver
    made = await make_branch(searched.means.home.folder, searched.ended.thread.name, checkpoint, {}, None)
    config: Any = {"configurable": {"thread_id": made.thread.uuid, "checkpoint_ns": "", "checkpoint_id": checkpoint}}
    known = await saver.aget_tuple(config)
    assert known is not None
    values = known.checkpoint["channel_values"]
    values["schema_version"] = version
    if version == 1:
        del values["steered"], values["spend"]["repairs"]
    parent: Any = {"configurable": {"thread_id": made.thread.uuid, "checkpoint_ns": ""}}
    await saver.aput(parent, known.checkpoint, known.metadata, {})
    return made.thread.uuid


async def test_a_state_of_version_1_goes_on_from_every_node(search: Search) -> None:
    original = await search(preset="default", **OPTIONS)
    home = original.means.home.folder
    seen: set[str] = set()
    for snapshot in snapshots(home, original.ended.thread.name):
        node = snapshot.next[0] if snapshot.next else "end"
        if node in seen or "schema_version" not in snapshot.values:
            continue
        seen.add(node)
        uuid = await rewritten(original, str(snapshot.checkpoint), 1)
        ended = await runs.resume(original.means, uuid, {}, lambda event: None)
        for key in ("tree", "attempts", "edits", "incumbent", "round", "stop"):
            assert ended.state[key] == original.ended.state[key], node  # type: ignore[literal-required]
        assert ended.state["schema_version"] == SCHEMA_VERSION
        assert (ended.state["steered"], ended.state["spend"]["repairs"]) == (0, 0)
    assert seen >= {"end", "select_action", "instantiate_program", "evaluate", "check_stagnation", "update_world_model"}


async def test_a_newer_state_is_refused_and_left_alone(search: Search) -> None:
    original = await search(preset="default", **OPTIONS)
    home = original.means.home.folder
    last = str(read_snapshot(home, "latest").checkpoint)
    uuid = await rewritten(original, last, SCHEMA_VERSION + 1)
    before = read_snapshot(home, uuid)
    with pytest.raises(UsageError, match=f"version {SCHEMA_VERSION + 1}, .* a newer ksearch wrote it; upgrade"):
        await runs.resume(original.means, uuid, {}, lambda event: None)
    assert read_snapshot(home, uuid).values == before.values


async def test_options_of_a_newer_version_are_refused(search: Search) -> None:
    original = await search(preset="default", **OPTIONS)
    threads, blobs = original.means.home.threads, original.means.home.blobs
    thread = original.ended.thread
    newer = {**blobs.get_json(thread.config), "telepathy": True}
    await threads.configure(thread.uuid, blobs.put_json(newer))
    with pytest.raises(UsageError, match=r"is no SearchConfig of this ksearch .telepathy: .* another version wrote it"):
        await runs.resume(original.means, thread.uuid, {}, lambda event: None)
