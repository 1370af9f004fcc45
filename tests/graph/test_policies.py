import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph.calibration import Calibration, CalibrationPoint, calibrate
from graph.config import PolicyName, SearchConfig
from graph.edits import Insert, Pin
from graph.policies import POLICIES, selectable
from graph.transitions import activate, plant
from graph.world_model import ROOT, WorldModel
from tests.strategies import closed, edited, evidence, failed, grown, intent, trees


def pick(
    model: WorldModel,
    policy: PolicyName = "priority",
    places: int = 1,
    round: int = 1,
    known: Calibration | None = None,
    **options: Any,
) -> tuple[str, ...]:
    config = SearchConfig(policy=policy, **options)
    return POLICIES[policy].select(model, config, round, places, known)


def roots(*priorities: float, **fields: Any) -> WorldModel:
    """A tree of open nodes n1, n2, ... under the root."""
    return grown(*((ROOT, intent(f"I{number}", value, **fields)) for number, value in enumerate(priorities)))


EVERY = pytest.mark.parametrize("policy", sorted(POLICIES))
ARGUMENTS = st.tuples(trees(), st.sampled_from(sorted(POLICIES)), st.integers(0, 5), st.none() | st.integers(1, 5))


@given(ARGUMENTS, st.integers(0, 3), st.booleans())
@settings(max_examples=60)
def test_every_policy_picks_distinct_frontier_nodes_below_the_ceiling_pinned_first(
    arguments: tuple[WorldModel, PolicyName, int, int | None], round: int, calibrated: bool
) -> None:
    model, policy, places, ceiling = arguments
    calibration = calibrate(model) if calibrated else None
    options: dict[str, Any] = {"difficulty_ceiling": ceiling, "calibration": calibrated}
    picks = pick(model, policy, places, round, calibration, **options)
    choices = {node.id: node for node in selectable(model, SearchConfig(difficulty_ceiling=ceiling))}
    assert set(choices) <= {node.id for node in model.frontier()}
    assert len(set(picks)) == len(picks) == min(places, len(choices))
    assert set(picks) <= set(choices)
    pins = [choices[name].pinned for name in picks]
    assert pins == sorted(pins, reverse=True)
    assert sum(pins) == min(places, sum(node.pinned for node in choices.values()))
    assert all(ceiling is None or choices[name].intent.difficulty <= ceiling for name in picks)
    assert pick(model, policy, places, round, calibration, **options) == picks


@given(ARGUMENTS)
@settings(max_examples=60)
def test_several_places_are_filled_as_if_the_earlier_picks_were_active(
    arguments: tuple[WorldModel, PolicyName, int, int | None],
) -> None:
    model, policy, places, ceiling = arguments
    if policy == "random":
        return  # its draws are numbered by place
    expected = []
    one_by_one = model
    for _ in range(places):
        for name in pick(one_by_one, policy, 1, difficulty_ceiling=ceiling):
            expected.append(name)
            one_by_one = activate(one_by_one, name)
    assert pick(model, policy, places, difficulty_ceiling=ceiling) == tuple(expected)


@EVERY
def test_there_may_be_nothing_to_pick(policy: PolicyName) -> None:
    assert pick(WorldModel(), policy) == ()
    assert pick(activate(roots(0.5), "n1"), policy) == ()
    assert pick(roots(0.5), policy, places=0) == ()
    assert pick(roots(0.9, 0.8, difficulty=4), policy, difficulty_ceiling=3) == ()


@EVERY
def test_pinned_nodes_come_first_by_urgency(policy: PolicyName) -> None:
    model = edited(roots(0.9, 0.1, 0.2, 0.3), Pin(node="n2"), Pin(node="n3"), origin="human")
    assert pick(model, policy, places=2) == ("n3", "n2")
    assert len(pick(model, policy, places=9)) == 4


def test_the_ceiling_hides_pinned_nodes_too() -> None:
    model = edited(roots(0.9, difficulty=5), Pin(node="n1"), origin="human")
    assert pick(model, difficulty_ceiling=4) == ()


def test_priority_takes_the_highest_then_the_easier_then_the_older() -> None:
    model = grown(
        (ROOT, intent("A", 0.5, difficulty=3)),
        (ROOT, intent("B", 0.7, difficulty=4)),
        (ROOT, intent("C", 0.7, difficulty=2)),
        (ROOT, intent("D", 0.7, difficulty=2)),
    )
    assert pick(model, places=4) == ("n3", "n4", "n2", "n1")


def test_random_depends_on_seed_and_round_and_reaches_everything_alike() -> None:
    model = roots(0.9, 0.1, 0.1, 0.1)
    counts = Counter(pick(model, "random", round=round)[0] for round in range(2000))
    assert set(counts) == {"n1", "n2", "n3", "n4"}
    assert max(abs(count - 500) for count in counts.values()) < 80  # four standard deviations; the draws are fixed
    first, second = ([pick(model, "random", round=round, seed=seed) for round in range(20)] for seed in (1, 2))
    assert first != second


def test_random_draws_again_for_every_place() -> None:
    orders = {pick(roots(0.5, 0.5, 0.5), "random", places=3, round=round) for round in range(100)}
    assert len(orders) == 6


# PUCT. Rewards: no program 0; the tree's worst objective 0, its best 1.


def test_puct_without_results_is_argmax_priority() -> None:
    assert pick(roots(0.2, 0.9, 0.5), "puct", places=3)[0] == "n2"


def test_puct_goes_where_results_were_good() -> None:
    model = plant(roots(0.5, 0.5), evidence(0, 1.0))
    model = closed(closed(model, "n1", 1.1), "n2", 4.0)
    model = grown(("n1", intent("C", 0.5)), ("n2", intent("D", 0.5)), model=model)
    assert pick(model, "puct", puct_exploration=0.1) == ("n4",)


def test_puct_follows_the_goal() -> None:
    model = plant(grown((ROOT, intent("A")), (ROOT, intent("B")), model=WorldModel(goal="min")), evidence(0, 4.0))
    model = closed(closed(model, "n1", 3.9), "n2", 1.0)
    model = grown(("n1", intent("C", 0.5)), ("n2", intent("D", 0.5)), model=model)
    assert pick(model, "puct", puct_exploration=0.1) == ("n4",)


def test_puct_compares_q_plus_u_as_documented() -> None:
    """One comparison by hand: the seed (reward 0), a closed node with the best result, and an open sibling."""
    model = plant(roots(0.3, 0.2), evidence(0, 1.0))
    model = grown(("n1", intent("C", 0.5)), model=closed(model, "n1", 2.0))
    # Root: N = 2 (seed, n1's cycle), rewards 0 and 1. n1: Q = 1, N = 1, P = 0.6.
    # n2: P = 0.4, Q = mean at and below the root = 0.5.
    # 1 + c 0.6 sqrt(2) / 2 = 0.5 + c 0.4 sqrt(2)  <=>  c = 0.5 / (0.1 sqrt(2))
    balance = 0.5 / (0.1 * math.sqrt(2))
    assert pick(model, "puct", puct_exploration=balance * 0.999) == ("n3",)
    assert pick(model, "puct", puct_exploration=balance * 1.001) == ("n2",)


def test_puct_counts_active_nodes_as_losses() -> None:
    model = plant(roots(0.5, 0.5), evidence(0, 1.0))
    model = closed(closed(model, "n1", 2.0), "n2", 2.0)
    model = grown(("n1", intent("C", 0.5)), ("n1", intent("D", 0.5)), ("n2", intent("E", 0.4)), model=model)
    assert pick(model, "puct") == ("n3",)
    assert pick(activate(model, "n3"), "puct") == ("n5",)
    assert pick(model, "puct", places=2) == ("n3", "n5")


def test_puct_counts_failures_as_losses_but_not_cycles_cut_short() -> None:
    model = plant(roots(0.5, 0.5), evidence(0, 1.0))
    model = closed(closed(model, "n1", 2.0), "n2", 2.0)
    model = grown(("n1", intent("C", 0.5)), ("n1", intent("D", 0.5)), ("n2", intent("E", 0.5)), model=model)
    assert pick(failed(model, "n3"), "puct") == ("n5",)
    nodes = tuple(
        node.model_copy(update={"evidence": (evidence(9, None, cut_short=True),)}) if node.id == "n3" else node
        for node in model.nodes
    )
    cut_short = WorldModel(**{**dict(model), "nodes": nodes})
    assert pick(cut_short, "puct", places=3) == pick(model, "puct", places=3)


def test_puct_explores_more_with_a_larger_constant() -> None:
    model = plant(roots(0.5, 0.5, 0.5), evidence(0, 1.0))
    model = grown(("n1", intent("C", 0.5)), model=closed(model, "n1", 4.0))
    assert pick(model, "puct", puct_exploration=0.0) == ("n4",)
    assert pick(model, "puct", puct_exploration=9.0) == ("n2",)


def test_puct_without_any_priority_still_picks() -> None:
    assert pick(roots(0.0, 0.0), "puct", places=2) == ("n1", "n2")


def test_puct_uses_corrected_predictions_only_with_calibration() -> None:
    model = closed(plant(roots(0.5), evidence(0, 1.0)), "n1", 4.0)
    predicting = intent("C", 0.5, predicted_gain=0.9)
    model = grown(("n1", intent("A")), ("n1", intent("B", 0.51)), ("n1", predicting), model=model)
    model = failed(model, "n2")
    # Below n1, one of two cycles passed: n3 is expected to bring 0.5, n4 what it predicts (3.6 of 1 to 4: 0.92).
    good = Calibration(points=(CalibrationPoint("n1", 2.0, 2.0),))
    bad = Calibration(points=(CalibrationPoint("n1", 1000.0, 0.001),) * 20)
    assert pick(model, "puct", known=good, calibration=True) == ("n4",)
    assert pick(model, "puct", known=bad, calibration=True) == ("n3",)
    assert pick(model, "puct", known=good) == ("n3",)
    assert pick(model, "puct", known=Calibration(), calibration=True) == ("n3",)
    assert pick(model, "puct", calibration=True) == ("n3",)


def test_puct_descends_through_nodes_that_are_closed() -> None:
    model = plant(roots(0.9), evidence(0, 1.0))
    for parent in ("n1", "n2", "n3"):
        model = edited(closed(model, parent, 2.0), Insert(parent=parent, intent=intent("next")))
    assert pick(model, "puct") == ("n4",)
