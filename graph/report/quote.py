"""What a search with models may cost, before it begins: a range, by assumptions that are stated. Pure.

Nothing here is measured. The sizes of prompts are those of rendered examples; what models reply is assumed, low and
high; how many calls there are follows from the budget of evaluations and from how long cycles last.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from graph.config import SearchConfig
from graph.wording import counted
from nodes.models.chat import Role, Usage
from nodes.pricing import Price, cost_usd

End = Literal["low", "high"]
ENDS: tuple[End, End] = ("low", "high")
Range = Mapping[End, float]

CHARS_PER_TOKEN = 4
REASONING = {"low": 0, "high": 8000}
"""Tokens of reasoning in one reply."""
PLAN = {"low": 500, "high": 2000}
"""Tokens of a planner's reply beside its reasoning."""
PROSE = 200
"""Tokens around a program in a coder's reply, and of a corrective turn."""
SHORT_PROGRAM, LONG_PROGRAM, GROWTH = 600, 3000, 3
"""Tokens of a program: low as the seed or, without one, the first; high so many times the seed, at least the second."""
CORRECTED = {"low": 0.0, "high": 0.5}
"""Corrective turns per question."""
WASTED = {"low": 0.0, "high": 0.2}
"""Share of the coder's questions that bring no program to evaluate."""
LONG_CYCLE = 3
"""Without a cap, a long cycle has so many times K samples."""
NODES_PER_PLAN, NODE_CHARS = 3, 600
"""By how much each plan makes the tree in later ones grow, at most."""


@dataclass(frozen=True)
class Asked:
    """One stage of a role's schedule: which model is asked up to which round, and what it costs."""

    model: str
    last: int | None
    """The last round; None: to the end."""
    price: Price | None
    """None: unknown, unless it is free."""
    free: bool = False
    """Nobody is paid: a person, a recording."""


@dataclass(frozen=True)
class Prompts:
    """Sizes of a role's rendered prompts, characters."""

    system: int
    """The stable prefix."""
    first: int
    later: tuple[int, int]
    """The shortest and the longest of the other kinds."""


@dataclass(frozen=True)
class Plan:
    """How often each role is asked, at one end of the range."""

    planner: float
    coder: float
    rounds: int


def quote(
    config: SearchConfig,
    roles: Mapping[Role, tuple[Prompts, Sequence[Asked]]],
    seed_chars: int,
) -> dict[str, Any]:
    """Return the estimate as plain JSON: per role and model, and in all, from `low` to `high`.

    Args:
        config: Budget, stagnation, width, samples and limits of the search.
        roles: `planner` and `coder`, as far as models play them: their prompts and their schedules.
        seed_chars: Characters of the seed program, 0 when there is none.
    """
    rows = [
        _row(role, at, config, prompts, stages, seed_chars)
        for role, (prompts, stages) in roles.items()
        for at in range(len(stages))
    ]
    names = ("calls", "input_tokens", "output_tokens")
    total: dict[str, Any] = {name: {end: sum(row[name][end] for row in rows) for end in ENDS} for name in names}
    priced = [row["usd"] for row in rows if row["usd"] is not None]
    total["usd"] = {end: round(sum(usd[end] for usd in priced), 4) for end in ENDS}
    unknown = sorted({row["model"] for row in rows if row["usd"] is None})
    return {
        "evaluations": config.max_evaluations,
        "roles": rows,
        "total": {**total, "usd": None if unknown and not priced else total["usd"]},
        "unknown_prices": unknown,
        "limits": {"tokens": config.max_tokens, "usd": config.max_usd, "wall_s": config.max_wall_s},
        "assumptions": list(assumptions(config, seed_chars)),
    }


def plan_of(config: SearchConfig, end: End) -> Plan:
    """Return how often planner and coder are asked a question, corrective turns left out."""
    questions = config.max_evaluations / (1 - WASTED[end])
    rounds = math.ceil(questions / (config.width * config.samples))
    if config.frozen_world_model:
        return Plan(1, questions, rounds)
    short, long = cycle_lengths(config)
    # Cycles side by side may end together, and then one reply is for all of them. After the last one none is asked.
    fewest = max(math.ceil(config.max_evaluations / (long * config.width)) - 1, 0)
    return Plan(1 + (fewest if end == "low" else int(questions // short)), questions, rounds)


def cycle_lengths(config: SearchConfig) -> tuple[int, int]:
    """Return the samples of a short cycle (nothing ever improves) and of a long one; whole rounds of it."""
    cap = config.sample_cap
    short = config.stagnation if cap is None else min(config.stagnation, cap)
    long = LONG_CYCLE * config.stagnation if cap is None else cap
    return _whole(short, config.samples), _whole(max(long, short), config.samples)


def _whole(samples: int, at_once: int) -> int:
    return math.ceil(samples / at_once) * at_once


def _row(
    role: Role, at: int, config: SearchConfig, prompts: Prompts, stages: Sequence[Asked], seed_chars: int
) -> dict[str, Any]:
    asked, found = stages[at], {end: _spent(role, at, config, prompts, stages, seed_chars, end) for end in ENDS}
    row: dict[str, Any] = {"role": role, "model": asked.model}
    for name in ("calls", "input_tokens", "output_tokens"):
        row[name] = {end: round(found[end][name]) for end in ENDS}
    known = asked.free or asked.price is not None
    row["usd"] = {end: round(found[end]["usd"], 4) for end in ENDS} if known else None
    return row


def _spent(
    role: Role, at: int, config: SearchConfig, prompts: Prompts, stages: Sequence[Asked], seed_chars: int, end: End
) -> dict[str, float]:
    """Return the calls of one stage of one role, their tokens and their price."""
    asked, plan = stages[at], plan_of(config, end)
    share = shares(stages, plan.rounds)[at]
    # The planner's first question is asked in round 0, of the first stage.
    questions = share * plan.coder if role == "coder" else (at == 0) + share * (plan.planner - 1)
    turns = min(CORRECTED[end], config.max_corrections) * questions
    reply = _reply(role, config, seed_chars, end)
    prompt = _prompt(role, config, prompts, seed_chars, plan, end)
    # A corrective turn repeats the question and shows the reply that it corrects, without its reasoning.
    correction = prompt + reply - min(REASONING[end], reply) + PROSE
    tokens = {"input_tokens": questions * prompt + turns * correction, "output_tokens": (questions + turns) * reply}
    calls = questions + turns
    if asked.free:
        return {"calls": calls, "input_tokens": 0, "output_tokens": 0, "usd": 0}
    usd = 0.0
    if asked.price is not None and calls:
        # At best the stable prefix is in the provider's cache for every call but the first.
        cached = prompts.system / CHARS_PER_TOKEN * (calls - 1) / calls if end == "low" and calls > 1 else 0
        usage = Usage(
            input_tokens=round(tokens["input_tokens"] / calls), output_tokens=round(reply), cached_tokens=round(cached)
        )
        usd = calls * (cost_usd(asked.price, usage) or 0)
    return {"calls": calls, **tokens, "usd": usd}


def shares(stages: Sequence[Asked], rounds: int) -> list[float]:
    """Return the share of the rounds from 1 to `rounds` in which each stage's model is asked."""
    found, before = [], 0
    for stage in stages:
        end = rounds if stage.last is None else min(stage.last, rounds)
        found.append(max(end - before, 0) / rounds if rounds else 0.0)
        before = max(before, end)
    return found


def _program(seed_chars: int, end: End) -> float:
    """Return the tokens of a program."""
    seed = seed_chars / CHARS_PER_TOKEN
    return seed or SHORT_PROGRAM if end == "low" else max(GROWTH * seed, LONG_PROGRAM)


def _reply(role: Role, config: SearchConfig, seed_chars: int, end: End) -> float:
    """Return the tokens of one reply, reasoning included."""
    tokens = REASONING[end] + (PLAN[end] if role == "planner" else _program(seed_chars, end) + PROSE)
    return tokens if config.max_output_tokens is None else min(tokens, config.max_output_tokens)


def _prompt(role: Role, config: SearchConfig, prompts: Prompts, seed_chars: int, plan: Plan, end: End) -> float:
    """Return the tokens of a question, on the average over the search."""
    chars = prompts.later[end == "high"]
    if end == "high":
        # The examples hold programs of the seed's size: at most the best one and what the last attempt changed.
        chars += round(2 * (CHARS_PER_TOKEN * _program(seed_chars, end) - seed_chars))
    first = 1 / plan.planner if role == "planner" else min(config.samples / cycle_lengths(config)[end == "low"], 1)
    chars = round(first * prompts.first + (1 - first) * chars)
    if role == "planner" and end == "high":
        chars += min(round(NODES_PER_PLAN * plan.planner / 2) * NODE_CHARS, config.tree_chars)
    return (prompts.system + chars) / CHARS_PER_TOKEN


def assumptions(config: SearchConfig, seed_chars: int) -> Iterator[str]:
    """Yield what the range rests on, one line each."""
    short, long = cycle_lengths(config)
    programs = " to ".join(f"{_program(seed_chars, end):.0f}" for end in ENDS)
    yield f"a token is {CHARS_PER_TOKEN} characters; prompts are as long as rendered examples, and grow with the search"
    yield f"a program has {programs} tokens, a plan {PLAN['low']} to {PLAN['high']}"
    yield f"reasoning adds {REASONING['low']} to {REASONING['high']} tokens to each reply"
    yield f"a cycle has {long} (low) or {short} (high) samples; one plan follows each"
    yield f"high: {WASTED['high']:.0%} of the programs are unusable or repeat an earlier one"
    if config.max_corrections:
        yield f"high: every second question needs a corrective turn (at most {config.max_corrections} are allowed)"
    yield "low: the stable prefix is read from the provider's cache; high: nothing is"


def quote_lines(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (label, text) of `quote`'s result for a person."""
    yield "budget", counted(facts["evaluations"], "evaluation")
    for row in facts["roles"]:
        yield row["role"], f"{row['model']}: {_text(row)}"
    if not facts["roles"]:
        yield "models", "none is asked: nothing to pay"
        return
    total, unknown = facts["total"], facts["unknown_prices"]
    yield (
        "in all",
        _text(total) + (f", and what is unknown of {', '.join(unknown)}" if unknown and total["usd"] else ""),
    )
    for name, limit in facts["limits"].items():
        if limit is not None:
            yield "limit", f"the search stops at {limit:g} {_LIMITS[name]}"
    if unknown and facts["limits"]["usd"] is not None:
        yield "limit", f"US dollars do not limit {', '.join(unknown)}: set max_tokens or max_wall_s"
    for line in facts["assumptions"]:
        yield "assumed", line


_LIMITS = {"tokens": "tokens", "usd": "US dollars", "wall_s": "seconds of wall-clock time"}


def _text(row: Mapping[str, Any]) -> str:
    usd = row["usd"]
    price = "unknown price" if usd is None else f"{_span(usd, '.2f')} US dollars"
    tokens = f"{_span(row['input_tokens'], ',d')} input and {_span(row['output_tokens'], ',d')} output tokens"
    return f"{_span(row['calls'], 'd')} calls, {tokens}, {price}"


def _span(range_: Range, form: str) -> str:
    low, high = (format(range_[end], form) for end in ENDS)
    return low if low == high else f"{low} to {high}"
