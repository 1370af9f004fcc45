"""What it takes to branch, prune and read a long search, with scripted planner, coder and evaluator.

    python -m benchmarks.branching [--rounds 1000] [--width 4] [--threads 100] [--repeats 3]
        [--home FOLDER | --server postgresql://SERVER/DATABASE]

Prints JSON: seconds of each operation, the least of the repeats by the wall clock and by this process' own. Imports and
the start of the interpreter are left out. Beside the long search stand short ones, `--threads` in all. `--home` takes a
finished search's folder instead of making one; `--server` makes the searches in an empty home on a server.
"""

import argparse
import asyncio
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.orchestration import search, sizes
from checkpoints.history import read_snapshot
from checkpoints.place import Place, find_place
from checkpoints.pruning import every_thread, prune
from graph.branches import make_branch
from graph.report.chronicle import chronicle, chronicle_lines
from graph.report.loading import load_all, load_material, load_run
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


def readings(home: Place, name: str, rounds: int) -> dict[str, Callable[[], Any]]:
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


def branches(home: Place, name: str, rounds: int) -> dict[str, Callable[[], Any]]:
    """Return the branches that are made of a search."""

    def at(place: str, options: dict[str, Any]) -> Callable[[], Any]:
        return lambda: asyncio.run(make_branch(home, name, place, options, None))

    return {
        "branch_first": at("1", {}),
        "branch_middle": at(str(rounds // 2), {}),
        "branch_last": at("now", {}),
        "branch_changed": at(str(rounds // 2), {"policy": "puct"}),
    }


def pruning(home: Place, repeats: int) -> dict[str, float]:
    """Return what pruning takes: of copies of a folder; of a server's home once, as there is no copy."""
    if not isinstance(home, Path):
        return least(1, lambda: prune(home, every_thread))
    figures: list[dict[str, float]] = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "home"
            shutil.copytree(home, copy)
            figures.append(least(1, lambda: prune(copy, every_thread)))  # noqa: B023 - called at once
    return {key: min(item[key] for item in figures) for key in ("wall_s", "processor_s")}


def measure(home: Place, name: str, repeats: int) -> dict[str, Any]:
    """Return all figures of the search `name`."""
    rounds = read_snapshot(home, name).values["round"]
    figures: dict[str, Any] = {"rounds": rounds, "threads": len(load_all(home)), **sizes(home)}
    figures |= {what: least(repeats, work) for what, work in readings(home, name, rounds).items()}
    figures |= {what: least(repeats, work) for what, work in branches(home, name, rounds).items()}
    return figures | {"prune": pruning(home, repeats)}


def make(home: Place, rounds: int, width: int, threads: int) -> str:
    """Fill a home with one long search and short ones; return the long one's name."""
    scripted = dict.fromkeys(("task", "planner", "coder", "evaluator"), "scripted")
    options = {**scripted, "width": width, "stagnation": 3}
    asyncio.run(search(home, {**options, "max_evaluations": round(rounds * width * 0.8)}))
    for _ in range(threads - 1):
        asyncio.run(search(home, {**options, "max_evaluations": 2 * width}))
    return "scripted-1"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--width", type=int, default=4)
    parser.add_argument("--threads", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--home", type=Path)
    place.add_argument("--server", metavar="URL")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("KSEARCH_BLOBS", f"{folder}/blobs")
        home = find_place(arguments.server or Path(folder) / "home")
        if arguments.home is None:
            name = make(home, arguments.rounds, arguments.width, arguments.threads)
        else:
            shutil.copytree(arguments.home, Path(folder) / "home")
            name = "latest"
        print(json.dumps(measure(home, name, arguments.repeats), indent=2))


if __name__ == "__main__":
    main()
