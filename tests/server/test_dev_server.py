"""`langgraph dev` with the repository's langgraph.json, over HTTP, on the database of the command line."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from checkpoints.history import read_snapshot

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served") / "home"


@pytest.fixture(scope="module")
def address(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the server as `make dev` does, with a folder of runs of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("log") / "server.log"
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "KSEARCH_HOME": str(home),
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        "LANGGRAPH_NO_VERSION_CHECK": "true",
    }
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--port", str(port)]
    with log.open("wb") as output:
        server = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_until_ready(port, server, log)
        yield address
    finally:
        os.killpg(server.pid, signal.SIGINT)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _wait_until_ready(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    pytest.fail(f"the server did not start: {log.read_text()}")


@pytest.fixture
async def client(address: str) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=address) as opened:
        yield opened


async def _run(client: LangGraphClient, context: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    thread = await client.threads.create()
    await client.runs.wait(thread["thread_id"], "search", input={}, context=context, raise_error=False)
    return thread["thread_id"], dict(await client.threads.get_state(thread["thread_id"]))


async def test_lists_the_graph(client: LangGraphClient) -> None:
    assistants = await client.assistants.search()
    assert [assistant["graph_id"] for assistant in assistants] == ["search"]
    drawn = await client.assistants.get_graph(assistants[0]["assistant_id"])
    nodes = {str(node["id"]) for node in drawn["nodes"]}
    assert {"initialize", "select_action", "instantiate_program", "evaluate"} <= nodes


async def test_runs_the_quickstart_task_and_shares_the_database(client: LangGraphClient, home: Path) -> None:
    context = {"task": "softmax", "options": {"max_evaluations": 2}}
    thread, state = await _run(client, context)
    assert state["values"]["stop"]["reason"] == "budget", state
    assert state["values"]["spend"]["evaluations"] == 2
    assert state["values"]["incumbent"]["objective"]["value"] > 0
    snapshot = read_snapshot(home, thread)
    assert snapshot.thread.status == "finished"
    assert snapshot.thread.name.startswith("softmax-")
    assert snapshot.values["incumbent"] == state["values"]["incumbent"]


async def test_refuses_bad_options_and_paths(client: LangGraphClient, tmp_path: Path) -> None:
    for context in (
        {"task": "softmax", "options": {"max_evaluation": 2}},
        {"task": str(tmp_path)},
        {"task": "softmaxx"},
    ):
        _, state = await _run(client, context)
        assert state["values"].get("stop") is None
        assert state["tasks"][0]["error"], state


async def test_edits_are_reviewed_from_the_server(client: LangGraphClient, home: Path) -> None:
    scripted = dict.fromkeys(("planner", "coder", "evaluator"), "scripted")
    options = {**scripted, "max_evaluations": 2, "stagnation": 1, "review": True}
    context = {"task": "scripted", "options": options}
    thread, state = await _run(client, context)
    asked = []
    for answer in ("perhaps", "accept", "reject: not yet", "accept", "accept", "accept"):
        assert not [task["error"] for task in state["tasks"] if task["error"]]
        if not state["next"]:
            break
        (question,) = [item["value"] for task in state["tasks"] for item in task["interrupts"]]
        assert question["kind"] == "review"
        asked.append((question["round"], question["turn"]))
        assert read_snapshot(home, thread).thread.status == "paused"
        await client.runs.wait(thread, "search", command={"resume": answer}, context=context, raise_error=False)
        state = dict(await client.threads.get_state(thread))
    assert asked[:2] == [(0, 0), (0, 1)], state
    assert state["values"]["stop"]["reason"] == "budget"
    assert state["values"]["edits"]["count"] >= 1
    assert read_snapshot(home, thread).thread.status == "finished"
