"""`--review`: nothing of the planner's reaches the plan before a person has seen it."""

import json
from pathlib import Path

import pytest

from graph.edits import Prune
from nodes.review_question import ReviewAnswer, read_answer
from tests.cli.conftest import Call, insert
from tests.replies import plan


def test_what_answers_mean() -> None:
    assert read_answer(" Accept\n") == read_answer("true") == ReviewAnswer(decision="accept")
    assert read_answer("reject: too early") == ReviewAnswer(decision="reject", reason="too early")
    instead = {"decision": "replace", "edits": [{"kind": "prune", "node": "n1", "reason": "no"}]}
    assert read_answer(json.dumps(instead)) == ReviewAnswer(decision="replace", edits=(Prune(node="n1", reason="no"),))
    for bad in ("perhaps", "{", '{"decision": "maybe"}', '{"decision": "replace", "edits": [{"kind": "x"}]}', "[]"):
        assert isinstance(read_answer(bad), str)


@pytest.fixture
def source(tmp_path: Path) -> str:
    script = {
        "proposals": [
            {"edits": [insert("Unroll", 0.9), insert("Fuse", 0.5)], "reason": "a start"},
            {"edits": [insert("More", 0.8, "n1")], "reason": "n1 helped"},
            {"edits": [insert("Most", 0.8, "n2")], "reason": "n2 helped"},
        ],
        "cycles": [[1.5], [1.6], [1.7], [1.8]],
    }
    (tmp_path / "script.json").write_text(json.dumps(script))
    return "script:script.json"


def test_edits_wait_for_a_person(ksearch: Call, tmp_path: Path, source: str) -> None:
    models = ("--planner", source, "--coder", source, "--evaluator", "scripted", "--set", "sample_cap=1")
    done = ksearch("run", "scripted", *models, "--evaluations", 4, "--review")
    assert done.code == 3, done.err
    listed = ksearch("answer", "--json").json[0]
    assert (listed["kind"], listed["role"], listed["round"]) == ("review", "review", 0)
    assert "a start\n- inserts n1 under the root, V 0.90, 'Unroll'\n" in listed["prompt"]
    assert "review, round 0, 2 edits to approve" in ksearch("answer").out
    assert ksearch("tree", "--json").json["nodes"] == []
    assert ksearch("answer", "--accept").code == 3
    (tmp_path / "odd.md").write_text("perhaps")
    assert ksearch("answer", "--file", "odd.md").code == 3
    (again,) = ksearch("answer", "--json").json
    assert "your last answer cannot be used" in again["prompt"]
    assert ksearch("answer", "--reject", "too early").code == 3
    instead = {"decision": "replace", "reason": "rather this", "edits": [insert("Mine", 1.0, "n2")]}
    (tmp_path / "mine.json").write_text(json.dumps(instead))
    done = ksearch("answer", "--file", "mine.json", "--json")
    assert done.code == 0, done.err
    assert done.json["spend"]["unknown_calls"] == 0
    edits = [item for item in ksearch("log", "--json").json["events"] if item["event"] == "edit" and item["edit"]]
    assert [(item["origin"], item["accepted"]) for item in edits[:4]] == [
        ("planner", True),
        ("planner", True),
        ("planner", False),
        ("human", True),
    ]
    assert edits[2]["rejected_because"] == ["rejected by a person: too early"]
    nodes = {node["id"]: node["intent"]["title"] for node in ksearch("tree", "--json").json["nodes"]}
    assert nodes["n3"] == "Mine"
    done = ksearch("answer", "--accept")
    assert (done.code, len(done.err.splitlines())) == (2, 1)


def test_a_person_may_plan_and_review(ksearch: Call, tmp_path: Path, source: str) -> None:
    models = ("--planner", "manual", "--coder", source, "--evaluator", "scripted", "--set", "sample_cap=1")
    assert ksearch("run", "scripted", *models, "--evaluations", 1, "--review").code == 3
    (tmp_path / "plan.json").write_text(plan("Tile", "Unroll", "Fuse"))
    assert ksearch("answer", "--file", "plan.json").code == 3
    (question,) = ksearch("answer", "--json").json
    assert question["kind"] == "review"
    done = ksearch("resume", "--no-review", "--json")
    assert done.code == 0, done.err
    assert len(ksearch("tree", "--json").json["nodes"]) == 3
