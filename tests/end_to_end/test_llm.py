"""A whole search whose planner and coder are chat models: good replies, useless ones, and what is left of them."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from checkpoints.home import open_home
from checkpoints.logs import read
from graph import runs
from graph.presets import resolve
from nodes.llm_coder import LlmCoder
from nodes.llm_planner import LlmPlanner
from nodes.models.asking import ChatRecord
from nodes.models.scripted import ScriptedChat
from nodes.services import Services
from prompts.library import load_variant
from tests.replies import plan, program


@pytest.fixture
async def means(tmp_path: Path) -> AsyncIterator[Services]:
    async with open_home(tmp_path / "home") as home, runs.opened_services(home) as opened:
        yield opened


def played(means: Services, planner: ScriptedChat, coder: ScriptedChat) -> Services:
    return replace(
        means,
        make_planner=lambda config: LlmPlanner(planner, load_variant(config.prompt_variant)),
        make_coder=lambda config: LlmCoder(coder, load_variant(config.prompt_variant)),
    )


async def test_a_search_with_models_that_do_not_always_answer_well(means: Services) -> None:
    planner = ScriptedChat(
        [plan("Tile", "Unroll", "Fuse"), "no idea", plan("Pack", parent="n9"), plan("Pack", parent="n1"), *["no"] * 3]
    )
    coder = ScriptedChat(
        [
            *[program("status = build_error", 1), program("objective = 1.5", 2), "none", "none", "none at all"],
            *["a refusal", program("status = wrong_values", 3)],
            *[program("status = timeout", 4), program("status = crashed", 5), program("objective = 2.0", 6)],
        ]
    )
    given = {"task": "scripted", "planner": "scripted", "coder": "scripted", "evaluator": "scripted"}
    config = resolve("default", {**given, "stagnation": 2, "max_evaluations": 5})
    services = played(means, planner, coder)
    ended = await runs.start(services, config, lambda event: None)
    model = await services.tree(ended.state["tree"])
    attempts = [entry["result"] for entry in read(means.home.blobs, ended.state["attempts"])]
    assert [attempt["status"] or attempt["outcome"] for attempt in attempts] == [
        *["build_error", "passed", "unusable", "wrong_values"],
        *["timeout", "crashed"],
        "passed",
    ]
    assert [attempt["repair"] for attempt in attempts] == [False, True, *[False] * 5]
    assert (ended.state["spend"]["evaluations"], ended.state["spend"]["repairs"]) == (5, 1)
    assert attempts[2]["message"].startswith("3 replies refused; the last: ")
    assert [(node.id, node.parent, node.status, node.origin) for node in model.nodes] == [
        ("n1", "root", "closed", "planner"),
        ("n2", "root", "closed", "planner"),
        ("n3", "root", "open", "planner"),
        ("n4", "n1", "failed", "planner"),
        ("n5", "n1", "open", "fallback"),
    ]
    kinds = [request.identity["kind"] for request in coder.asked if request.turn == 0]
    assert kinds == ["first", "repair", "improve", "improve", "first", "debug", "first"]
    notes = [entry["note"] for entry in read(means.home.blobs, ended.state["edits"])]
    assert [note[:9] for note in notes] == ["", "2 replies", "fallback:"]
    assert len({request.system for request in planner.asked}) == len({request.system for request in coder.asked}) == 1

    entries = await means.home.ledger.entries(ended.thread.uuid)
    paid = [entry for entry in entries if entry.key.role in ("planner", "coder")]
    records = [ChatRecord.model_validate(means.home.blobs.get_json(entry.result or "")) for entry in paid]
    assert len(records) == len(planner.asked) + len(coder.asked)
    assert {record.request.identity["variant"] for record in records} == {"default"}
    assert sum(record.reply.usage.input_tokens or 0 for record in records) == ended.state["spend"]["input_tokens"]


async def test_a_useless_model_does_not_end_a_search(means: Services) -> None:
    given = {"task": "scripted", "planner": "scripted", "coder": "scripted", "evaluator": "scripted"}
    config = resolve("paper", {**given, "stagnation": 2, "max_evaluations": 3, "max_corrections": 0, "max_tokens": 1})
    planner, coder = ScriptedChat([""] * 40), ScriptedChat([""] * 40)
    ended = await runs.start(played(means, planner, coder), config, lambda event: None)
    assert ended.status == "finished"
    assert ended.state["stop"] is not None
    assert ended.state["stop"]["reason"] == "budget"
    model = await means.tree(ended.state["tree"])
    assert {node.origin for node in model.nodes} == {"fallback"}
