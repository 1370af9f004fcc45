"""check_stagnation: fold a round's results into cycles and incumbent; decide per cycle whether it goes on."""

from typing import Any

from evaluators.protocols import tie_margin
from graph.cycles import Result, fold
from graph.routing import samples_to_draw
from graph.state import Incumbent, SearchState, Spend
from graph.stopping import room, stop_reason
from nodes.accounts import add_calls
from nodes.certifying import Certifier
from nodes.initialize import baseline_of
from nodes.remeasuring import remeasure
from nodes.services import Services
from nodes.telling import Tell


async def check_stagnation(services: Services, state: SearchState, thread: str, tell: Tell) -> dict[str, Any]:
    """Return the state at the end of the round."""
    config = await services.config(thread, state["config"])
    task = await services.task(state["task"])
    goal, margin = task.objective.goal, tie_margin(task.device, task.verdict)
    round_ = state["round"] + 1
    entries = sorted(state["results"], key=lambda entry: (entry["result"]["cycle"], entry["result"]["sample"]))
    moved = await remeasure(services, state, config, task, entries, thread, round_, tell)
    nodes = {cycle.id: cycle.node for cycle in moved.cycles}
    certifier = Certifier(services, services.make_evaluator(config), task, margin, tell)
    provisional = [Result.model_validate(entry["result"]) for entry in entries]
    certified = await certifier.run(thread, round_, provisional, moved.incumbent, nodes)
    first = state["attempts"]["count"] + 1
    results = {first + at: certified.changed.get(at, result) for at, result in enumerate(provisional)}
    cycles = [
        fold(cycle, {number: r for number, r in results.items() if r.cycle == cycle.id}, config, goal, margin)
        for cycle in moved.cycles
    ]
    spend = _spend(state["spend"], entries, certified.spent, moved.spent, services.lap(thread))
    idle_rounds = 0 if spend["evaluations"] > state["spend"]["evaluations"] else state["idle_rounds"] + 1
    stop = stop_reason(
        await services.tree(state["tree"]),
        config,
        spend,
        certified.incumbent,
        active=len(cycles),
        idle_rounds=idle_rounds,
        request=state["stop_request"],
    )
    tell(
        "round",
        round=round_,
        evaluations=spend["evaluations"],
        tokens=spend["input_tokens"] + spend["output_tokens"],
        usd=spend["usd"],
        certifications=spend["certifications"],
        incumbent=certified.incumbent,
    )
    return {
        "config": services.in_force(thread, state["config"]),
        "round": round_,
        "idle_rounds": idle_rounds,
        "results": None,
        "cycles": [cycle.model_dump(mode="json") for cycle in cycles],
        "incumbent": certified.incumbent,
        "baseline": state["baseline"] or await _baseline(services, certified.incumbent),
        "environment": moved.environment,
        "spend": spend,
        "attempts": await services.extend(state["attempts"], _attempts(results, entries, nodes, round_)),
        "draws": [] if stop else [list(draw) for draw in samples_to_draw(cycles, config, room(spend, config))],
        "stop": stop,
    }


def _attempts(
    results: dict[int, Result], entries: list[dict[str, Any]], nodes: dict[int, str], round_: int
) -> list[dict[str, Any]]:
    """Return the round's entries in the log of attempts."""
    return [
        {
            "number": number,
            "round": round_,
            "node": nodes[result.cycle],
            "key": entry["key"],
            "result": result.model_dump(mode="json"),
            "coder_calls": entry["coder_calls"],
        }
        for (number, result), entry in zip(results.items(), entries, strict=True)
    ]


def _spend(
    spend: Spend,
    entries: list[dict[str, Any]],
    certifications: list[dict[str, Any]],
    remeasurements: list[dict[str, Any]],
    wall_s: float,
) -> Spend:
    for entry in entries:
        spend = add_calls(add_calls(spend, "coder", entry["coder_calls"]), "evaluator", entry["evaluator_calls"])
    spend = add_calls(add_calls(spend, "certification", certifications), "remeasurement", remeasurements)
    return {
        **spend,
        "evaluations": spend["evaluations"] + sum(_evaluated(entry, repair=False) for entry in entries),
        "repairs": spend["repairs"] + sum(_evaluated(entry, repair=True) for entry in entries),
        "certifications": spend["certifications"] + len(certifications),
        "wall_s": spend["wall_s"] + wall_s,
    }


def _evaluated(entry: dict[str, Any], *, repair: bool) -> bool:
    return entry["result"]["outcome"] == "evaluated" and entry["result"]["repair"] is repair


async def _baseline(services: Services, incumbent: Incumbent | None) -> dict[str, Any] | None:
    return None if incumbent is None else baseline_of(await services.evaluation(incumbent["evaluation"]))
