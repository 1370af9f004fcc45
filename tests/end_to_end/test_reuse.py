"""Evaluations paid for by one run and taken over by another: only on request, said so, and never a certification."""

from collections import Counter
from typing import Any

from evaluators.scripted import ScriptedEvaluator
from evaluators.scripted_tasks import SCRIPTED_TASKS
from nodes.judged import judge
from nodes.paid import PaidCalls
from tests.end_to_end.searching import Search, Searched, intent

SCRIPT: dict[str, Any] = {
    "proposals": [{"edits": [intent("A", 0.9), intent("B", 0.8)]}],
    "cycles": [[1.5, "wrong_values"], ["timeout", 2.0]],
}
OPTIONS: dict[str, Any] = {"stagnation": 2, "max_evaluations": 4, "width": 2}


async def paid(done: Searched) -> Counter[tuple[str, bool]]:
    """Role and whether it was taken over, of each evaluation on record."""
    entries = await done.means.home.ledger.entries(done.ended.thread.uuid)
    return Counter(
        (entry.key.role, "reused" in entry.spend) for entry in entries if entry.spend and "device_s" in entry.spend
    )


async def test_figures_are_taken_over_on_request_only(search: Search) -> None:
    first = await search(SCRIPT, **OPTIONS)
    alone = await search(SCRIPT, **OPTIONS)
    assert not any(reused for _, reused in await paid(alone))
    second = await search(SCRIPT, **OPTIONS, reuse_evaluations=True)
    # What may turn out otherwise on another try (the timeout) is judged again, and so is what decides: certification.
    expected = {("seed", False): 1, ("evaluator", True): 3, ("evaluator", False): 1, ("certification", False): 2}
    assert await paid(second) == expected
    assert sorted(second.trace()) == sorted(first.trace())
    assert second.ended.state["spend"]["evaluations"] == 4, "the budget counts programs, whoever measured them"
    assert second.ended.state["spend"]["by"]["evaluator"]["reused"] == 3
    blobs = [attempt["result"]["evaluation"] for attempt in second.attempts]
    sources = [(await second.means.evaluation(blob)).reused_from for blob in blobs]
    assert sorted(map(str, sources)) == sorted([*[first.ended.thread.uuid] * 3, "None"])
    incumbent = second.ended.state["incumbent"]
    assert incumbent is not None
    assert (await second.means.evaluation(incumbent["evaluation"])).reused_from is None


async def test_task_program_protocol_and_environment_must_agree(search: Search) -> None:
    home = (await search(SCRIPT, **OPTIONS)).means.home
    task = SCRIPTED_TASKS["scripted"]
    seed = task.seed("cpp")
    assert seed is not None
    other_task = task.model_copy(update={"description": "Another one."})
    other_seed = seed.model_copy(update={"flags": ("-O1",)})

    async def judged(thread: str, evaluator: ScriptedEvaluator, task: Any = task, program: Any = seed) -> str | None:
        calls = PaidCalls(home.ledger, home.blobs, thread, 1)
        return (await judge(calls, "evaluator", evaluator, task, program, "search", reuse=True)).reused_from

    here, elsewhere = ScriptedEvaluator(), ScriptedEvaluator(device="another")
    assert await judged("t1", here) is None
    assert await judged("t2", here) == "t1"
    assert await judged("t2", here) == "t1", "its own record is found again as it was"
    assert await judged("t3", elsewhere) is None
    assert await judged("t4", here, other_task) is None
    assert await judged("t5", here, task, other_seed) is None
    calls = PaidCalls(home.ledger, home.blobs, "t1", 2)
    again = await judge(calls, "evaluator", here, task, seed, "search", reuse=True)
    assert again.reused_from is None, "a run that draws its own program again measures it again"
