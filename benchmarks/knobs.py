"""What the knobs of the built-in C++ seed programs are worth, and whether a search finds the best of them.

    python -m benchmarks.knobs TASK [--seconds S] [--budget N] [--orders N] [--sample N] [--confirm]

Prints JSON: the seed program, every single change of it, the best combination found, the share of its gain (in
logarithm) that the best single change brings, how far simple searches and the offline planner come within a budget of
evaluations, and the worst error of a random sample of combinations. The figures are quick ones (quick_timing.py);
with --confirm the evaluator measures the seed program and the best combination as well.
"""

import argparse
import asyncio
import json
import math
import os
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.quick_timing import BuildFailure, Figures, QuickTimer
from benchmarks.serial_search import SerialSearch
from evaluators.evaluation import Effort, Evaluation
from evaluators.evaluator import Evaluator
from evaluators.knobs import Knob, declared_knobs, settings, turn_solution
from evaluators.local import LocalEvaluator
from evaluators.objective import Value
from evaluators.scripted import ScriptedEvaluator
from evaluators.solution import Solution
from evaluators.task import Task
from evaluators.task_file import builtin_tasks, load_task_folder
from evaluators.worker.status import Status
from graph.config import SearchConfig
from nodes.knob_plan import Tuning
from nodes.offline_planner import first_intents, revision

MARGIN = 1.03
"""A step must gain more than 3 %."""
Settings = Mapping[str, str]


@dataclass
class Landscape:
    """The seed program's knobs with what was measured of them; nothing is measured twice."""

    timer: QuickTimer
    seed: Solution
    known: dict[str, Figures] = field(default_factory=dict)

    @property
    def knobs(self) -> dict[str, Knob]:
        """The seed's knobs."""
        return declared_knobs(self.seed.files[self.seed.main_file])

    def at(self, chosen: Settings) -> Figures:
        """Return the figures of the program with these settings."""
        return self.of(turn_solution(self.seed, chosen))

    def of(self, solution: Solution) -> Figures:
        """Return a program's figures."""
        if solution.digest not in self.known:
            self.known[solution.digest] = self.timer.measure(solution)
        return self.known[solution.digest]

    def defaults(self) -> dict[str, str]:
        """Return the seed's settings."""
        return {name: knob.value for name, knob in self.knobs.items()}

    def changes(self, chosen: Settings) -> Iterator[tuple[str, str]]:
        """Yield every single change of these settings, in the order declared."""
        for name, knob in self.knobs.items():
            yield from ((name, value) for value in knob.values if value != chosen[name])


@dataclass
class Walk:
    """What a search did."""

    settings: dict[str, str]
    curve: list[float]
    """Best ratio after each evaluation."""


def climb(landscape: Landscape, start: Settings, budget: int, order: random.Random | None = None) -> Walk:
    """Turn one knob after another of the best program so far and move on at once when it gains.

    A change that lost under two programs is dropped. Changes come in the order declared, or shuffled by `order`.
    """
    best = dict(start)
    ratio = landscape.at(best).ratio
    curve: list[float] = []
    lost: dict[tuple[str, str], int] = {}
    tried: set[tuple[tuple[str, str], ...]] = {tuple(sorted(best.items()))}
    while len(curve) < budget:
        changes = [change for change in landscape.changes(best) if lost.get(change, 0) < 2]
        if order is not None:
            order.shuffle(changes)
        moved = False
        for change in changes:
            candidate = best | dict([change])
            key = tuple(sorted(candidate.items()))
            if key in tried or len(curve) >= budget:
                continue
            tried.add(key)
            figure = landscape.at(candidate).ratio
            moved = figure > ratio * MARGIN
            if moved:
                best, ratio = candidate, figure
            else:
                lost[change] = lost.get(change, 0) + 1
            curve.append(ratio)
            if moved:
                break
        if not moved:
            break
    return Walk(best, curve)


def polish(landscape: Landscape, start: Settings) -> dict[str, str]:
    """Return the settings that no single change improves, whatever it costs."""
    best, ratio = dict(start), landscape.at(start).ratio
    improved = True
    while improved:
        improved = False
        for change in list(landscape.changes(best)):
            figure = landscape.at(best | dict([change])).ratio
            if figure > ratio * 1.005:
                best, ratio, improved = best | dict([change]), figure, True
    return best


class _Measured:
    """An evaluator over the landscape, for the serial search."""

    def __init__(self, landscape: Landscape) -> None:
        self._landscape, self._scripted = landscape, ScriptedEvaluator()
        self.compare, self.environment = self._scripted.compare, self._scripted.environment
        self.close, self.protocol = self._scripted.close, self._scripted.protocol

    async def evaluate(
        self, task: Task, solution: Solution, effort: Effort, rival: Solution | None = None
    ) -> Evaluation:
        ratio = (await asyncio.to_thread(self._landscape.of, solution)).ratio
        return Evaluation(
            status=Status.PASSED if ratio else Status.WRONG_VALUES,
            tier="timed" if ratio else "built",
            solution=solution.digest,
            task=task.digest,
            effort=effort,
            protocol="quick",
            objective=Value(value=ratio, low=ratio, high=ratio) if ratio else None,
        )


def planned(landscape: Landscape, budget: int) -> Walk:
    """Return what the offline planner does."""
    evaluator: Evaluator = _Measured(landscape)
    tuning = Tuning()
    search = SerialSearch(
        task=landscape.timer.task,
        evaluator=evaluator,
        first=lambda view: first_intents(view, tuning),
        revise=lambda view: revision(view, tuning),
        config=SearchConfig(max_evaluations=budget),
    )
    seed = landscape.of(landscape.seed).ratio
    curve = [seed * math.exp(search.best(model)) for model in search.run()]
    best = max(search.programs.values(), key=lambda program: landscape.of(program).ratio)
    return Walk(settings(best.files[best.main_file]), curve[1:])


def sampled(landscape: Landscape, count: int) -> dict[str, object]:
    """Check random combinations, and every pair of changes once, for building and for being right."""
    draw = random.Random(0)
    chosen = [{name: draw.choice(knob.values) for name, knob in landscape.knobs.items()} for _ in range(count)]
    worst, longest = 0.0, 0.0
    bad: list[dict[str, object]] = []
    covering = list(_pairs(landscape, draw))
    for combination in [*chosen, *covering]:
        try:
            _, figures = landscape.timer.check(turn_solution(landscape.seed, combination))
        except BuildFailure as error:
            bad.append({"settings": combination, "error": str(error)[:500]})
            continue
        worst, longest = max(worst, figures.worst), max(longest, figures.build_s)
        if figures.worst > 1.0:
            bad.append({"settings": combination, "worst": figures.worst})
    return {"checked": count + len(covering), "worst_error": worst, "longest_build_s": longest, "bad": bad}


def _pairs(landscape: Landscape, draw: random.Random) -> Iterator[dict[str, str]]:
    """Yield settings that cover every pair of values of two knobs: greedily, from random ones."""
    knobs = landscape.knobs
    names = list(knobs)
    wanted = {
        ((a, left), (b, right))
        for i, a in enumerate(names)
        for b in names[i + 1 :]
        for left in knobs[a].values
        for right in knobs[b].values
    }
    while wanted:
        pool = [{name: draw.choice(knob.values) for name, knob in knobs.items()} for _ in range(50)]
        pool += [
            dict(pair) | {n: draw.choice(knobs[n].values) for n in names if n not in dict(pair)} for pair in wanted
        ]
        best = max(pool, key=lambda item: sum(dict(pair).items() <= item.items() for pair in wanted))
        wanted = {pair for pair in wanted if not dict(pair).items() <= best.items()}
        yield best


async def confirmed(task: Task, programs: Mapping[str, Solution]) -> dict[str, object]:
    """Return what the evaluator measures of some programs."""
    evaluator = LocalEvaluator()
    try:
        comparison = await evaluator.compare(task, list(programs.values()), "search")
    finally:
        await evaluator.close()
    values = [evaluation.objective for evaluation in comparison.evaluations]
    return {name: value and value.model_dump() for name, value in zip(programs, values, strict=True)}


def report(task: Task, seconds: float, budget: int, orders: int, sample: int) -> dict[str, Any]:
    """Return all quick figures of one task's C++ seed."""
    seed = task.seed("cpp")
    if seed is None:
        raise SystemExit(f"task {task.name} has no C++ seed")
    timer = QuickTimer(task, seconds)
    landscape = Landscape(timer, seed)
    try:
        return _figures(landscape, budget, orders, sample)
    finally:
        timer.close()


def _figures(landscape: Landscape, budget: int, orders: int, sample: int) -> dict[str, Any]:
    start = landscape.defaults()
    default = landscape.at(start)
    singles = {f"{name} = {value}": landscape.at({name: value}).ratio for name, value in landscape.changes(start)}
    walks = {"declared": climb(landscape, start, budget)}
    walks |= {f"shuffled {n}": climb(landscape, start, budget, random.Random(n)) for n in range(orders)}
    walks["offline planner"] = planned(landscape, budget)
    reached = max((walk.settings for walk in walks.values()), key=lambda chosen: landscape.at(chosen).ratio)
    best = polish(landscape, reached)
    figures = landscape.at(best)
    share = math.log(max(singles.values()) / default.ratio) / math.log(figures.ratio / default.ratio)
    return {
        "task": landscape.timer.task.name,
        "default": {"ratio": default.ratio, "per_workload": default.per_workload, "eager_ms": default.baseline_ms},
        "singles": singles,
        "best": {"ratio": figures.ratio, "per_workload": figures.per_workload, "settings": best},
        "share_of_best_single": share,
        "searches": {
            name: {"ratio": walk.curve[-1], "evaluations": len(walk.curve), "curve": walk.curve}
            for name, walk in walks.items()
        },
        "sample": sampled(landscape, sample),
    }


def main(arguments: Sequence[str]) -> None:
    """Print the figures of one task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=list(builtin_tasks()))
    parser.add_argument("--seconds", type=float, default=0.3, help="per program and workload")
    parser.add_argument("--budget", type=int, default=40)
    parser.add_argument("--orders", type=int, default=5, help="simple searches with shuffled orders")
    parser.add_argument("--sample", type=int, default=20, help="random combinations checked")
    parser.add_argument("--confirm", action="store_true", help="measure seed and best with the evaluator too")
    chosen = parser.parse_args(arguments)
    task = load_task_folder(builtin_tasks()[chosen.task])
    figures = report(task, chosen.seconds, chosen.budget, chosen.orders, chosen.sample)
    if chosen.confirm and (seed := task.seed("cpp")):
        programs = {"default": seed, "best": turn_solution(seed, figures["best"]["settings"])}
        figures["confirmed"] = asyncio.run(confirmed(task, programs))
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    main(sys.argv[1:])
