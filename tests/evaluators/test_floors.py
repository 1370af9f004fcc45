"""What tasks say that no program can do without: asked in confinement, for every workload."""

from pathlib import Path

import pytest

from evaluators import floors
from evaluators.evaluation import Effort
from evaluators.floors import Floor, floors_of
from evaluators.local import LocalEvaluator
from evaluators.resolve import builtin_names, resolve_task
from evaluators.task import Task
from tests.cli.conftest import call
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


def test_a_practical_floor_may_stand_beside() -> None:
    found = floors_of(with_floor("return {'bytes': 8, 'practical_us': axes['rows'] / 8}"))
    assert [floor.practical_us for floor in found.by_workload.values()] == [8.0, 4.0, 0.875]


@pytest.mark.parametrize("effort", ["search", "certify"])
async def test_below_the_practical_floor_a_figure_is_in_doubt_until_it_is_certified(effort: Effort) -> None:
    evaluator = LocalEvaluator()
    first = "1e9 if axes['rows'] == 64 else 1e-3"
    task = with_floor(f"return {{'bytes': 8, 'practical_us': {first}}}")
    result = await evaluator.evaluate(task, tiny.GOOD_CPP, effort)
    await evaluator.close()
    assert result.passed
    words = "us is below the practical floor of 1000000000.0 us"
    if effort == "search":
        assert (result.tier, result.doubt.count("practical floor")) == ("timed", 1)
        assert result.doubt.startswith("small: ")
        assert result.doubt.endswith(words)
    else:
        assert (result.tier, result.doubt) == ("certified", "")
        assert [note for note in result.notes if note.startswith("certified although small: ") and note.endswith(words)]


TWICE = """import torch


def inputs(rows=64):
    return {'x': torch.randn(rows, 8)}


def reference(x):
    return 2 * x


def floor(rows=4):
    return {'bytes': 8, 'practical_us': 1e9}
"""
MINE = """#include <cstdint>
extern "C" void twice(const float* x, float* y, int64_t rows) {
    for (int64_t i = 0; i < 8 * rows; ++i) y[i] = 2 * x[i];
}
"""


def test_the_command_line_says_what_is_not_to_be_believed(tmp_path: Path) -> None:
    (tmp_path / "twice.py").write_text(TWICE)
    (tmp_path / "mine.cpp").write_text(MINE)
    done = call(tmp_path, "evaluate", "twice.py", "mine.cpp", "--json")
    assert done.code == 0, done.out
    assert "below the practical floor" in done.json["programs"][0]["doubt"]
    again = call(tmp_path, "evaluations", done.json["record"])
    assert "  not to be believed before it is certified (--effort certify): default: " in again.out
    assert "floor 8 B, 0 op, 1e+09 us in practice" in call(tmp_path, "tasks", "show", "twice.py").out
    checked = call(tmp_path, "tasks", "check", "twice.py")
    assert checked.code == 1
    assert "floor 1000000000.0 us" in checked.out


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
    "a practical one": (
        "return {'bytes': 1, 'practical_us': 0}",
        "floor() of small: 'practical_us' must be above 0, microseconds; it is 0",
    ),
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
