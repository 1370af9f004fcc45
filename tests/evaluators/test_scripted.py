"""The scripted evaluator: its contract, its markers, and landscapes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.errors import InfrastructureError, TaskError
from evaluators.evaluation import Evaluation
from evaluators.evaluator import Evaluator
from evaluators.knobs import Knob, declared_knobs, turn_solution
from evaluators.landscape import Failing, Interaction, Landscape, draw, draw_normal
from evaluators.objective import Objective
from evaluators.scripted import ScriptedEvaluator
from evaluators.scripted_tasks import SCRIPTED_TASKS, scripted_task
from evaluators.solution import Solution
from evaluators.task import Task
from evaluators.worker.status import Status
from tests.contracts import EvaluatorContract


def program(*markers: str, mark: str = "//") -> Solution:
    text = "".join(f"{mark} scripted: {marker}\n" for marker in markers)
    return Solution(files={"a.cpp": text + "int x;\n"}, language="cpp", entry_point="scripted", binding="plain_c")


def turned(**changes: str) -> Solution:
    seed = SCRIPTED_TASKS["scripted"].seed("cpp")
    assert seed is not None
    return turn_solution(seed, changes)


@pytest.fixture
def task() -> Task:
    return SCRIPTED_TASKS["scripted"]


class TestContract(EvaluatorContract):
    @pytest.fixture
    def evaluator(self) -> Evaluator:
        return ScriptedEvaluator()

    @pytest.fixture
    def task(self) -> Task:
        return SCRIPTED_TASKS["scripted"]

    @pytest.fixture
    def good(self) -> Solution:
        return turned()

    @pytest.fixture
    def other(self) -> Solution:
        return turned(KNOB_A="2")

    @pytest.fixture
    def bad(self) -> Solution:
        return program("status = wrong_values")


async def test_the_objective_is_what_the_marker_says_with_half_a_percent(task: Task) -> None:
    verdict = await ScriptedEvaluator().evaluate(task, program("objective = 1.7"), "search")
    assert verdict.objective is not None
    assert verdict.objective.value == 1.7
    assert verdict.objective.low == pytest.approx(1.7 * 0.995)
    assert verdict.objective.high == pytest.approx(1.7 * 1.005)


@pytest.mark.parametrize("mark", ["//", "#", "--", ";", " *"])
async def test_markers_stand_in_any_language_s_comments(task: Task, mark: str) -> None:
    verdict = await ScriptedEvaluator().evaluate(task, program("status = timeout", mark=mark), "search")
    assert verdict.status is Status.TIMEOUT


@pytest.mark.parametrize("status", [status for status in Status if status not in (Status.PASSED, "infrastructure")])
async def test_every_status_of_a_candidate_can_be_scripted(task: Task, status: Status) -> None:
    verdict = await ScriptedEvaluator().evaluate(task, program(f"status = {status}", "message = because"), "search")
    assert verdict.status is status
    assert verdict.message == "because"
    assert (verdict.rule is not None) == (status is Status.INTEGRITY)


async def test_an_integrity_verdict_names_the_rule(task: Task) -> None:
    verdict = await ScriptedEvaluator().evaluate(task, program("status = integrity", "rule = constant_output"), "check")
    assert verdict.rule == "constant_output"


async def test_held_out_failures_show_at_certification_only(task: Task) -> None:
    evaluator, solution = ScriptedEvaluator(), program("objective = 2", "held_out = wrong_values")
    assert (await evaluator.evaluate(task, solution, "search")).passed
    verdict = await evaluator.evaluate(task, solution, "certify")
    assert (verdict.status, verdict.objective) == (Status.WRONG_VALUES, None)


async def test_the_device_fails_as_often_as_asked(task: Task) -> None:
    evaluator = ScriptedEvaluator()
    for _ in range(2):
        with pytest.raises(InfrastructureError):
            await evaluator.evaluate(task, program("objective = 1", "infrastructure = 2"), "search")
    assert (await evaluator.evaluate(task, program("objective = 1", "infrastructure = 2"), "search")).passed
    for asked in ("infrastructure = always", "status = infrastructure"):
        with pytest.raises(InfrastructureError):
            await evaluator.evaluate(task, program(asked), "search")


@pytest.mark.parametrize("marker", ["objective = fast", "objective = -1", "objective = inf", "status = slow", "x = 1"])
async def test_markers_that_mean_nothing_are_build_errors(task: Task, marker: str) -> None:
    verdict = await ScriptedEvaluator().evaluate(task, program(marker), "search")
    assert verdict.status is Status.BUILD_ERROR
    assert verdict.message


async def test_a_task_without_a_reference_is_refused(task: Task) -> None:
    empty = Task.model_validate({**task.model_dump(), "reference": " "})
    with pytest.raises(TaskError, match="reference"):
        await ScriptedEvaluator().evaluate(empty, program(), "check")


async def test_ratios_are_exact_whatever_the_noise(task: Task) -> None:
    evaluator = ScriptedEvaluator(noise=0.1)
    fast, slow = program("objective = 3"), program("objective = 2")
    verdict = await evaluator.evaluate(task, fast, "certify", rival=slow)
    assert verdict.versus_rival is not None
    assert verdict.versus_rival.value == 1.5
    assert verdict.objective is not None
    assert verdict.objective.value != 3
    assert await evaluator.evaluate(task, fast, "certify", rival=slow) == verdict
    comparison = await evaluator.compare(task, [slow, fast], "search")
    assert comparison.pairs[0].ratio.value == pytest.approx(2 / 3)


async def test_a_failing_rival_cannot_be_compared_with(task: Task) -> None:
    verdict = await ScriptedEvaluator().evaluate(task, program("objective = 3"), "certify", program("status = timeout"))
    assert verdict.versus_rival is None


async def test_a_smaller_objective_is_better_where_the_task_says_so() -> None:
    task = scripted_task(objective=Objective(name="latency", goal="min", unit="ms"))
    evaluator = ScriptedEvaluator(Landscape(factors={"KNOB_A": {"2": 2.0}}))
    plain, fast = [await evaluator.evaluate(task, turned(**changes), "search") for changes in ({}, {"KNOB_A": "2"})]
    assert _value(fast) == pytest.approx(_value(plain) / 2)
    verdict = await evaluator.evaluate(task, turned(KNOB_A="2"), "certify", rival=turned())
    assert verdict.versus_rival is not None
    assert verdict.versus_rival.value == pytest.approx(2.0)
    measurement = fast.workloads[0].measurement
    assert measurement is not None
    assert measurement.candidate_ms == pytest.approx(_value(fast))


async def test_knobs_are_judged_on_the_landscape(task: Task) -> None:
    landscape = Landscape(
        base=1.5,
        factors={"KNOB_A": {"2": 1.2}, "KNOB_B": {"4": 0.9}},
        interactions=(Interaction(settings={"KNOB_A": "2", "KNOB_B": "4"}, factor=2.0),),
        failing=(Failing(settings={"KNOB_C": "2", "KNOB_A": "2"}, status=Status.INTEGRITY, rule="cache"),),
    )
    evaluator = ScriptedEvaluator(landscape)
    assert _value(await evaluator.evaluate(task, turned(), "search")) == pytest.approx(1.5)
    both = await evaluator.evaluate(task, turned(KNOB_A="2", KNOB_B="4"), "search")
    assert _value(both) == pytest.approx(1.5 * 1.2 * 0.9 * 2.0)
    failed = await evaluator.evaluate(task, turned(KNOB_A="2", KNOB_C="2"), "search")
    assert (failed.status, failed.rule) == (Status.INTEGRITY, "cache")
    assert (await evaluator.evaluate(task, turned(KNOB_C="2"), "search")).passed


async def test_a_malformed_knob_is_a_build_error(task: Task) -> None:
    solution = Solution(
        files={"a.cpp": "// ksearch: knob X = 1 | 2 ; Turn it\nint y;\n"},
        language="cpp",
        entry_point="scripted",
        binding="plain_c",
    )
    verdict = await ScriptedEvaluator().evaluate(task, solution, "search")
    assert verdict.status is Status.BUILD_ERROR


async def test_visits_are_counted(task: Task) -> None:
    evaluator, solution = ScriptedEvaluator(), program("objective = 1")
    await evaluator.evaluate(task, solution, "search")
    await evaluator.evaluate(task, solution, "search")
    assert evaluator.visits == {(solution.digest, "search"): 2}


async def test_devices_tell_environments_apart() -> None:
    environments = [await ScriptedEvaluator(device=device).environment() for device in ("a", "a", "b")]
    fingerprints = [environment.fingerprint for environment in environments]
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]


def knobs(values: dict[str, int], sizes: int = 3) -> dict[str, Knob]:
    allowed = tuple(str(value) for value in range(sizes))
    return {name: Knob(name=name, values=allowed, intent="-", value=allowed[at]) for name, at in values.items()}


SETTINGS = st.dictionaries(st.sampled_from("ABCDE"), st.integers(0, 2), min_size=1)


@given(SETTINGS, st.integers(0, 99))
def test_drawn_landscapes_repeat_and_leave_first_values_at_the_base(values: dict[str, int], seed: int) -> None:
    landscape = Landscape(seed=seed, base=2.0, interaction_spread=0.1, failing_share=0.3)
    assert landscape.speedup(knobs(values)) == landscape.speedup(knobs(dict(reversed(values.items()))))
    first = knobs(dict.fromkeys(values, 0))
    assert landscape.speedup(first) == 2.0
    assert landscape.failure(first) is None


@given(SETTINGS, st.integers(0, 99))
def test_without_interactions_factors_multiply(values: dict[str, int], seed: int) -> None:
    landscape = Landscape(seed=seed)
    alone = [landscape.speedup(knobs({name: value})) for name, value in values.items()]
    assert landscape.speedup(knobs(values)) == pytest.approx(math.prod(alone))


@given(st.integers(0, 200))
def test_a_drawn_failure_holds_wherever_its_pair_stands(seed: int) -> None:
    landscape = Landscape(seed=seed, failing_share=0.3)
    values = {"A": 1, "B": 2, "C": 1}
    failing = landscape.failure(knobs(values))
    if failing is not None:
        pair = {name: int(value) for name, value in failing.settings.items()}
        assert len(pair) == 2
        assert landscape.failure(knobs({**dict.fromkeys("ABC", 0), **pair})) == failing


def test_draws_are_spread_evenly() -> None:
    draws = [draw("test", index) for index in range(2000)]
    assert 0 < min(draws) < 0.01 < 0.99 < max(draws) < 1
    assert sum(draws) / len(draws) == pytest.approx(0.5, abs=0.02)
    normals = [draw_normal("test", index) for index in range(2000)]
    assert sum(normals) / len(normals) == pytest.approx(0, abs=0.06)
    assert sum(value * value for value in normals) / len(normals) == pytest.approx(1, abs=0.1)


def test_scripted_tasks_have_seeds_full_of_knobs() -> None:
    task = scripted_task({"TILE": ("8", "16"), "UNROLL": ("1", "2", "4")}, name="mine")
    for language in ("cpp", "python"):
        seed = task.seed(language)
        assert seed is not None
        declared = declared_knobs(seed.files[seed.main_file])
        assert {name: knob.values for name, knob in declared.items()} == {
            "TILE": ("8", "16"),
            "UNROLL": ("1", "2", "4"),
        }
        assert [knob.value for knob in declared.values()] == ["8", "1"]


def _value(verdict: Evaluation) -> float:
    assert verdict.objective is not None
    return verdict.objective.value
