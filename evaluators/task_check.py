"""Checking a task before a search spends anything on it: whether it can be got right by accident."""

import asyncio
import os
from contextlib import nullcontext

from pydantic import TypeAdapter, ValidationError

from evaluators.adapters.driver_source import driver_files, driver_source
from evaluators.evaluation import Environment
from evaluators.isolation import IsolatedFailure, Isolation, isolation
from evaluators.jobs import task_data
from evaluators.local import MEMORY_BYTES
from evaluators.objective import Record
from evaluators.task import Task
from evaluators.user_verdict import UserVerdicts
from evaluators.worker import gpus

_BESIDE = {"drivers": ("floors", "subject"), "worker": ("floor", "floor_cuda", "stopwatch", "tolerance")}
"""Modules that the driver goes by."""
_SHARE = 0.5
"""Of the memory of the machine, which a reference sized for a GPU may take."""
_TIMES = 15
"""All checks together run the reference this many times as often as a program's check does."""


class Finding(Record):
    """What one check of a task found."""

    check: str
    state: str
    """`passed`, `failed` or `not checked`."""
    detail: str = ""


_FINDINGS = TypeAdapter(tuple[Finding, ...])


def check_task(task: Task, server: Isolation | None = None) -> tuple[Finding, ...]:
    """Run the task's reference, confined (by `server`, if given), in every way that tells whether it can be fooled.

    Blocks.

    Raises InfrastructureError when the machinery fails.
    """
    if task.brings_judge:
        return (asyncio.run(_judged_seed(task)),)
    driver, files = driver_source("check_task"), driver_files(**_BESIDE)
    gpu = gpus.visible() if task.device == "cuda" and gpus.present() else ""
    with isolation(_memory_bytes(task), gpu) if server is None else nullcontext(server) as means:
        limit_s = _TIMES * task.timeout_s
        try:
            answer = means.run(driver, {"task": task_data(task)}, files=files, timeout_s=limit_s, lock="shared").value
        except IsolatedFailure as failure:
            return (Finding(check=failure.stage or "the reference runs", state="failed", detail=failure.message),)
    try:
        return _FINDINGS.validate_python(answer)
    except ValidationError:
        return (Finding(check="the reference runs", state="failed", detail="it answers in the checks' place"),)


def _memory_bytes(task: Task) -> int:
    """Return how much memory the reference may take: more where it is sized for a GPU."""
    all_of_it = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return MEMORY_BYTES if task.device == "cpu" else max(MEMORY_BYTES, int(_SHARE * all_of_it))


async def _judged_seed(task: Task) -> Finding:
    """Have the task's own evaluator judge the seed program: all that can be checked of one."""
    language = next(iter(task.contracts))
    seed, check = task.seed(language), "the evaluator judges the seed program"
    if seed is None:
        return Finding(check=check, state="not checked", detail="there is no seed program")
    judge = UserVerdicts(_nowhere)
    try:
        verdict = await judge.evaluate(task, seed, "search")
    finally:
        await judge.close()
    if verdict.objective is None:
        return Finding(check=check, state="failed", detail=f"{verdict.status.value}: {verdict.message}")
    return Finding(check=check, state="passed", detail=f"{verdict.objective.value:g} {task.objective.unit}")


async def _nowhere() -> Environment:
    return Environment(device="not recorded", torch="not recorded")
