"""SIGKILL of a search with the real evaluator: its processes end with it, and the search goes on from the ledger."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from checkpoints.history import read_record

ROOT = Path(__file__).parents[2]


def _ksearch(home: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "graph.cli", *arguments, "--home", str(home), "--json"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _descendants(pid: int) -> set[int]:
    """Every process below `pid`, by /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found: set[int] = set()
    pending = [pid]
    while pending:
        below = children.get(pending.pop(), [])
        found.update(below)
        pending += below
    return found


def _wait(what: str, condition: Any, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds} s in vain: {what}")
        time.sleep(0.05)


def _begun(home: Path) -> bool:
    """Whether an evaluation of a candidate is under way and not finished."""
    if not (home / "ksearch.sqlite").exists():
        return False
    entries = read_record(home, "latest").entries
    return any(entry.key.role == "evaluator" and entry.result is None for entry in entries)


def test_a_killed_search_leaves_no_process_and_loses_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    search = _ksearch(home, "run", "softmax", "--evaluations", "2")
    # The thread's row exists a moment before its name can be read.
    _wait("the home is made", lambda: (home / "logs").exists() and any((home / "logs").iterdir()))
    _wait("a candidate is being evaluated", lambda: _begun(home))
    below = _descendants(search.pid)
    assert below, "the evaluator runs in processes of its own"
    search.send_signal(signal.SIGKILL)
    search.communicate()
    before = {entry.key: entry for entry in read_record(home, "latest").entries}
    assert read_record(home, "latest").thread.status == "interrupted"
    _wait("the evaluator's processes end", lambda: not any(Path(f"/proc/{pid}").exists() for pid in below))

    resumed = _ksearch(home, "resume")
    output, errors = resumed.communicate(timeout=500)
    assert resumed.returncode == 0, errors
    shown = json.loads(output)
    assert shown["status"] == "finished"
    assert shown["stop"]["reason"] == "budget"
    assert shown["spend"]["evaluations"] == 2
    assert shown["best"]["certified"]
    after = {entry.key: entry for entry in read_record(home, "latest").entries}
    assert all(entry.result is not None for entry in after.values())
    assert {key: entry.result for key, entry in before.items() if entry.result} == {
        key: after[key].result for key, entry in before.items() if entry.result
    }
    assert sum(entry.unknown for entry in after.values()) == 1, "the call in flight is the only one of unknown spend"
    assert sum(entry.key.role == "evaluator" for entry in after.values()) == 2
