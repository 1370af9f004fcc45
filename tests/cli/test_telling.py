"""`log`, `diff` and `show --at`: what they tell of a run's past."""

import re
from pathlib import Path

from tests.cli.conftest import call


def test_the_log_tells_every_edit_and_every_attempt(finished: Path) -> None:
    told = call(finished, "log", "--json").json
    assert (told["thread"], told["unit"]) == ("scripted-1", "x")
    events = told["events"]
    attempts = [item for item in events if item["event"] == "attempt"]
    assert [(item["round"], item["node"], item["status"]) for item in attempts] == [
        (1, "n1", "passed"),
        (2, "n1", "passed"),
        (3, "n4", "passed"),
        (4, "n4", "unusable"),
        (5, "n2", "wrong_values"),
    ]
    assert attempts[0]["objective"]["value"] == 1.5
    assert attempts[0]["tokens"]["input"] > 0
    assert attempts[0]["tokens"]["output"] > 0
    edits = [item for item in events if item["event"] == "edit" and item["edit"]]
    assert [(item["batch"], item["kind"], item["node"]) for item in edits][:5] == [
        (1, "insert", "n1"),
        (1, "insert", "n2"),
        (1, "insert", "n3"),
        (2, "insert", "n4"),
        (2, "prune", "n3"),
    ]
    prune = edits[4]
    assert (prune["origin"], prune["accepted"], prune["reason"]) == ("planner", True, "no")
    (evidence,) = prune["evidence"]
    assert (evidence["node"], evidence["objective"]["value"], evidence["outcomes"]) == ("n1", 1.5, {"passed": 2})
    lines = call(finished, "log").out.splitlines()
    assert lines[0] == "round 0     edit 1  planner inserts n1 under the root, V 0.90, 'Unroll'"
    assert any("edit 2  planner prunes n3: no (after n1 1.50x (1.49 to 1.51))" in line for line in lines)
    assert any("attempt 5  n2 cycle 3: wrong_values, " in line for line in lines)
    assert len(call(finished, "log", "--only", "attempts", "--last", 2).out.splitlines()) == 2


def test_a_run_is_shown_as_it_was(finished: Path) -> None:
    past = call(finished, "show", "--at", 2, "--json").json
    assert (past["round"], past["spend"]["evaluations"], past["best"]["ratio"]) == (2, 2, 1.5)
    assert past["nodes"] == {"open": 2, "active": 0, "closed": 1, "failed": 0, "pruned": 1}
    assert sum(cycle["calls"] for cycle in past["spend"]["by_cycle"]) < 12
    lines = call(finished, "show", "--at", 2).out.splitlines()
    assert re.fullmatch(r"as of     round 2, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC; by now the run is finished", lines[1])
    assert not any(line.startswith("status") for line in lines), "its status is not that of round 2"
    assert "n4" in call(finished, "tree", "--at", 2).out
    assert "n4" not in call(finished, "tree", "--at", 1).out


def test_two_runs_are_told_apart(finished: Path) -> None:
    source = "script:other.json"
    (finished / "other.json").write_text('{"proposals": [], "cycles": [[1.5, 1.4], [2.0], [3.0, 3.5]]}')
    changes = ("--set", f"coder={source}", "--set", "max_evaluations=6")
    assert call(finished, "branch", "--at", 4, "--name", "other", *changes).code == 0
    assert call(finished, "resume", "other").code == 0
    facts = call(finished, "diff", "scripted-1", "other", "--json").json
    assert facts["threads"] == ["scripted-1", "other"]
    assert facts["common"] == {"thread": "scripted-1", "round": 4}
    assert facts["parts_at"] == 5
    assert facts["options"]["max_evaluations"] == [4, 6]
    assert [found["best"]["node"] for found in facts["found"]] == ["n4", "n2"]
    assert [log[0]["status"] for log in facts["events"]] == ["wrong_values", "passed"]
    changed = {item["node"]: [side and side["status"] for side in item["sides"]] for item in facts["nodes"]}
    assert changed["n2"] == ["failed", "closed"]
    text = call(finished, "diff", "scripted-1", "other").out
    assert text.startswith(
        "scripted-1 and other share the past of scripted-1 up to round 4; the first difference is in round 5\n"
    )
    left = "attempt 5 n2 cycle 3: wrong_values, 44+72 tokens: scripted to end as wrong_values"
    assert re.search(rf"\n{re.escape(left)} +\| attempt 5 n2 cycle 3: passed .* tokens\n", text), "not cut"
    assert "\n-// scripted: objective = 2.0\n" in text
    assert "\n+// scripted: objective = 3.5\n" in text
    assert "all that happened in them is equal" in call(finished, "diff", "scripted-1", "scripted-1").out
