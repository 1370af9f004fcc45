"""Planner and coder that follow a script, and those that draw everything."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from checkpoints.home import Home
from evaluators.errors import UsageError
from evaluators.evaluation import Evaluation
from evaluators.scripted import ScriptedEvaluator
from evaluators.solution import Language
from evaluators.task import Task
from evaluators.worker.status import Status
from graph.config import SearchConfig
from graph.edits import Insert, Prune, Update, apply_batch
from graph.world_model import ROOT, Intent
from nodes.coder import Coder, CodeRequest, Draft, Known
from nodes.drawn import DrawnCoder, DrawnPlanner
from nodes.paid import PaidCalls
from nodes.planner import Planner
from nodes.scripted import Script, ScriptedCoder, ScriptedDraft, ScriptedPlanner, ScriptedProposal
from tests.contracts import CoderContract, Paying, PlannerContract, Told

SCRIPT = Script(
    proposals=(
        ScriptedProposal(
            edits=(
                Insert(parent=ROOT, intent=Intent(title="Tile", priority=0.9)),
                Insert(parent=ROOT, intent=Intent(title="Unroll", priority=0.5)),
            ),
            reason="two ways to go",
            note="as written",
        ),
        ScriptedProposal(edits=(Update(node="n2", priority=0.7),), summary="Tiling was tried."),
        ScriptedProposal(edits=(Prune(node="n2", reason="enough"),), reason="done"),
    ),
    cycles=(
        (ScriptedDraft(objective=1.2), ScriptedDraft(status=Status.TIMEOUT), ScriptedDraft(repeats=1)),
        (ScriptedDraft(settings={"KNOB_A": "4"}), ScriptedDraft(message="no program in the reply", final=True)),
    ),
)


async def judged(request: CodeRequest, draft: Draft) -> Evaluation:
    assert draft.solution is not None
    return await ScriptedEvaluator().evaluate(request.task, draft.solution, "search")


class TestScriptedPlanner(PlannerContract):
    @pytest.fixture
    def planner(self) -> Planner:
        return ScriptedPlanner(SCRIPT)

    async def test_proposals_come_in_the_order_of_the_cycles(
        self, planner: Planner, told: Told, calls: PaidCalls
    ) -> None:
        first = await planner.initialize(told.view(), calls)
        assert (first.batch.reason, first.note) == ("two ways to go", "as written")
        told.model = apply_batch(told.model, first.batch).model or told.model
        reports = (told.settle("n1", 1, 1.2),)
        second = await planner.revise(told.view(1, reports), replace(calls, round=1))
        assert second.batch.edits == (Update(node="n2", priority=0.7),)
        assert second.batch.cycles == (1,)

    async def test_cycles_that_end_together_get_their_proposals_together(
        self, planner: Planner, told: Told, calls: PaidCalls
    ) -> None:
        told.model = apply_batch(told.model, (await planner.initialize(told.view(), calls)).batch).model or told.model
        reports = (told.settle("n1", 1, 1.2), told.settle("n2", 2, 1.1))
        both = await planner.revise(told.view(1, reports), replace(calls, round=1))
        assert [edit.kind for edit in both.batch.edits] == ["update", "prune"]
        assert both.batch.cycles == (1, 2)
        assert both.batch.summary == "Tiling was tried."

    async def test_after_its_end_a_script_proposes_nothing(self, told: Told, calls: PaidCalls) -> None:
        proposal = await ScriptedPlanner(Script()).initialize(told.view(), calls)
        assert proposal.batch.edits == ()
        assert proposal.note == "the script has ended"


class TestScriptedCoder(CoderContract):
    @pytest.fixture
    def coder(self) -> Coder:
        return ScriptedCoder(SCRIPT)

    async def test_drafts_come_in_the_order_of_the_samples(
        self, coder: Coder, request_: CodeRequest, calls: PaidCalls
    ) -> None:
        drafts = [
            await coder.write(replace(request_, sample=sample), replace(calls, sample=sample)) for sample in (1, 2, 3)
        ]
        first, second = [await judged(request_, draft) for draft in drafts[:2]]
        assert first.objective is not None
        assert first.objective.value == 1.2
        assert second.status is Status.TIMEOUT
        assert drafts[2] == drafts[0]

    async def test_settings_turn_the_parent_s_knobs(
        self, coder: Coder, request_: CodeRequest, calls: PaidCalls
    ) -> None:
        cycle = request_.cycle.model_copy(update={"id": 2})
        turned = await coder.write(replace(request_, cycle=cycle), replace(calls, cycle=2))
        assert turned.solution is not None
        assert "#define KNOB_A 4" in turned.solution.files[turned.solution.main_file]
        last = await coder.write(replace(request_, cycle=cycle, sample=2), replace(calls, cycle=2, sample=2))
        assert last == Draft(None, "no program in the reply", final=True)

    async def test_after_its_end_a_script_has_nothing_further_to_try(
        self, coder: Coder, request_: CodeRequest, calls: PaidCalls
    ) -> None:
        draft = await coder.write(replace(request_, sample=4), calls)
        assert draft == Draft(None, "the script has no sample 4 of cycle 1", final=True)

    async def test_a_repeat_of_nothing_is_said_to_be_one(self, request_: CodeRequest, calls: PaidCalls) -> None:
        draft = await ScriptedCoder(Script(cycles=((ScriptedDraft(repeats=3),),))).write(request_, calls)
        assert draft == Draft(None, "the script's sample 3 of cycle 1 cannot be repeated", final=True)

    @pytest.mark.parametrize("language", ["cpp", "python"])
    async def test_programs_differ_in_code_not_only_in_comments(
        self, request_: CodeRequest, calls: PaidCalls, language: Language
    ) -> None:
        coder = ScriptedCoder(Script(cycles=((ScriptedDraft(objective=1), ScriptedDraft(objective=1)),)))
        texts = [
            draft.solution.files[draft.solution.main_file]
            for sample in (1, 2)
            if (draft := await coder.write(replace(request_, sample=sample), replace(calls, sample=sample))).solution
        ]
        code = [[line for line in text.split("\n") if not line.startswith(("//", "#"))] for text in texts]
        assert code[0] != code[1]


class TestDrawnPlanner(PlannerContract):
    @pytest.fixture
    def planner(self) -> Planner:
        return DrawnPlanner()

    async def test_long_searches_are_never_refused(self, told: Told, calls: PaidCalls) -> None:
        planner, outcomes = DrawnPlanner(prune_share=0.5), [1.2, 0.8, Status.BUILD_ERROR, None]
        told.model = apply_batch(told.model, (await planner.initialize(told.view(), calls)).batch).model or told.model
        kinds: Counter[str] = Counter()
        for round_ in range(1, 41):
            report = told.settle(told.model.frontier()[0].id, round_, outcomes[round_ % 4])
            proposal = await planner.revise(told.view(round_, (report,)), replace(calls, round=round_))
            verdict = apply_batch(told.model, proposal.batch)
            assert verdict.model is not None, verdict.reasons
            told.model = verdict.model
            kinds.update(edit.kind for edit in proposal.batch.edits)
        assert set(kinds) == {"insert", "update", "prune"}


class TestDrawnCoder(CoderContract):
    @pytest.fixture
    def coder(self) -> Coder:
        return DrawnCoder()

    async def test_shares_are_as_configured(self, request_: CodeRequest, calls: PaidCalls) -> None:
        coder = DrawnCoder(unusable=0.25, repeated=0.25, failing=0.25)
        drafts = [
            await coder.write(replace(request_, round=round_), replace(calls, round=round_)) for round_ in range(200)
        ]
        unusable = sum(draft.solution is None for draft in drafts)
        repeated = sum(draft.solution == request_.parent for draft in drafts)
        verdicts = [await judged(request_, draft) for draft in drafts if draft.solution is not None]
        failing = sum(not verdict.passed for verdict in verdicts)
        assert all(30 <= count <= 70 for count in (unusable, repeated, failing)), (unusable, repeated, failing)

    async def test_draws_depend_on_the_seed_round_cycle_and_sample(
        self, request_: CodeRequest, calls: PaidCalls
    ) -> None:
        coder = DrawnCoder(unusable=0, repeated=0, failing=0)

        async def drawn(**changes: object) -> Draft:
            return await coder.write(replace(request_, **changes), replace(calls, thread=str(changes)))

        usual = await drawn()
        assert usual == await drawn(last=Known(request_.parent, None))
        other = request_.config.with_options({"seed": 1})
        for different in (await drawn(round=2), await drawn(sample=2), await drawn(config=other)):
            assert different != usual


class TestPaying(Paying):
    @pytest.mark.parametrize("delay_s", [0.0, 0.01])
    async def test_replies_are_paid_for_like_a_model_s(
        self, home: Home, calls: PaidCalls, task: Task, config: SearchConfig, language: Language, delay_s: float
    ) -> None:
        told = Told.begin(task, config, language)
        await ScriptedPlanner(SCRIPT, delay_s).initialize(told.view(), calls)
        (entry,) = await home.ledger.entries("contract")
        assert entry.key.role == "planner"
        assert entry.spend is not None
        assert entry.spend.keys() == {
            "model",
            "input_tokens",
            "output_tokens",
            "cached_tokens",
            "reasoning_tokens",
            "usd",
        }
        assert entry.spend["output_tokens"] > 0
        assert calls.spent == [entry.spend]

    async def test_what_the_ledger_holds_is_what_comes_back(
        self, home: Home, calls: PaidCalls, task: Task, config: SearchConfig, language: Language
    ) -> None:
        """A resumed search gets the reply that was paid for, even if the script was changed in between."""
        told = Told.begin(task, config, language)
        paid = await ScriptedPlanner(SCRIPT).initialize(told.view(), calls)
        assert await ScriptedPlanner(Script()).initialize(told.view(), calls) == paid


def test_scripts_have_a_short_form(tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    file.write_text(json.dumps({"cycles": [[1.5, "timeout", None, {"settings": {"A": "2"}, "final": True}]]}))
    assert Script.load(file).cycles == (
        (
            ScriptedDraft(objective=1.5),
            ScriptedDraft(status=Status.TIMEOUT),
            ScriptedDraft(message="the reply holds no program"),
            ScriptedDraft(settings={"A": "2"}, final=True),
        ),
    )
    assert Script.model_validate_json(SCRIPT.model_dump_json()) == SCRIPT


@pytest.mark.parametrize("content", ["{", '{"cycles": [["late"]]}', '{"cycle": []}', '{"cycles": [[true]]}'])
def test_a_file_that_is_no_script_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "script.json"
    file.write_text(content)
    with pytest.raises(UsageError, match=r"script\.json: not a script") as caught:
        Script.load(file)
    assert "validation error" not in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="missing"):
        Script.load(tmp_path / "missing")


def test_an_objective_is_above_zero() -> None:
    with pytest.raises(ValueError, match="greater than 0"):
        ScriptedDraft(objective=0)
