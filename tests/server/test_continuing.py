"""Threads that the server runs are steered by the command line, and each goes on with the other's threads."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from langgraph_sdk.client import LangGraphClient

from checkpoints.history import read_record, read_snapshot, read_states
from checkpoints.place import Place
from graph.presets import changed
from graph.report.loading import load_run
from graph.steering import Change, ask, pause

SCRIPTED = dict.fromkeys(("planner", "coder", "evaluator"), "scripted")
LONG = 1_000_000
"""A budget that no test lives to see the end of."""


def context(**options: Any) -> dict[str, Any]:
    return {"task": "scripted", "options": {**SCRIPTED, "stagnation": 1, **options}}


async def edited(home: Place, thread: str, **options: Any) -> None:
    await ask(home, thread, Change(config=changed(load_run(home, thread).config, options)))


async def rounds(home: Path, thread: str, least: int) -> None:
    """Wait until a thread has come so far."""
    while await asyncio.to_thread(reached, home, thread) < least:
        await asyncio.sleep(0.1)


def reached(home: Path, thread: str) -> int:
    found = [snapshot.values.get("round", 0) for snapshot in read_states(home) if snapshot.thread.uuid == thread]
    return found[0] if found else -1


async def errors(client: LangGraphClient, thread: str) -> str:
    return str([task["error"] for task in (await client.threads.get_state(thread))["tasks"] if task["error"]])


async def test_a_thread_that_the_server_runs_is_paused_changed_and_goes_on(client: LangGraphClient, home: Path) -> None:
    thread = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread, "search", input={}, context=context(max_evaluations=LONG))
    await rounds(home, thread, 1)
    assert (await pause(home, thread, 60)).status == "paused"
    await client.runs.join(thread, run["run_id"])
    assert (await client.runs.get(thread, run["run_id"]))["status"] == "success"
    assert (await client.threads.get_state(thread))["next"]
    assert await errors(client, thread) == "[]"
    assert (await client.threads.get(thread))["status"] == "interrupted"

    before = read_snapshot(home, thread).values["round"]
    run = await client.runs.create(thread, "search", input=None)
    await rounds(home, thread, before + 1)
    await edited(home, thread, max_evaluations=2)
    await client.runs.join(thread, run["run_id"])
    after = read_snapshot(home, thread)
    assert (after.thread.status, after.values["stop"]["reason"]) == ("finished", "budget")


async def test_a_run_is_paused_over_http(client: LangGraphClient, address: str, home: Path) -> None:
    thread = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread, "search", input={}, context=context(max_evaluations=LONG))
    await rounds(home, thread, 1)
    async with httpx2.AsyncClient(base_url=address) as http:
        name = read_snapshot(home, thread).thread.name
        place = f"/ksearch/runs/{name}/pause"
        assert f'action="{place}"' in (await http.get(f"/ksearch/runs/{thread}")).text
        here = address.removeprefix("http://")
        for strange in (
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "cross-site", "origin": address},
            {"origin": "http://elsewhere.example"},
            {"origin": f"http://{here}.elsewhere.example"},
            {"origin": "null"},
        ):
            assert (await http.post(place, headers=strange)).status_code == 403, strange
        assert read_snapshot(home, thread).thread.status == "running"
        asked = await http.post(place, headers={"origin": address})
        assert (asked.status_code, asked.headers["location"]) == (303, f"/ksearch/runs/{name}")
        await client.runs.join(thread, run["run_id"])
        assert read_snapshot(home, thread).thread.status == "paused"
        assert place not in (await http.get(f"/ksearch/runs/{thread}")).text
        for own in ({}, {"origin": address}, {"sec-fetch-site": "same-origin"}):
            assert (await http.post("/ksearch/runs/nothing/pause", headers=own)).status_code == 404


async def test_a_cancelled_run_leaves_the_thread_to_others(client: LangGraphClient, home: Path) -> None:
    thread = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread, "search", input={}, context=context(max_evaluations=LONG))
    await rounds(home, thread, 1)
    await client.runs.cancel(thread, run["run_id"], wait=True)
    assert read_snapshot(home, thread).thread.status == "paused"


@pytest.mark.parametrize("left", [{}, None])
async def test_what_is_not_allowed_here_is_not_run_here_either(
    client: LangGraphClient, home: Path, left: dict[str, Any] | None
) -> None:
    thread = (await client.threads.create())["thread_id"]
    begun = context(max_evaluations=1, review=True)
    await client.runs.wait(thread, "search", input={}, context=begun, raise_error=False)
    await edited(home, thread, planner="exec:cat", review=False)
    await client.runs.wait(thread, "search", input=left, raise_error=False)
    assert "exec: is refused from the server" in await errors(client, thread)
    assert read_snapshot(home, thread).thread.status == "failed"
    await edited(home, thread, planner="scripted")
    await client.runs.wait(thread, "search", input=left, raise_error=False)
    assert read_snapshot(home, thread).thread.status == "finished"


async def test_the_command_line_and_the_server_go_on_with_each_others_threads(
    client: LangGraphClient, home: Path, tmp_path: Path
) -> None:
    options = ["--planner", "scripted", "--coder", "scripted", "--evaluator", "scripted", "--evaluations", "2"]
    await ksearch(home, "run", "scripted", *options, "--set", "stagnation=1")
    begun = read_snapshot(home, "latest")
    thread = begun.thread.uuid
    assert begun.values["spend"]["evaluations"] == 2

    # The server finds it by itself.
    while thread not in await named(client, begun.thread.name):
        await asyncio.sleep(0.1)
    assert (await client.threads.get_state(thread))["values"]["tree"] == begun.values["tree"]
    # It has ended: a larger budget, and it goes on where it was, whatever the context of the run says.
    await edited(home, thread, max_evaluations=4)
    await client.runs.wait(thread, "search", input={}, context={"task": "softmax"}, raise_error=False)
    served = read_snapshot(home, thread)
    assert (served.thread.status, served.values["spend"]["evaluations"]) == ("finished", 4), served
    assert served.values["round"] > begun.values["round"]
    assert served.values["attempts"]["count"] >= 4

    await ksearch(home, "resume", thread, "--evaluations", "6")
    last = read_snapshot(home, thread)
    assert (last.thread.status, last.values["spend"]["evaluations"]) == ("finished", 6)
    paid = [entry for entry in read_record(home, thread).entries if entry.key.role == "coder"]
    assert len(paid) >= 6
    assert {entry.calls for entry in paid} == {1}


async def named(client: LangGraphClient, run: str) -> set[str]:
    """Return the server's threads of that name; it may remember some of earlier homes."""
    return {thread["thread_id"] for thread in await client.threads.search(metadata={"run": run}, limit=1000)}


async def ksearch(home: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "graph.cli", *arguments, "--home", str(home)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
