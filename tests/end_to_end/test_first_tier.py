"""A first tier: what fails there goes no further, and says nothing of the evaluator's environment."""

from collections import Counter
from typing import Any

from tests.end_to_end.searching import Search, intent

SCRIPT: dict[str, Any] = {
    "proposals": [{"edits": [intent("A", 0.9)]}],
    "cycles": [["build_error", 1.5, "wrong_values"]],
}


async def test_what_fails_at_the_first_tier_is_not_evaluated(search: Search) -> None:
    done = await search(SCRIPT, first_tier="scripted", stagnation=3, max_evaluations=3)
    entries = await done.means.home.ledger.entries(done.ended.thread.uuid)
    roles = Counter(entry.key.role for entry in entries if entry.spend and "device_s" in entry.spend)
    assert roles == {"seed": 1, "first_tier": 3, "evaluator": 1, "certification": 1}
    results = [attempt["result"]["status"] for attempt in done.attempts]
    assert results == ["build_error", "passed", "wrong_values"]
    state = done.ended.state
    assert state["spend"]["evaluations"] == 3, "programs are counted, whoever saw that they fail"
    assert state["spend"]["by"]["evaluator"]["calls"] == 1
    assert state["incumbent"] is not None
    assert state["incumbent"]["objective"]["value"] == 1.5
