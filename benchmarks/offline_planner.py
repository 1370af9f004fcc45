"""How good the best program is after 20, 40 and 80 evaluations: the offline planner against simpler searches.

    python -m benchmarks.offline_planner [--seeds N] [--first SEED] [--families a,b]

Prints JSON: per family and search the mean ratio best found / best possible (1 is perfect) with a 95 % interval over
the seeds, and the share of the seeds whose best possible program was found.
"""

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.landscapes import FAMILIES, Instance, instance
from benchmarks.serial_search import SerialSearch
from evaluators.landscape import draw
from evaluators.scripted import ScriptedEvaluator
from graph.config import SearchConfig
from nodes.knob_plan import Tuning
from nodes.offline_planner import first_intents, revision

BUDGETS = (20, 40, 80)
Search = Callable[[Instance, int], list[float]]
"""Instance and seed -> best log gain on the seed program after each evaluation."""


def planned(tuning: Tuning) -> Search:
    """Return the search that the offline planner makes."""

    def search(case: Instance, seed: int) -> list[float]:
        serial = SerialSearch(
            task=case.task,
            evaluator=ScriptedEvaluator(case.landscape),
            first=lambda view: first_intents(view, tuning),
            revise=lambda view: revision(view, tuning),
            config=SearchConfig(max_evaluations=max(BUDGETS)),
        )
        return [serial.best(model) for model in serial.run()][1:]

    return search


def random_order(case: Instance, seed: int) -> list[float]:
    """Evaluate combinations in random order, none twice."""
    gains = case.table.ravel()
    order = sorted(range(1, len(gains)), key=lambda index: draw(seed, "order", index))[: max(BUDGETS)]
    return _running(float(gains[index]) for index in order)


def greedy(case: Instance, seed: int) -> list[float]:
    """Turn one knob after another of the best so far, keep what gains, until a pass over all knobs gains nothing."""
    return _running(_greedy(case))


def _greedy(case: Instance) -> Iterator[float]:
    table, at, best = case.table, [0] * case.table.ndim, 0.0
    seen = {tuple(at)}
    improved = True
    while improved:
        improved = False
        for axis in range(table.ndim):
            for value in range(table.shape[axis]):
                there = (*at[:axis], value, *at[axis + 1 :])
                if there in seen:
                    continue
                seen.add(there)
                yield float(table[there])
                if table[there] > best:
                    best, at, improved = float(table[there]), list(there), True


def _running(gains: Iterator[float]) -> list[float]:
    return [float(value) for value in np.maximum.accumulate([0.0, *gains])][1:]


SEARCHES: dict[str, Search] = {"offline": planned(Tuning()), "greedy": greedy, "random": random_order}


def after(curve: Sequence[float], budget: int, best: float) -> float:
    """Return best found / best possible after `budget` evaluations of a search that may have ended earlier."""
    found = curve[min(budget, len(curve)) - 1] if curve else 0.0
    return math.exp(found - best)


def summary(ratios: Sequence[float]) -> dict[str, float]:
    """Return mean, 95 % interval of the mean (bootstrap over the seeds), and the share of perfect ones."""
    resampled = np.random.default_rng(0).choice(ratios, (10_000, len(ratios))).mean(axis=1)
    low, high = (float(bound) for bound in np.quantile(resampled, [0.025, 0.975]))
    optimal = statistics.fmean(ratio > 1 - 1e-9 for ratio in ratios)
    return {
        "ratio": round(statistics.fmean(ratios), 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "optimal": optimal,
    }


def measured(search: Search, family: str, seeds: Sequence[int]) -> dict[str, object]:
    """Return the figures of one search on one family."""
    curves = [(search(case, seed), case.best) for seed in seeds for case in [instance(family, seed)]]
    figures = {str(budget): summary([after(curve, budget, best) for curve, best in curves]) for budget in BUDGETS}
    return {**figures, "evaluations": statistics.fmean(len(curve) for curve, _ in curves)}


def main(arguments: Sequence[str]) -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1000, help="The first seed; those below 500 chose the constants.")
    parser.add_argument("--families", default=",".join(FAMILIES))
    chosen = parser.parse_args(arguments)
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    report = {
        family: {name: measured(search, family, seeds) for name, search in SEARCHES.items()}
        for family in chosen.families.split(",")
    }
    print(json.dumps({"first": chosen.first, "seeds": chosen.seeds, "families": report}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
