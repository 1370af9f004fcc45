"""Searches of GPU MODE problems under their own protocol: figures of its two modes are never compared."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from evaluators.evaluation import Environment
from evaluators.resolve import resolve_task
from evaluators.task import Task, contract_solution
from evaluators.user_verdict import UserVerdicts
from graph.report.exported import readme
from graph.report.loading import load_run
from nodes.judged import judge
from nodes.paid import PaidCalls
from tests.end_to_end.searching import Search, intent

YAML = """files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: task.py, source: task.py}
  - {name: eval.py, source: eval.py}
lang: py
config: {main: eval.py}
description: Return anything.
ranking_by: last
tests: [{n: 8}]
benchmarks: [{n: 16}]
"""
EVAL = """import os
import re
import sys

figure = float(re.search(r"objective = ([0-9.]+)", open("submission.py").read()).group(1))
times = 2.0 if sys.argv[1] == "leaderboard" else 1.0
with os.fdopen(int(os.environ["POPCORN_FD"]), "w") as pipe:
    pipe.write("test-count: 1\\nbenchmark-count: 1\\n")
    pipe.write(f"benchmark.0.mean: {1e3 * times * figure}\\ncheck: pass\\n")
"""
"""A program says itself how fast it is; in leaderboard mode it takes twice as long."""
PROGRAM = "# scripted: objective = 10\n\n\ndef custom_kernel(data):\n    pass\n"
BENCHMARK, LEADERBOARD = "gpumode-benchmark-1", "gpumode-leaderboard-1"


@pytest.fixture
def task(tmp_path: Path) -> Task:
    folder = tmp_path / "problem"
    folder.mkdir()
    for name, text in (("task.yml", YAML), ("task.py", ""), ("eval.py", EVAL)):
        (folder / name).write_text(text)
    return resolve_task(f"gpumode:{folder}#official#cpu")


@pytest.fixture
async def evaluator() -> AsyncIterator[UserVerdicts]:
    async def known() -> Environment:
        return Environment(device="test", torch="0")

    judge = UserVerdicts(known)
    yield judge
    await judge.close()


async def test_an_effort_has_its_mode_and_its_protocol(task: Task, evaluator: UserVerdicts) -> None:
    program = contract_solution(task.contracts["python"], "python", {"mine.py": PROGRAM})
    searched = await evaluator.evaluate(task, program, "search")
    assert (searched.protocol, searched.provisional) == (BENCHMARK, None)
    assert searched.objective is not None
    assert searched.objective.value == pytest.approx(10.0)
    certified = await evaluator.evaluate(task, program, "certify")
    assert certified.protocol == LEADERBOARD
    assert certified.objective is not None
    assert certified.provisional is not None
    assert (certified.objective.value, certified.provisional.value) == (pytest.approx(20.0), pytest.approx(10.0))
    assert certified.searched == certified.provisional
    assert "GPU MODE's own verdict" in certified.notes[0]
    assert (await evaluator.evaluate(task, program, "check")).protocol == BENCHMARK
    assert (await evaluator.compare(task, [program], "certify")).protocol == LEADERBOARD


async def test_a_search_compares_by_one_protocol_only(task: Task, search: Search, tmp_path: Path) -> None:
    script = {"proposals": [{"edits": [intent("A", 0.9)]}], "cycles": [[10.0, 15.0, 8.0]]}
    done = await search(script, task=task.origin, evaluator="local", stagnation=3, max_evaluations=3)
    # 15 us by benchmark is less than the incumbent's 20 us by leaderboard, and yet no challenger: that has 10 us.
    assert [line for line in done.trace() if line.startswith("certify")] == ["certify: accepted"] * 2
    assert done.ended.state["spend"]["certifications"] == 2
    incumbent = done.ended.state["incumbent"]
    assert incumbent is not None
    assert (incumbent["objective"]["value"], incumbent["searched"]["value"]) == (
        pytest.approx(16.0),
        pytest.approx(8.0),
    )
    run = await asyncio.to_thread(load_run, str(tmp_path / "home"), done.ended.thread.name)
    page = readme(run, await done.means.solution(incumbent["solution"]))
    assert f"- protocol: {LEADERBOARD}, tier certified" in page
    assert f"by the search's protocol, {BENCHMARK}: 8 us" in page
    assert "the verdict of GPU MODE's eval.py" in page


async def test_what_one_mode_measured_is_not_taken_for_the_other(
    task: Task, evaluator: UserVerdicts, search: Search
) -> None:
    home = (await search()).means.home
    program = contract_solution(task.contracts["python"], "python", {"mine.py": PROGRAM})

    async def judged(thread: str, effort: Any) -> tuple[str | None, str]:
        calls = PaidCalls(home.ledger, home.blobs, thread, 1)
        found = await judge(calls, "evaluator", evaluator, task, program, effort, reuse=True)
        return found.reused_from, found.protocol

    assert await judged("t1", "certify") == (None, LEADERBOARD)
    assert await judged("t2", "search") == (None, BENCHMARK)
    assert await judged("t3", "search") == ("t2", BENCHMARK)
    assert await judged("t4", "certify") == (None, LEADERBOARD)
