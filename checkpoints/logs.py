"""Logs that grow with the search but not with the state: blocks of entries as blobs, older blocks sealed in segments."""

from collections.abc import Iterator
from typing import Any, TypedDict

from checkpoints.blobs import BlobStore

TAIL = 64
"""Blocks whose digests stand in the log itself; as many older ones make a segment."""


class Log(TypedDict):
    """Entries in order. Plain JSON of bounded size but for one digest per `TAIL` blocks."""

    count: int
    """Entries so far."""
    tail: list[str]
    """Blobs of the newest blocks, oldest first; a block is a list of entries."""
    segments: list[str]
    """Blobs of the older ones: lists of `TAIL` block digests."""


def empty_log() -> Log:
    """Return a log without entries."""
    return Log(count=0, tail=[], segments=[])


def append(blobs: BlobStore, log: Log, entries: list[dict[str, Any]]) -> Log:
    """Return the log with one block of `entries` (JSON) at its end. Raises StoreError when a blob cannot be written."""
    if not entries:
        return log
    tail = [*log["tail"], blobs.put_json(entries)]
    segments = log["segments"]
    if len(tail) > TAIL:
        segments, tail = [*segments, blobs.put_json(tail[:TAIL])], tail[TAIL:]
    return Log(count=log["count"] + len(entries), tail=tail, segments=segments)


def read(blobs: BlobStore, log: Log) -> Iterator[dict[str, Any]]:
    """Yield every entry, oldest first. Raises StoreError when a blob is missing or damaged."""
    for segment in log["segments"]:
        for block in blobs.get_json(segment):
            yield from blobs.get_json(block)
    for block in log["tail"]:
        yield from blobs.get_json(block)


def newest(blobs: BlobStore, log: Log, count: int) -> list[dict[str, Any]]:
    """Return the last `count` entries, oldest first; reads no more blocks than it must."""
    entries: list[dict[str, Any]] = []
    for block in reversed(log["tail"]):
        if len(entries) >= count:
            break
        entries = [*blobs.get_json(block), *entries]
    if len(entries) < min(count, log["count"]):
        entries = list(read(blobs, log))
    return entries[max(len(entries) - count, 0) :]
