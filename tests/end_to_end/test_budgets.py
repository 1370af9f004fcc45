"""Budgets of tokens, dollars and time with models: what is asked when one is used up, and what no longer is."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkpoints.home import open_home
from checkpoints.logs import read
from graph import runs
from graph.presets import resolve
from graph.state import Stop
from nodes.accounts import no_spend
from nodes.correcting import Refusal, ask_until_usable
from nodes.llm_coder import LlmCoder
from nodes.llm_planner import LlmPlanner
from nodes.models.chat import ChatReply, ChatRequest, Usage
from nodes.models.scripted import ScriptedChat
from nodes.services import Services
from prompts.library import load_variant
from tests.replies import plan, program

COST = 1000
"""Tokens of every reply below."""


def said(text: str, usd: float | None = 0.5) -> ChatReply:
    usage = Usage(input_tokens=COST - 100, output_tokens=100)
    return ChatReply(text=text, model="scripted", finish="stop", usage=usage, usd=usd)


@pytest.fixture
async def means(tmp_path: Path) -> AsyncIterator[Services]:
    async with open_home(tmp_path / "home") as home, runs.opened_services(home) as opened:
        yield opened


async def searched(
    means: Services, planner: ScriptedChat, coder: ScriptedChat, **options: Any
) -> tuple[runs.Ended, list[dict[str, Any]]]:
    """Run a search; return how it ended and its attempts' results."""
    played = replace(
        means,
        make_planner=lambda config: LlmPlanner(planner, load_variant(config.prompt_variant)),
        make_coder=lambda config: LlmCoder(coder, load_variant(config.prompt_variant)),
    )
    given = {"task": "scripted", "planner": "scripted", "coder": "scripted", "evaluator": "scripted"}
    config = resolve("paper", {**given, "stagnation": 1, "max_evaluations": 50, **options})
    ended = await runs.start(played, config, lambda event: None)
    attempts = [entry["result"] for entry in read(means.home.blobs, ended.state["attempts"])]
    return ended, attempts


def stop_of(ended: runs.Ended) -> Stop:
    assert ended.state["stop"] is not None
    return ended.state["stop"]


@pytest.mark.parametrize(
    ("options", "detail"),
    [({"max_tokens": 2 * COST}, "2000 of 2000 tokens are spent"), ({"max_usd": 1.0}, "1.00 of 1.00 US dollars")],
)
async def test_no_corrective_turn_beyond_a_budget(means: Services, options: dict[str, Any], detail: str) -> None:
    planner = ScriptedChat([said(plan("Tile", "Unroll", "Fuse"))])
    coder = ScriptedChat([said("no program")] * 3)
    ended, attempts = await searched(means, planner, coder, **options)
    assert (len(planner.asked), len(coder.asked)) == (1, 1)
    (attempt,) = attempts
    assert attempt["outcome"] == "unusable"
    assert attempt["message"].startswith(f"1 reply refused; not asked again ({detail}")
    assert stop_of(ended)["reason"] == "budget"
    assert detail in stop_of(ended)["detail"]


async def test_corrective_turns_go_on_while_a_budget_lasts(means: Services) -> None:
    planner = ScriptedChat([said(plan("Tile", "Unroll", "Fuse"))])
    coder = ScriptedChat([said("no program"), said("none"), said(program("objective = 1.5", 1))])
    _, attempts = await searched(means, planner, coder, max_tokens=3 * COST + 1)
    assert len(coder.asked) == 3
    assert [attempt["status"] for attempt in attempts] == ["passed"]


async def test_siblings_spend_from_the_same_purse(means: Services) -> None:
    planner = ScriptedChat([said(plan("Tile", "Unroll", "Fuse"))])
    coder = ScriptedChat([said("no program")] * 40)
    ended, attempts = await searched(means, planner, coder, width=2, samples=3, max_tokens=4 * COST)
    # Six questions are in flight together. None of them is followed by a corrective turn, since the six have used
    # up the budget, although each of them alone would have left room.
    assert len(coder.asked) == 6
    assert {attempt["outcome"] for attempt in attempts} == {"unusable"}
    assert ended.state["spend"]["input_tokens"] + ended.state["spend"]["output_tokens"] == 7 * COST
    assert stop_of(ended)["reason"] == "budget"


async def test_the_planner_is_not_asked_when_its_budget_is_used_up(means: Services) -> None:
    planner = ScriptedChat([said(plan("Tile", "Unroll", "Fuse")), said(plan("Never", "asked", "for"))])
    coder = ScriptedChat([said(program("status = timeout", 1))])
    ended, _ = await searched(means, planner, coder, max_tokens=2 * COST)
    assert (len(planner.asked), len(coder.asked)) == (1, 1)
    model = await means.tree(ended.state["tree"])
    assert model.node("n1").status == "failed", "evidence is attached all the same"


async def test_an_unusable_plan_is_not_corrected_beyond_a_budget(means: Services) -> None:
    planner = ScriptedChat([said("no idea")] * 3)
    ended, attempts = await searched(means, planner, ScriptedChat([]), max_tokens=COST)
    assert len(planner.asked) == 1
    assert attempts == []
    assert stop_of(ended)["detail"] == "1000 of 1000 tokens are spent"
    (entry,) = read(means.home.blobs, ended.state["edits"])
    assert entry["origin"] == "fallback"
    assert "not asked again (1000 of 1000 tokens are spent)" in entry["note"]


async def test_a_plan_that_may_be_the_last_one_is_taken(means: Services) -> None:
    """Fewer intents than asked for are worth a correction; when there can be none, they are what there is."""
    planner = ScriptedChat([said(plan("Tile"))])
    ended, _ = await searched(means, planner, ScriptedChat([]), max_tokens=COST)
    model = await means.tree(ended.state["tree"])
    assert [(node.intent.title, node.origin) for node in model.nodes] == [("Tile", "planner")]


async def test_the_wall_clock_of_every_visit_counts(means: Services) -> None:
    planner = ScriptedChat([said(plan("Tile", "Unroll", "Fuse"))])
    ended, _ = await searched(means, planner, ScriptedChat([said("no program")] * 3), max_wall_s=0.0)
    assert stop_of(ended)["detail"].endswith("of 0.00 wall-clock seconds are spent")
    coder = ScriptedChat([said("no program"), said(program("objective = 1.5", 1))])
    changes = {"max_wall_s": None, "max_evaluations": 1}
    async with runs.opened_services(means.home) as later:
        played = replace(later, make_coder=lambda config: LlmCoder(coder, load_variant("paper")))
        again = await runs.resume(played, ended.thread.name, changes, lambda event: None)
    assert again.state["spend"]["wall_s"] > ended.state["spend"]["wall_s"]
    assert again.state["spend"]["evaluations"] == 1


async def test_a_budget_lowered_while_a_run_is_paused_holds_for_the_planner(means: Services) -> None:
    planner = ScriptedChat([said(plan("Tile", "Unroll", "Fuse"))])
    coder = ScriptedChat([said(program("objective = 1.5", 1)), said(program("status = timeout", 2))])
    events: list[dict[str, Any]] = []
    played = replace(
        means,
        make_planner=lambda config: LlmPlanner(planner, load_variant("paper")),
        make_coder=lambda config: LlmCoder(coder, load_variant("paper")),
    )
    given = {"task": "scripted", "planner": "scripted", "coder": "scripted", "evaluator": "scripted"}
    config = resolve("paper", {**given, "stagnation": 1, "max_tokens": 100 * COST})
    lowered = await means.save(config.with_options({"max_tokens": COST}).model_dump(mode="json"))
    uuid = ""

    def listen(event: dict[str, Any]) -> None:
        nonlocal uuid
        events.append(event)
        uuid = event.get("uuid", uuid)
        if event["event"] == "round" and event["round"] == 2:
            means.put_in_force(uuid, lowered)

    ended = await runs.start(played, config, listen)
    assert stop_of(ended) == {"reason": "budget", "detail": "3000 of 1000 tokens are spent"}
    assert len(planner.asked) == 1
    assert [event["event"] for event in events if event["event"] in ("edits", "settled")] == ["edits", "settled"]


async def test_a_turn_that_was_paid_for_is_found_again_whatever_the_budget_says(means: Services) -> None:
    config = resolve("paper", {"max_tokens": 2 * COST})
    question = ChatRequest(role="coder", prompt="write", identity={"turn": 0})

    def reader(reply: ChatReply, left: int) -> str | Refusal:
        return reply.text if reply.text.startswith("good") else Refusal(("bad",))

    async def ask(chat: ScriptedChat) -> str | None:
        calls = means.calls("thread", 1, 1, 1)
        calls.purse = means.purse(config, no_spend(), "thread", 1, "coder")
        return (await ask_until_usable(chat, calls, question, 2, reader, lambda refusal, left: "again")).value

    assert await ask(ScriptedChat([said("bad"), said("good")])) == "good"
    assert await ask(ScriptedChat([])) == "good", "both replies are in the ledger"
