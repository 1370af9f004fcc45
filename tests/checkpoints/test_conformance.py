"""The savers against LangGraph's own conformance suite."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate

from checkpoints.database import make_home, open_connection
from checkpoints.place import find_place
from checkpoints.saver import open_saver

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


@pytest.mark.parametrize("kind", ["folder", "server"])
async def test_saver_has_every_capability(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    count = 0

    @checkpointer_test(name=kind)
    async def saver() -> AsyncGenerator[BaseCheckpointSaver[Any], None]:
        nonlocal count
        count += 1
        server = kind == "server"
        place = find_place(request.getfixturevalue("postgres").home() if server else tmp_path / str(count))
        if not server:
            make_home(place)
        open_connection(place).close()
        async with open_saver(place) as opened:
            yield opened

    report = await validate(saver)
    assert {name: result.failures for name, result in report.results.items()} == {name: [] for name in CAPABILITIES}
    assert all(result.detected and result.passed and result.tests_passed for result in report.results.values())
