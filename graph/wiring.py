"""Which implementation an option names. Back ends are imported only when they are picked."""

from collections.abc import Callable
from pathlib import Path

from checkpoints.home import Home
from evaluators.errors import UsageError
from evaluators.evaluator import Evaluator
from evaluators.resolve import resolve_task
from evaluators.task import Task
from graph.config import SearchConfig
from nodes.coder import Coder
from nodes.planner import Planner
from nodes.services import HeldOutside, Presence, Services

PLANNERS = ("offline", "scripted", "script:FILE")
CODERS = PLANNERS
EVALUATORS = ("local", "scripted")


def planner(config: SearchConfig) -> Planner:
    """Return the planner that the configuration names. Raises UsageError for an unknown one."""
    if config.planner == "offline":
        from nodes.offline_planner import OfflinePlanner

        return OfflinePlanner()
    if config.planner == "scripted":
        from nodes.drawn import DrawnPlanner

        return DrawnPlanner()
    if config.planner.startswith("script:"):
        from nodes.scripted import Script, ScriptedPlanner

        return ScriptedPlanner(Script.load(Path(config.planner.removeprefix("script:"))))
    raise UsageError(f"planner {config.planner!r} is unknown; choose one of {', '.join(PLANNERS)}")


def coder(config: SearchConfig) -> Coder:
    """Return the coder that the configuration names. Raises UsageError for an unknown one."""
    if config.coder == "offline":
        from nodes.offline_coder import OfflineCoder

        return OfflineCoder()
    if config.coder == "scripted":
        from nodes.drawn import DrawnCoder

        return DrawnCoder()
    if config.coder.startswith("script:"):
        from nodes.scripted import Script, ScriptedCoder

        return ScriptedCoder(Script.load(Path(config.coder.removeprefix("script:"))))
    raise UsageError(f"coder {config.coder!r} is unknown; choose one of {', '.join(CODERS)}")


def evaluator(config: SearchConfig) -> Evaluator:
    """Return a new evaluator of the kind that the configuration names. Raises UsageError for an unknown one."""
    if config.evaluator == "local":
        from evaluators.local import LocalEvaluator

        return LocalEvaluator()
    if config.evaluator == "scripted":
        from evaluators.scripted import ScriptedEvaluator

        return ScriptedEvaluator()
    raise UsageError(f"evaluator {config.evaluator!r} is unknown; choose one of {', '.join(EVALUATORS)}")


def check(config: SearchConfig) -> None:
    """Raise UsageError when an option names something that does not exist, before anything is stored or paid."""
    planner(config)
    coder(config)
    if config.evaluator not in EVALUATORS:
        evaluator(config)


class Evaluators:
    """The evaluators of one process: one of each kind, kept until the end."""

    def __init__(self) -> None:
        self._made: dict[str, Evaluator] = {}

    def get(self, config: SearchConfig) -> Evaluator:
        """Return the evaluator that the configuration names."""
        if config.evaluator not in self._made:
            self._made[config.evaluator] = evaluator(config)
        return self._made[config.evaluator]

    async def close(self) -> None:
        """End all of them."""
        made, self._made = self._made, {}
        for one in made.values():
            await one.close()


def services(
    home: Home,
    evaluators: Evaluators,
    *,
    resolve: Callable[[str], Task] = resolve_task,
    presence: Presence | None = None,
) -> Services:
    """Return the means of this process."""
    return Services(
        home=home,
        make_planner=planner,
        make_coder=coder,
        make_evaluator=evaluators.get,
        resolve_task=resolve,
        presence=presence or HeldOutside(),
    )
