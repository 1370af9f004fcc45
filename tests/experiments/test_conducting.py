"""Conducting an experiment: threads, concurrency, budgets of the whole, going on, matched states."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from checkpoints.history import read_lineages, read_record, read_snapshot
from checkpoints.logs import read
from evaluators.errors import UsageError
from graph.config import SearchConfig
from graph.experiments.curves import Budget
from graph.experiments.findings import findings
from graph.experiments.loading import load_experiment
from graph.experiments.plan import jobs
from nodes.services import Services
from tests.experiments.conftest import SCRIPTED, Experiment
from tests.snapshots import snapshots

TWO = f'seeds = 2\nat_a_time = 2\n{SCRIPTED}\n[matrix]\npolicy = ["priority", "puct"]\n'
MATCHED = '[matched]\nrun = "source-all-s0"\nevaluations = 4\n'
NAMES = ["trial-priority-s0", "trial-puct-s0", "trial-priority-s1", "trial-puct-s1"]


def paid(means: Services, name: str) -> dict[Any, Any]:
    return {entry.key.row[1:]: (entry.calls, entry.result) for entry in read_record(means.home.folder, name).entries}


async def test_every_cell_and_seed_is_a_thread_of_its_own(means: Services, experiment: Experiment) -> None:
    events: list[tuple[str, dict[str, Any]]] = []
    done = await experiment(TWO, events)
    assert [(item.run, item.status) for item in done.outcomes] == [(name, "done") for name in NAMES]
    assert (done.stopped, done.spent.evaluations) == ("", 24)
    threads = {thread.name: thread for thread in await means.home.threads.all()}
    assert sorted(threads) == sorted(NAMES)
    for name in NAMES:
        values = read_snapshot(means.home.folder, name).values
        config = await means.config(threads[name].uuid, threads[name].config)
        assert (config.policy, f"s{config.seed}") == tuple(name.split("-")[1:])
        assert values["spend"]["evaluations"] == 6
    at_work, most = set[str](), 0
    for name, event in events:
        at_work = at_work | {name} if event["event"] == "thread" else at_work
        at_work = at_work - {name} if event["event"] == "ended" else at_work
        most = max(most, len(at_work))
    assert most == 2


async def test_what_has_ended_is_left_alone(means: Services, experiment: Experiment) -> None:
    await experiment(TWO)
    before = {name: paid(means, name) for name in NAMES}
    events: list[tuple[str, dict[str, Any]]] = []
    again = await experiment(TWO, events)
    assert ([item.status for item in again.outcomes], events) == (["done"] * 4, [])
    assert {name: paid(means, name) for name in NAMES} == before


async def test_cells_are_checked_while_one_of_their_searches_has_not_ended(experiment: Experiment) -> None:
    for text, policies in ((TWO, ["priority", "puct"]), (TWO, []), (TWO.replace('["', '["random", "'), ["random"])):
        checked: list[SearchConfig] = []
        await experiment(text, checked=checked)
        assert [config.policy for config in checked] == policies


async def test_a_larger_experiment_does_only_the_rest(means: Services, experiment: Experiment) -> None:
    await experiment(TWO)
    before = {name: paid(means, name) for name in NAMES}
    more = await experiment(TWO.replace("seeds = 2", "seeds = 3").replace("evaluations = 6", "evaluations = 8"))
    assert (len(more.outcomes), more.spent.evaluations) == (6, 48)
    for name in NAMES:
        assert before[name].items() <= paid(means, name).items()


async def test_budgets_hold_over_the_whole(means: Services, experiment: Experiment) -> None:
    stopped = await experiment(f"{TWO}[budget]\nevaluations = 14\n")
    assert stopped.stopped.endswith("of 14 evaluations are spent")
    # Two searches were at work: each may have had one evaluation under way.
    assert 14 <= stopped.spent.evaluations <= 15
    assert {item.status for item in stopped.outcomes} == {"done", "paused"}
    nothing = await experiment(f"{TWO}[budget]\nevaluations = 14\n")
    assert nothing.spent == stopped.spent
    done = await experiment(f"{TWO}[budget]\nevaluations = 99\n")
    assert (done.stopped, done.spent.evaluations) == ("", 24)


@pytest.mark.parametrize("budget", ["tokens = 1", "usd = 0.0", "wall_s = 0.0"])
async def test_other_budgets_stop_it_too(experiment: Experiment, budget: str) -> None:
    stopped = await experiment(f"{TWO}[budget]\n{budget}\n")
    assert stopped.stopped
    assert any(item.status == "left" for item in stopped.outcomes)


async def test_time_of_earlier_visits_counts(experiment: Experiment) -> None:
    first = await experiment(TWO)
    second = await experiment(TWO)
    assert first.wall_s > 0
    assert second.wall_s > 0
    assert (await experiment(f"{TWO.replace('seeds = 2', 'seeds = 3')}[budget]\nwall_s = 0.0001\n")).stopped


async def test_searches_go_on_where_a_pause_left_them(means: Services, experiment: Experiment) -> None:
    """A run that was paused in the middle ends as it would have."""
    await experiment(TWO)
    whole = {name: read_snapshot(means.home.folder, name).values for name in NAMES}
    other = TWO.replace("seeds = 2", 'name = "other"\nseeds = 2')
    for limit in (3, 7, 11):
        await experiment(f"{other}[budget]\nevaluations = {limit}\n")
    await experiment(other)
    for name, values in whole.items():
        again = read_snapshot(means.home.folder, name.replace("trial", "other")).values
        for key in ("tree", "attempts", "edits", "incumbent", "stop"):
            assert again[key] == values[key], (name, key)


async def test_an_experiment_does_not_change_under_its_name(experiment: Experiment) -> None:
    await experiment(TWO)
    with pytest.raises(UsageError, match=r"trial-priority-s0 was begun with stagnation = 7, not 3: put it back"):
        await experiment(TWO.replace("[options]", "[options]\nstagnation = 3"))


async def test_a_search_that_fails_does_not_end_the_others(experiment: Experiment) -> None:
    text = TWO.replace('planner = "scripted"\n', "") + 'planner = ["scripted", "exec:false"]\n'
    done = await experiment(text)
    assert [item.status for item in done.outcomes].count("failed") == 4
    assert [item.status for item in done.outcomes].count("done") == 4
    assert all("exec:false" in item.reason for item in done.outcomes if item.status == "failed")


async def test_the_same_states_are_given_to_every_cell(means: Services, experiment: Experiment) -> None:
    await experiment(f'name = "source"\n{SCRIPTED}'.replace("= 6", "= 30"))
    (source,) = await means.home.threads.all()
    text = f'[matched]\nrun = "{source.name}"\nat = [3, 12]\nevaluations = 4\n[matrix]\nstagnation = [5, 9]\n'
    events: list[tuple[str, dict[str, Any]]] = []
    done = await experiment(text, events)
    names = ["trial-5-r3-s0", "trial-9-r3-s0", "trial-5-r12-s0", "trial-9-r12-s0"]
    assert [(item.run, item.status) for item in done.outcomes] == [(name, "done") for name in names]
    assert done.spent.evaluations == 16
    lineages = read_lineages(means.home.folder)
    chosen: dict[int, set[Any]] = {}
    for member, thread in await means.home.experiments.members("trial"):
        assert (lineages[thread.uuid].parent, member.cell) == (source.uuid, thread.name.split("-")[1])
        firsts = [event for name, event in events if name == thread.name and event["event"] in ("selected", "result")]
        chosen.setdefault(lineages[thread.uuid].round, set()).add((firsts[0].get("node"), firsts[0]["cycle"]))
    assert sorted(chosen) == [3, 12]
    assert all(len(places) == 1 for places in chosen.values()), "both cells began with the same node"
    again = await experiment(text)
    assert again.spent == done.spent


async def test_a_matched_report_is_of_what_each_cell_made_of_the_state(means: Services, experiment: Experiment) -> None:
    """Not of what the state came with: the source's best would be the best of every cell."""
    await experiment(f'name = "source"\n{SCRIPTED}'.replace("= 6", "= 30"))
    await experiment(f"{MATCHED}at = [3, 12]\n[matrix]\nstagnation = [5, 9]\n")
    plan, searches, objectives = load_experiment(means.home.folder, "trial")
    assert [item.run for item in searches] == [job.run for job in jobs(plan)]
    members = {thread.name: member for member, thread in await means.home.experiments.members("trial")}
    for item in searches:
        values = read_snapshot(means.home.folder, item.run).values
        log = list(read(means.home.blobs, values["attempts"]))
        own = [entry["result"]["objective"] for entry in log if entry["number"] > members[item.run].attempts]
        assert item.points[-1].best == max((value["value"] for value in own if value), default=None)
        assert (item.points[0].evaluations, item.points[0].best, item.points[-1].evaluations) == (0, None, 4)
        everything = read_record(means.home.folder, item.run).entries
        assert 4 <= item.replies.count < sum(entry.key.role in ("planner", "coder") for entry in everything)
    (task,) = findings(searches, objectives, (Budget("evaluations", 4),), Budget("evaluations", 4))
    assert (task.comparisons[0].test.kind, task.comparisons[0].test.pairs) == ("signed_rank", 2)


async def test_planners_are_given_the_plan_of_one_cycle(
    means: Services, experiment: Experiment, tmp_path: Path
) -> None:
    """From a checkpoint at which the plan comes next, each planner revises the same tree after the same cycle."""
    await experiment(f'name = "source"\n{SCRIPTED}'.replace("= 6", "= 30"))
    source = "source-all-s0"
    places = [item for item in snapshots(means.home.folder, source) if item.next == ("update_world_model",)]
    state = places[len(places) // 2]
    (tmp_path / "silent.json").write_text('{"proposals": []}')
    planners = f'planner = ["scripted", "script:{tmp_path}/silent.json"]'
    events: list[tuple[str, dict[str, Any]]] = []
    done = await experiment(f'{MATCHED}at = ["{state.checkpoint}"]\n[matrix]\n{planners}\n', events)
    assert [item.status for item in done.outcomes] == ["done", "done"], done
    edits = {name: event for name, event in reversed(events) if event["event"] == "edits"}
    assert sorted(event["edits"] > 0 for event in edits.values()) == [False, True]
    for item in done.outcomes:
        after = read_snapshot(means.home.folder, item.run).values
        before = list(read(means.home.blobs, state.values["edits"]))
        assert list(read(means.home.blobs, after["edits"]))[: len(before)] == before


async def test_states_that_do_not_exist_are_named(experiment: Experiment) -> None:
    await experiment(f'name = "source"\n{SCRIPTED}')
    text = '[matched]\nrun = "source-all-s0"\nat = [99]\nevaluations = 4\n[matrix]\nstagnation = [5, 9]\n'
    done = await experiment(text)
    assert [(item.status, "has no round 99" in item.reason) for item in done.outcomes] == [("failed", True)] * 2


async def test_two_visits_at_once_share_no_search(means: Services, experiment: Experiment, tmp_path: Path) -> None:
    """What another process holds is left to it; nothing is paid twice."""
    await experiment(f"{TWO}[budget]\nevaluations = 3\n")
    held = await means.home.threads.find("trial-priority-s0")
    script = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom checkpoints.home import open_home\n"
        "async def hold():\n    async with open_home(Path(sys.argv[1])) as home:\n"
        "        await home.threads.acquire(sys.argv[2])\n        print('held', flush=True)\n        sys.stdin.read()\n"
        "asyncio.run(hold())\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(means.home.folder), held.uuid],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    done = await experiment(TWO)
    holder.communicate()
    by_run = {item.run: item for item in done.outcomes}
    assert (by_run[held.name].status, "is held by" in by_run[held.name].reason) == ("failed", True)
    assert [by_run[name].status for name in NAMES[1:]] == ["done"] * 3
    assert {item.status for item in (await experiment(TWO)).outcomes} == {"done"}
