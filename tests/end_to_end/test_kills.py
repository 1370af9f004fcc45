"""SIGKILL anywhere: nothing recorded is repeated or lost, and the search ends as if nothing had happened."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.killing import DONE, NODES, SCRIPTED, Case, Searches, go_on

OPTIONS = {**SCRIPTED, "max_evaluations": 24, "width": 2, "samples": 2}
KILLS = 48


def case(folder: Path) -> Case:
    folder.mkdir()
    return Case(folder, str(folder / "home"), OPTIONS)


@pytest.fixture(scope="module")
def undisturbed(searches: Searches, tmp_path_factory: pytest.TempPathFactory) -> Case:
    found = case(tmp_path_factory.mktemp("undisturbed") / "case")
    assert searches.run(found) == DONE
    return found


def test_kills_everywhere(searches: Searches, undisturbed: Case, tmp_path: Path) -> None:
    assert undisturbed.outcome()["status"] == "finished"
    found = undisturbed.points()
    chosen: list[dict[str, Any]] = []
    for node in (*NODES, "between"):
        chosen += [point for point in found if point["node"] == node][: 12 if node == "between" else 6]
    fell: Counter[str] = Counter()
    for number, kill in enumerate(chosen[:KILLS]):
        disturbed = case(tmp_path / f"case{number}")
        assert searches.run(disturbed, kill)["signal"] == 9, kill
        go_on(searches, disturbed, undisturbed, kill, disturbed.in_flight)
        fell[f"{kill['node']}: {kill['point']}"] += 1
    print("\n".join(f"{count} x {where}" for where, count in sorted(fell.items())))  # noqa: T201
    by_node = Counter(where.split(":")[0] for where in fell.elements())
    assert sum(fell.values()) >= 30
    assert all(by_node[node] >= 3 for node in NODES), by_node


def test_kills_between_what_a_step_wrote_and_its_checkpoint(
    searches: Searches, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """All tasks of the step have finished, and none of their writes has reached a channel."""

    def narrow() -> Case:
        folder = tmp_path_factory.mktemp("case")
        return Case(folder, str(folder / "home"), {**SCRIPTED, "max_evaluations": 3})

    undisturbed = narrow()
    assert searches.run(undisturbed) == DONE
    written = Counter((entry["node"], entry["point"]) for entry in undisturbed.journal() if "point" in entry)
    for nth in range(1, written["between", "after writes"] + 1):
        disturbed = narrow()
        kill = {"node": "between", "point": "after writes", "nth": nth}
        assert searches.run(disturbed, kill)["signal"] == 9
        go_on(searches, disturbed, undisturbed, kill, 1)
