"""Presets: named settings of the options, and how a configuration is put together from a preset and options."""

import difflib
from collections.abc import Mapping
from typing import Any, get_args

from pydantic import ValidationError

from evaluators.errors import UsageError
from evaluators.invalid import Problem, problem_in
from graph.config import SearchConfig

PAPER: dict[str, Any] = {
    "policy": "priority",
    "stagnation": 7,
    "sample_cap": None,
    "width": 1,
    "samples": 1,
    "difficulty_ceiling": None,
    "novelty": False,
    "calibration": False,
    "frozen_world_model": False,
    "flat": False,
    "prompt_variant": "paper",
    "repair_turns": 0,
}
"""The published algorithm with nothing added: K = 7, argmax V, one cycle, one sample a round. For comparisons."""

DEFAULT: dict[str, Any] = {
    **PAPER,
    "sample_cap": 12,
    "novelty": True,
    "calibration": True,
    "prompt_variant": "default",
    "repair_turns": 2,
}
"""What we would start with; argued, not yet measured.

- `novelty`: an evaluation of a program that was evaluated before says nothing new.
- `sample_cap` 12: K alone never ends a cycle that improves a little every time; 12 leaves K = 7 room for five
  improvements, after which the planner, which sees the other intents too, decides whether to build on the result.
- `calibration`: without effect on `priority`; whoever switches to `puct` gets corrected predictions.
- `prompt_variant`: the prompts of that name also show calibration and ask for predictions.
- `repair_turns` 2: what does not compile needs the compiler's words and the program, not the whole story.
- `policy`, `width` and `samples` as in the paper: a wider search finds less with an equal number of evaluations, since
  each sample knows fewer results. They are for those who have more devices than time.
"""

PRESETS: dict[str, dict[str, Any]] = {"default": DEFAULT, "paper": PAPER}
"""Every preset by its name."""


def resolve(preset: str | None, options: Mapping[str, Any]) -> SearchConfig:
    """Return the configuration that a preset and options on top of it amount to.

    Args:
        preset: Name of the preset; None takes the one that `options` names, else `default`.
        options: Option -> value, checked like everything from outside. "none" stands for None where an option may be
            None (TOML has no word for it): `sample_cap = "none"`.

    Raises:
        UsageError: the preset or an option is unknown (the nearest name is given), or a value is not allowed (names
            the option, the value and what is allowed).
    """
    chosen = options.get("preset", "default") if preset is None else preset
    if not isinstance(chosen, str) or chosen not in PRESETS:
        raise UsageError(f"preset: {_shown(chosen)} is unknown; choose one of {', '.join(PRESETS)}")
    known = list(SearchConfig.model_fields)
    for key in options:
        if key not in known:
            raise UsageError(f"option {key!r} is unknown{nearest(key, known)}")
    said = {key: None if value == "none" and _may_be_none(key) else value for key, value in options.items()}
    given = {**PRESETS[chosen], **said, "preset": chosen}
    try:
        return SearchConfig.model_validate(given, strict=True)
    except ValidationError as error:
        raise UsageError(explained(problem_in(error, given))) from error


def changed(before: SearchConfig, options: Mapping[str, Any]) -> SearchConfig:
    """Return the configuration of a thread with `options` changed.

    Raises:
        UsageError: as `resolve`, or an option is fixed for a thread's whole life.
    """
    if "preset" in options:
        raise UsageError("the preset of a run is fixed: set the options that you want to change one by one")
    config = resolve(before.preset, {**before.model_dump(exclude={"preset"}), **options})
    if config.task != before.task or config.language != before.language:
        raise UsageError("task and language of a run are fixed: start a new one with `ksearch run`")
    return config


def _may_be_none(option: str) -> bool:
    return type(None) in get_args(SearchConfig.model_fields[option].annotation)


def nearest(key: str, known: list[str]) -> str:
    """Return "; did you mean ...?" with the known name that is most like `key`."""
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
    return f"; did you mean {close[0]!r}?" if close else ""


def explained(problem: Problem, what: str = "option ") -> str:
    """Return a problem in one line; `what` stands before the key."""
    it = "it " if problem.reason.startswith("must ") else ""
    return f"{what}{problem.key}: {_shown(problem.value)} is not allowed: {it}{problem.reason}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
