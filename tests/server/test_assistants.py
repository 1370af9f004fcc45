"""Presets and prompt variants as assistants, what the forms say, and what is streamed."""

import asyncio
from pathlib import Path

from langgraph_sdk.client import LangGraphClient

from checkpoints.history import read_snapshot
from graph.config import SearchConfig
from graph.presets import PRESETS, resolve
from graph.report.loading import load_run
from graph.server.assistants import Assistant, assistants
from graph.server.sharing import offer
from prompts.library import variants


def test_every_preset_and_every_variant_is_one() -> None:
    made = {assistant.name: assistant for assistant in assistants()}
    assert set(made) == {f"preset {name}" for name in PRESETS} | {f"prompts {variant.name}" for variant in variants()}
    assert len({assistant.id for assistant in made.values()}) == len(made)
    for assistant in made.values():
        assert assistant.description
        resolve(assistant.context["preset"], assistant.context.get("options", {}))


async def shown(client: LangGraphClient, least: int) -> set[str]:
    """Wait until the server has made so many."""
    for _ in range(300):
        found = {item["name"] for item in await client.assistants.search(limit=100)}
        if len(found) >= least:
            return found
        await asyncio.sleep(0.2)
    raise AssertionError(f"the server has only {sorted(found)}")


async def test_the_server_has_them(client: LangGraphClient) -> None:
    names = {assistant.name for assistant in assistants()}
    assert await shown(client, len(names) + 1) == {*names, "search"}


async def test_they_are_made_once_and_peoples_changes_stay(client: LangGraphClient) -> None:
    mine = Assistant(name="test", description="One.", context={"preset": "paper"})
    await offer(client, mine)
    await client.assistants.update(mine.id, context={"preset": "paper", "options": {"width": 2}})
    await offer(client, mine)
    assert (await client.assistants.get(mine.id))["context"]["options"] == {"width": 2}
    assert len(await client.assistants.get_versions(mine.id)) == 2
    await offer(client, mine.model_copy(update={"description": "Two."}))
    assert (await client.assistants.get(mine.id))["context"] == {"preset": "paper"}
    await client.assistants.delete(mine.id)


async def test_forms_describe_every_option(client: LangGraphClient) -> None:
    (assistant,) = await client.assistants.search(metadata={"created_by": "system"})
    schema = (await client.assistants.get_schemas(assistant["assistant_id"]))["context_schema"]
    assert schema is not None
    assert all(facts["description"] for facts in schema["properties"].values())
    assert schema["properties"]["preset"]["enum"] == list(PRESETS)
    options = schema["properties"]["options"]["properties"]
    assert set(options) == set(SearchConfig.model_fields) - {"task", "preset"}
    assert all(facts["description"] for name, facts in options.items() if name != "language")


async def test_rounds_and_edits_are_streamed(client: LangGraphClient, home: Path) -> None:
    await shown(client, 1 + len(list(assistants())))
    paper = next(assistant for assistant in assistants() if assistant.name == "preset paper")
    scripted = dict.fromkeys(("planner", "coder", "evaluator"), "scripted")
    context = {"task": "scripted", "options": {**scripted, "max_evaluations": 3, "stagnation": 1}}
    thread = (await client.threads.create())["thread_id"]
    stream = client.runs.stream(thread, paper.id, input={}, context=context, stream_mode="custom")
    events = [part.data async for part in stream if part.event == "custom"]
    assert [event["round"] for event in events if event["event"] == "round"] == [1, 2, 3]
    edits = [event for event in events if event["event"] == "edits"]
    assert len(edits) == read_snapshot(home, thread).values["edits"]["count"]
    assert edits[0]["origin"] == "planner"
    assert {"seed", "selected", "result", "settled"} <= {event["event"] for event in events}
    assert load_run(home, thread).config.preset == "paper"
