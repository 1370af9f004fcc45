"""Blobs that something refers to stay, wherever and in whatever form the reference stands, on each kind of home."""

import asyncio
from typing import Any
from uuid import uuid4

from langgraph.checkpoint.base import empty_checkpoint

from checkpoints.home import Home
from checkpoints.pruning import every_thread, prune


async def test_a_blob_is_kept_wherever_it_is_named(home: Home) -> None:
    """In a state, plain or nested; in a write, bare or nested; in a blob; and behind what is a program elsewhere."""
    put = home.blobs.put
    leaf = put(b"a program")
    named = {what: put(what.encode()) for what in ("plain", "nested", "bare", "beside", "farthest")}
    far = home.blobs.put_json([named["farthest"]])
    near = home.blobs.put_json({"solution": leaf, "more": far})
    kept = {*named.values(), leaf, near, far}
    orphans = {put(b"forgotten"), home.blobs.put_json({"solution": "forgotten"})}
    values: dict[str, Any] = {"plain": named["plain"], "nested": {"solution": leaf, "evaluation": named["nested"]}}
    version = f"{1:032}.0"
    checkpoint = {**empty_checkpoint(), "channel_values": values, "channel_versions": dict.fromkeys(values, version)}
    config: Any = {"configurable": {"thread_id": str(uuid4()), "checkpoint_ns": ""}}
    saved = await home.saver.aput(config, checkpoint, {}, dict.fromkeys(values, version))  # type: ignore[arg-type]
    writes = [("bare", named["bare"]), ("nested", [{"blob": near}, {"blob": named["beside"]}])]
    await home.saver.aput_writes(saved, writes, "task")
    pruned = await asyncio.to_thread(prune, home.folder, every_thread, -1.0)
    assert pruned.blobs == len(orphans)
    assert {stored.digest for stored in home.blobs.stored()} == kept
