"""Adding up what was spent. Pure."""

from collections.abc import Iterable
from typing import Any, cast

from graph.state import Spend


def no_spend() -> Spend:
    """Return an empty account."""
    return Spend(
        evaluations=0,
        repairs=0,
        certifications=0,
        input_tokens=0,
        output_tokens=0,
        cached_tokens=0,
        reasoning_tokens=0,
        usd=0.0,
        unpriced_calls=0,
        device_s=0.0,
        wall_s=0.0,
        by={},
    )


def add_calls(spend: Spend, role: str, calls: Iterable[dict[str, Any]]) -> Spend:
    """Return the account with paid calls of one role added (model calls carry `model` and tokens)."""
    total: dict[str, Any] = {**spend, "by": {name: dict(entry) for name, entry in spend["by"].items()}}
    for call in calls:
        total["device_s"] += call.get("device_s", 0.0)
        for tokens in ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"):
            total[tokens] += call.get(tokens, 0)
        entry = total["by"].setdefault(f"{role} {call['model']}" if "model" in call else role, {"calls": 0})
        entry["calls"] += 1
        for key, value in call.items():
            if isinstance(value, int | float):
                entry[key] = entry.get(key, 0) + value
        if "model" in call:
            total["usd"] += call["usd"] or 0.0
            total["unpriced_calls"] += call["usd"] is None
    return cast(Spend, total)
