"""What a round costs LangGraph and its own saver, with nodes that do nothing: the floor under `orchestration.py`.

python -m benchmarks.langgraph_alone [--rounds 100] [--width 4]
"""

import argparse
import asyncio
import json
import operator
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Overwrite, Send


class State(TypedDict):
    """A state of about 4 kB."""

    round: int
    results: Annotated[list[int], operator.add]
    padding: list[str]


class Sample(TypedDict):
    """What the fan-out carries."""

    sample: int
    padding: list[str]


async def _select(state: State) -> dict[str, Any]:
    return {"round": state["round"] + 1}


async def _instantiate(state: Sample) -> Command[str]:
    return Command(goto=[Send("evaluate", state)])


async def _evaluate(state: Sample) -> dict[str, Any]:
    return {"results": [state["sample"]]}


async def _check(state: State) -> dict[str, Any]:
    return {"results": Overwrite([])}


async def _update(state: State) -> dict[str, Any]:
    return {"padding": state["padding"]}


async def ms_per_round(rounds: int, width: int) -> float:
    """Return the mean milliseconds of a round: five steps, a fan-out of `width` over two of them, a SQLite file."""

    def draw(state: State) -> list[Send]:
        return [Send("instantiate", {"sample": sample, "padding": state["padding"]}) for sample in range(width)]

    graph = StateGraph(State)
    graph.add_node("select", _select)
    graph.add_node("instantiate", _instantiate, input_schema=Sample, destinations=("evaluate",))
    graph.add_node("evaluate", _evaluate, input_schema=Sample)
    graph.add_node("check", _check)
    graph.add_node("update", _update)
    graph.add_edge(START, "select")
    graph.add_conditional_edges("select", draw, ["instantiate"])
    graph.add_edge("evaluate", "check")
    graph.add_edge("check", "update")
    graph.add_conditional_edges("update", lambda state: END if state["round"] >= rounds else "select")
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncSqliteSaver.from_conn_string(str(Path(folder) / "checkpoints.sqlite")) as saver:
            await saver.setup()
            await saver.conn.execute("PRAGMA synchronous = NORMAL")
            compiled = graph.compile(checkpointer=saver)
            where: RunnableConfig = {"configurable": {"thread_id": "one"}, "recursion_limit": 10 * rounds + 10}
            begun = time.perf_counter()
            opening: State = {"round": 0, "results": [], "padding": ["x" * 50] * 80}
            async for _ in compiled.astream(opening, where, stream_mode="custom", durability="sync"):
                pass
            return 1000 * (time.perf_counter() - begun) / rounds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--width", type=int, default=4)
    arguments = parser.parse_args()
    print(json.dumps({"ms_per_round": round(asyncio.run(ms_per_round(arguments.rounds, arguments.width)), 2)}))


if __name__ == "__main__":
    main()
