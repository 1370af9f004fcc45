"""What the tree knows of knob settings."""

import math

import pytest

from evaluators.scripted_tasks import scripted_task
from evaluators.worker.status import Status
from graph.config import SearchConfig
from graph.edits import Prune
from graph.world_model import ROOT, Intent, WorldModel
from nodes.knob_tree import KnobTree, Trial, combination
from tests.contracts import Told

SEED = {"KNOB_A": "1", "KNOB_B": "1", "KNOB_C": "1"}


@pytest.fixture
def told() -> Told:
    return Told.begin(scripted_task(3, 3), SearchConfig(), "cpp")


def turn(told: Told, parent: str = ROOT, **changes: str) -> str:
    return told.insert(Intent(title=str(changes), priority=0.5, settings=changes), parent)


def test_settings_follow_the_tree(told: Told) -> None:
    first = turn(told, KNOB_A="2")
    told.settle(first, 1, 1.2)
    second = turn(told, first, KNOB_B="4")
    third = turn(told, second, KNOB_A="4")
    tree = KnobTree(told.model)
    assert tree.settings(ROOT) == SEED
    assert tree.settings(first) == {**SEED, "KNOB_A": "2"}
    assert tree.settings(third) == {**SEED, "KNOB_A": "4", "KNOB_B": "4"}


def test_combinations_exist_whatever_became_of_them(told: Told) -> None:
    nodes = [turn(told, KNOB_A=value) for value in ("2", "4")] + [turn(told, KNOB_B=value) for value in ("2", "4")]
    told.settle(nodes[0], 1, 1.2)
    told.settle(nodes[1], 2, Status.TIMEOUT)
    told.model = _pruned(told.model, nodes[2])
    expected = [{}, {"KNOB_A": "2"}, {"KNOB_A": "4"}, {"KNOB_B": "2"}, {"KNOB_B": "4"}]
    assert KnobTree(told.model).combinations() == {combination({**SEED, **changes}) for changes in expected}


def test_observations_are_programs_and_not_drafts(told: Told) -> None:
    nodes = [turn(told, KNOB_A="2"), turn(told, KNOB_A="4"), turn(told, KNOB_B="2")]
    for number, outcome in enumerate([1.2, Status.TIMEOUT, None], start=1):
        told.settle(nodes[number - 1], number, outcome)
    seen = [(item.settings, item.log_gain) for item in KnobTree(told.model).observations()]
    assert seen == [
        (SEED, 0.0),
        ({**SEED, "KNOB_A": "2"}, pytest.approx(math.log(1.2))),
        ({**SEED, "KNOB_A": "4"}, None),
    ]


def test_standings_are_closed_nodes_and_the_root_best_first(told: Told) -> None:
    better, worse, failed = turn(told, KNOB_A="2"), turn(told, KNOB_A="4"), turn(told, KNOB_B="2")
    told.settle(worse, 1, 0.9)
    told.settle(better, 2, 1.2)
    told.settle(failed, 3, Status.CRASHED)
    standings = KnobTree(told.model).standings()
    assert [(item.node, item.improved) for item in standings] == [(better, True), (ROOT, True), (worse, False)]


@pytest.mark.parametrize(("objective", "lost"), [(1.2, False), (1.004, True), (0.9, True)])
def test_a_gain_within_the_noise_is_a_loss(told: Told, objective: float, lost: bool) -> None:
    node = turn(told, KNOB_A="2")
    told.settle(node, 1, objective)
    (trial,) = KnobTree(told.model).trials()["KNOB_A", "2"]
    assert trial == Trial(node, ROOT, pytest.approx(math.log(objective)), lost)


def test_trials_are_changes_made_alone(told: Told) -> None:
    first, both, failed = turn(told, KNOB_A="2"), turn(told, KNOB_B="2", KNOB_C="2"), turn(told, KNOB_C="4")
    told.settle(first, 1, 1.2)
    told.settle(both, 2, 1.3)
    told.settle(failed, 3, Status.CRASHED)
    again = turn(told, both, KNOB_A="2")
    told.settle(again, 4, 1.0)
    trials = KnobTree(told.model).trials()
    assert [(trial.parent, trial.lost) for trial in trials["KNOB_A", "2"]] == [(ROOT, False), (both, True)]
    assert trials["KNOB_C", "4"] == [Trial(failed, ROOT, None, lost=True)]
    assert ("KNOB_B", "2") not in trials


def test_without_a_seed_there_is_nothing_to_read() -> None:
    with pytest.raises(ValueError, match="no seed"):
        KnobTree(WorldModel())


def _pruned(model: WorldModel, node: str) -> WorldModel:
    from tests.strategies import edited

    return edited(model, Prune(node=node, reason="test"))
