"""Checking a task before a search spends anything on it: whether it can be got right by accident."""

import asyncio
import os
from collections.abc import Callable
from contextlib import nullcontext, suppress

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
from evaluators.worker.replies import SAID

_BESIDE = {"drivers": ("floors", "subject"), "worker": ("floor", "floor_cuda", "stopwatch", "tolerance")}
"""Modules that the driver goes by."""
_SHARE = 0.5
"""Of the memory of the machine, which a reference sized for a GPU may take."""
_RUNS, _AFTER = "the reference runs", "the checks after these"
_TIMES = 15
"""All checks together run the reference this many times as often as a program's check does."""
_NO_SEED = "there is no seed program, so the evaluator was not run; `ksearch evaluate` has it judge a program of yours"
_OWN = "they are the evaluator's own, which judges by itself: ksearch cannot tell whether it can be fooled"


class Finding(Record):
    """What one check of a task found."""

    check: str
    state: str
    """`passed`, `failed` or `not checked`."""
    detail: str = ""


class _Said(Finding):
    """A finding as the driver says it."""

    no_room: bool = False
    """Whether the check failed because a workload needs more memory than there is."""


_ANSWER = TypeAdapter(tuple[_Said, ...])


Told = Callable[[Finding], None]


class _Heard:
    """Findings as they come."""

    def __init__(self, task: Task, told: Told | None) -> None:
        self._task = task
        self._told, self.findings, self.lines = told, list[Finding](), 0

    def hear(self, line: str) -> None:
        """Take a finding that the driver says; what else the task's code prints in such a line is none."""
        self.lines += 1
        with suppress(ValidationError):
            self.take(_Said.model_validate_json(line))

    def take(self, *findings: _Said) -> None:
        """Take what the driver found; where the reference cannot be run, with the place where it stands."""
        for said in findings:
            if (said.check, said.state) == (_RUNS, "failed"):
                self.fail(_RUNS, said.detail, no_room=said.no_room)
            else:
                self.add(Finding(check=said.check, state=said.state, detail=said.detail))

    def fail(self, check: str, reason: str, *, no_room: bool = False) -> None:
        """Add that the reference cannot be run, with the place where it stands; with `no_room`, where its sizes do."""
        place = self._task.workloads_at if no_room else self._task.reference_at
        self.add(Finding(check=check, state="failed", detail=f"{place}: {reason}" if place else reason))

    def add(self, *findings: Finding) -> None:
        """Add findings, and tell them."""
        self.findings += findings
        for finding in findings:
            if self._told is not None:
                self._told(finding)


def check_task(task: Task, server: Isolation | None = None, told: Told | None = None) -> tuple[Finding, ...]:
    """Run the task's reference, confined (by `server`, if given), in every way that tells whether it can be fooled.

    Blocks. `told` is called with each finding as it is made.

    Raises InfrastructureError when the machinery fails.
    """
    heard = _Heard(task, told)
    if task.brings_judge:
        heard.add(*asyncio.run(_judged(task)))
    else:
        _check(task, server, heard)
    return tuple(heard.findings)


def _check(task: Task, server: Isolation | None, heard: _Heard) -> None:
    driver, files = driver_source("check_task"), driver_files(**_BESIDE)
    gpu = gpus.visible() if task.device == "cuda" and gpus.present() else ""
    with isolation(_memory_bytes(task), gpu) if server is None else nullcontext(server) as means:
        limit_s = _TIMES * task.timeout_s
        try:
            answer = means.run(
                driver, {"task": task_data(task)}, files=files, timeout_s=limit_s, lock="shared", said=heard.hear
            ).value
            heard.take(*_ANSWER.validate_python(answer)[len(heard.findings) :])
        except IsolatedFailure as failure:
            lines = [line.removeprefix(SAID) for line in failure.log.splitlines() if line.startswith(SAID)]
            for line in lines[heard.lines :]:
                heard.hear(line)
            heard.fail(failure.stage or (_AFTER if heard.findings else _RUNS), failure.message)
        except ValidationError:
            heard.fail(_RUNS, "it answers in the checks' place")


def _memory_bytes(task: Task) -> int:
    """Return how much memory the reference may take: more where it is sized for a GPU."""
    all_of_it = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return MEMORY_BYTES if task.device == "cpu" else max(MEMORY_BYTES, int(_SHARE * all_of_it))


async def _judged(task: Task) -> tuple[Finding, ...]:
    """Have the task's own evaluator judge the seed program, and say that this is all that can be checked."""
    rest = Finding(check="reference, inputs and tolerance", state="not checked", detail=_OWN)
    return (await _judged_seed(task), rest)


async def _judged_seed(task: Task) -> Finding:
    language = next(iter(task.contracts))
    seed, check = task.seed(language), "the evaluator judges the seed program"
    if seed is None:
        return Finding(check=check, state="not checked", detail=_NO_SEED)
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
