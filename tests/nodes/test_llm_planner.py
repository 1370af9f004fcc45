"""The planner behind a chat model: whatever is replied, a valid batch comes of it, and the ledger has every call."""

import json
from dataclasses import replace
from typing import Any

import pytest

from checkpoints.home import Home
from evaluators.evaluation import Evaluation, WorkloadResult
from evaluators.solution import Language
from evaluators.task import Task
from evaluators.worker.status import Status
from graph.config import SearchConfig
from graph.edits import Insert, Prune, Reopen, Update, apply_batch
from graph.world_model import ROOT, Intent, Node
from nodes.llm_planner import LlmPlanner
from nodes.models.asking import ChatRecord
from nodes.models.chat import ChatReply
from nodes.models.errors import ModelFailure
from nodes.models.scripted import ScriptedChat
from nodes.paid import PaidCalls
from nodes.planner import Planner, PlannerView, Proposal
from prompts.library import load_variant
from tests.contracts import Paying, PlannerContract, Told


def insert(title: str, parent: str = ROOT, **changes: Any) -> dict[str, Any]:
    given = {"description": "How.", "priority": 0.5, "predicted_gain": 1.2, "confidence": 0.5, "difficulty": 2}
    return {"kind": "insert", "parent": parent, "title": title, **given, **changes}


def reply(*edits: dict[str, Any], **changes: Any) -> str:
    return json.dumps({"reason": "so", "summary": None, "edits": list(edits), **changes})


THREE = (insert("Tile"), insert("Unroll"), insert("Fuse"))
GOOD = reply(*THREE, summary="nothing is known yet")


def planner_of(*replies: str | ChatReply, variant: str = "default") -> tuple[LlmPlanner, ScriptedChat]:
    chat = ScriptedChat(replies)
    return LlmPlanner(chat, load_variant(variant)), chat


class Judged(Told):
    """A search whose evaluations can be read, as the prompts do."""

    def view(self, round_: int = 0, reports: tuple[Any, ...] = ()) -> PlannerView:
        return replace(super().view(round_, reports), evaluation=self._evaluation)

    def _evaluation(self, blob: str) -> Evaluation:
        workloads = tuple(
            WorkloadResult(workload=one.name, status=Status.WRONG_VALUES) for one in self.task.split("search")
        )
        return Evaluation(
            status=Status.WRONG_VALUES, tier="built", solution=blob, task=self.task.digest, effort="search",
            protocol="test", workloads=workloads,
        )  # fmt: skip


def judged(task: Task, config: SearchConfig, language: Language) -> Told:
    return Judged(**vars(Told.begin(task, config, language)))


class TestGoodReplies(PlannerContract):
    @pytest.fixture
    def told(self, task: Task, config: SearchConfig, language: Language) -> Told:
        return judged(task, config, language)

    @pytest.fixture
    def planner(self) -> Planner:
        return planner_of(GOOD, reply(insert("Vectorise"), {"kind": "update", "node": "n2", "priority": 0.9}))[0]


class TestUselessReplies(PlannerContract):
    @pytest.fixture
    def told(self, task: Task, config: SearchConfig, language: Language) -> Told:
        return judged(task, config, language)

    @pytest.fixture
    def planner(self) -> Planner:
        return planner_of(*["I cannot."] * 6)[0]


class TestReplies(Paying):
    @pytest.fixture
    def told(self, task: Task, config: SearchConfig, language: Language) -> Told:
        return judged(task, config, language)

    async def first(self, told: Told, calls: PaidCalls, *replies: str | ChatReply) -> tuple[Proposal, ScriptedChat]:
        planner, chat = planner_of(*replies)
        return await planner.initialize(told.view(), calls), chat

    def later(self, told: Told, objective: float) -> PlannerView:
        """Four intents: n1 closed, n2 failed, n3 open, and n4 open under n1."""
        for title in ("Tile", "Unroll", "Fuse"):
            told.insert(Intent(title=title, description=f"{title}.", priority=0.5))
        reports = (told.settle("n1", 1, objective), told.settle("n2", 2, Status.WRONG_VALUES))
        told.insert(Intent(title="Pack", priority=0.4), "n1")
        return told.view(2, reports)

    async def revised(
        self, told: Told, calls: PaidCalls, *replies: str | ChatReply, variant: str = "default"
    ) -> tuple[Proposal, ScriptedChat]:
        planner, chat = planner_of(*replies, variant=variant)
        return await planner.revise(self.later(told, 1.5), replace(calls, round=2)), chat

    async def test_a_good_reply_becomes_a_batch(self, told: Told, calls: PaidCalls) -> None:
        proposal, chat = await self.first(told, calls, GOOD)
        assert [edit.intent.title for edit in proposal.batch.edits if isinstance(edit, Insert)] == [
            "Tile",
            "Unroll",
            "Fuse",
        ]
        assert proposal.batch.origin == "planner"
        assert (proposal.batch.reason, proposal.batch.summary) == ("so", "nothing is known yet")
        assert proposal.note == ""
        (request,) = chat.asked
        assert request.identity["variant"] == "default"
        assert request.reply_schema is not None

    async def test_every_kind_of_edit_is_understood(self, told: Told, calls: PaidCalls) -> None:
        edits = (
            insert("Vectorise", "n1", rationale=None, difficulty=None),
            {"kind": "update", "node": "n3", "priority": 0.9, "title": None},
            {"kind": "prune", "node": "n4", "reason": "done by n1"},
            {"kind": "reopen", "node": "n2", "description": "With a tail loop.", "reason": "the border"},
        )
        proposal, _ = await self.revised(told, calls, reply(*edits))
        assert [type(edit) for edit in proposal.batch.edits] == [Insert, Update, Prune, Reopen]
        assert proposal.batch.cycles == (1, 2)
        model = apply_batch(told.model, proposal.batch).model
        assert model is not None
        assert model.node("n2").status == "open"
        assert model.node("n5").intent.difficulty == 3

    async def test_no_edits_are_fine_while_something_is_left(self, told: Told, calls: PaidCalls) -> None:
        proposal, chat = await self.revised(told, calls, reply(summary="as before"))
        assert (proposal.batch.edits, proposal.batch.summary, len(chat.asked)) == ((), "as before", 1)

    @pytest.mark.parametrize(
        ("useless", "error"),
        [
            ("", "the reply is empty"),
            ("  \n\t ", "the reply is empty"),
            ("I am sorry, I cannot help with that.", "holds no JSON object"),
            ("```json\n" + GOOD[:-40], "never closed"),
            ("{" * 5000, "nested deeper than|holds no JSON|is wrong|cut off"),
            ('{"a":' * 3000 + "1" + "}" * 3000, "nested deeper than"),
            (reply(), "the first reply must insert at least 3 intents; there are 0"),
            (reply(*THREE[:2]), "the first reply must insert at least 3 intents; there are 2"),
            (reply(*THREE, insert("tile ")), "edit 4 (insert): root already has the intent 'tile ' as n1 (open)"),
            (reply(*THREE, insert("X", "n9")), "edit 4 (insert): there is no node 'n9'"),
            (reply(*THREE, insert("X", priority=1.5)), "edit 4 (insert): priority: Input should be less than or equal"),
            (reply(*THREE, insert("X", priority="high")), "edit 4 (insert): priority: Input should be a valid number"),
            (reply(*THREE, insert("X", predicted_gain=None)), "edit 4 (insert): predicted_gain: missing"),
            (reply(*THREE, insert("X", confidence=None)), "edit 4 (insert): confidence: missing"),
            (reply(*THREE, insert("X", predicted_gain=0)), "edit 4 (insert): predicted_gain: Input should be greater"),
            (reply(*THREE, insert("")), "edit 4 (insert): title: String should have at least 1 character"),
            (reply(*THREE, insert("x" * 200)), "edit 4 (insert): title: String should have at most 160 characters"),
            (reply(*THREE, insert("X", description="")), "edit 4 (insert): description: String should have at least 1"),
            (
                reply(*THREE, insert("X", solution="f" * 64)),
                "edit 4 (insert): solution: Extra inputs are not permitted",
            ),
            (reply(*THREE, insert("X", status="closed")), "edit 4 (insert): status: Extra inputs are not permitted"),
            (reply(*THREE, {"kind": "pin", "node": "n1"}), "edit 4: Input tag 'pin' found using 'kind' does not match"),
            (reply(*THREE, {"node": "n1"}), "edit 4: kind: missing"),
            (reply(*THREE, {"kind": "update", "node": "n1"}), "edit 4 (update): node n1: nothing to change"),
            (reply(*THREE, {"kind": "prune", "node": "n1"}), "edit 4 (prune): reason: Field required"),
            (reply(*THREE, {"kind": "prune", "node": "n1", "reason": " "}), "pruning needs a reason"),
            (reply(*THREE, score=1.0), "score: Extra inputs are not permitted"),
            (reply(*THREE, insert("bell \x07")), "holds the control character U+0007"),
            (
                GOOD.replace("Tile", "half \\ud800"),
                "edit 1 (insert): title: Input should be a valid string, unable to parse raw data as a unicode string",
            ),
            ('{"edits": "none"}', "edits: Input should be a valid tuple"),
            (reply(*[insert(str(number)) for number in range(201)]), "edits: Tuple should have at most 200 items"),
        ],
    )
    async def test_an_unusable_reply_is_corrected_with_its_exact_error(
        self, told: Told, calls: PaidCalls, useless: str, error: str
    ) -> None:
        proposal, chat = await self.first(told, calls, useless, GOOD)
        assert proposal.batch.origin == "planner"
        assert len(proposal.batch.edits) == 3
        assert proposal.note.startswith("1 reply refused; the last: ")
        first, second = chat.asked
        assert (first.turn, second.turn) == (0, 1)
        assert (first.system, first.prompt) == (second.system, second.prompt)
        answer, correction = second.turns
        assert (answer.role, correction.role) == ("assistant", "user")
        assert answer.text == useless if useless.strip() else answer.text == "(an empty reply)"
        assert "# Your reply was refused" in correction.text
        assert any(part in correction.text for part in error.split("|"))
        assert "1 more reply can be refused" in correction.text

    async def test_edits_that_the_tree_does_not_allow_are_refused_with_every_reason(
        self, told: Told, calls: PaidCalls
    ) -> None:
        bad = reply(
            {"kind": "update", "node": "n1", "priority": 0.1},
            {"kind": "reopen", "node": "n2", "description": "Unroll."},
            insert("X", "n2"),
        )
        proposal, chat = await self.revised(told, calls, bad, reply())
        correction = chat.asked[1].turns[-1].text
        assert "- edit 1 (update): node n1 is closed; only open nodes can be updated\n" in correction
        assert "- edit 2 (reopen): node n2: re-opening needs a changed description\n" in correction
        assert "- edit 3 (insert): node n2 is failed; insert under the root, an open or a closed node\n" in correction
        assert proposal.batch.edits == ()

    async def test_an_empty_frontier_is_refused(self, told: Told, calls: PaidCalls) -> None:
        prune = [{"kind": "prune", "node": node, "reason": "enough"} for node in ("n3", "n4")]
        proposal, chat = await self.revised(told, calls, reply(*prune), reply(prune[0]))
        assert "nothing would be left to try" in chat.asked[1].turns[-1].text
        assert len(proposal.batch.edits) == 1

    async def test_after_the_last_correction_the_tree_stays_and_gets_one_generic_intent(
        self, told: Told, calls: PaidCalls
    ) -> None:
        proposal, chat = await self.revised(told, calls, "no", "{}", "no " * 400)
        assert len(chat.asked) == 3
        assert [message.role for message in chat.asked[2].turns] == ["assistant", "user"] * 2
        assert "This is the last try" in chat.asked[2].turns[-1].text
        assert proposal.batch.origin == "fallback"
        assert proposal.note.startswith("fallback: 3 replies refused; the last: the reply holds no JSON object")
        (edit,) = proposal.batch.edits
        assert isinstance(edit, Insert)
        assert edit.parent == "n1"
        model = apply_batch(told.model, proposal.batch).model
        assert model is not None
        before = {node.id: node for node in told.model.nodes}
        added: Node = next(node for node in model.nodes if node.id not in before)
        assert (added.origin, added.intent.predicted_gain) == ("fallback", None)
        assert all(model.node(node) == before[node] for node in before)

    async def test_fallbacks_never_collide(self, told: Told, calls: PaidCalls) -> None:
        for round_ in range(3):
            planner, _ = planner_of("no", "no", "no")
            proposal = await planner.initialize(told.view(round_), replace(calls, round=round_))
            model = apply_batch(told.model, proposal.batch).model
            assert model is not None
            told.model = model
        assert len({node.intent.title for node in told.model.nodes}) == 3

    async def test_a_thin_first_reply_is_better_than_the_fallback(self, told: Told, calls: PaidCalls) -> None:
        thin = reply(insert("Tile"))
        proposal, chat = await self.first(told, calls, thin, thin, thin)
        assert (len(chat.asked), len(proposal.batch.edits), proposal.batch.origin) == (3, 1, "planner")

    @pytest.mark.parametrize(
        ("finish", "words"),
        [("length", "cut off at the token limit"), ("refusal", "refused to answer"), ("filter", "provider's filter")],
    )
    async def test_why_a_reply_ended_is_told(self, told: Told, calls: PaidCalls, finish: str, words: str) -> None:
        cut = ChatReply.model_validate({"text": GOOD[:100], "model": "m", "finish": finish})
        _, chat = await self.first(told, calls, cut, GOOD)
        assert words in chat.asked[1].turns[-1].text

    @pytest.mark.parametrize("finish", ["refusal", "filter"])
    async def test_what_was_withheld_is_not_read(self, told: Told, calls: PaidCalls, finish: str) -> None:
        withheld = ChatReply.model_validate({"text": GOOD, "model": "m", "finish": finish})
        proposal, chat = await self.first(told, calls, withheld, reply(*THREE, summary="the second"))
        assert (len(chat.asked), proposal.batch.summary) == (2, "the second")

    async def test_the_number_of_corrections_is_an_option(self, told: Told, calls: PaidCalls) -> None:
        told.config = told.config.with_options({"max_corrections": 0})
        proposal, chat = await self.first(told, calls, "no")
        assert (len(chat.asked), proposal.batch.origin) == (1, "fallback")

    async def test_flat_searches_refuse_other_parents(self, told: Told, calls: PaidCalls) -> None:
        told.config = told.config.with_options({"flat": True})
        proposal, chat = await self.revised(told, calls, reply(insert("X", "n1")), "no", "no")
        assert "edit 1 (insert): parent must be 'root'" in chat.asked[1].turns[-1].text
        (edit,) = proposal.batch.edits
        assert isinstance(edit, Insert)
        assert edit.parent == ROOT

    async def test_the_paper_variant_asks_for_no_predictions(self, told: Told, calls: PaidCalls) -> None:
        plain = {"kind": "insert", "parent": ROOT, "title": "X", "description": "How.", "priority": 0.5}
        proposal, chat = await self.revised(told, calls, reply(plain), variant="paper")
        assert (len(chat.asked), len(proposal.batch.edits)) == (1, 1)

    async def test_the_same_questions_again_are_served_from_the_ledger(
        self, told: Told, calls: PaidCalls, home: Home
    ) -> None:
        first, _ = await self.first(told, calls, "no", reply(), GOOD)
        before = await home.ledger.entries("contract")
        second, chat = await self.first(told, calls)
        assert second == first
        assert chat.asked == []
        assert await home.ledger.entries("contract") == before
        assert [entry.key.turn for entry in before] == [0, 1, 2]
        assert {entry.key.role for entry in before} == {"planner"}

    async def test_the_ledger_keeps_prompt_variant_and_every_reply(
        self, told: Told, calls: PaidCalls, home: Home
    ) -> None:
        await self.first(told, calls, "no", GOOD)
        records = [
            ChatRecord.model_validate(home.blobs.get_json(entry.result or ""))
            for entry in await home.ledger.entries("contract")
        ]
        assert [record.reply.text for record in records] == ["no", GOOD]
        assert [record.request.identity["turn"] for record in records] == [0, 1]
        assert {record.request.identity["variant"] for record in records} == {"default"}
        assert all("# Task" in record.request.system for record in records)

    async def test_the_identity_of_a_question_holds_no_measurement(self, told: Told, calls: PaidCalls) -> None:
        _, slow = await self.revised(told, calls, reply())
        other = judged(told.task, told.config, told.language)
        planner, fast = planner_of(reply())
        await planner.revise(self.later(other, 1.7), replace(calls, round=3))
        assert slow.asked[0].prompt != fast.asked[0].prompt
        assert slow.asked[0].identity_digest == fast.asked[0].identity_digest

    async def test_a_model_that_gives_no_reply_is_not_papered_over(self, told: Told, calls: PaidCalls) -> None:
        planner, _ = planner_of()
        with pytest.raises(ModelFailure, match="the script has no reply for the planner request of round 0"):
            await planner.initialize(told.view(), calls)

    async def test_endless_replies_stay_out_of_prompts_and_messages(self, told: Told, calls: PaidCalls) -> None:
        endless = reply(*THREE, insert("X", "n" * 300_000))
        proposal, chat = await self.first(told, calls, endless, GOOD)
        answer, correction = chat.asked[1].turns
        assert answer.text == f"(a reply of {len(endless)} characters)"
        assert len(correction.text) < 2000
        assert len(proposal.note) <= 1500
