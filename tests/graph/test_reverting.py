"""Undoing edits: the plan says again what it said, but for what has been worked on."""

from graph.draft import Draft
from graph.edits import Attach, Edit, EditBatch, Insert, Pin, Prune, Reopen, Update, apply_batch
from graph.reverting import Undoing, undo
from graph.world_model import Intent, WorldModel

FIRST = EditBatch(
    origin="planner",
    summary="first",
    edits=tuple(
        Insert(parent=parent, intent=Intent(title=f"Idea {at}", description="d", priority=0.5))
        for at, parent in enumerate(("root", "root", "n1"))
    ),
)


def searched(*batches: EditBatch) -> tuple[WorldModel, dict[int, EditBatch]]:
    model = WorldModel()
    for batch in batches:
        verdict = apply_batch(model, batch)
        assert verdict.model is not None, verdict.reasons
        model = verdict.model
    return model, dict(enumerate(batches, start=1))


def by_hand(*edits: Edit, summary: str | None = None) -> EditBatch:
    return EditBatch(origin="human", edits=edits, summary=summary)


def said(model: WorldModel) -> list[tuple[object, ...]]:
    return [(node.intent, node.status, node.pinned, node.program) for node in model.nodes]


def undone(*batches: EditBatch, number: int = 2) -> tuple[WorldModel, Undoing]:
    model, accepted = searched(*batches)
    undoing = undo(model, accepted, number)
    verdict = apply_batch(model, undoing.batch)
    assert verdict.model is not None, verdict.reasons
    return verdict.model, undoing


def test_changes_are_changed_back() -> None:
    before, _ = searched(FIRST)
    program = "a" * 64
    for batch in (
        by_hand(Update(node="n1", priority=0.9, title="Other"), Update(node="n1", priority=0.1)),
        by_hand(Prune(node="n1", reason="no")),
        by_hand(Pin(node="n2")),
        by_hand(Attach(node="n2", program=program)),
        by_hand(Pin(node="n2"), Update(node="n3", description="e"), summary="second"),
    ):
        after, undoing = undone(FIRST, batch)
        assert said(after) == said(before), batch
        assert after.summary == "first"
        assert undoing.notes == ()
        assert undoing.batch.origin == "human"


def test_an_insert_is_pruned_with_what_is_below() -> None:
    after, _ = undone(FIRST, number=1)
    assert [node.status for node in after.nodes] == ["pruned"] * 3
    assert after.summary == ""


def test_a_reopening_is_pruned_again() -> None:
    after, _ = undone(
        FIRST, by_hand(Prune(node="n2", reason="no")), by_hand(Reopen(node="n2", description="x")), number=3
    )
    assert after.node("n2").status == "pruned"


def test_what_was_changed_again_or_worked_on_is_left() -> None:
    first = by_hand(Update(node="n1", priority=0.9, difficulty=5))
    after, undoing = undone(FIRST, first, by_hand(Update(node="n1", priority=0.2)))
    assert (after.node("n1").intent.priority, after.node("n1").intent.difficulty) == (0.2, 3)
    model, accepted = searched(FIRST, first)
    draft = Draft(model)
    draft.change("n1", status="failed", reason="no program passed")
    draft.change("n3", status="pruned", reason="n1: no program passed")
    undoing = undo(draft.committed(), accepted, 2)
    assert undoing.batch.edits == ()
    assert undoing.notes == ("n1 is failed: what it says stays",)
    unset = by_hand(Update(node="n1", predicted_gain=1.5))
    _, undoing = undone(FIRST, unset)
    assert undoing.notes == ("n1: predicted_gain had not been set",)
