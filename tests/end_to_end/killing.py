"""Searches that are killed: where, and what must hold after they went on."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoints.history import read_record
from checkpoints.ledger import Entry
from checkpoints.place import find_place

ROOT = Path(__file__).parents[2]
NODES = ("initialize", "select_action", "instantiate_program", "evaluate", "check_stagnation", "update_world_model")
SCRIPTED: dict[str, Any] = {
    "task": "scripted",
    "planner": "scripted",
    "coder": "scripted",
    "evaluator": "scripted",
    "stagnation": 2,
    "seed": 7,
}


@dataclass(frozen=True)
class Case:
    """One search, and what it leaves behind."""

    folder: Path
    """For the journal and the outcome; on a server's home for the blobs as well."""
    home: str
    options: dict[str, Any]

    @property
    def in_flight(self) -> int:
        """Calls that may be in flight at one moment."""
        return int(self.options["width"]) * int(self.options["samples"])

    def journal(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "journal").read_text().splitlines()]

    def paid(self) -> Counter[tuple[Any, ...]]:
        """Calls that were really made."""
        return Counter(tuple(entry["paid"]) for entry in self.journal() if "paid" in entry)

    def ended(self) -> dict[str, Any]:
        return json.loads((self.folder / "ended.json").read_text())  # type: ignore[no-any-return]

    def outcome(self) -> dict[str, Any]:
        """What must be equal. The logs hold spend, equal too with scripted replies, so whole digests compare."""
        facts = self.ended()
        return {key: facts[key] for key in ("status", "tree", "attempts", "edits", "incumbent", "round", "stop")}

    def entries(self) -> list[Entry]:
        return list(read_record(find_place(self.home), "latest").entries)

    def points(self) -> list[dict[str, Any]]:
        """Every (node, point) in the middle of its occurrences, then early, then late: kills spread over the search."""
        counts = Counter((entry["node"], entry["point"]) for entry in self.journal() if "point" in entry)
        return [
            {"node": node, "point": point, "nth": max(1, round(count * share))}
            for share in (0.5, 0.15, 0.85)
            for (node, point), count in sorted(counts.items())
            if count > 1 or share == 0.5
        ]


class Searches:
    """Talks to search_server.py."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("search_server.py")
        self._server = subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        )

    def run(self, case: Case, kill: dict[str, Any] | None = None) -> dict[str, Any]:
        """Start the case's search or go on with it, and return how its process ended."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        request = {"home": case.home, "folder": str(case.folder), "options": case.options, "kill": kill}
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())  # type: ignore[no-any-return]

    def close(self) -> None:
        self._server.communicate()


DONE = {"signal": 0, "exit": 0}


def go_on(searches: Searches, case: Case, undisturbed: Case, kill: dict[str, Any], may_repeat: int) -> None:
    """Resume a search after `kill`: nothing recorded is repeated or lost, and the end is the same."""
    paid_before = case.paid()
    kept_before = {entry.key.row for entry in case.entries() if entry.result is not None}
    assert searches.run(case) == DONE, kill
    assert case.outcome() == undisturbed.outcome(), kill
    entries = case.entries()
    assert all(entry.result is not None for entry in entries), kill
    again = case.paid() - paid_before
    repeated = [key for key in again if paid_before[key]]
    assert len(repeated) <= may_repeat, (kill, repeated)
    assert not [row for row in kept_before if tuple(row[1:]) in again], (kill, "a recorded call was paid again")
    assert sum(entry.unknown for entry in entries) <= may_repeat, kill
