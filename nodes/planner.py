"""The seam between the search and whoever plans."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from evaluators.evaluation import Evaluation
from evaluators.solution import Language, Solution
from evaluators.task import Task
from graph.calibration import Calibration
from graph.config import SearchConfig
from graph.cycles import Cycle, Result
from graph.edits import EditBatch
from graph.state import Incumbent
from graph.world_model import WorldModel
from nodes.paid import PaidCalls


@dataclass(frozen=True)
class CycleReport:
    """A cycle that has just ended, with each attempt's result; evidence is already attached to the tree."""

    cycle: Cycle
    results: tuple[Result, ...]
    """In the order of the samples."""


@dataclass(frozen=True)
class PlannerView:
    """All that a planner may look at."""

    task: Task
    language: Language
    config: SearchConfig
    model: WorldModel
    calibration: Calibration
    round: int
    evaluations_left: int
    reports: tuple[CycleReport, ...]
    """Cycles that ended since the last revision, in a fixed order; empty at initialize."""
    program: Callable[[str], Solution] = field(repr=False)
    """Loads a program by its blob."""
    evaluation: Callable[[str], Evaluation] = field(repr=False)
    """Loads an evaluation by its blob."""
    incumbent: Incumbent | None = None
    """The best certified program; None when there is none."""


@dataclass(frozen=True)
class Proposal:
    """What a planner wants changed. The batch is validated again before it is committed."""

    batch: EditBatch
    note: str = ""
    """How it came about, when worth telling: a fallback, corrective turns."""


class Planner(Protocol):
    """Plans. Both methods are called at most once per round and must not change the view."""

    async def initialize(self, view: PlannerView, calls: PaidCalls) -> Proposal:
        """Propose the first intents under the root."""
        ...

    async def revise(self, view: PlannerView, calls: PaidCalls) -> Proposal:
        """Propose edits in the light of the cycles in `view.reports`."""
        ...
