"""--record, replays of what it wrote, and going on with other models."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import SCRIPTED, Call, call
from tests.cli.talking import asked, coder, executable, planner

MARKS = ("objective = 1.2", None, "objective = 1.5", "status = timeout", "objective = 2.0")
OPTIONS = ("--evaluator", "scripted", "--evaluations", 5, "--set", "stagnation=1", "--set", "sample_cap=2")


def models(plans: str, programs: str) -> tuple[str, ...]:
    return ("run", "scripted", "--planner", plans, "--coder", programs)


def outcome(folder: Path, *home: str) -> tuple[Any, Any]:
    """What must not differ between a run and its replay: the tree, and the spend but for the clock's."""
    tree = call(folder, "tree", "--json", *home).json
    spend = call(folder, "show", "--json", *home).json["spend"]
    return tree, _without_clock(spend)


def _without_clock(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_clock(item) for name, item in value.items() if name != "wall_s"}
    return [_without_clock(item) for item in value] if isinstance(value, list) else value


def test_a_recorded_run_replays_to_an_equal_tree_from_the_file_alone(ksearch: Call, tmp_path: Path) -> None:
    run = models(planner(tmp_path), coder(tmp_path, *MARKS))
    done = ksearch(*run, *OPTIONS, "--record", "run.jsonl")
    assert done.code == 0, done.err
    assert "recorded in run.jsonl: " in done.out
    made = asked(tmp_path, "planner.py"), asked(tmp_path, "coder.py")
    assert made[0] > 1
    assert made[1] > 5, "five evaluations and at least one correction"
    before = outcome(tmp_path)
    for name in ("planner.py", "coder.py"):
        (tmp_path / name).unlink()
    tape = "cassette:run.jsonl"
    for home, evaluator in (("second", "scripted"), ("third", tape)):
        replay = (*models(tape, tape), *OPTIONS, "--evaluator", evaluator, "--home", home)
        done = ksearch(*replay, "--record", f"{home}.jsonl")
        assert done.code == 0, done.err
        assert outcome(tmp_path, "--home", home) == before
    assert (asked(tmp_path, "planner.py"), asked(tmp_path, "coder.py")) == made
    first, *others = (
        [_timeless(line) for line in (tmp_path / name).read_text().splitlines()[1:]]
        for name in ("run.jsonl", "second.jsonl", "third.jsonl")
    )
    assert others[0] == others[1] == first


def _timeless(line: str) -> Any:
    entry = json.loads(line)
    entry["result"].pop("latency_s", None)
    return entry


def test_a_replay_that_leaves_the_course_fails_and_names_the_request(ksearch: Call, tmp_path: Path) -> None:
    run = models(planner(tmp_path), coder(tmp_path, *MARKS))
    assert ksearch(*run, *OPTIONS, "--record", "run.jsonl").code == 0
    tape = "cassette:run.jsonl"
    done = ksearch(*models(tape, tape), *OPTIONS, "--set", "stagnation=3", "--set", "sample_cap=3", "--home", "second")
    assert done.code == 2
    assert done.err.startswith("error: run.jsonl holds no reply for coder, round ")
    assert ksearch("show", "--json", "--home", "second").json["status"] == "failed"


def test_a_run_that_fails_is_recorded_and_goes_on_with_another_model(ksearch: Call, tmp_path: Path) -> None:
    broken = executable(tmp_path / "broken.sh", "#!/bin/sh\necho out of credit >&2\nexit 7\n")
    done = ksearch(*models(planner(tmp_path), broken), *OPTIONS, "--record", "run.jsonl")
    assert done.code == 1
    assert done.err.startswith("error: exec:./broken.sh ended with exit code 7: out of credit")
    assert "once repaired: ksearch resume scripted-1" in done.out
    assert _kinds(tmp_path / "run.jsonl") == {"reply": 1, "evaluation": 1}, "the first plan and the seed"
    done = ksearch("resume", "--set", f"coder={coder(tmp_path, *MARKS)}", "--record", "run.jsonl", "--json")
    assert done.code == 0, done.err
    assert asked(tmp_path, "planner.py") == done.json["spend"]["by"]["planner exec:./planner.py"]["calls"]
    assert done.json["spend"]["by"]["coder exec:./coder.py"]["calls"] == asked(tmp_path, "coder.py")
    assert done.json["spend"]["unknown_calls"] == 1, "what the broken model cost nobody knows"
    assert done.json["config"]["coder"] == "exec:./coder.py"
    kinds = _kinds(tmp_path / "run.jsonl")
    assert kinds["reply"] == asked(tmp_path, "planner.py") + asked(tmp_path, "coder.py")


def test_models_change_on_resume_and_what_was_paid_for_stays(ksearch: Call, tmp_path: Path) -> None:
    first, second = coder(tmp_path, "objective = 1.2", name="first.py"), coder(tmp_path, *MARKS[2:], name="second.py")
    run = (*models(planner(tmp_path), first), *OPTIONS, "--evaluations", 2)
    assert ksearch(*run).code == 0
    calls = asked(tmp_path, "first.py")
    done = ksearch("resume", "--set", f"coder={second}", "--evaluations", 4, "--json")
    assert done.code == 0, done.err
    by = done.json["spend"]["by"]
    assert by["coder exec:./first.py"]["calls"] == calls == asked(tmp_path, "first.py")
    assert by["coder exec:./second.py"]["calls"] == asked(tmp_path, "second.py") > 0
    assert done.json["spend"]["evaluations"] == 4
    assert done.json["best"]["ratio"] == 1.5, "the second model's"


def test_models_change_by_schedule(ksearch: Call, tmp_path: Path) -> None:
    first, second = coder(tmp_path, "objective = 1.2", name="first.py"), coder(tmp_path, *MARKS[2:], name="second.py")
    done = ksearch(*models(planner(tmp_path), f"{first} until 2, {second}"), *OPTIONS)
    assert done.code == 0, done.err
    assert (asked(tmp_path, "first.py"), asked(tmp_path, "second.py")) == (2, 3)


def test_a_paused_run_is_recorded(ksearch: Call, tmp_path: Path) -> None:
    done = ksearch(*models(planner(tmp_path), "manual"), *OPTIONS, "--record", "run.jsonl")
    assert done.code == 3
    assert _kinds(tmp_path / "run.jsonl") == {"reply": 1, "evaluation": 1}


def _kinds(file: Path) -> dict[str, int]:
    kinds = [json.loads(line)["kind"] for line in file.read_text().splitlines()[1:]]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds), reverse=True)}


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("none/run.jsonl", "there is no folder"),
        ("folder", "is a folder"),
        ("notes.txt", "exists and is no cassette"),
        ("/proc/run.jsonl", ""),
    ],
)
def test_a_file_that_cannot_be_recorded_to_is_found_out_before_anything_is_done(
    ksearch: Call, tmp_path: Path, file: str, says: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("dear diary")
    done = ksearch("run", "scripted", *SCRIPTED, "--evaluations", 1, "--record", file)
    if file.startswith("/proc"):
        # Root may write anywhere as far as permissions go: found out at the end, and told.
        assert done.code in (1, 2)
        assert file in done.err
        return
    assert done.code == 2
    assert says in done.err
    assert not (tmp_path / ".ksearch").exists()
    assert (tmp_path / "notes.txt").read_text() == "dear diary"


def test_spend_is_told_by_role_model_cycle_and_node(ksearch: Call, tmp_path: Path) -> None:
    done = ksearch(*models(planner(tmp_path), coder(tmp_path, *MARKS)), *OPTIONS, "--json")
    spend = done.json["spend"]
    outside, *cycles = spend["by_cycle"]
    assert (outside["cycle"], outside["node"]) == (None, None)
    assert outside["calls"] == 1 + asked(tmp_path, "planner.py"), "the seed's evaluation and the plans"
    assert [(entry["cycle"], entry["node"]) for entry in cycles] == [(1, "n1"), (2, "n2"), (3, "n3")]
    for name in ("by_cycle", "by_node"):
        parts = spend[name]
        calls = sum(entry["calls"] for entry in parts)
        assert calls == sum(entry["calls"] for entry in spend["by"].values())
        # A command says neither tokens nor price.
        assert sum(entry["unpriced_calls"] for entry in parts) == spend["unpriced_calls"] > 0
    assert [entry["node"] for entry in spend["by_node"]] == [None, "n1", "n2", "n3"]
    assert spend["cached_share"] is None
