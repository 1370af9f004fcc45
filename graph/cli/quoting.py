"""`run --quote`: what the search may cost, without asking a model or beginning a run."""

from collections.abc import Sequence

from evaluators.task import Task
from graph.cli.codes import DONE
from graph.cli.screen import Screen
from graph.config import SearchConfig
from graph.report.quote import Asked, Prompts, quote, quote_lines
from nodes.models.chat import Role
from nodes.models.schedule import parse_schedule
from nodes.pricing import find_price, prices
from nodes.prompting.asked import asked
from nodes.services import language_of

_LATER: dict[Role, tuple[str, ...]] = {"planner": ("revise",), "coder": ("debug", "improve", "repair")}
_FREE = ("manual", "cassette")


def show_quote(screen: Screen, config: SearchConfig, task: Task) -> int:
    """Show the estimate and return the exit code. Raises UsageError when a prompt cannot be rendered."""
    models: dict[Role, str] = {"planner": config.planner, "coder": config.coder}
    roles: dict[Role, tuple[Prompts, Sequence[Asked]]] = {
        role: (_prompts(task, config, role), [_stage(stage.spec, stage.last) for stage in parse_schedule(spec)])
        for role, spec in models.items()
        if spec.partition(":")[0] not in ("offline", "scripted", "script")
    }
    seed = task.seed(language_of(config, task)) if config.use_seed else None
    facts = quote(config, roles, 0 if seed is None else sum(map(len, seed.files.values())))
    facts = {"task": task.name, "language": language_of(config, task), "prices_as_of": prices().as_of, **facts}
    if screen.json:
        screen.data(facts)
        return DONE
    screen.facts([("task", f"{task.name} in {facts['language']}"), *quote_lines(facts)])
    screen.say(f"Prices are those of {facts['prices_as_of']}. This is an estimate: nothing was asked or begun.")
    return DONE


def _prompts(task: Task, config: SearchConfig, role: Role) -> Prompts:
    """Return the sizes of a role's prompts, by the examples that `ksearch prompts render` shows."""
    first = asked(task, config, role, "first")
    sizes = [len(asked(task, config, role, kind).prompt) for kind in _LATER[role]]
    return Prompts(system=len(first.system), first=len(first.prompt), later=(min(sizes), max(sizes)))


def _stage(model: str, last: int | None) -> Asked:
    provider, _, name = model.partition(":")
    # A server of one's own has its own price, whatever the model is called.
    price = None if "@" in name else find_price(provider, name)
    return Asked(model=model, last=last, price=price, free=provider in _FREE)
