"""The coder that turns knobs."""

from dataclasses import replace

import pytest

from evaluators.knobs import settings, turn_solution
from evaluators.solution import Language, Solution
from nodes.coder import Coder, CodeRequest, Draft
from nodes.offline_coder import OfflineCoder
from nodes.paid import PaidCalls
from tests.contracts import CoderContract


def with_settings(request: CodeRequest, changes: dict[str, str]) -> CodeRequest:
    intent = request.node.intent.model_copy(update={"settings": changes})
    return replace(request, node=request.node.model_copy(update={"intent": intent}))


class TestOfflineCoder(CoderContract):
    @pytest.fixture
    def coder(self) -> Coder:
        return OfflineCoder()

    @pytest.mark.parametrize("language", ["cpp", "python"])
    async def test_it_turns_the_parent_s_knobs_and_nothing_else(
        self, coder: Coder, request_: CodeRequest, calls: PaidCalls, language: Language
    ) -> None:
        parent = request_.parent
        assert parent is not None
        draft = await coder.write(with_settings(request_, {"KNOB_A": "2", "KNOB_C": "4"}), calls)
        assert draft == Draft(turn_solution(parent, {"KNOB_A": "2", "KNOB_C": "4"}), final=True)
        assert draft.solution is not None
        text = draft.solution.files[draft.solution.main_file]
        assert settings(text) == {"KNOB_A": "2", "KNOB_B": "1", "KNOB_C": "4", "KNOB_D": "1"}

    async def test_it_costs_nothing(self, coder: Coder, request_: CodeRequest, calls: PaidCalls) -> None:
        await coder.write(request_, calls)
        assert calls.spent == []

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({}, "names no knob settings"),
            ({"KNOB_Z": "2"}, "no knob KNOB_Z"),
            ({"KNOB_A": "3"}, "no value '3'"),
            ({"KNOB_A": "1"}, "has these settings already"),
        ],
    )
    async def test_what_cannot_be_turned_is_said_and_final(
        self, coder: Coder, request_: CodeRequest, calls: PaidCalls, changes: dict[str, str], words: str
    ) -> None:
        draft = await coder.write(with_settings(request_, changes), calls)
        assert draft.solution is None
        assert draft.final
        assert words in draft.message

    async def test_without_a_parent_or_for_a_second_sample_there_is_nothing_to_write(
        self, coder: Coder, request_: CodeRequest, calls: PaidCalls
    ) -> None:
        for request in (replace(request_, parent=None), replace(request_, sample=2)):
            draft = await coder.write(request, calls)
            assert (draft.solution, draft.final) == (None, True)
            assert draft.message

    async def test_flags_follow_their_knob(self, coder: Coder, request_: CodeRequest, calls: PaidCalls) -> None:
        parent = Solution(
            files={"a.cpp": "// ksearch: knob flags = -O2 | -O3 ; Optimise more\n// ksearch: flags = -O2\nint x;\n"},
            language="cpp",
            entry_point="f",
            binding="plain_c",
            flags=("-O2",),
        )
        draft = await coder.write(with_settings(replace(request_, parent=parent), {"flags": "-O3"}), calls)
        assert draft.solution is not None
        assert draft.solution.flags == ("-O3",)
