"""The saver against LangGraph's own conformance suite."""

from collections.abc import AsyncGenerator
from pathlib import Path

from langgraph.checkpoint.conformance import checkpointer_test, validate

from checkpoints.sqlite import SearchSaver, open_saver

CAPABILITIES = {
    "put",
    "put_writes",
    "get_tuple",
    "list",
    "delete_thread",
    "delete_for_runs",
    "copy_thread",
    "prune",
}


async def test_saver_has_every_capability(tmp_path: Path) -> None:
    count = 0

    @checkpointer_test(name="SearchSaver")
    async def saver() -> AsyncGenerator[SearchSaver, None]:
        nonlocal count
        count += 1
        async with open_saver(tmp_path / f"{count}.sqlite") as opened:
            yield opened

    report = await validate(saver)
    assert {name: result.failures for name, result in report.results.items()} == {name: [] for name in CAPABILITIES}
    assert all(result.detected and result.passed and result.tests_passed for result in report.results.values())
