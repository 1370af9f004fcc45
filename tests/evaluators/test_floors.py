"""What tasks say that no program can do without: asked in confinement, for every workload."""

import pytest

from evaluators import floors
from evaluators.floors import Floor, floors_of
from evaluators.resolve import builtin_names, resolve_task
from evaluators.task import Task
from tests.evaluators import tiny

JUDGED_BY_ITSELF = {"trimul_official"}


@pytest.mark.parametrize("name", sorted(set(builtin_names()) - JUDGED_BY_ITSELF))
def test_built_in_tasks_have_a_floor_for_every_workload(name: str) -> None:
    task = resolve_task(name)
    found = floors_of(task)
    assert found.problem == ""
    assert list(found.by_workload) == [workload.name for workload in task.workloads]
    assert all(floor.bytes > 0 and floor.operations > 0 for floor in found.by_workload.values())


def test_floors_follow_the_sizes() -> None:
    found = floors_of(with_floor("return {'bytes': 8 * axes['rows'] * axes['cols'], 'operations': axes['rows']}"))
    assert dict(found.by_workload) == {
        "small": Floor(bytes=8 * 64 * 512, operations=64),
        "wide": Floor(bytes=8 * 32 * 1024, operations=32),
        "odd": Floor(bytes=8 * 7 * 33, operations=7),
    }


@pytest.mark.parametrize("name", sorted(JUDGED_BY_ITSELF))
def test_a_task_that_judges_by_itself_has_none(name: str) -> None:
    assert floors_of(resolve_task(name)) == floors.Floors({})


def test_a_task_may_give_none() -> None:
    assert floors_of(tiny.softmax(reference="raise OSError('never run')")) == floors.Floors({})


UNTOLD = {
    "it fails": ("return {'bytes': axes['depth']}", "floor() of small failed: KeyError: 'depth'"),
    "at one workload": ("return {'bytes': 1, 'operations': 1 // (axes['rows'] - 7)}", "floor() of odd failed: ZeroDiv"),
    "not a dict": ("return 3", "floor() of small failed: AttributeError"),
    "misspelt": ("return {'byte': 3, 'operations': 1}", "floor() of small must be {'bytes': ..., 'operations': ...}"),
    "nothing": ("return {}", "floor() of small must be"),
    "negative": ("return {'bytes': -1, 'operations': 3}", "floor() of small must be"),
    "its source": ("return {}\nraise OSError('not\\nhere')", "the reference's source failed: OSError: not here"),
    "it ends the process": ("import os; os._exit(3)", "running the reference failed: "),
}


@pytest.mark.parametrize("what", UNTOLD)
def test_why_floors_cannot_be_told(what: str) -> None:
    body, reason = UNTOLD[what]
    found = floors_of(with_floor(body))
    assert not found.by_workload
    assert reason in found.problem
    assert "\n" not in found.problem


def test_a_reference_that_never_returns_is_waited_for_no_longer_than_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(floors, "TIMEOUT_S", 0.3)
    assert floors_of(with_floor("while True: pass")).problem == "running the reference failed: no end within 0.3 s"


def with_floor(body: str) -> Task:
    """Return the tiny task with a function floor of this body; what follows its first line stands in the module."""
    first, _, rest = body.partition("\n")
    return tiny.softmax(reference=f"{tiny.SOFTMAX_REFERENCE}\ndef floor(axes):\n    {first}\n{rest}\n")
