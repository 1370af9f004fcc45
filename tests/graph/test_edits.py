from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pydantic import ValidationError

from evaluators.errors import UsageError
from graph.config import SearchConfig
from graph.edits import Edit, EditBatch, Insert, Pin, Prune, Reopen, Update, apply_batch
from graph.policies import POLICIES, selectable
from graph.steering import check_batch
from graph.stopping import stop_reason
from graph.transitions import activate, plant, settle
from graph.world_model import ROOT, Node, WorldModel
from nodes.accounts import no_spend
from tests.strategies import (
    GOALS,
    closed,
    edited,
    edits,
    evidence,
    failed,
    findings,
    grown,
    ids,
    intent,
    refused,
    trees,
)


def test_insert_adds_an_open_node_under_root_open_and_closed_nodes() -> None:
    model = grown((ROOT, intent("A")), ("n1", intent("B")))
    model = edited(closed(model, "n1"), Insert(parent="n1", intent=intent("C")), origin="human")
    assert [(node.id, node.parent, node.status, node.origin) for node in model.nodes] == [
        ("n1", ROOT, "closed", "planner"),
        ("n2", "n1", "open", "planner"),
        ("n3", "n1", "open", "human"),
    ]


def test_insert_refuses_parents_that_lead_nowhere() -> None:
    model = grown((ROOT, intent("A")), (ROOT, intent("B")), (ROOT, intent("C")))
    model = activate(edited(failed(model, "n1"), Prune(node="n2", reason="weak")), "n3")
    reasons = refused(model, *(Insert(parent=parent, intent=intent("D")) for parent in ("n1", "n2", "n3", "n9")))
    for reason, part in zip(reasons, ("n1 is failed", "n2 is pruned", "n3 is active", "no node 'n9'"), strict=True):
        assert part in reason


def test_insert_refuses_an_intent_that_its_parent_already_has() -> None:
    model = grown((ROOT, intent("Unroll by 4")))
    assert "already has the intent" in refused(model, Insert(parent=ROOT, intent=intent(" unroll BY 4 ")))[0]
    assert len(edited(model, Insert(parent="n1", intent=intent("Unroll by 4"))).nodes) == 2
    pruned = edited(model, Prune(node="n1", reason="weak"))
    assert len(edited(pruned, Insert(parent=ROOT, intent=intent("Unroll by 4"))).nodes) == 2


def test_later_edits_see_earlier_ones() -> None:
    model = grown((ROOT, intent("A")))
    model = edited(model, Insert(parent="n1", intent=intent("B")), Update(node="n2", priority=0.9))
    assert model.node("n2").intent.priority == 0.9
    double = Insert(parent=ROOT, intent=intent("C"))
    assert "edit 2 (insert)" in refused(model, double, double)[0]


def test_update_changes_what_it_names_and_nothing_else() -> None:
    before = grown((ROOT, intent("A", 0.9, description="d", predicted_gain=2.0)))
    after = edited(before, Update(node="n1", priority=0.6, confidence=0.2))
    assert after.node("n1").intent == intent("A", 0.6, description="d", predicted_gain=2.0, confidence=0.2)
    assert after.node("n1").status == "open"


def test_update_refuses_to_change_nothing_and_what_is_settled() -> None:
    model = closed(grown((ROOT, intent("A")), (ROOT, intent("B"))), "n1")
    assert refused(model, Update(node="n1", priority=0.1)) == (
        "edit 1 (update): node n1 is closed; only open nodes can be updated",
    )
    assert refused(model, Update(node="n2")) == ("edit 1 (update): node n2: nothing to change",)


def test_prune_takes_what_waits_below_along() -> None:
    model = grown((ROOT, intent("A")), ("n1", intent("B")), ("n2", intent("C")), (ROOT, intent("D")))
    model = edited(model, Prune(node="n1", reason="covered by n4"))
    assert ids(model, "pruned") == {"n1", "n2", "n3"}
    assert [model.node(name).reason for name in ("n1", "n2")] == ["covered by n4", "n1: covered by n4"]


@pytest.mark.parametrize("status", ["closed", "failed", "active"])
def test_prune_refuses_what_is_not_open(status: str) -> None:
    model = grown((ROOT, intent("A")))
    model = {"closed": closed, "failed": failed, "active": activate}[status](model, "n1")
    assert f"node n1 is {status}" in refused(model, Prune(node="n1", reason="weak"), origin="human")[0]


def test_prune_needs_a_reason() -> None:
    assert "needs a reason" in refused(grown((ROOT, intent("A"))), Prune(node="n1", reason="  "))[0]
    with pytest.raises(ValidationError):
        Prune(node="n1", reason="")


def test_a_failed_node_is_re_opened_once_by_the_planner_with_a_changed_description() -> None:
    model = failed(grown((ROOT, intent("A", description="first"))), "n1")
    assert "changed description" in refused(model, Reopen(node="n1", description=" first "))[0]
    model = edited(model, Reopen(node="n1", description="second"))
    node = model.node("n1")
    assert (node.status, node.reason, node.reopened, node.intent.description) == ("open", "", 1, "second")
    assert len(node.evidence) == 1
    model = failed(model, "n1")
    assert refused(model, Reopen(node="n1", description="third")) == ("edit 1 (reopen): node n1 was re-opened before",)


def test_people_re_open_as_often_as_they_like() -> None:
    model = grown((ROOT, intent("A", description="same")))
    for _ in range(3):
        model = edited(failed(model, "n1"), Reopen(node="n1", description="same"), origin="human")
    assert model.node("n1").reopened == 0
    model = edited(failed(model, "n1"), Reopen(node="n1", description="changed"))
    assert model.node("n1").reopened == 1


def test_only_people_re_open_quarantined_nodes() -> None:
    model = failed(grown((ROOT, intent("A"))), "n1", rule="threads")
    reopen = Reopen(node="n1", description="without threads")
    assert "quarantined" in refused(model, reopen)[0]
    assert "quarantined" in refused(model, reopen, origin="fallback")[0]
    assert edited(model, reopen, origin="human").node("n1").status == "open"


def test_what_is_not_failed_or_pruned_cannot_be_re_opened() -> None:
    model = grown((ROOT, intent("A")))
    assert "node n1 is open" in refused(model, Reopen(node="n1", description="x"), origin="human")[0]
    assert "node n1 is closed" in refused(closed(model, "n1"), Reopen(node="n1", description="x"), origin="human")[0]


@pytest.mark.parametrize("origin", ["planner", "human"])
def test_a_node_under_a_retired_parent_cannot_be_re_opened_before_its_parent(origin: str) -> None:
    model = edited(grown((ROOT, intent("A")), ("n1", intent("B"))), Prune(node="n1", reason="weak"))
    below = Reopen(node="n2", description="x")
    assert "its parent n1 is pruned" in refused(model, below, origin=origin)[0]
    model = edited(model, Reopen(node="n1", description="y"), below, origin=origin)
    assert ids(model, "open") == {"n1", "n2"}


def test_pinning_is_for_people_and_keeps_the_planner_off() -> None:
    model = grown((ROOT, intent("A")), (ROOT, intent("B")), ("n2", intent("C")))
    assert "only a person" in refused(model, Pin(node="n1"))[0]
    model = edited(model, Pin(node="n1"), Pin(node="n3"), origin="human")
    for edit in (Update(node="n1", priority=0.0), Prune(node="n1", reason="x"), Pin(node="n1", pinned=False)):
        assert "pinned by a person" in refused(model, edit)[0]
    assert refused(model, Prune(node="n2", reason="x")) == (
        "edit 1 (prune): node n2: n3 below it is pinned by a person",
    )
    model = edited(model, Pin(node="n1", pinned=False), Prune(node="n2", reason="x"), origin="human")
    assert ids(model, "pruned") == {"n2", "n3"}
    assert edited(model, Update(node="n1", priority=0.0)).node("n1").intent.priority == 0.0


def test_a_pinned_node_that_has_failed_stays_with_the_person() -> None:
    model = failed(edited(grown((ROOT, intent("A"))), Pin(node="n1"), origin="human"), "n1")
    assert "pinned by a person" in refused(model, Reopen(node="n1", description="x"))[0]


def test_a_rejected_batch_names_every_bad_edit_and_changes_nothing() -> None:
    model = closed(grown((ROOT, intent("A")), (ROOT, intent("B"))), "n1")
    before = model.model_dump_json()
    batch = EditBatch(
        origin="planner",
        summary="changed",
        edits=(
            Insert(parent="n9", intent=intent("C")),
            Insert(parent=ROOT, intent=intent("D")),
            Update(node="n1", priority=0.1),
            Prune(node="n2", reason=" "),
            Pin(node="n2"),
            Reopen(node="n3", description="x"),
        ),
    )
    verdict = apply_batch(model, batch)
    assert not verdict.accepted
    assert verdict.reasons == (
        "edit 1 (insert): there is no node 'n9'; the latest open and closed nodes are n1, n2",
        "edit 3 (update): node n1 is closed; only open nodes can be updated",
        "edit 4 (prune): node n2: pruning needs a reason",
        "edit 5 (pin): only a person can pin a node",
        "edit 6 (reopen): node n3 is open; only failed and pruned nodes can be re-opened",
    )
    assert model.model_dump_json() == before


@pytest.mark.parametrize("edit", [Prune(node=ROOT, reason="no"), Pin(node=ROOT), Update(node=ROOT, priority=0.1)])
def test_the_root_cannot_be_changed(edit: Edit) -> None:
    assert refused(grown((ROOT, intent("A"))), edit, origin="human") == (
        f"edit 1 ({edit.kind}): the root stands for the seed program and stays as it is: name a node",
    )


def test_a_person_is_told_the_first_of_many_problems() -> None:
    batch = EditBatch(origin="human", edits=tuple(Pin(node=f"n{number}") for number in range(2, 12)))
    with pytest.raises(UsageError) as told:
        check_batch(grown((ROOT, intent("A"))), batch)
    assert str(told.value).count("there is no node") == 3
    assert str(told.value).endswith("; and 7 more")


def test_a_batch_may_replace_the_notes_or_leave_them() -> None:
    model = apply_batch(WorldModel(), EditBatch(origin="planner", summary="learnt")).model
    assert model is not None
    assert (model.summary, model.revision) == ("learnt", 1)
    assert edited(model, Insert(parent=ROOT, intent=intent("A"))).summary == "learnt"


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "insert", "parent": ROOT, "intent": {"title": "A", "priority": 0.5}, "id": "n7"},
        {"kind": "update", "node": "n1", "status": "closed"},
        {"kind": "update", "node": "n1", "evidence": []},
        {"kind": "update", "node": "n1", "parent": ROOT},
        {"kind": "update", "node": "n1", "priority": 1.5},
        {"kind": "close", "node": "n1"},
    ],
)
def test_no_edit_can_say_what_the_harness_decides(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        EditBatch.model_validate({"origin": "planner", "edits": [fields]})


BATCHES = st.tuples(trees(), st.sampled_from(["planner", "human", "fallback"])).flatmap(
    lambda drawn: st.tuples(
        st.just(drawn[0]),
        st.builds(
            EditBatch,
            origin=st.just(drawn[1]),
            edits=st.lists(edits([*drawn[0].by_id(), f"n{drawn[0].next_node}"]), max_size=6).map(tuple),
        ),
    )
)


@given(BATCHES)
@settings(max_examples=60)
def test_edits_keep_ids_parents_and_evidence(drawn: tuple[WorldModel, EditBatch]) -> None:
    before, batch = drawn
    verdict = apply_batch(before, batch)
    if verdict.model is None:
        assert verdict.reasons
        return
    after = verdict.model
    assert after.revision == before.revision + 1
    assert (after.seed, after.goal) == (before.seed, before.goal)
    for old, new in zip(before.nodes, after.nodes, strict=False):
        assert (old.id, old.parent, old.evidence, old.origin) == (new.id, new.parent, new.evidence, new.origin)
        _check_status(old, new, batch)
        if old.pinned and batch.origin != "human":
            assert old == new
    assert all(node.evidence == () and node.origin == batch.origin for node in after.nodes[len(before.nodes) :])
    assert WorldModel(**dict(after)) == after


def _check_status(old: Node, new: Node, batch: EditBatch) -> None:
    """Only Prune (with its cascade) and Reopen change a status."""
    asked = {(edit.kind, edit.node) for edit in batch.edits if not isinstance(edit, Insert)}
    if old.status in ("closed", "active"):
        assert new.status == old.status
    if old.status in ("failed", "pruned") and new.status not in (old.status, "pruned"):
        assert new.status == "open"
        assert ("reopen", old.id) in asked
        if batch.origin != "human":
            assert new.reopened == 1
            assert not any(item.rule for item in old.evidence)
            assert new.intent.description != old.intent.description
    if old.status == "open" and new.status != "open":
        assert new.status == "pruned"
        assert any(kind == "prune" for kind, _ in asked)


@given(BATCHES)
@settings(max_examples=60)
def test_without_its_bad_edits_a_rejected_batch_is_accepted(drawn: tuple[WorldModel, EditBatch]) -> None:
    model, batch = drawn
    verdict = apply_batch(model, batch)
    bad = {int(reason.split()[1]) for reason in verdict.reasons}
    good = tuple(edit for number, edit in enumerate(batch.edits, start=1) if number not in bad)
    assert verdict.accepted == (not bad)
    assert apply_batch(model, EditBatch(origin=batch.origin, edits=good)).accepted


@given(BATCHES)
@settings(max_examples=60)
def test_a_batch_is_its_edits_one_after_another(drawn: tuple[WorldModel, EditBatch]) -> None:
    model, batch = drawn
    whole = apply_batch(model, batch).model
    if whole is not None:
        for edit in batch.edits:
            model = edited(model, edit, origin=batch.origin)
        assert model.nodes == whole.nodes


class Search(RuleBasedStateMachine):
    """A planner, a person and the harness at work on one tree, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.model = WorldModel()
        self.config = SearchConfig()
        self.cycle = 0
        self.round = 0

    def _edit(self, batch: EditBatch) -> None:
        before = self.model.model_dump_json()
        verdict = apply_batch(self.model, batch)
        assert self.model.model_dump_json() == before
        if verdict.model is None:
            assert len(verdict.reasons) > 0
            return
        assert verdict.model.revision == self.model.revision + 1
        assert [node.evidence for node in verdict.model.nodes[: len(self.model.nodes)]] == [
            node.evidence for node in self.model.nodes
        ]
        self._only_reopened_came_back(self.model, verdict.model, batch.edits)
        self.model = verdict.model

    @staticmethod
    def _only_reopened_came_back(old: WorldModel, new: WorldModel, made: tuple[Edit, ...]) -> None:
        back = (ids(old, "failed") | ids(old, "pruned")) & (ids(new, "open") | ids(new, "active") | ids(new, "closed"))
        assert back <= {edit.node for edit in made if isinstance(edit, Reopen)}

    @precondition(lambda self: self.model.revision == 0)
    @rule(goal=GOALS, objective=st.none() | st.floats(0.1, 10))
    def initialize(self, goal: Any, objective: float | None) -> None:
        self.model = WorldModel(goal=goal)
        if objective is not None:
            self.model = plant(self.model, evidence(0, objective))

    @rule(data=st.data(), origin=st.sampled_from(["planner", "human", "fallback"]))
    def edit(self, data: st.DataObject, origin: Any) -> None:
        choices = edits(list(self.model.by_id()))
        self._edit(EditBatch(origin=origin, edits=tuple(data.draw(st.lists(choices, min_size=1, max_size=4)))))

    @rule(data=st.data(), count=st.integers(1, 3))
    def grow(self, data: st.DataObject, count: int) -> None:
        """What a planner does most: valid inserts, so that trees get deep."""
        parents = [ROOT, *sorted(ids(self.model, "open") | ids(self.model, "closed"))]
        made = tuple(
            Insert(parent=data.draw(st.sampled_from(parents)), intent=intent(f"I{self.model.next_node + number}"))
            for number in range(count)
        )
        before = self.model.next_node
        self._edit(EditBatch(origin="planner", edits=made))
        assert self.model.next_node == before + count

    @rule(policy=st.sampled_from(sorted(POLICIES)), places=st.integers(1, 3), ceiling=st.none() | st.integers(1, 5))
    def select(self, policy: Any, places: int, ceiling: int | None) -> None:
        self.round += 1
        self.config = SearchConfig(policy=policy, difficulty_ceiling=ceiling)
        for node in POLICIES[policy].select(self.model, self.config, self.round, places, None):
            revision = self.model.revision
            self.model = activate(self.model, node)
            assert self.model.revision == revision + 1

    @precondition(lambda self: ids(self.model, "active"))
    @rule(data=st.data(), ended=st.booleans())
    def settle(self, data: st.DataObject, ended: bool) -> None:
        self.cycle += 1
        node = data.draw(st.sampled_from(sorted(ids(self.model, "active"))))
        before, found = self.model, data.draw(findings(self.cycle))
        self.model = settle(before, node, found, ended=ended)
        settled = self.model.node(node)
        assert settled.evidence == (*before.node(node).evidence, found)
        expected = "closed" if found.objective is not None else "failed" if ended or found.rule else "open"
        assert settled.status == expected
        if expected == "failed":
            assert not any(below.status == "open" for below in self.model.descendants(node))
        self._only_reopened_came_back(before, self.model, ())

    @invariant()
    def passes_the_full_check(self) -> None:
        assert WorldModel.model_validate_json(self.model.model_dump_json()) == self.model

    @invariant()
    def has_something_to_do_or_a_reason_to_stop(self) -> None:
        active = len(ids(self.model, "active"))
        stop = stop_reason(self.model, self.config, no_spend(), None, active=active)
        if stop is None:
            assert active or selectable(self.model, self.config)
        else:
            assert stop["detail"]
            assert not active
            assert not selectable(self.model, self.config)


TestSearch = Search.TestCase
TestSearch.settings = settings(max_examples=60, stateful_step_count=30)
