"""What LangGraph's checkpoints hold, read without LangGraph: nothing is imported or constructed."""

from collections.abc import Iterator, Mapping
from typing import Any

import ormsgpack

TASKS = "__pregel_tasks"
"""The channel of the Sends that run next; `branch:to:NODE` are the channels of the edges."""
EDGE = "branch:to:"
_START = "__start__"


def unpack(data: bytes) -> Any:
    """Return the value in `data`; an object of LangGraph as {"type": its name, "data": its content}."""
    return ormsgpack.unpackb(data, ext_hook=_inert, option=ormsgpack.OPT_NON_STR_KEYS)


def planned(checkpoint: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (task path, node) of each task that runs after the checkpoint, as LangGraph would plan them."""
    channels, versions, seen = (checkpoint[name] for name in ("channel_values", "channel_versions", "versions_seen"))
    for index, send in enumerate(channels.get(TASKS, ())):
        node = send["data"][0] if isinstance(send, dict) else send.node
        yield f"~__pregel_push, {index:010d}, {0:010d}", node
    for channel in channels:
        node = channel.removeprefix(EDGE)
        if (channel == _START or node != channel) and versions[channel] > seen.get(node, {}).get(channel, ""):
            yield f"~__pregel_pull, {node}", node


def _inert(code: int, data: bytes) -> Any:
    parts = unpack(data)
    if isinstance(parts, list) and len(parts) > 2:
        return {"type": parts[1], "data": parts[2]}
    return {"type": code, "data": parts}
