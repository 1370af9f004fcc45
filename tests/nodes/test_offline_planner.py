"""The planner without a model: its contract, its rules, and that it finds good programs."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.landscapes import instance
from benchmarks.serial_search import SerialSearch
from evaluators.landscape import Failing, Interaction, Landscape
from evaluators.objective import Objective
from evaluators.scripted import ScriptedEvaluator
from evaluators.scripted_tasks import scripted_task
from evaluators.task import Task
from evaluators.worker.status import Status
from graph.calibration import calibrate
from graph.config import SearchConfig
from graph.edits import Insert, Pin, Prune, Update, apply_batch
from graph.world_model import ROOT, Intent, WorldModel
from nodes.knob_plan import Tuning
from nodes.knob_tree import KnobTree, combination
from nodes.offline_planner import OfflinePlanner, first_intents, revision
from nodes.paid import PaidCalls
from nodes.planner import Planner
from tests.contracts import PlannerContract, Told
from tests.strategies import edited

TUNING = Tuning()


def begun(task: Task | None = None, **options: object) -> Told:
    """A search after initialize."""
    told = Told.begin(task or scripted_task(4, 3), SearchConfig(**options), "cpp")
    told.model = committed(told.model, first_intents(told.view(), TUNING).batch)
    return told


def committed(model: WorldModel, batch: object) -> WorldModel:
    verdict = apply_batch(model, batch)
    assert verdict.model is not None, verdict.reasons
    return verdict.model


def searched(task: Task, landscape: Landscape, **options: object) -> tuple[SerialSearch, list[WorldModel]]:
    search = SerialSearch(
        task=task,
        evaluator=ScriptedEvaluator(landscape),
        first=lambda view: first_intents(view, TUNING),
        revise=lambda view: revision(view, TUNING),
        config=SearchConfig(**options),
    )
    return search, list(search.run())


def titled(model: WorldModel, title: str, parent: str = ROOT) -> str:
    return next(node.id for node in model.nodes if node.intent.title == title and node.parent == parent)


class TestContract(PlannerContract):
    @pytest.fixture
    def planner(self) -> Planner:
        return OfflinePlanner()

    async def test_it_costs_nothing(self, planner: Planner, told: Told, calls: PaidCalls) -> None:
        await planner.initialize(told.view(), calls)
        await planner.revise(told.view(1), calls)
        assert calls.spent == []


class TestFirstIntents:
    def test_every_other_value_of_every_knob_becomes_an_intent(self) -> None:
        nodes = begun(scripted_task({"TILE": ("8", "16"), "UNROLL": ("1", "2", "4")})).model.nodes
        assert [(node.intent.title, node.intent.settings) for node in nodes] == [
            ("TILE = 16", {"TILE": "16"}),
            ("UNROLL = 2", {"UNROLL": "2"}),
            ("UNROLL = 4", {"UNROLL": "4"}),
        ]
        assert nodes[0].intent.description == "TILE = 16: Turn TILE."
        assert len({node.intent.priority for node in nodes}) == 1
        assert all(node.intent.predicted_gain == pytest.approx(1) for node in nodes)

    def test_many_knobs_do_not_all_start_at_once(self) -> None:
        assert len(begun(scripted_task(20, 4)).model.nodes) == TUNING.first

    @pytest.mark.parametrize(
        ("task", "seed", "words"),
        [
            (scripted_task({}), 1.0, "declares no knobs"),
            (scripted_task(), None, "no seed program"),
            (scripted_task({"A": ("1", "1")}), 1.0, "cannot be read"),
        ],
    )
    def test_without_knobs_nothing_is_proposed_and_it_is_said_why(
        self, task: Task, seed: float | None, words: str
    ) -> None:
        told = _unread(task, seed)
        for proposal in (first_intents(told.view(), TUNING), revision(told.view(1), TUNING)):
            assert proposal.batch.edits == ()
            assert words in proposal.note


class TestRevision:
    def test_a_gain_is_built_upon(self) -> None:
        told = begun()
        report = told.settle(titled(told.model, "KNOB_B = 4"), 1, 1.4)
        batch = revision(told.view(1, (report,)), TUNING).batch
        inserts = [edit for edit in batch.edits if isinstance(edit, Insert)]
        assert {insert.parent for insert in inserts} == {report.cycle.node}
        top = max(committed(told.model, batch).frontier(), key=lambda node: node.intent.priority)
        assert top.parent == report.cycle.node
        assert "x1.4" in batch.reason
        assert batch.summary is not None
        assert "KNOB_B is 4" in batch.summary

    def test_a_loss_is_not_built_upon(self) -> None:
        told = begun()
        report = told.settle(titled(told.model, "KNOB_B = 4"), 1, 0.6)
        batch = revision(told.view(1, (report,)), TUNING).batch
        assert {edit.parent for edit in batch.edits if isinstance(edit, Insert)} <= {ROOT}

    def test_a_gain_raises_the_change_elsewhere_and_a_loss_lowers_it(self) -> None:
        told = begun()
        told.settle(titled(told.model, "KNOB_A = 2"), 1, 1.2)
        gained, lost = titled(told.model, "KNOB_B = 2"), titled(told.model, "KNOB_C = 2")
        told.model = committed(told.model, revision(told.view(1), TUNING).batch)
        told.settle(gained, 2, 1.3)
        told.settle(lost, 3, 0.7)
        model = committed(told.model, revision(told.view(2), TUNING).batch)
        base = next(node.id for node in model.nodes if node.intent.title == "KNOB_A = 2")
        on_base = {
            tuple(sorted(KnobTree(model).settings(node.id).items())): node.intent.priority
            for node in model.frontier()
            if node.parent in (base, gained)
        }
        with_gain = [v for key, v in on_base.items() if ("KNOB_B", "2") in key and ("KNOB_A", "2") in key]
        with_loss = [v for key, v in on_base.items() if ("KNOB_C", "2") in key]
        assert max(with_gain) > max(with_loss, default=0)

    def test_a_change_that_lost_under_two_parents_is_pruned(self) -> None:
        told = begun()
        told.settle(titled(told.model, "KNOB_A = 2"), 1, 1.5)
        told.settle(titled(told.model, "KNOB_B = 2"), 2, 0.5)
        on_best = told.insert(Intent(title="KNOB_B = 2", priority=0.5, settings={"KNOB_B": "2"}), "n1")
        told.settle(on_best, 3, 0.7)
        told.settle(titled(told.model, "KNOB_A = 4"), 4, 1.4)
        third = told.insert(
            Intent(title="KNOB_B = 2", priority=0.9, settings={"KNOB_B": "2"}), titled(told.model, "KNOB_A = 4")
        )
        batch = revision(told.view(4), TUNING).batch
        reasons = {edit.node: edit.reason for edit in batch.edits if isinstance(edit, Prune)}
        assert reasons[third].startswith("KNOB_B = 2 has lost: x0.5 on root, x0.467 on n1")
        later = committed(told.model, batch)
        assert all(node.intent.settings != {"KNOB_B": "2"} for node in later.frontier())

    def test_what_cannot_win_any_more_is_pruned(self) -> None:
        told = begun()
        for number, (knob, objective) in enumerate([("A", 5.0), ("B", 1.01), ("C", 1.01)], start=1):
            told.settle(titled(told.model, f"KNOB_{knob} = 2"), number, objective)
        both = told.insert(Intent(title="Both", priority=0.5, settings={"KNOB_B": "2", "KNOB_C": "2"}))
        batch = revision(told.view(3), TUNING).batch
        reasons = {edit.node: edit.reason for edit in batch.edits if isinstance(edit, Prune)}
        assert reasons[both].startswith("cannot win any more; of the best, expected: x0.2")

    def test_failing_values_are_left_alone(self) -> None:
        told = begun()
        told.settle(titled(told.model, "KNOB_A = 2"), 1, 1.2)
        told.settle(titled(told.model, "KNOB_B = 2"), 2, Status.CRASHED)
        model = committed(told.model, revision(told.view(2), TUNING).batch)
        with_failing = [node for node in model.frontier() if node.intent.settings.get("KNOB_B") == "2"]
        assert all(node.intent.priority < 0.05 for node in with_failing)

    def test_what_a_person_has_pinned_or_inserted_stays_as_it_is(self) -> None:
        told = begun()
        pinned = titled(told.model, "KNOB_D = 2")
        told.model = edited(told.model, Pin(node=pinned), origin="human")
        insert = Insert(parent=ROOT, intent=Intent(title="Mine", priority=0.2, settings={"KNOB_A": "4", "KNOB_D": "4"}))
        mine = told.commit(insert, origin="human")
        report = told.settle(titled(told.model, "KNOB_A = 2"), 1, 1.5)
        batch = revision(told.view(1, (report,)), TUNING).batch
        touched = {edit.node for edit in batch.edits if isinstance(edit, Update | Prune)}
        assert touched
        assert not touched & {pinned, mine}
        combinations_ = [
            combination({**_SEED, **edit.intent.settings}) for edit in batch.edits if isinstance(edit, Insert)
        ]
        assert combination({**_SEED, "KNOB_A": "4", "KNOB_D": "4"}) not in combinations_

    def test_a_title_that_a_person_has_taken_does_not_spoil_the_batch(self) -> None:
        told = Told.begin(scripted_task(2, 2), SearchConfig(), "cpp")
        told.commit(Insert(parent=ROOT, intent=Intent(title="knob_a = 2 ", priority=0.2)), origin="human")
        batch = first_intents(told.view(), TUNING).batch
        assert [edit.intent.title for edit in batch.edits if isinstance(edit, Insert)] == ["KNOB_B = 2"]
        assert apply_batch(told.model, batch).accepted

    def test_programs_whose_knobs_cannot_be_read_are_not_built_upon(self) -> None:
        """A model's program, say, in a search whose coder was changed."""
        told = begun()
        report = told.settle(titled(told.model, "KNOB_A = 2"), 1, 1.5)
        best = told.model.standing(report.cycle.node)
        assert best is not None
        assert best.solution is not None
        program = told.programs[best.solution]
        told.programs[best.solution] = program.model_copy(update={"files": {program.main_file: "int x;\n"}})
        batch = revision(told.view(1, (report,)), TUNING).batch
        assert apply_batch(told.model, batch).accepted
        assert {edit.parent for edit in batch.edits if isinstance(edit, Insert)} <= {ROOT}

    def test_long_values_make_titles_that_fit(self) -> None:
        flags = tuple(
            "-O3 " + " ".join(f"-foption-number-{index}-{other}" for other in range(12)) for index in range(3)
        )
        told = begun(scripted_task({name: flags for name in ("FIRST", "SECOND", "THIRD")}))
        for number, name in enumerate(("FIRST", "SECOND"), start=1):
            node = next(node for node in told.model.frontier() if name in node.intent.settings)
            told.settle(node.id, number, 1.3)
        model = committed(told.model, revision(told.view(2), TUNING).batch)
        assert len(model.nodes) > len(told.model.nodes)

    def test_wide_searches_get_enough_to_work_on(self) -> None:
        told = begun(scripted_task(8, 4), width=8)
        reports = tuple(told.settle(f"n{number}", number, 1.0 + number / 100) for number in range(1, 9))
        batch = revision(told.view(1, reports), TUNING).batch
        assert sum(isinstance(edit, Insert) for edit in batch.edits) == 16
        assert batch.cycles == tuple(range(1, 9))

    def test_a_difficulty_ceiling_shuts_nothing_out(self) -> None:
        _, models = searched(scripted_task(5, 3), Landscape(seed=1), difficulty_ceiling=1, max_evaluations=20)
        assert {node.intent.difficulty for node in models[-1].nodes} == {1}


_SEED = {f"KNOB_{letter}": "1" for letter in "ABCD"}
LANDSCAPES = st.builds(
    Landscape,
    seed=st.integers(0, 10**6),
    spread=st.floats(0, 1),
    interaction_spread=st.sampled_from([0.0, 0.1, 0.5]),
    failing_share=st.sampled_from([0.0, 0.1, 0.6]),
)
SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=6)


@settings(max_examples=25)
@given(LANDSCAPES, SIZES, st.booleans(), st.sampled_from(["max", "min"]), st.integers(1, 5))
def test_whatever_the_landscape_batches_are_valid_and_nothing_is_proposed_twice(
    landscape: Landscape, sizes: list[int], flat: bool, goal: str, width: int
) -> None:
    names = {f"K{index}": tuple(str(value) for value in range(size)) for index, size in enumerate(sizes)}
    task = scripted_task(names, objective=Objective(goal=goal))
    search, models = searched(task, landscape, flat=flat, width=width, max_evaluations=30)
    model = models[-1]
    tree = KnobTree(model)
    every = [combination(tree.settings(node.id)) for node in model.nodes]
    assert len({combination(tree.settings(ROOT)), *every}) == len(every) + 1
    assert all(len(tree.settings(node.id)) == len(names) for node in model.nodes)
    for before, after in pairwise(models):
        assert after.counts()["open"] <= TUNING.open_limit
        assert len(after.nodes) - len(before.nodes) <= TUNING.first
    if flat:
        assert all(node.parent == ROOT for node in model.nodes)
    else:
        assert all(len(node.intent.settings) <= TUNING.together for node in model.nodes)
    assert len(search.evaluations) - 1 <= min(30, math.prod(sizes) - 1)


@settings(max_examples=5)
@given(LANDSCAPES)
def test_equal_searches_have_equal_trees(landscape: Landscape) -> None:
    first, second = [searched(scripted_task(4, 3), landscape, max_evaluations=12)[1][-1] for _ in range(2)]
    assert first.model_dump_json() == second.model_dump_json()


def test_small_spaces_are_searched_to_their_end() -> None:
    """Four combinations beside the seed's at most; then nothing is left to select."""
    _, models = searched(scripted_task(2, 2), Landscape(seed=3, interaction_spread=0.3), max_evaluations=30)
    assert models[-1].frontier() == ()
    assert len(models[-1].nodes) == 3


@pytest.mark.parametrize("family", ["additive", "interacting", "failing", "sparse"])
def test_forty_evaluations_find_the_best_combination_or_nearly(family: str) -> None:
    """Of 150 to 65,000; benchmarks/offline_planner.py has the figures in full."""
    for seed in (1, 2):
        case = instance(family, seed)
        search, models = searched(case.task, case.landscape, max_evaluations=40)
        assert math.exp(search.best(models[-1]) - case.best) > 0.9


def test_two_values_that_lose_alone_and_win_together_are_found() -> None:
    """The pair is in 9 of the 81 combinations; each value alone is a loss, so no way leads there step by step."""
    pair = {"KNOB_A": "2", "KNOB_B": "2"}
    landscape = Landscape(
        spread=0.02,
        factors={name: {value: 0.97} for name, value in pair.items()},
        interactions=(Interaction(settings=pair, factor=1.6),),
    )
    _, models = searched(scripted_task(4, 3), landscape, max_evaluations=40)
    assert pair.items() <= KnobTree(models[-1]).standings()[0].settings.items()


def test_predicted_gains_are_worth_something() -> None:
    """Without interactions, predictions on changes that were seen before come close, and are right on average."""
    case = instance("additive", 5)
    _, models = searched(case.task, case.landscape, max_evaluations=40)
    calibration = calibrate(models[-1])
    assert calibration.count > 20
    assert calibration.bias is not None
    assert abs(calibration.bias) < 0.05
    late = calibration.points[len(calibration.points) // 2 :]
    errors = [abs(point.log_error) for point in late if point.log_error is not None]
    assert sum(errors) / len(errors) < 0.05


def test_a_value_that_always_fails_is_not_tried_again_and_again() -> None:
    failing = Failing(settings={"KNOB_A": "2"}, status=Status.WRONG_VALUES)
    _, models = searched(scripted_task(4, 3), Landscape(failing=(failing,)), max_evaluations=30)
    assert 1 <= models[-1].counts()["failed"] <= 3


def _unread(task: Task, seed: float | None) -> Told:
    """As Told.begin, also for a seed program whose knobs cannot be read."""
    program = task.seed("cpp")
    assert program is not None
    plain = scripted_task({})
    told = Told.begin(plain, SearchConfig(), "cpp", seed=seed)
    if told.model.seed is not None and told.model.seed.solution is not None:
        told.programs[told.model.seed.solution] = program
    return replace(told, task=task)
