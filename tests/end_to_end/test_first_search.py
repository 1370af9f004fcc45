"""The search that docs/first-search.md tells of, from its cassette: replayed whole, and its programs judged anew."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from checkpoints.home import open_home
from checkpoints.logs import read
from evaluators.local import LocalEvaluator
from evaluators.recording import load_cassette
from evaluators.resolve import resolve_task
from evaluators.solution import Solution
from evaluators.worker.status import Status
from graph import runs
from graph.presets import resolve
from graph.report.tree import tree_json

DATA = Path(__file__).parents[1] / "data"
TAPE = DATA / "first_search.jsonl"
TREE = DATA / "first_search_tree.json"


@pytest.fixture(scope="module")
async def replayed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Any]]:
    """The state and the attempts of a replay that asks nobody and measures nothing."""
    tape = f"cassette:{TAPE}"
    recorded = load_cassette(TAPE).header.config
    config = resolve(None, {**recorded, "planner": tape, "coder": tape, "evaluator": tape})
    async with open_home(tmp_path_factory.mktemp("replay")) as home, runs.opened_services(home) as means:
        ended = await runs.start(means, config, lambda event: None)
        model = await means.tree(ended.state["tree"])
        incumbent = ended.state["incumbent"]
        attempts = [entry["result"] for entry in read(home.blobs, ended.state["attempts"])]
        yield {
            "state": ended.state,
            "tree": tree_json(model, None if incumbent is None else incumbent["node"]),
            "attempts": attempts,
            "programs": {
                attempt["solution"]: Solution.model_validate(home.blobs.get_json(attempt["solution"]))
                for attempt in attempts
                if attempt["outcome"] == "evaluated"
            },
        }


async def test_the_replay_ends_with_the_tree_of_the_search(replayed: dict[str, Any]) -> None:
    assert replayed["state"]["round"] >= 20
    assert json.loads(json.dumps(replayed["tree"])) == json.loads(TREE.read_text())


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.timeout(900)
async def test_its_programs_are_built_and_checked_again(replayed: dict[str, Any], every: int) -> None:
    judged = [attempt for attempt in replayed["attempts"] if attempt["outcome"] == "evaluated"]
    evaluator = LocalEvaluator()
    task = resolve_task("rmsnorm_linear")
    try:
        for attempt in judged[::every]:
            found = await evaluator.evaluate(task, replayed["programs"][attempt["solution"]], "check")
            assert found.passed == (attempt["status"] == Status.PASSED), (attempt["status"], found.message)
    finally:
        await evaluator.close()
