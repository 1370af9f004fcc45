"""What the stores cost: milliseconds per ledger pair, blob and checkpoint, printed as JSON.

python -m benchmarks.store --rounds 200
"""

import argparse
import asyncio
import json
import operator
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from checkpoints.home import Home, open_home
from checkpoints.ledger import LedgerKey, once

WIDTH = 4
"""Candidates of a round."""


class State(TypedDict):
    """A state of about 13 kB, as large as a search's."""

    padding: list[dict[str, str]]
    rounds: int
    results: Annotated[list[int], operator.add]


class Sample(TypedDict):
    """What a Send carries."""

    round: int
    sample: int


def lean_state(seed: int) -> dict[str, Any]:
    """Return about 13 kB of plain JSON: 64 attempts of four digests each."""
    draw = random.Random(seed)
    attempts = [{name: f"{draw.getrandbits(160):040x}" for name in ("prompt", "reply", "solution")} for _ in range(64)]
    return {"padding": attempts, "rounds": 0, "results": []}


def program(index: int) -> bytes:
    """Return a program-like text of about 8 kB."""
    return "\n".join(f"    sum{i} += x[{i + index}] * y[{i}]; // lane {i}" for i in range(200)).encode()


async def per_call(count: int, call: Callable[[int], Awaitable[Any]]) -> float:
    """Return the milliseconds that one call takes, on average over `count`."""
    start = time.perf_counter()
    for index in range(count):
        await call(index)
    return (time.perf_counter() - start) / count * 1e3


async def parts(home: Home, count: int) -> dict[str, float]:
    """Measure each store by itself."""

    def key(index: int, role: str = "coder") -> LedgerKey:
        return LedgerKey(thread="t", round=index, cycle=0, sample=0, role=role, turn=0, request="0" * 64)

    async def pair(index: int) -> None:
        await home.ledger.begin(key(index))
        await home.ledger.finish(key(index), "0" * 64, {"tokens": 10, "model": "m"})

    async def paid(index: int) -> None:
        async def call() -> tuple[Any, dict[str, Any]]:
            return program(index).decode(), {"tokens": 10}

        await once(home.ledger, home.blobs, key(index, "other"), call)

    async def blob(index: int) -> None:
        await asyncio.to_thread(home.blobs.put, program(10_000 + index))

    async def checkpoint(index: int) -> None:
        config: Any = {"configurable": {"thread_id": "direct", "checkpoint_ns": ""}}
        values: Any = {
            "v": 4,
            "ts": "",
            "id": f"{index:08d}",
            "channel_values": lean_state(index),
            "channel_versions": {},
            "versions_seen": {},
            "updated_channels": None,
        }
        await home.saver.aput(config, values, {"source": "loop", "step": index}, {})

    return {
        "ledger_begin_finish_ms": await per_call(count, pair),
        "once_fresh_ms": await per_call(count, paid),
        "once_recorded_ms": await per_call(count, paid),
        "blob_put_8kB_ms": await per_call(count, blob),
        "checkpoint_put_13kB_ms": await per_call(count, checkpoint),
    }


async def whole_round(home: Home, rounds: int) -> dict[str, float]:
    """Measure a round of a graph of the search's shape whose nodes do nothing but pay once each."""

    async def pay(role: str, round_: int, sample: int) -> None:
        async def call() -> tuple[Any, dict[str, Any]]:
            return program(round_ * WIDTH + sample).decode(), {"tokens": 10}

        key = LedgerKey(thread="graph", round=round_, cycle=0, sample=sample, role=role, turn=0, request="0" * 64)
        await once(home.ledger, home.blobs, key, call)

    async def select(state: State) -> dict[str, Any]:
        return {"rounds": state["rounds"] + 1}

    async def write(state: Sample) -> dict[str, Any]:
        await pay("coder", state["round"], state["sample"])
        return {}

    async def evaluate(state: Sample) -> dict[str, Any]:
        await pay("evaluator", state["round"], state["sample"])
        return {}

    async def fold(state: State) -> dict[str, Any]:
        return {"padding": state["padding"]}

    async def plan(state: State) -> dict[str, Any]:
        await pay("planner", state["rounds"], 0)
        return {}

    def fan(node: str) -> Callable[[State], list[Send]]:
        return lambda values: [Send(node, {"round": values["rounds"], "sample": i}) for i in range(WIDTH)]

    builder = StateGraph(State)
    builder.add_node("select", select)
    builder.add_node("write", write)
    builder.add_node("gather", fold)
    builder.add_node("evaluate", evaluate)
    builder.add_node("fold", fold)
    builder.add_node("plan", plan)
    builder.add_edge(START, "select")
    builder.add_conditional_edges("select", fan("write"), ["write"])
    builder.add_edge("write", "gather")
    builder.add_conditional_edges("gather", fan("evaluate"), ["evaluate"])
    builder.add_edge("evaluate", "fold")
    builder.add_edge("fold", "plan")
    builder.add_conditional_edges("plan", lambda values: "select" if values["rounds"] < rounds else END)
    graph = builder.compile(checkpointer=home.saver)
    start = time.perf_counter()
    first: Any = lean_state(0)
    await graph.ainvoke(
        first, {"configurable": {"thread_id": "graph"}, "recursion_limit": 10 * rounds + 10}, durability="sync"
    )
    return {"round_of_4_candidates_ms": (time.perf_counter() - start) / rounds * 1e3}


async def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--power-safe", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        home_folder = Path(folder)
        async with open_home(home_folder, power_safe=options.power_safe) as home:
            figures = await parts(home, options.rounds) | await whole_round(home, options.rounds)
        size = sum(file.stat().st_size for file in home_folder.glob("ksearch.sqlite*"))
    figures = {name: round(value, 3) for name, value in figures.items()}
    print(json.dumps({"rounds": options.rounds, "power_safe": options.power_safe, **figures, "database_bytes": size}))


if __name__ == "__main__":
    asyncio.run(main())
