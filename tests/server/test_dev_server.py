"""Searches that are begun over HTTP, on the database of the command line."""

from pathlib import Path
from typing import Any

from langgraph_sdk.client import LangGraphClient

from checkpoints.history import read_snapshot, read_states


async def _run(client: LangGraphClient, context: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    thread = await client.threads.create()
    await client.runs.wait(thread["thread_id"], "search", input={}, context=context, raise_error=False)
    return thread["thread_id"], dict(await client.threads.get_state(thread["thread_id"]))


async def test_lists_the_graph(client: LangGraphClient) -> None:
    (assistant,) = await client.assistants.search(metadata={"created_by": "system"})
    assert assistant["graph_id"] == "search"
    drawn = await client.assistants.get_graph(assistant["assistant_id"])
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
    for context, words in (
        ({"task": "softmax", "options": {"max_evaluation": 2}}, "did you mean 'max_evaluations'?"),
        ({"task": "softmax", "options": {"policy": "puctt"}}, "option policy: 'puctt' is not allowed"),
        ({"preset": "papers"}, "choose one of default, paper"),
        ({"task": str(tmp_path)}, str(tmp_path)),
        ({"task": "softmaxx"}, "softmax"),
        ({"options": {"planner": "exec:cat"}}, "exec: is refused from the server"),
    ):
        _, state = await _run(client, context)
        assert state["values"].get("stop") is None
        assert words in str(state["tasks"][0]["error"]), state


async def test_a_stream_tells_why_a_run_is_refused(client: LangGraphClient) -> None:
    thread = (await client.threads.create())["thread_id"]
    context = {"task": "scripted", "options": {"max_evaluation": 2}}
    stream = client.runs.stream(thread, "search", input={}, context=context, stream_mode="custom")
    told = [part.data async for part in stream if part.event == "error"]
    assert [error["error"] for error in told] == ["UsageError"]
    assert "did you mean 'max_evaluations'?" in told[0]["message"]


async def test_refuses_keys_that_the_server_would_drop(client: LangGraphClient, home: Path) -> None:
    for context, words in (
        ({"optionss": {}}, "context 'optionss' is unknown; did you mean 'options'?"),
        ({"max_evaluations": 2}, "context 'max_evaluations': is an option; put it into the context's options"),
    ):
        thread, state = await _run(client, context)
        assert words in str(state["tasks"][0]["error"]), state
        assert thread not in {snapshot.thread.uuid for snapshot in read_states(home)}


async def test_edits_are_reviewed_from_the_server(client: LangGraphClient, home: Path) -> None:
    scripted = dict.fromkeys(("planner", "coder", "evaluator"), "scripted")
    options = {**scripted, "max_evaluations": 2, "stagnation": 1, "review": True}
    context = {"task": "scripted", "options": options}
    thread, state = await _run(client, context)
    asked = []
    # Without the context: what a thread searches for was said when it began.
    for answer in ("perhaps", "accept", "reject: not yet", "accept", "accept", "accept"):
        assert not [task["error"] for task in state["tasks"] if task["error"]]
        if not state["next"]:
            break
        (question,) = [item["value"] for task in state["tasks"] for item in task["interrupts"]]
        assert question["kind"] == "review"
        asked.append((question["round"], question["turn"]))
        assert read_snapshot(home, thread).thread.status == "paused"
        await client.runs.wait(thread, "search", command={"resume": answer}, raise_error=False)
        state = dict(await client.threads.get_state(thread))
    assert asked[:2] == [(0, 0), (0, 1)], state
    assert state["values"]["stop"]["reason"] == "budget"
    assert state["values"]["edits"]["count"] >= 1
    assert read_snapshot(home, thread).thread.status == "finished"
