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
from nodes.models.factory import Chats, require
from nodes.models.options import ModelOptions
from nodes.planner import Planner
from nodes.services import HeldOutside, Presence, Services

EVALUATORS = ("local", "deferred", "untimed:ARCH", "scripted", "cassette:FILE")


class Backends:
    """The planners, coders, models and evaluators of one process: connections and devices are shared by its threads."""

    def __init__(self) -> None:
        self._chats = Chats()
        self._evaluators: dict[tuple[str, str | None, int], Evaluator] = {}

    def planner(self, config: SearchConfig) -> Planner:
        """Return the planner that the configuration names. Raises UsageError when it names none."""
        if config.planner == "offline":
            from nodes.offline_planner import OfflinePlanner

            return OfflinePlanner()
        if config.planner == "scripted":
            from nodes.drawn import DrawnPlanner

            return DrawnPlanner()
        if config.planner.startswith("script:"):
            from nodes.scripted import Script, ScriptedPlanner

            return ScriptedPlanner(Script.load(Path(config.planner.removeprefix("script:"))))
        from nodes.llm_planner import LlmPlanner
        from prompts.library import load_variant

        return LlmPlanner(self._chats.get(config.planner, model_options(config)), load_variant(config.prompt_variant))

    def coder(self, config: SearchConfig) -> Coder:
        """Return the coder that the configuration names. Raises UsageError when it names none."""
        if config.coder == "offline":
            from nodes.offline_coder import OfflineCoder

            return OfflineCoder()
        if config.coder == "scripted":
            from nodes.drawn import DrawnCoder

            return DrawnCoder()
        if config.coder.startswith("script:"):
            from nodes.scripted import Script, ScriptedCoder

            return ScriptedCoder(Script.load(Path(config.coder.removeprefix("script:"))))
        from nodes.llm_coder import LlmCoder
        from prompts.library import load_variant

        return LlmCoder(self._chats.get(config.coder, model_options(config)), load_variant(config.prompt_variant))

    def evaluator(self, config: SearchConfig) -> Evaluator:
        """Return the evaluator that the configuration names. Raises UsageError when it names none."""
        key = (config.evaluator, config.devices, config.evaluations_per_device)
        if key not in self._evaluators:
            self._evaluators[key] = _evaluator(config)
        return self._evaluators[key]

    async def close(self) -> None:
        """End the evaluators' processes and let go of connections."""
        evaluators, self._evaluators = self._evaluators, {}
        for evaluator in evaluators.values():
            await evaluator.close()
        await self._chats.close()

    def check(self, config: SearchConfig) -> None:
        """Raise UsageError when an option names nothing that exists, before anything is stored or paid."""
        self.planner(config)
        self.coder(config)
        self.evaluator(config)
        if config.first_tier is not None:
            self.evaluator(config.with_options({"evaluator": config.first_tier}))
        if config.coder == "offline" and config.planner not in ("offline", "scripted"):
            raise UsageError(
                "the offline coder only turns knobs, which the offline planner asks for: set the option coder as well"
            )
        if config.hardware is not None:
            from prompts.sheets import load_sheet

            load_sheet(config.hardware)


def require_models(config: SearchConfig) -> None:
    """Raise UsageError when a key or a recording that a search will ask for is missing, before it is begun."""
    require(config.planner)
    require(config.coder)


def _evaluator(config: SearchConfig) -> Evaluator:
    name = config.evaluator
    if name == "local":
        from evaluators.by_verdict import ByVerdict

        return ByVerdict(_local(config))
    if name == "deferred":
        from nodes.deferred import DeferredEvaluator

        return DeferredEvaluator()
    if name.partition(":")[0] == "untimed":
        from evaluators.untimed import ARCH, UntimedEvaluator

        return UntimedEvaluator(name.partition(":")[2] or ARCH)
    if name == "scripted":
        from evaluators.scripted import ScriptedEvaluator

        return ScriptedEvaluator()
    if name.startswith("cassette:"):
        from evaluators.cassette import CassetteEvaluator
        from evaluators.recording import load_cassette

        return CassetteEvaluator(load_cassette(Path(name.removeprefix("cassette:"))))
    raise UsageError(f"evaluator {name!r} is unknown; choose one of {', '.join(EVALUATORS)}")


def _local(config: SearchConfig) -> Evaluator:
    if config.devices is None and config.evaluations_per_device == 1:
        from evaluators.local import LocalEvaluator

        return LocalEvaluator()
    from evaluators.devices import parse_devices
    from evaluators.pool import PoolEvaluator

    return PoolEvaluator(parse_devices(config.devices or "cpu,cuda"), config.evaluations_per_device)


def model_options(config: SearchConfig) -> ModelOptions:
    """Return how the configuration wants models to be called."""
    return ModelOptions(
        timeout_s=config.model_timeout_s,
        retries=config.model_retries,
        requests_per_minute=config.requests_per_minute,
        reasoning_effort=config.reasoning_effort,
        temperature=config.temperature,
        max_output_tokens=config.max_output_tokens,
        structured=config.structured_replies,
    )


def services(
    home: Home,
    backends: Backends,
    *,
    resolve: Callable[[str], Task] = resolve_task,
    presence: Presence | None = None,
    check: Callable[[SearchConfig], None] | None = None,
) -> Services:
    """Return the means of this process."""
    return Services(
        home=home,
        make_planner=backends.planner,
        make_coder=backends.coder,
        make_evaluator=backends.evaluator,
        resolve_task=resolve,
        check=check or backends.check,
        presence=presence or HeldOutside(),
    )
