"""The plan as text: it reads back as what it was, and every change is the edit that it looks like."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluators.errors import UsageError
from graph.edits import EditBatch, Insert, Pin, Prune, Reopen, Update, apply_batch
from graph.plan_text import plan_text, read_plan
from graph.world_model import Intent, WorldModel


def planted(*edits: Insert | Prune) -> WorldModel:
    verdict = apply_batch(WorldModel(), EditBatch(origin="planner", summary="known", edits=edits))
    assert verdict.model is not None
    return verdict.model


@pytest.fixture
def model() -> WorldModel:
    return planted(
        Insert(parent="root", intent=Intent(title="Tile", priority=0.5, description="Tile it.\nTwice.")),
        Insert(parent="root", intent=Intent(title="Fuse", priority=0.4)),
        Prune(node="n2", reason="no"),
    )


def changed(model: WorldModel, *pairs: tuple[str, str]) -> EditBatch:
    head, start, text = plan_text(model, "softmax-1").partition("\nreason = ")
    text = start + text
    for old, new in pairs:
        assert old in text, text
        text = text.replace(old, new, 1)
    return read_plan(head + text, model)


def test_without_a_change_there_are_no_edits(model: WorldModel) -> None:
    assert changed(model) == EditBatch(origin="human")


@given(st.text(min_size=1, max_size=60), st.text(max_size=200), st.text(max_size=200))
def test_any_text_survives(title: str, description: str, summary: str) -> None:
    intent = Intent(title=title, priority=0.123456789, description=description)
    verdict = apply_batch(
        WorldModel(), EditBatch(origin="planner", summary=summary, edits=(Insert(parent="root", intent=intent),))
    )
    assert verdict.model is not None
    assert read_plan(plan_text(verdict.model, "x"), verdict.model) == EditBatch(origin="human")


def test_every_change_is_an_edit(model: WorldModel) -> None:
    assert changed(model, ("priority = 0.5", "priority = 0.9")).edits == (Update(node="n1", priority=0.9),)
    assert changed(model, ("Twice.", "Thrice.")).edits == (Update(node="n1", description="Tile it.\nThrice."),)
    assert changed(model, ("pinned = false", "pinned = true")).edits == (Pin(node="n1"),)
    pruned = changed(model, ('status = "open"', 'status = "pruned"'), ('reason = ""', 'reason = "too hard"'))
    assert pruned.edits == (Prune(node="n1", reason="too hard"),)
    reopened = changed(model, ('status = "pruned"', 'status = "open"'), ('title = "Fuse"', 'title = "Fuse all"'))
    assert reopened.edits == (Reopen(node="n2", description="Fuse"), Update(node="n2", title="Fuse all"))
    inserted = changed(model, ("[n1]", '[new]\nparent = "n1"\ntitle = "Deeper"\n\n[n1]'))
    assert inserted.edits == (Insert(parent="n1", intent=Intent(title="Deeper", priority=1.0)),)
    assert changed(model, ('summary = "known"', 'summary = "all known"')).summary == "all known"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[n1]", "[n1", "not TOML any more"),
        ("[n1]", "[n9]", r"\[n9\]: there is no such node"),
        ('parent = "root"', 'parent = "n2"', "a node stays where it is"),
        ('status = "open"', 'status = "closed"', "open cannot become closed"),
        ("priority = 0.5", "priority = 5", r"\[n1\] priority: must be less than or equal to 1"),
        ("priority = 0.5", "priorty = 0.5", r"\[n1\] priorty: is unknown"),
        ('reason = ""', "reason = 3", "reason: is a text"),
        ("[n1]", "colour = 3\n[n1]", "colour: is neither"),
    ],
)
def test_what_cannot_be_is_told(model: WorldModel, old: str, new: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        changed(model, (old, new))
