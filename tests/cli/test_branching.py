"""`ksearch branch` and `ksearch list --tree` in real processes; branches from a half-finished fan-out."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Call, call, wait_for
from tests.replies import plan, program

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="session")
def _half_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two cycles whose coders are a person, who has answered one of them."""
    folder = tmp_path_factory.mktemp("half")
    options = ("--planner", "manual", "--coder", "manual", "--evaluator", "scripted", "--set", "stagnation=1")
    assert call(folder, "run", "scripted", *options, "--evaluations", 2, "--width", 2).code == 3
    (folder / "plan.json").write_text(plan("Tile", "Unroll", "Fuse"))
    assert call(folder, "answer", "--file", "plan.json").code == 3
    (folder / "first.md").write_text(program("objective = 1.5", 1))
    (folder / "second.md").write_text(program("objective = 1.7", 2))
    first = call(folder, "answer", "--json").json[0]["id"]
    done = call(folder, "answer", "--id", first, "--file", "first.md")
    assert done.code == 3, done.err
    return folder


@pytest.fixture
def half(_half_home: Path, ksearch: Call, tmp_path: Path) -> Call:
    shutil.copytree(_half_home, tmp_path, dirs_exist_ok=True)
    return ksearch


def test_a_branch_from_within_a_fan_out_keeps_what_it_has_brought(half: Call) -> None:
    made = half("branch", "--name", "twin", "--json").json
    assert (made["parent"], made["round"], made["status"]) == ("scripted-1", 0, "paused")
    waiting = half("answer", "scripted-1", "--json").json
    assert half("answer", "twin", "--json").json == waiting
    assert len(waiting) == 1
    for run in ("twin", "scripted-1"):
        done = half("answer", run, "--file", "second.md", "--json")
        assert done.code == 0, done.err
        assert (done.json["best"]["ratio"], done.json["spend"]["evaluations"]) == (1.7, 2)


def test_under_another_configuration_the_step_is_made_anew(half: Call, tmp_path: Path) -> None:
    made = half("branch", "--set", "edit_format=search_replace", "--json").json
    done = half("resume", made["thread"], "--json")
    assert (done.code, len(done.json["questions"])) == (3, 2), "both coders are asked again"
    assert [item["round"] for item in done.json["lineage"]] == [0]
    assert done.json["config"]["edit_format"] == "search_replace"
    assert len(half("answer", "scripted-1", "--json").json) == 1


def test_the_list_shows_where_runs_come_from(finished: Path) -> None:
    assert call(finished, "branch", "--at", 2, "--name", "other").code == 0
    assert call(finished, "branch", "other", "--at", 1, "--name", "third").code == 0
    lines = call(finished, "list", "--tree").out.splitlines()
    assert [line[: line.index("  ", 3)] for line in lines[1:]] == [
        "scripted-1",
        "└╴other (from round 2)",
        "  └╴third (from round 1)",
    ]
    assert "branch    of other at round 1" in call(finished, "show", "third").out
    done = call(finished, "branch", "nothing")
    assert (done.code, len(done.err.splitlines())) == (2, 1)


def test_branches_run_at_the_same_time_as_their_origin(
    ksearch: Call, started: Start, slow_script: Callable[[float], str], tmp_path: Path
) -> None:
    source = slow_script(0.1)
    options = ("--planner", source, "--coder", source, "--evaluator", "scripted", "--set", "stagnation=2")
    assert ksearch("run", "scripted", *options, "--evaluations", 3).code == 0
    assert ksearch("branch", "--at", 2, "--name", "b", "--set", "max_evaluations=9").code == 0
    running = [
        started("resume", "scripted-1", "--evaluations", 9, "--json"),
        started("resume", "b", "--json"),
    ]
    for process in running:
        _, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
    found = {run["thread"]: run for run in ksearch("list", "--json").json}
    assert [found[name]["evaluations"] for name in ("scripted-1", "b")] == [9, 9]
    assert found["scripted-1"]["best"] == found["b"]["best"]


def test_a_running_search_can_be_branched(ksearch: Call, started: Start, slow_script: Callable[[float], str]) -> None:
    source = slow_script(0.4)
    running = started("run", "scripted", "--planner", source, "--coder", source, "--evaluator", "scripted")
    wait_for(running, "round 1:")
    done = ksearch("branch", "--at", 1, "--name", "early", "--set", "max_evaluations=2")
    assert done.code == 0, done.err
    assert ksearch("resume", "early", "--json").json["spend"]["evaluations"] == 2
    running.kill()


def test_runs_are_pruned_by_hand_and_when_the_database_is_large(finished: Path) -> None:
    assert call(finished, "branch", "--at", 2, "--name", "other").code == 0
    done = call(finished, "resume", "other", KSEARCH_PRUNE_ABOVE_MB="0.01")
    assert done.code == 0, done.err
    assert "checkpoints within rounds and 0 files that nothing refers to" in done.out
    assert call(finished, "prune", "--json").json["checkpoints"] == 0
    assert call(finished, "show", "other", "--at", 3, "--json").json["round"] == 3
    assert call(finished, "resume", "other", KSEARCH_PRUNE_ABOVE_MB="much").code == 2
