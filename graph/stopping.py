"""When a search stops, and why. Pure.

Reasons in the order in which they are looked for; the first that holds is given:

1. `requested`: a person asked.
2. `target`: the incumbent has reached the target. Before the budget, since a goal reached with the last evaluation
   has been reached.
3. `budget`: evaluations, then tokens, then US dollars, then wall-clock seconds.
4. `stalled`: round after round, no program came of the coder's replies that could be evaluated, which no budget of
   evaluations would end.
5. `nothing_to_start_from`: the tree holds only its root.
6. `exhausted`: no cycle is active and no frontier node can be selected.
"""

from evaluators.objective import Goal, gain
from graph.config import SearchConfig
from graph.policies import selectable
from graph.state import Incumbent, Spend, Stop
from graph.wording import counted
from graph.world_model import WorldModel


def stop_reason(
    model: WorldModel,
    config: SearchConfig,
    spend: Spend,
    incumbent: Incumbent | None,
    *,
    active: int,
    idle_rounds: int = 0,
    request: str = "",
) -> Stop | None:
    """Return why the search must stop now; None when it goes on.

    Args:
        model: The tree.
        config: The configuration in force.
        spend: What has been spent.
        incumbent: The best certified program, None when there is none.
        active: How many cycles are active; none can have ended.
        idle_rounds: How many rounds in a row have brought no evaluation.
        request: What a person asked for, empty when nobody did.
    """
    if request:
        return Stop(reason="requested", detail=request)
    return (
        target_reached(config, incumbent, model.goal)
        or budget_spent(config, spend)
        or stalled(config, idle_rounds)
        or (None if active else exhausted(model, config))
    )


def room(spend: Spend, config: SearchConfig) -> int:
    """Return how many evaluations the budget has left, never below 0."""
    return max(config.max_evaluations - spend["evaluations"], 0)


def target_reached(config: SearchConfig, incumbent: Incumbent | None, goal: Goal) -> Stop | None:
    """Return a stop when the incumbent's objective is at least as good as the target."""
    if config.target is None or incumbent is None:
        return None
    value = incumbent["objective"]["value"]
    if gain(value, config.target, goal) < 1:
        return None
    detail = f"the incumbent ({incumbent['node']}) reached {value:.6g}; the target is {config.target:.6g}"
    return Stop(reason="target", detail=detail)


def budget_spent(config: SearchConfig, spend: Spend) -> Stop | None:
    """Return a stop when a budget is used up; the detail names the budget and its figures."""
    unpriced = spend["unpriced_calls"]
    bound = f" (at least: the price of {unpriced} calls is unknown)" if unpriced else ""
    budgets = (
        ("evaluations", spend["evaluations"], config.max_evaluations, ""),
        ("tokens", spend["input_tokens"] + spend["output_tokens"], config.max_tokens, ""),
        ("US dollars", spend["usd"], config.max_usd, bound),
        ("wall-clock seconds", spend["wall_s"], config.max_wall_s, ""),
    )
    for name, spent, limit, note in budgets:
        if limit is not None and spent >= limit:
            return Stop(reason="budget", detail=f"{_figure(spent)} of {_figure(limit)} {name} are spent{note}")
    return None


def stalled(config: SearchConfig, idle_rounds: int) -> Stop | None:
    """Return a stop when too many rounds in a row have brought no evaluation."""
    if idle_rounds < config.idle_cap:
        return None
    return Stop(
        reason="stalled", detail=f"{counted(idle_rounds, 'round')} in a row brought no program that could be evaluated"
    )


def _figure(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.2f}"


def exhausted(model: WorldModel, config: SearchConfig) -> Stop | None:
    """Return a stop when no frontier node can be selected; the detail says what became of the nodes."""
    if not model.nodes:
        return Stop(reason="nothing_to_start_from", detail="the world model has no intent")
    if selectable(model, config):
        return None
    counts = model.counts()
    fates = ", ".join(f"{counts[status]} {status}" for status in ("closed", "failed", "pruned"))
    hidden = len(model.frontier())
    ceiling = f"; {hidden} above the difficulty ceiling of {config.difficulty_ceiling}" if hidden else ""
    return Stop(reason="exhausted", detail=f"no intent is left to select: {fates} of {len(model.nodes)} nodes{ceiling}")
