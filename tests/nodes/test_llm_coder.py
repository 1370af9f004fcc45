"""The coder behind a chat model: which prompt is chosen, what replies become, and that no reply ends a search."""

from dataclasses import replace
from typing import Any

import pytest

from checkpoints.home import Home
from evaluators.evaluation import Evaluation, Measurement, WorkloadResult
from evaluators.objective import Value
from evaluators.solution import Solution
from evaluators.task import Task, contract_solution
from evaluators.worker.status import Status
from graph.config import SearchConfig
from graph.cycles import Result, fold
from nodes.coder import Coder, CodeRequest, Draft, Known
from nodes.llm_coder import LlmCoder
from nodes.models.chat import ChatReply
from nodes.models.errors import ModelFailure
from nodes.models.scripted import ScriptedChat
from nodes.paid import PaidCalls
from nodes.prompting.coder_prompt import coder_request, kind_of
from prompts.library import load_variant
from tests.contracts import CoderContract, value

PROGRAM = '#include <cstdint>\nextern "C" void scripted(const float* x, float* y, int64_t n) {{ {body} }}\n'


def program(body: str = "y[0] = x[0];") -> str:
    return PROGRAM.format(body=body)


def block(text: str, name: str = "seed.cpp", info: str = "cpp") -> str:
    return f"`{name}`\n\n```{info}\n{text}```\n"


def good(body: str = "y[0] = x[0];") -> str:
    return f"I copy.\n\n{block(program(body))}"


def edit(old: str, new: str) -> str:
    return block(f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n")


def coder_of(*replies: str | ChatReply, variant: str = "default") -> tuple[LlmCoder, ScriptedChat]:
    chat = ScriptedChat(replies)
    return LlmCoder(chat, load_variant(variant)), chat


class TestUselessReplies(CoderContract):
    @pytest.fixture
    def coder(self) -> Coder:
        return coder_of(*["I would rather not."] * 12)[0]


class TestReplies(CoderContract):
    @pytest.fixture
    def coder(self) -> Coder:
        return coder_of(*[good(f"y[{number}] = 0;") for number in range(4)])[0]

    @pytest.fixture
    def config(self) -> SearchConfig:
        return SearchConfig(task="scripted", repair_turns=2)

    def solution(self, request: CodeRequest, body: str) -> Solution:
        return contract_solution(request.task.contracts["cpp"], "cpp", {"seed.cpp": program(body)})

    def tried(self, request: CodeRequest, *outcomes: float | Status | str, **options: Any) -> CodeRequest:
        """The request after attempts: an objective, how it failed, or what happened instead of an evaluation."""
        request = replace(request, config=request.config.with_options(options))
        programs: dict[str, Known] = {}
        cycle = request.cycle
        for sample, outcome in enumerate(outcomes, start=1):
            solution = self.solution(request, f"y[{sample}] = 0;")
            verdict = self.verdict(request.task, solution, outcome)
            programs[solution.digest] = Known(solution, verdict)
            broken = cycle.last is not None and cycle.last.label == "build_error"
            repair = broken and cycle.repairs < request.config.repair_turns
            result = self.result(sample, solution, verdict, outcome).model_copy(update={"repair": repair})
            cycle = fold(cycle, {sample: result}, request.config, "max", 0.03)
        last, best = cycle.last, cycle.best
        if last is None:
            return request
        known = Known(None, None, last.message)
        if last.solution is not None:
            known = replace(programs[last.solution], message=last.message)
        return replace(
            request,
            cycle=cycle,
            sample=cycle.samples + 1,
            last=known,
            best=None if best is None else programs[best.solution],
        )

    def verdict(self, task: Task, solution: Solution, outcome: float | Status | str) -> Evaluation:
        measured = outcome if isinstance(outcome, float) else None
        status = outcome if isinstance(outcome, Status) else Status.PASSED if measured else Status.WRONG_VALUES
        measurement = None
        if measured is not None:
            ratio = Value(value=measured, low=measured, high=measured)
            times = {"baseline_ms": 2.0, "candidate_ms": 2.0 / measured}
            measurement = Measurement(**times, ratio=ratio, estimates=5, repeats=8)
        results = [
            WorkloadResult(workload=workload.name, status=status, measurement=measurement)
            for workload in task.split("search")
        ]
        return Evaluation(
            status=status, tier="timed" if measured else "built", solution=solution.digest, task=task.digest,
            effort="search", protocol="test", message=f"this is {status.value}", log="log of it",
            rule="threads" if status is Status.INTEGRITY else None,
            objective=None if measured is None else value(measured), workloads=tuple(results),
        )  # fmt: skip

    def result(self, sample: int, solution: Solution, verdict: Evaluation, outcome: float | Status | str) -> Result:
        if outcome == "unusable":
            return Result(cycle=1, sample=sample, outcome="unusable", message="the reply is empty")
        repeated = outcome == "repeated"
        return Result(
            cycle=1,
            sample=sample,
            outcome="repeated" if repeated else "evaluated",
            status=verdict.status,
            message="repeats attempt 7" if repeated else verdict.message,
            solution=solution.digest,
            evaluation="0" * 64,
            objective=verdict.objective,
        )

    async def write(
        self, request: CodeRequest, calls: PaidCalls, *replies: str | ChatReply
    ) -> tuple[Draft, ScriptedChat]:
        coder, chat = coder_of(*replies)
        return await coder.write(request, calls), chat

    # -- which prompt

    @pytest.mark.parametrize(
        ("outcomes", "options", "kind"),
        [
            ((), {}, "first"),
            (("unusable",), {}, "first"),
            ((Status.WRONG_VALUES,), {}, "debug"),
            (("repeated",), {}, "debug"),
            ((Status.BUILD_ERROR,), {}, "repair"),
            ((Status.BUILD_ERROR,), {"repair_turns": 0}, "debug"),
            ((Status.BUILD_ERROR, Status.BUILD_ERROR), {}, "repair"),
            ((Status.BUILD_ERROR, Status.BUILD_ERROR, Status.BUILD_ERROR), {}, "debug"),
            ((1.2,), {}, "improve"),
            ((1.2, Status.BUILD_ERROR), {}, "repair"),
            ((1.2, Status.BUILD_ERROR), {"repair_turns": 0}, "improve"),
            ((1.2, Status.CRASHED), {}, "improve"),
            ((1.2, "unusable"), {}, "improve"),
            ((Status.TIMEOUT, 1.2), {}, "improve"),
        ],
    )
    def test_the_prompt_that_fits(
        self, request_: CodeRequest, outcomes: tuple[Any, ...], options: dict[str, Any], kind: str
    ) -> None:
        request = self.tried(request_, *outcomes, **options)
        assert kind_of(request) == kind
        for variant in ("default", "paper", "terse"):
            question = coder_request(load_variant(variant), request)
            assert question.kind == question.request.identity["kind"] == kind
            assert request.node.intent.title in question.request.prompt

    def test_debug_shows_the_last_attempt_and_its_classified_failure(self, request_: CodeRequest) -> None:
        text = coder_request(load_variant("default"), self.tried(request_, Status.TIMEOUT, Status.NON_FINITE)).request
        assert "y[2] = 0;" in text.prompt
        assert "y[1] = 0;" not in text.prompt
        assert "**non_finite**: It yields infinities or NaN" in text.prompt
        assert "What was found: this is non_finite" in text.prompt
        assert "```\nlog of it\n```" in text.prompt

    def test_improve_shows_intent_best_program_last_attempt_and_the_effect_per_workload(
        self, request_: CodeRequest
    ) -> None:
        text = coder_request(load_variant("default"), self.tried(request_, 1.5, 1.2)).request.prompt
        assert "The best program for it so far: 1.5 x, x1.5 of the program it started from" in text
        assert "| small | 2 | 1.333 | x1.5 | 1.667 | x1.2 |" in text
        assert "y[1] = 0;" in text
        assert "y[2] = 0;" in text
        assert "It passed with 1.2 x, x0.8 of the best. Per workload: small x0.8, large x0.8." in text
        assert "1 in a row did not improve on it; after 7 the intent is left." in text

    def test_improve_shows_how_the_last_attempt_failed(self, request_: CodeRequest) -> None:
        text = coder_request(load_variant("default"), self.tried(request_, 1.5, Status.ILLEGAL_ACCESS)).request.prompt
        assert "**illegal_access**: It read or wrote outside of its arguments." in text
        assert "| small | 2 | 1.333 | x1.5 | illegal_access | - |" in text

    def test_a_repeat_is_told_with_the_attempt_that_it_repeats(self, request_: CodeRequest) -> None:
        for outcomes in (("repeated",), (1.5, "repeated")):
            text = coder_request(load_variant("default"), self.tried(request_, *outcomes)).request.prompt
            assert "(repeats attempt 7), so it was not evaluated again" in text
            assert "**wrong_values**" in text

    def test_a_lost_sample_is_told(self, request_: CodeRequest) -> None:
        for outcomes in (("unusable",), (1.5, "unusable")):
            text = coder_request(load_variant("default"), self.tried(request_, *outcomes)).request.prompt
            assert "no program: the reply is empty" in text

    def test_samples_of_one_round_are_told_apart(self, request_: CodeRequest) -> None:
        request = self.tried(request_, samples=3)
        prompts = {
            coder_request(load_variant("default"), replace(request, sample=sample)).request.prompt
            for sample in (1, 2, 3)
        }
        assert len(prompts) == 3
        assert "this is sample" not in coder_request(load_variant("default"), request_).request.prompt

    # -- what replies become

    async def test_a_good_reply_becomes_a_program(self, request_: CodeRequest, calls: PaidCalls) -> None:
        draft, chat = await self.write(request_, calls, good())
        assert draft.solution is not None
        assert draft.solution.files == {"seed.cpp": program()}
        assert (draft.message, draft.final, len(chat.asked)) == ("", False, 1)

    async def test_flags_and_further_files_are_taken_over(self, request_: CodeRequest, calls: PaidCalls) -> None:
        main = f'// ksearch: flags = -O2 -march=native\n#include "tile.h"\n{program()}'
        draft, _ = await self.write(request_, calls, block("#pragma once\n", "tile.h") + block(main, "fast.cpp"))
        assert draft.solution is not None
        assert draft.solution.main_file == "fast.cpp"
        assert set(draft.solution.files) == {"fast.cpp", "tile.h"}
        assert draft.solution.flags == ("-O2", "-march=native")

    async def test_the_file_that_defines_the_entry_point_is_the_main_one(
        self, request_: CodeRequest, calls: PaidCalls
    ) -> None:
        draft, _ = await self.write(request_, calls, block("int f();\n", "seed.cpp") + block(program(), "fast.cpp"))
        assert draft.solution is not None
        assert draft.solution.main_file == "fast.cpp"

    @pytest.mark.parametrize(
        ("useless", "error"),
        [
            ("", "the reply is empty"),
            ("No.", "holds no code block"),
            (block(program())[:-30], "cut off"),
            (block("int main() {}\n"), "no code block defines scripted"),
            (block("// ... rest of the code unchanged\n" + program()), "not given in full"),
            (block("// ksearch: flags = -O2 -fprofile-generate\n" + program()), "-fprofile-generate is not allowed"),
            (block("// ksearch: flags = -o /tmp/x\n" + program()), "the compiler flag -o is not allowed"),
            (block(program(), "seed.h"), "the main file, seed.h, must end in .cpp or .cc or .cxx or .c"),
            (block(program("y[0] = 0;" * 120_000)), "1000000 are allowed"),
            (edit("a", "b"), "search and replace blocks, where whole files are wanted"),
            (good("half \ud800"), "half a surrogate pair"),
            (good("nul \0"), "NUL"),
        ],
    )
    async def test_an_unusable_reply_is_corrected_with_its_exact_error(
        self, request_: CodeRequest, calls: PaidCalls, useless: str, error: str
    ) -> None:
        draft, chat = await self.write(request_, calls, useless, good())
        assert draft.solution is not None
        assert draft.message.startswith("1 reply refused; the last: ")
        correction = chat.asked[1].turns[-1].text
        assert "# Your reply could not be used" in correction
        assert error in correction
        assert "1 more reply can be refused" in correction
        assert chat.asked[1].prompt == chat.asked[0].prompt
        chat.asked[1].turns[0].text.encode()

    async def test_after_the_last_correction_the_sample_is_lost(self, request_: CodeRequest, calls: PaidCalls) -> None:
        draft, chat = await self.write(request_, calls, "no", "no", "still no")
        assert (draft.solution, draft.final, len(chat.asked)) == (None, False, 3)
        assert draft.message.startswith("3 replies refused; the last: the reply holds no code block")

    @pytest.mark.parametrize(
        ("finish", "words"),
        [
            ("refusal", "the model refused to answer: 'I will not.'"),
            ("filter", "the provider's filter withheld the reply"),
        ],
    )
    async def test_refusals_are_told(self, request_: CodeRequest, calls: PaidCalls, finish: str, words: str) -> None:
        refused = ChatReply.model_validate({"text": "I will not.", "model": "m", "finish": finish})
        draft, _ = await self.write(request_, calls, refused, refused, refused)
        assert draft.solution is None
        assert draft.message == f"3 replies refused; the last: {words}"

    async def test_the_same_questions_again_are_served_from_the_ledger(
        self, request_: CodeRequest, calls: PaidCalls, home: Home
    ) -> None:
        place = replace(calls, round=3, cycle=2, sample=4)
        first, _ = await self.write(request_, place, "no", good())
        second, chat = await self.write(request_, place)
        assert second == first
        assert chat.asked == []
        keys = [entry.key for entry in await home.ledger.entries("contract")]
        assert [(key.role, key.round, key.cycle, key.sample, key.turn) for key in keys] == [
            ("coder", 3, 2, 4, 0),
            ("coder", 3, 2, 4, 1),
        ]

    async def test_a_model_that_gives_no_reply_is_not_papered_over(
        self, request_: CodeRequest, calls: PaidCalls
    ) -> None:
        with pytest.raises(ModelFailure):
            await self.write(request_, calls)

    # -- search and replace

    async def test_edits_are_applied_to_the_program_that_the_prompt_names(
        self, request_: CodeRequest, calls: PaidCalls
    ) -> None:
        seed = request_.parent
        assert seed is not None
        cases: dict[tuple[float | Status, ...], str] = {
            (): seed.files["seed.cpp"],
            (Status.WRONG_VALUES,): program("y[1] = 0;"),
            (1.5, 1.2): program("y[1] = 0;"),
            (1.5, Status.BUILD_ERROR): program("y[2] = 0;"),
        }
        for round_, (outcomes, base) in enumerate(cases.items()):
            request = self.tried(request_, *outcomes, edit_format="search_replace")
            reply = edit("#include <cstdint>", "#include <stdint.h>")
            draft, chat = await self.write(request, replace(calls, round=round_), reply)
            assert draft.solution is not None
            assert draft.solution.files == {"seed.cpp": base.replace("<cstdint>", "<stdint.h>")}
            assert "search and replace blocks" in chat.asked[0].system

    async def test_after_one_failed_application_whole_files_are_asked_for(
        self, request_: CodeRequest, calls: PaidCalls
    ) -> None:
        request = self.tried(request_, edit_format="search_replace")
        working = edit("#include <cstdint>", "#include <stdint.h>")
        draft, chat = await self.write(request, calls, edit("not there", "x"), working, good())
        first, second = (asked.turns[-1].text for asked in chat.asked[1:])
        assert "its SEARCH text is not in seed.cpp" in first
        assert "this time with the whole program" in first
        assert "search and replace blocks, where whole files are wanted" in second
        assert draft.solution is not None
        assert draft.solution.files == {"seed.cpp": program()}

    async def test_edits_that_break_the_entry_point_are_refused(self, request_: CodeRequest, calls: PaidCalls) -> None:
        request = self.tried(request_, Status.WRONG_VALUES, edit_format="search_replace")
        renamed = edit(program("y[1] = 0;").splitlines()[1], 'extern "C" void other() {}')
        _, chat = await self.write(request, calls, renamed, good())
        assert "seed.cpp no longer defines scripted" in chat.asked[1].turns[-1].text
        assert "this time with the whole program" in chat.asked[1].turns[-1].text

    async def test_whole_files_are_welcome_where_edits_were_asked_for(
        self, request_: CodeRequest, calls: PaidCalls
    ) -> None:
        request = self.tried(request_, edit_format="search_replace")
        draft, chat = await self.write(request, calls, good())
        assert draft.solution is not None
        assert len(chat.asked) == 1

    async def test_without_a_program_to_change_edits_are_refused(self, request_: CodeRequest, calls: PaidCalls) -> None:
        request = replace(self.tried(request_, edit_format="search_replace"), parent=None)
        draft, chat = await self.write(request, calls, edit("a", "b"), good())
        assert "where whole files are wanted" in chat.asked[1].turns[-1].text
        assert draft.solution is not None

    # -- identity

    def test_the_identity_of_a_question_holds_no_measurement(self, request_: CodeRequest) -> None:
        slow, fast = (
            coder_request(load_variant("default"), self.tried(request_, first, 1.1)).request for first in (1.3, 1.7)
        )
        assert slow.prompt != fast.prompt
        assert slow.identity == fast.identity
