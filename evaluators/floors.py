"""The least that any program must move and do, for people: what a task's floor() says of each workload."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Field, TypeAdapter, ValidationError

from evaluators.adapters.driver_source import driver_source
from evaluators.errors import InfrastructureError
from evaluators.invalid import first_problem
from evaluators.isolation import IsolatedFailure, isolation
from evaluators.objective import Record
from evaluators.task import Task
from evaluators.task_source import function_source

TIMEOUT_S = 10.0
"""How long a reference may take to tell its floors, seconds: they are sums of sizes."""


class Floor(Record):
    """What no program can do without at one workload."""

    bytes: int = Field(ge=0)
    """Moved to or from memory."""
    operations: int = Field(ge=0)
    """Done by the arithmetic units."""
    practical_us: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Below this a figure, microseconds a call, is believed only when it is certified."""


_ANSWER = TypeAdapter(tuple[Floor, ...])


@dataclass(frozen=True)
class Floors:
    """What could be learnt."""

    by_workload: Mapping[str, Floor]
    """Workload's name -> floor; empty for a task that gives none, and when they cannot be told."""
    problem: str = ""
    """Why a task's floors cannot be told, one line."""


def floors_of(task: Task) -> Floors:
    """Return the floors of all workloads. The reference is run, confined, when it has a function `floor`; blocks."""
    if task.brings_judge or function_source(task.reference, "floor") is None:
        return Floors({})
    cases = [{"name": workload.name, "axes": dict(task.sizes(workload))} for workload in task.workloads]
    request = {"reference": task.reference, "cases": cases}
    try:
        with isolation() as server:
            answer = server.run(driver_source("floors"), request, timeout_s=TIMEOUT_S).value
        if "problem" in answer:
            return Floors({}, str(answer["problem"]))
        least = _ANSWER.validate_python(answer["floors"])
        return Floors(dict(zip((workload.name for workload in task.workloads), least, strict=True)))
    except (IsolatedFailure, InfrastructureError) as error:
        return Floors({}, f"running the reference failed: {error}")
    except ValidationError as error:
        return Floors({}, f"its answer is not understood: {first_problem(error)}")
    except (KeyError, TypeError, ValueError) as error:
        return Floors({}, f"its answer is not understood: {error}")
