"""What a round of ksearch itself costs, and how its files grow, with scripted planner, coder and evaluator.

    python benchmarks/orchestration.py [--rounds 1000] [--width 4] [--samples 1] [--home postgresql://SERVER/DATABASE]

Prints JSON: milliseconds per round (whole search, and by stretch of rounds), the largest checkpoint and the size of the
database and of the blobs; and, measured before and after, what a round costs LangGraph with nodes that do nothing. The
scripted parts take no time of their own to speak of. Without `--home` the runs are in a fresh folder; a server's home
is used as it is, its blobs in a fresh folder unless KSEARCH_BLOBS says otherwise.
"""

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.langgraph_alone import ms_per_round
from checkpoints.database import open_blobs, open_reader
from checkpoints.home import open_home
from checkpoints.place import Place, find_place
from checkpoints.pruning import database_bytes
from graph import runs
from graph.presets import resolve


async def search(place: Place, options: dict[str, Any]) -> list[float]:
    """Run one search and return the time at which each round ended, seconds since its start."""
    ends: list[float] = []
    started = time.perf_counter()

    def listen(event: dict[str, Any]) -> None:
        if event["event"] == "round":
            ends.append(time.perf_counter() - started)

    async with open_home(place) as home, runs.opened_services(home) as means:
        await runs.start(means, resolve("default", options), listen)
    return ends


def per_round(ends: list[float], first: int, last: int) -> float | None:
    """Return the median milliseconds of the rounds `first` to `last` (from 1)."""
    times = [
        1000 * (after - before) for before, after in zip(ends[first - 1 : last], ends[first : last + 1], strict=False)
    ]
    return round(statistics.median(times), 2) if times else None


def sizes(place: Place) -> dict[str, Any]:
    """Return the sizes of what searches left behind."""
    with closing(open_reader(place)) as connection:
        sql = "SELECT max(length(CAST(checkpoint AS TEXT))), count(*) FROM checkpoints"
        if isinstance(place, Path):
            sql = "SELECT max(length(checkpoint)), count(*) FROM checkpoints"
        largest, count = connection.execute(sql).fetchone()
    blobs = [blob.size for blob in open_blobs(place).stored()]
    return {
        "checkpoints": count,
        "largest_checkpoint_kb": round(largest / 1000, 1),
        "database_mb": round(database_bytes(place) / 1e6, 1),
        "blobs": len(blobs),
        "blobs_mb": round(sum(blobs) / 1e6, 1),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--width", type=int, default=4)
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--home", metavar="URL")
    arguments = parser.parse_args()
    options = {
        "task": "scripted",
        "planner": "scripted",
        "coder": "scripted",
        "evaluator": "scripted",
        "width": arguments.width,
        "samples": arguments.samples,
        "max_evaluations": 1_000_000,
        "stagnation": 3,
    }
    with tempfile.TemporaryDirectory() as folder:
        options["max_evaluations"] = round(arguments.rounds * arguments.width * arguments.samples * 0.8)
        os.environ.setdefault("KSEARCH_BLOBS", f"{folder}/blobs")
        place = find_place(arguments.home or Path(folder) / "home")
        alone = [asyncio.run(ms_per_round(100, arguments.width))]
        ends = asyncio.run(search(place, options))
        alone.append(asyncio.run(ms_per_round(100, arguments.width)))
        rounds = len(ends)
        report = {
            "rounds": rounds,
            "candidates_per_round": arguments.width * arguments.samples,
            "ms_per_round": {
                "mean": round(1000 * ends[-1] / rounds, 2),
                "median_2_to_10": per_round(ends, 2, 10),
                "median_10_to_60": per_round(ends, 10, 60),
                "median_last_50": per_round(ends, rounds - 50, rounds),
            },
            "langgraph_alone_ms_per_round": [round(milliseconds, 2) for milliseconds in alone],
            **sizes(place),
        }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
