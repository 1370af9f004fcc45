"""Branches: at every round, from within a fan-out, with other options; nothing is shared but the past."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from checkpoints.history import read_record, read_snapshot
from checkpoints.ledger import Entry
from checkpoints.rounds import Mark, boundaries, find_point
from checkpoints.threads import Thread
from evaluators.errors import UsageError
from graph import runs
from graph.branches import make_branch
from tests.end_to_end.searching import Search, Searched
from tests.snapshots import snapshots

THIRTY: dict[str, Any] = {"width": 2, "samples": 1, "stagnation": 2, "max_evaluations": 54, "seed": 3}
COMPARED = ("tree", "attempts", "edits", "incumbent", "baseline", "round", "cycles", "next_cycle", "stop")


def outcome(state: Any) -> dict[str, Any]:
    """What must be equal, byte for byte: trees and logs are compared by their digests."""
    spend = {name: value for name, value in state["spend"].items() if name not in ("by", "wall_s")}
    return {**{key: state[key] for key in COMPARED}, "spend": spend}


def paid(home: Path, name: str) -> dict[tuple[Any, ...], Entry]:
    return {entry.key.row[1:]: entry for entry in read_record(home, name).entries}


async def go_on(searched: Searched, name: str, **options: Any) -> runs.Ended:
    return await runs.resume(searched.means, name, options, lambda event: None)


async def test_a_branch_at_every_round_does_the_rest_again_and_ends_alike(search: Search) -> None:
    original = await search(preset="default", **THIRTY)
    home = original.means.home.folder
    rounds, all_paid = original.ended.state["round"], paid(home, original.ended.thread.name)
    assert rounds >= 30
    for at in range(rounds):
        made = await make_branch(home, original.ended.thread.name, str(at), {}, f"at-{at}")
        inherited = paid(home, made.thread.uuid)
        ended = await go_on(original, made.thread.uuid)
        assert outcome(ended.state) == outcome(original.ended.state), at
        after = paid(home, made.thread.uuid)
        assert after.keys() == all_paid.keys(), at
        assert {key: entry.result for key, entry in after.items()} == {k: e.result for k, e in all_paid.items()}
        hits = [key for key in inherited if key[0] > at]
        again = {key for key, entry in after.items() if entry != inherited.get(key)}
        assert hits == []
        assert again == {key for key in all_paid if key[0] > at}, "every call after the round was made again"
    assert paid(home, original.ended.thread.name) == all_paid, "the original is as it was"


async def test_every_checkpoint_is_a_place_to_branch_from(search: Search) -> None:
    original = await search(preset="default", **{**THIRTY, "max_evaluations": 12})
    home, name = original.means.home.folder, original.ended.thread.name
    nodes = set()
    for snapshot in snapshots(home, name)[:-1]:
        made = await make_branch(home, name, str(snapshot.checkpoint), {}, None)
        assert read_snapshot(home, made.thread.uuid).values == snapshot.values
        known = len(paid(home, made.thread.uuid))
        ended = await go_on(original, made.thread.uuid)
        assert outcome(ended.state) == outcome(original.ended.state), snapshot.next
        assert paid(home, made.thread.uuid).keys() == paid(home, name).keys()
        assert known == len(paid(home, name)) or snapshot.next
        nodes |= set(snapshot.next)
    assert nodes >= {"select_action", "instantiate_program", "evaluate", "check_stagnation", "update_world_model"}


async def test_two_branches_and_the_original_run_at_the_same_time(search: Search) -> None:
    original = await search(preset="default", **{**THIRTY, "max_evaluations": 20})
    home, name = original.means.home.folder, original.ended.thread.name
    same = await make_branch(home, name, "3", {}, "same")
    other = await make_branch(home, name, "3", {"seed": 4, "policy": "puct"}, "other")
    ended = await asyncio.gather(
        go_on(original, "same"), go_on(original, "other"), go_on(original, name, max_evaluations=30)
    )
    assert [item.status for item in ended] == ["finished"] * 3
    assert outcome(ended[0].state) == outcome(original.ended.state)
    assert ended[1].state["attempts"] != original.ended.state["attempts"]
    assert ended[2].state["spend"]["evaluations"] == 30
    assert (same.origin.config == same.thread.config, other.origin.config == other.thread.config) == (True, False)
    (event,) = read_record(home, "other").events
    assert (event.kind, event.data["options"]) == ("branch", {"seed": 4, "policy": "puct"})
    (place,) = read_record(home, "other").ancestors
    assert (place.parent, place.round) == (original.ended.thread.uuid, 3)


async def test_a_branch_of_a_branch_inherits_both(search: Search) -> None:
    original = await search(preset="default", **{**THIRTY, "max_evaluations": 20})
    home, name = original.means.home.folder, original.ended.thread.name
    first = await make_branch(home, name, "6", {}, "first")
    await go_on(original, "first", max_evaluations=16)
    second = await make_branch(home, "first", "2", {}, "second")
    assert [place.parent for place in read_record(home, "second").ancestors] == [
        first.thread.uuid,
        original.ended.thread.uuid,
    ]
    assert outcome((await go_on(original, second.thread.uuid)).state) == outcome(original.ended.state)


async def test_a_branch_of_a_finished_search_has_finished_and_goes_on_with_more(search: Search) -> None:
    original = await search(preset="default", **{**THIRTY, "max_evaluations": 8})
    made = await make_branch(original.means.home.folder, "latest", "now", {}, None)
    assert (made.thread.status, made.thread.name) == ("finished", "scripted-2")
    assert made.thread.reason == "budget: 8 of 8 evaluations are spent"
    ended = await go_on(original, made.thread.uuid, max_evaluations=12)
    assert ended.state["spend"]["evaluations"] == 12


async def test_what_cannot_be_branched_is_told(search: Search) -> None:
    original = await search(preset="default", **{**THIRTY, "max_evaluations": 8})
    home, last = original.means.home.folder, original.ended.state["round"]
    for at, options, name, words in (
        (str(last + 1), {}, None, f"no round {last + 1} to go back to: it has rounds 0 to {last}"),
        ("ffff", {}, None, "no checkpoint 'ffff'"),
        ("1", {"plicy": "puct"}, None, "did you mean 'policy'"),
        ("1", {"task": "softmax"}, None, "task and language of a run are fixed"),
        ("1", {"preset": "paper"}, None, "the preset of a run is fixed"),
        ("1", {"planner": "nobody"}, None, "nobody"),
        ("1", {}, "scripted-1", "is taken"),
        ("1", {}, "two words", "cannot be a name"),
        ("1", {}, "latest", "cannot be a name"),
    ):
        with pytest.raises(UsageError, match=words):
            await make_branch(home, "scripted-1", at, options, name)
    assert len(await original.means.home.threads.all()) == 1


def test_where_rounds_end() -> None:
    marks = [
        Mark("a", None, ()),
        Mark("b", 0, ("select_action",)),
        Mark("c", 0, ("instantiate_program",) * 2),
        Mark("d", 0, ("evaluate",) * 2),
        Mark("e", 0, ("check_stagnation",)),
        Mark("f", 1, ("instantiate_program",) * 2),
        Mark("g", 1, ("evaluate",) * 2),
        Mark("h", 1, ("check_stagnation",)),
        Mark("i", 2, ("update_world_model",)),
        Mark("j", 2, ()),
        Mark("k", 2, ("select_action",)),
        Mark("l", 2, ("instantiate_program",)),
    ]
    assert {round_: mark.checkpoint for round_, mark in boundaries(marks).items()} == {0: "b", 1: "f", 2: "k"}
    thread = Thread(uuid="u", name="n", task="t", config="c", created_at=0, updated_at=0, status="paused")
    assert find_point(marks, thread, "1").mark.checkpoint == "f"
    assert find_point(marks, thread, "now").latest
    assert find_point(marks[:9], thread, "2").mark.checkpoint == "i", "the plan is about to be revised"
    with pytest.raises(UsageError, match="2 checkpoints that begin with 'a'"):
        find_point([Mark("aa", 0, ()), Mark("ab", 1, ())], thread, "a")
    with pytest.raises(UsageError, match="has no checkpoint yet"):
        find_point([], thread, "now")
