"""Fixtures of whole searches."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from checkpoints.home import open_home
from graph import runs
from graph.presets import resolve
from tests.end_to_end.killing import Searches
from tests.end_to_end.searching import Search, Searched


@pytest.fixture(scope="session")
def searches() -> Iterator[Searches]:
    """Searches in processes that can be killed."""
    server = Searches()
    yield server
    server.close()


@pytest.fixture
async def search(tmp_path: Path) -> AsyncIterator[Search]:
    """Run a scripted search; `script` as nodes.scripted.Script, options by name."""
    async with open_home(tmp_path / "home") as home, runs.opened_services(home) as means:

        async def run(script: dict[str, Any] | None = None, preset: str = "paper", **options: Any) -> Searched:
            source = "scripted"
            if script is not None:
                file = tmp_path / f"script{len(list(tmp_path.iterdir()))}.json"
                file.write_text(json.dumps(script))
                source = f"script:{file}"
            given = {"task": "scripted", "planner": source, "coder": source, "evaluator": "scripted", **options}
            events: list[dict[str, Any]] = []
            ended = await runs.start(means, resolve(preset, given), events.append)
            return Searched(means, ended, await means.tree(ended.state["tree"]), events)

        yield run
