"""A task of FlashInfer-Bench's under that format's own protocol, `?protocol=fib`, instead of ours."""

from collections.abc import Mapping
from urllib.parse import parse_qsl

from evaluators.adapters.flashinfer.rules import tolerance
from evaluators.errors import TaskError
from evaluators.objective import Objective
from evaluators.task import Task

PROTOCOLS = ("fib",)
TIMEOUT_S = 300.0
"""The format's limit for a program on one workload."""
CALLED = ("dps", "value")
"""Bindings in which programs are called under it."""
OPTIONS = ("protocol", "tolerance")


def under_protocol(task: Task, query: str, reference: str) -> Task:
    """Return a task as the options behind its reference's question mark want it. Raises TaskError."""
    options = read_options(query, OPTIONS, reference)
    if "protocol" not in options:
        raise TaskError(f"{reference}: behind the question mark must stand protocol={PROTOCOLS[0]} or output=float16")
    made = fib_task(task, reference)
    if "tolerance" not in options:
        return made
    return made.model_copy(update={"tolerance": tolerance(task.name, options["tolerance"], reference)})


def takes_protocol(task: Task) -> bool:
    """Return whether the task is one of FlashInfer-Bench's, which that format's protocol can judge."""
    return task.verdict == "harness" and task.tolerance.rule == "either"


def read_options(query: str, known: tuple[str, ...], reference: str) -> Mapping[str, str]:
    """Return the options of a reference, those of `known`. Raises TaskError."""
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if name not in known:
            raise TaskError(f"{reference}: unknown option {name!r}; it may be one of {', '.join(known)}")
    if options.get("protocol", PROTOCOLS[0]) not in PROTOCOLS:
        raise TaskError(f"{reference}: protocol: must be {PROTOCOLS[0]}; leave it out for ours")
    return options


def fib_task(task: Task, reference: str) -> Task:
    """Return a task judged and timed as flashinfer-bench does; `reference` names it. Raises TaskError."""
    if not takes_protocol(task):
        raise TaskError(f"{reference}: protocol=fib is for tasks of FlashInfer-Bench (tolerance.rule = 'either')")
    contracts = {
        language: contract
        for language, contract in task.contracts.items()
        if language in ("python", "triton") and contract.binding in CALLED and not contract.wrapper
    }
    if not contracts:
        raise TaskError(f"{reference}: protocol=fib is for programs in Python or Triton, and the task has neither")
    return task.model_copy(
        update={
            "title": f"{task.title or task.name}, FlashInfer-Bench's protocol",
            "tolerance": task.tolerance.model_copy(update={"normalised": None}),
            "objective": Objective(aggregate="mean"),
            "contracts": contracts,
            "verdict": "fib",
            "timeout_s": max(task.timeout_s, TIMEOUT_S),
            "origin": reference,
        }
    )
