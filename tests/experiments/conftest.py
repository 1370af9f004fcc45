"""Experiments in this process, with scripted planner, coder and evaluator."""

import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from checkpoints.home import open_home
from graph.config import SearchConfig
from graph.experiments.conducting import Conducted, conduct
from graph.experiments.plan import read_plan
from graph.runs import opened_services
from nodes.services import Services

SCRIPTED = """
[options]
task = "scripted"
planner = "scripted"
coder = "scripted"
evaluator = "scripted"
max_evaluations = 6
"""
Experiment = Callable[..., Awaitable[Conducted]]


@pytest.fixture
async def means(tmp_path: Path) -> AsyncIterator[Services]:
    async with open_home(tmp_path / "home") as home, opened_services(home) as services:
        yield services


@pytest.fixture
def experiment(means: Services) -> Experiment:
    """Conduct the experiment `trial` in a TOML text; `events` receives (run, event), `checked` what is checked."""

    async def run(
        text: str, events: list[tuple[str, dict[str, Any]]] | None = None, checked: list[SearchConfig] | None = None
    ) -> Conducted:
        plan = read_plan(tomllib.loads(text), "trial.toml", "trial")
        heard = [] if events is None else events
        check = (lambda configs: None) if checked is None else checked.extend
        return await conduct(means, plan, lambda name, event: heard.append((name, event)), check)

    return run
