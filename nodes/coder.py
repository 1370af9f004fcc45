"""The seam between the search and whoever writes programs."""

from dataclasses import dataclass
from typing import Protocol

from evaluators.evaluation import Evaluation
from evaluators.solution import Language, Solution
from evaluators.task import Task
from graph.config import SearchConfig
from graph.cycles import Cycle
from graph.world_model import Node, WorldModel
from nodes.paid import PaidCalls


@dataclass(frozen=True)
class Known:
    """A program with what is known of it; either may be missing."""

    solution: Solution | None
    evaluation: Evaluation | None
    message: str = ""


@dataclass(frozen=True)
class CodeRequest:
    """All that a coder may look at for one sample."""

    task: Task
    language: Language
    config: SearchConfig
    model: WorldModel
    node: Node
    cycle: Cycle
    round: int
    sample: int
    """Number of this sample within its cycle, from 1."""
    parent: Solution | None
    """The program that the intent starts from; None: it starts from nothing."""
    best: Known | None
    """The cycle's best program; None while nothing has passed (then: debug, or the first attempt)."""
    last: Known | None
    """The cycle's last attempt; None for the first round of a cycle."""


@dataclass(frozen=True)
class Draft:
    """What came of one request."""

    solution: Solution | None
    """The program; None when there is none."""
    message: str = ""
    """Why there is no program, in one line."""
    final: bool = False
    """Nothing further to try for this intent."""
    repair: bool = False
    """The request asked for nothing but mending a program that did not compile."""


class Coder(Protocol):
    """Writes programs."""

    async def write(self, request: CodeRequest, calls: PaidCalls) -> Draft:
        """Write one program for the request's intent. An unusable reply is a Draft without a solution."""
        ...
