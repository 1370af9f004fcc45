"""SIGKILL anywhere: nothing recorded is repeated or lost, and the search ends as if nothing had happened."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkpoints.history import read_record

OPTIONS: dict[str, Any] = {
    "task": "scripted",
    "planner": "scripted",
    "coder": "scripted",
    "evaluator": "scripted",
    "max_evaluations": 24,
    "stagnation": 2,
    "width": 2,
    "samples": 2,
    "seed": 7,
}
IN_FLIGHT = OPTIONS["width"] * OPTIONS["samples"]
NODES = ("initialize", "select_action", "instantiate_program", "evaluate", "check_stagnation", "update_world_model")
KILLS = 48


class Searches:
    """Talks to search_server.py."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("search_server.py")
        self._server = subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2])},
        )

    def run(self, home: Path, kill: dict[str, Any] | None = None) -> dict[str, Any]:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        request = {
            "home": str(home),
            "options": OPTIONS,
            "kill": kill,
            "journal": str(home.parent / f"{home.name}.log"),
        }
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())  # type: ignore[no-any-return]

    def close(self) -> None:
        self._server.communicate()


@pytest.fixture(scope="module")
def searches() -> Iterator[Searches]:
    server = Searches()
    yield server
    server.close()


@pytest.fixture(scope="module")
def undisturbed(searches: Searches, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("undisturbed") / "home"
    assert searches.run(home) == {"signal": 0, "exit": 0}
    return home


def journal(home: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (home.parent / f"{home.name}.log").read_text().splitlines()]


def ended(home: Path) -> dict[str, Any]:
    return json.loads((home / "ended.json").read_text())  # type: ignore[no-any-return]


def outcome(facts: dict[str, Any]) -> dict[str, Any]:
    """What must be equal. The logs hold spend, which is equal too with scripted replies, so whole digests compare."""
    return {key: facts[key] for key in ("status", "tree", "attempts", "edits", "incumbent", "round", "stop")}


def points(home: Path) -> list[dict[str, Any]]:
    """Every (node, point) in the middle of its occurrences, then early, then late: kills spread over the search."""
    counts = Counter((entry["node"], entry["point"]) for entry in journal(home) if "point" in entry)
    chosen = [
        {"node": node, "point": point, "nth": max(1, round(count * share))}
        for share in (0.5, 0.15, 0.85)
        for (node, point), count in sorted(counts.items())
        if count > 1 or share == 0.5
    ]
    return chosen


def test_kills_everywhere(searches: Searches, undisturbed: Path, tmp_path: Path) -> None:
    reference = ended(undisturbed)
    assert reference["status"] == "finished"
    found = points(undisturbed)
    chosen: list[dict[str, Any]] = []
    for node in (*NODES, "between"):
        chosen += [point for point in found if point["node"] == node][: 12 if node == "between" else 6]
    fell: Counter[str] = Counter()
    for number, kill in enumerate(chosen[:KILLS]):
        home = tmp_path / f"home{number}"
        assert searches.run(home, kill)["signal"] == 9, kill
        paid_before = Counter(tuple(entry["paid"]) for entry in journal(home) if "paid" in entry)
        kept_before = {entry.key.row for entry in _entries(home) if entry.result is not None}
        assert searches.run(home) == {"signal": 0, "exit": 0}, kill
        assert outcome(ended(home)) == outcome(reference), kill
        entries = _entries(home)
        assert all(entry.result is not None for entry in entries), kill
        again = Counter(tuple(entry["paid"]) for entry in journal(home) if "paid" in entry) - paid_before
        repeated = [key for key in again if paid_before[key]]
        assert len(repeated) <= IN_FLIGHT, (kill, repeated)
        assert not [row for row in kept_before if tuple(row[1:]) in again], (kill, "a recorded call was paid again")
        assert sum(entry.unknown for entry in entries) <= IN_FLIGHT, kill
        fell[f"{kill['node']}: {kill['point']}"] += 1
    print("\n".join(f"{count} x {where}" for where, count in sorted(fell.items())))  # noqa: T201
    by_node = Counter(where.split(":")[0] for where in fell.elements())
    assert sum(fell.values()) >= 30
    assert all(by_node[node] >= 3 for node in NODES), by_node


def _entries(home: Path) -> list[Any]:
    return list(read_record(home, "latest").entries)
