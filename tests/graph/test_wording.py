"""How counts are told."""

import pytest

from graph.experiments.curves import Budget
from graph.report.events import event_line
from graph.wording import counted


@pytest.mark.parametrize(("number", "told"), [(0, "0 edits"), (1, "1 edit"), (2, "2 edits"), (21, "21 edits")])
def test_one_is_told_as_one(number: int, told: str) -> None:
    assert counted(number, "edit") == told
    event = {"event": "edits", "edits": number, "origin": "planner", "accepted": True, "revision": 3, "note": ""}
    assert str(Budget("evaluations", number)) == told.replace("edit", "evaluation")
    assert event_line(event, "x", 9) == f"plan: {told} by planner, revision 3"
