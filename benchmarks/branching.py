"""What it takes to branch, prune and read a long search, with scripted planner, coder and evaluator.

    python -m benchmarks.branching [--rounds 1000] [--width 4] [--repeats 3]

Prints JSON: seconds of each operation, the least of the repeats by the wall clock and by this process' own. Imports and
the start of the interpreter are left out; `--home FOLDER` takes a finished search's folder instead of making one.
"""

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.orchestration import search, sizes
from checkpoints.history import read_snapshot
from checkpoints.pruning import every_thread, prune
from graph.branches import make_branch
from graph.cli.loading import load_all, load_material, load_run
from graph.report.chronicle import chronicle, chronicle_lines
from graph.report.summary import summary
from graph.report.tree import tree_rows


def least(repeats: int, work: Callable[[], Any]) -> dict[str, float]:
    """Return the least wall-clock and processor seconds that `work` takes."""
    walls, own = [], []
    for _ in range(repeats):
        wall, processor = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        own.append(time.process_time() - processor)
    return {"wall_s": round(min(walls), 3), "processor_s": round(min(own), 3)}


def readings(home: Path, name: str, rounds: int) -> dict[str, Callable[[], Any]]:
    """Return what is read of a search."""

    def log() -> list[str]:
        return list(chronicle_lines(chronicle(load_material(home, name)[1]), "x"))

    return {
        "show": lambda: summary(load_run(home, name)),
        "show_at": lambda: summary(load_run(home, name, str(rounds // 2))),
        "tree": lambda: list(tree_rows(load_run(home, name).model, None, "x")),
        "log": log,
        "list": lambda: load_all(home),
    }


def branches(home: Path, name: str, rounds: int) -> dict[str, Callable[[], Any]]:
    """Return the branches that are made of a search."""

    def at(place: str, options: dict[str, Any]) -> Callable[[], Any]:
        return lambda: asyncio.run(make_branch(home, name, place, options, None))

    return {
        "branch_first": at("1", {}),
        "branch_middle": at(str(rounds // 2), {}),
        "branch_last": at("now", {}),
        "branch_changed": at(str(rounds // 2), {"policy": "puct"}),
    }


def pruning(home: Path, repeats: int) -> dict[str, float]:
    """Return what pruning a copy of the folder takes, the copying left out."""
    figures: list[dict[str, float]] = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "home"
            shutil.copytree(home, copy)
            figures.append(least(1, lambda: prune(copy, every_thread)))  # noqa: B023 - called at once
    return {key: min(item[key] for item in figures) for key in ("wall_s", "processor_s")}


def measure(home: Path, repeats: int) -> dict[str, Any]:
    """Return all figures of the only search in `home`."""
    snapshot = read_snapshot(home, "latest")
    name, rounds = snapshot.thread.name, snapshot.values["round"]
    figures: dict[str, Any] = {"rounds": rounds, **sizes(home)}
    figures |= {what: least(repeats, work) for what, work in readings(home, name, rounds).items()}
    figures["prune"] = pruning(home, repeats)
    return figures | {what: least(repeats, work) for what, work in branches(home, name, rounds).items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--width", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--home", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        if arguments.home is None:
            scripted = dict.fromkeys(("task", "planner", "coder", "evaluator"), "scripted")
            budget = round(arguments.rounds * arguments.width * 0.8)
            options = {**scripted, "width": arguments.width, "max_evaluations": budget, "stagnation": 3}
            asyncio.run(search(home, options))
        else:
            shutil.copytree(arguments.home, home)
        print(json.dumps(measure(home, arguments.repeats), indent=2))


if __name__ == "__main__":
    main()
