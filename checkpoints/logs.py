"""Logs that grow with the search while the state does not: blocks of entries, and a head that lists them, are blobs."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, TypedDict

from checkpoints.blobs import BlobStore

TAIL = 64
"""Blocks whose digests stand in the head itself; as many older ones make a segment."""


class Log(TypedDict):
    """Entries in order. Plain JSON of constant size."""

    count: int
    """Entries so far."""
    head: str
    """Blob of {"tail", "segments"}: digests of the newest blocks (lists of entries) and, for the older ones, of lists
    of `TAIL` block digests; oldest first. Empty for a log without entries."""


class _Head(TypedDict):
    tail: list[str]
    segments: list[str]


def empty_log() -> Log:
    """Return a log without entries."""
    return Log(count=0, head="")


def append(blobs: BlobStore, log: Log, entries: list[dict[str, Any]]) -> Log:
    """Return the log with one block of `entries` (JSON) at its end. Raises StoreError when a blob cannot be written."""
    if not entries:
        return log
    head = _head(blobs, log)
    tail, segments = [*head["tail"], blobs.put_json(entries)], head["segments"]
    if len(tail) > TAIL:
        segments, tail = [*segments, blobs.put_json(tail[:TAIL])], tail[TAIL:]
    longer = _Head(tail=tail, segments=segments)
    return Log(count=log["count"] + len(entries), head=blobs.put_json(longer))


def read(blobs: BlobStore, log: Log) -> Iterator[dict[str, Any]]:
    """Yield every entry, oldest first. Raises StoreError when a blob is missing or damaged."""
    head = _head(blobs, log)
    for segment in head["segments"]:
        for block in blobs.get_json(segment):
            yield from blobs.get_json(block)
    for block in head["tail"]:
        yield from blobs.get_json(block)


def newest(blobs: BlobStore, log: Log, count: int) -> list[dict[str, Any]]:
    """Return the last `count` entries, oldest first; reads no more blocks than it must."""
    return [*islice(latest(blobs, log), max(count, 0))][::-1]


def latest(blobs: BlobStore, log: Log) -> Iterator[dict[str, Any]]:
    """Yield every entry, newest first; a block is read when it is needed. Raises StoreError as `read` does."""
    for block in _newest_first(blobs, log):
        yield from reversed(blobs.get_json(block))


def _newest_first(blobs: BlobStore, log: Log) -> Iterator[str]:
    """Yield the digests of the blocks."""
    head = _head(blobs, log)
    yield from reversed(head["tail"])
    for segment in reversed(head["segments"]):
        yield from reversed(blobs.get_json(segment))


def _head(blobs: BlobStore, log: Log) -> _Head:
    if not log["head"]:
        return _Head(tail=[], segments=[])
    head: _Head = blobs.get_json(log["head"])
    return head
