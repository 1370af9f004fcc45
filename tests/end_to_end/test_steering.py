"""People steer a search: their edits are made when the plan is looked at, their programs judged like any other."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from checkpoints.history import read_states
from evaluators.errors import UsageError
from evaluators.solution import Solution
from graph import runs, steering
from graph.branches import make_branch
from graph.edits import Edit, EditBatch, Insert, Pin, Prune, Reopen, Update
from graph.presets import changed
from graph.report.loading import load_run
from graph.report.summary import summary
from graph.steering import Change, ask, keep_program
from graph.world_model import Intent
from tests.end_to_end.searching import Search, Searched, intent

PLAN = [{"edits": [intent("One", 0.9), intent("Two", 0.5), intent("Three", 0.4)]}]
CYCLES: list[list[Any]] = [[1.2], [1.3], [1.4], [1.5], [1.6]]
OPTIONS: dict[str, Any] = {"stagnation": 1, "sample_cap": 1}


async def begun(search: Search, evaluations: int = 1) -> Searched:
    return await search({"proposals": PLAN, "cycles": CYCLES}, **OPTIONS, max_evaluations=evaluations)


async def steered(searched: Searched, *edits: Edit, **options: Any) -> runs.Ended:
    home, uuid = searched.means.home.folder, searched.ended.thread.uuid
    await ask(home, uuid, Change(EditBatch(origin="human", reason="by hand", edits=edits)))
    return await runs.resume(searched.means, uuid, options, searched.events.append)


def order(searched: Searched) -> list[str]:
    return [event["node"] for event in searched.events if event["event"] == "selected"]


async def test_edits_are_made_before_the_next_intent_is_chosen(search: Search) -> None:
    searched = await begun(search)
    edits = (Prune(node="n2", reason="no"), Insert(parent="n1", intent=Intent(title="Mine", priority=1.0)))
    ended = await steered(searched, *edits, max_evaluations=3)
    assert order(searched) == ["n1", "n4", "n3"]
    model = await searched.means.tree(ended.state["tree"])
    assert [(node.status, node.origin) for node in model.nodes] == [
        ("closed", "planner"),
        ("pruned", "planner"),
        ("closed", "planner"),
        ("closed", "human"),
    ]
    told = [event for event in searched.events if event["event"] == "edits" and event["origin"] == "human"]
    assert [(event["edits"], event["accepted"]) for event in told] == [(2, True)]
    assert ended.state["steered"] == 1


async def test_a_pinned_node_is_next_and_a_failed_one_gets_another_chance(search: Search) -> None:
    script = {"proposals": PLAN, "cycles": [["wrong_values"], [1.3], [1.5]]}
    searched = await search(script, **OPTIONS, max_evaluations=1)
    assert searched.model.node("n1").status == "failed"
    reopen = Reopen(node="n1", description="Otherwise.", reason="it was a slip")
    ended = await steered(searched, Pin(node="n3"), reopen, max_evaluations=3)
    assert order(searched) == ["n1", "n3", "n1"]
    assert (await searched.means.tree(ended.state["tree"])).node("n1").status == "closed"


async def test_what_does_not_hold_any_more_is_recorded_as_rejected(search: Search) -> None:
    searched = await begun(search)
    await steered(searched, Update(node="n1", priority=0.1), max_evaluations=2)
    (rejected,) = [event for event in searched.events if event["event"] == "edits" and not event["accepted"]]
    assert rejected["reasons"] == ["edit 1 (update): node n1 is closed; only open nodes can be updated"]
    with pytest.raises(UsageError, match=r"rejected and nothing is changed: .* n1 is closed"):
        steering.check_batch(searched.model, EditBatch(origin="human", edits=(Update(node="n1", priority=0.1),)))


async def test_a_program_of_ones_own_is_the_first_sample_and_is_certified(search: Search) -> None:
    searched = await begun(search)
    home, evaluated = searched.means.home, searched.ended.state["incumbent"]
    assert evaluated is not None
    known = await searched.means.solution(evaluated["solution"])
    name, text = next(iter(known.files.items()))
    mine = Solution.model_validate(
        {**known.model_dump(), "files": {name: text.replace("objective = 1.2", "objective = 9.0") + "// mine\n"}}
    )
    blob = keep_program(home.folder, mine)
    insert = Insert(parent="root", intent=Intent(title="Mine", priority=1.0), program=blob)
    ended = await steered(searched, insert, max_evaluations=2)
    incumbent = ended.state["incumbent"]
    assert incumbent is not None
    assert (incumbent["node"], incumbent["objective"]["value"], incumbent["solution"]) == ("n4", 9.0, blob)
    node = (await searched.means.tree(ended.state["tree"])).node("n4")
    assert (node.status, node.program) == ("closed", None)
    coders = [entry for entry in await home.ledger.entries(ended.thread.uuid) if entry.key.role == "coder"]
    assert [entry.key.cycle for entry in coders] == [1], "nobody was paid for it"
    with_program = EditBatch(origin="planner", edits=(insert,))
    with pytest.raises(UsageError, match="only a person can give a node a program"):
        steering.check_batch(searched.model, with_program)


async def test_waiting_edits_are_seen_and_a_branch_has_its_own(search: Search) -> None:
    searched = await begun(search)
    home, uuid = searched.means.home.folder, searched.ended.thread.uuid
    await ask(home, uuid, Change(EditBatch(origin="human", edits=(Prune(node="n2", reason="no"),))))
    run = load_run(home, uuid)
    assert (len(run.waiting), run.model.node("n2").status) == (1, "pruned")
    at = {name: await make_branch(home, uuid, place, {}, name) for name, place in (("now", "now"), ("past", "0"))}
    assert load_run(home, at["now"].thread.uuid).model.node("n2").status == "pruned"
    assert load_run(home, at["past"].thread.uuid).model.node("n2").status == "open"
    ended = await runs.resume(searched.means, "now", {"max_evaluations": 2}, lambda event: None)
    assert (await searched.means.tree(ended.state["tree"])).node("n2").status == "pruned"
    later = await make_branch(home, "now", str(ended.state["round"]), {}, "later")
    assert load_run(home, later.thread.uuid).waiting == ()
    await ask(home, later.thread.uuid, Change(EditBatch(origin="human", edits=(Pin(node="n3"),))))
    assert load_run(home, later.thread.uuid).model.node("n3").pinned
    assert not load_run(home, "now").model.node("n3").pinned


async def test_what_is_said_of_a_node_goes_to_it_whatever_number_it_gets(search: Search) -> None:
    """The planner inserts a node before the edits are made, so that theirs gets the number that a person was told."""
    theirs = {"edits": [intent("Theirs", 0.1)]}
    script = {"proposals": [*PLAN, theirs], "cycles": [[1.2, 1.3], [1.4, 1.5], [1.6, 1.7]]}
    original = await search(script, stagnation=2, sample_cap=2, max_evaluations=4)
    home = original.means.home.folder
    made = await make_branch(home, original.ended.thread.name, "1", {"max_evaluations": 6}, "other")
    below = (Insert(parent="n4", intent=Intent(title="Below", priority=0.2)), Pin(node="n5"))
    for edits in ((Insert(parent="root", intent=Intent(title="Mine", priority=1.0)),), (Pin(node="n4"),), below):
        run = load_run(home, "other")
        batch = EditBatch(origin="human", edits=edits)
        steering.check_batch(run.model, batch)
        await ask(home, made.thread.uuid, Change(run.promises.named(batch, run.model.next_node)))
    assert [item["node"] for item in summary(load_run(home, "other"))["frontier"]] == ["n4", "n2", "n3"]
    ended = await runs.resume(original.means, made.thread.uuid, {}, lambda event: None)
    nodes = {node.intent.title: node for node in (await original.means.tree(ended.state["tree"])).nodes}
    assert [(title, nodes[title].id, nodes[title].pinned) for title in ("Theirs", "Mine", "Below")] == [
        ("Theirs", "n4", False),
        ("Mine", "n5", True),
        ("Below", "n6", True),
    ]
    assert nodes["Below"].parent == "n5"
    assert nodes["Mine"].status == "closed", "it was worked on next"


async def test_what_is_said_of_a_node_that_was_not_inserted_is_rejected(search: Search) -> None:
    script = {"proposals": [*PLAN, {"edits": [intent("Twin", 0.1)]}], "cycles": [[1.2, 1.3], [1.4, 1.5]]}
    original = await search(script, stagnation=2, sample_cap=2, max_evaluations=4)
    home = original.means.home.folder
    made = await make_branch(home, original.ended.thread.name, "1", {}, "other")
    for edits in ((Insert(parent="root", intent=Intent(title="Twin", priority=1.0)),), (Pin(node="n4"),)):
        run = load_run(home, "other")
        batch = run.promises.named(EditBatch(origin="human", edits=edits), run.model.next_node)
        await ask(home, made.thread.uuid, Change(batch))
    events: list[dict[str, Any]] = []
    ended = await runs.resume(original.means, made.thread.uuid, {}, events.append)
    assert not (await original.means.tree(ended.state["tree"])).node("n4").pinned
    reasons = [event["reasons"] for event in events if event["event"] == "edits" and not event["accepted"]]
    assert "already has the intent 'Twin' as n4" in reasons[0][0]
    assert "there is no node 'node 1 of request 1'" in reasons[1][0]


async def test_a_running_search_takes_edits_and_options_and_pauses(search: Search, tmp_path: Path) -> None:
    script = {"proposals": PLAN, "cycles": [[1.0 + at / 100 for at in range(80)]] * 3, "delay_s": 0.1}
    seen = asyncio.Event()

    async def steer_it() -> None:
        home = next(iter(tmp_path.glob("home")))
        while not (home / "ksearch.sqlite").exists() or not _round(home):
            await asyncio.sleep(0.05)
        run = load_run(home, "latest")
        batch = EditBatch(origin="human", edits=(Prune(node="n3", reason="no"),))
        more = changed(run.config, {"max_evaluations": 71})
        await ask(home, run.snapshot.thread.uuid, Change(batch, more))
        paused = await steering.pause(home, "latest", 60)
        assert paused.status == "paused"
        seen.set()

    running = search(script, stagnation=50, max_evaluations=60)
    searched, _ = await asyncio.gather(running, steer_it())
    assert seen.is_set()
    assert searched.ended.status == "paused"
    assert 0 < searched.ended.state["round"] < 30
    assert [event["event"] for event in searched.events].count("pausing") == 1
    config = await searched.means.config(searched.ended.thread.uuid, searched.ended.state["config"])
    assert config.max_evaluations == 71
    again = await steering.pause(searched.means.home.folder, "latest", 5)
    assert again.status == "paused", "pausing what is paused changes nothing"


def _round(home: Path) -> int:
    return max((int(snapshot.values.get("round", 0)) for snapshot in read_states(home)), default=0)
