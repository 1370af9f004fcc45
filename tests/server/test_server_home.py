"""The LangGraph server on a home that is on a PostgreSQL server, together with the command line."""

import asyncio
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from langgraph_sdk import get_client

from checkpoints.history import read_snapshot
from checkpoints.place import find_place
from tests.postgres_server import PostgresServer
from tests.server.conftest import serving
from tests.server.test_continuing import context, edited, named

SCRIPTED = ("--planner", "scripted", "--coder", "scripted", "--evaluator", "scripted")


async def ksearch(*arguments: str) -> None:
    command = [sys.executable, "-m", "graph.cli", *arguments]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr


async def test_it_begins_and_shows_runs_and_goes_on_with_those_of_the_command_line(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSEARCH_HOME", postgres.home())
    monkeypatch.setenv("KSEARCH_BLOBS", str(tmp_path / "blobs"))
    home = find_place()
    await ksearch("run", "scripted", *SCRIPTED, "--evaluations", "2", "--set", "stagnation=1")
    theirs = read_snapshot(home, "latest").thread

    with serving(tmp_path / "server.log") as address:
        async with get_client(url=address) as client:
            begun = (await client.threads.create())["thread_id"]
            await client.runs.wait(begun, "search", input={}, context=context(max_evaluations=3))
            finished = read_snapshot(home, begun)
            assert (finished.thread.status, finished.values["stop"]["reason"]) == ("finished", "budget")

            while theirs.uuid not in await named(client, theirs.name):
                await asyncio.sleep(0.1)
            await edited(home, theirs.uuid, max_evaluations=4)
            await client.runs.wait(theirs.uuid, "search", input={}, context={})
            served = read_snapshot(home, theirs.uuid)
            assert (served.thread.status, served.values["spend"]["evaluations"]) == ("finished", 4)
        async with httpx2.AsyncClient() as web:
            page = (await web.get(f"{address}/ksearch/")).text
    assert theirs.name in page
    assert finished.thread.name in page

    await ksearch("resume", finished.thread.name, "--evaluations", "5")
    assert read_snapshot(home, begun).values["spend"]["evaluations"] == 5
