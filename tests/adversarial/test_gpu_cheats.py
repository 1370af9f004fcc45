"""The cheats on a GPU: each ends as the corpus says, its twin and the honest programs pass. Skipped without a GPU."""

import ast

import pytest
import torch

from evaluators.evaluation import Evaluation
from evaluators.local import LocalEvaluator
from evaluators.worker import rules
from evaluators.worker.status import Status
from tests.adversarial.gpu_corpus import CHEATS, HONEST
from tests.adversarial.gpu_survival import BAD, TIMEOUT_S
from tests.evaluators import tiny_cuda as tiny

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU and a build of torch for it")


def ended(result: Evaluation) -> str:
    return f"{result.status.value}:{result.rule}" if result.rule else result.status.value


@needs_gpu
@pytest.mark.parametrize("name", CHEATS)
async def test_cheat_ends_as_it_should(evaluator: LocalEvaluator, name: str) -> None:
    cheat = CHEATS[name]
    result = await evaluator.evaluate(cheat.task, cheat.program, cheat.effort)
    assert ended(result) in cheat.ends, result.message
    if cheat.most is not None and result.passed:
        assert result.objective is not None
        assert result.objective.value <= cheat.most


TWINS = {cheat.twin.digest: (name, cheat) for name, cheat in CHEATS.items()}


@needs_gpu
@pytest.mark.parametrize("digest", TWINS, ids=[name for name, _ in TWINS.values()])
async def test_honest_twin_passes(evaluator: LocalEvaluator, digest: str) -> None:
    cheat = TWINS[digest][1]
    result = await evaluator.evaluate(cheat.task, cheat.twin, cheat.effort)
    assert (result.status, result.message) == (Status.PASSED, "")


@needs_gpu
@pytest.mark.parametrize("name", HONEST)
async def test_honest_program_passes(evaluator: LocalEvaluator, name: str) -> None:
    result = await evaluator.evaluate(tiny.softmax(), HONEST[name], "search")
    assert (result.status, result.message) == (Status.PASSED, "")


@needs_gpu
@pytest.mark.parametrize("name", [name for name, cheat in CHEATS.items() if cheat.unruled])
async def test_without_its_rule_the_verdict_is_another(lenient: LocalEvaluator, name: str) -> None:
    cheat = CHEATS[name]
    result = await lenient.evaluate(cheat.task, cheat.program, cheat.effort)
    assert ended(result) in cheat.unruled, result.message


@needs_gpu
@pytest.mark.parametrize("name", BAD)
async def test_bad_program_gets_its_status_and_harms_nobody(evaluator: LocalEvaluator, name: str) -> None:
    program, statuses = BAD[name]
    result = await evaluator.evaluate(tiny.softmax(TIMEOUT_S), program, "check")
    assert result.status in statuses, result.message
    after = await evaluator.evaluate(tiny.softmax(), tiny.GOOD_DPS, "check")
    assert after.passed, after.message


def test_the_corpus_says_how_each_cheat_ends() -> None:
    statuses = {status.value for status in Status} | {f"integrity:{rule}" for rule in rules.ALL}
    for name, cheat in CHEATS.items():
        assert cheat.ends, name
        assert set(cheat.ends) | set(cheat.unruled) <= statuses, name
        assert ("passed" in cheat.ends) == bool(cheat.reason), name
        assert cheat.program.digest != cheat.twin.digest, name
    for program in [*(cheat.program for cheat in CHEATS.values()), *TWINS_PROGRAMS, *HONEST.values()]:
        if program.language != "cuda":
            ast.parse(program.files[program.main_file])


TWINS_PROGRAMS = [cheat.twin for _, cheat in TWINS.values()]
