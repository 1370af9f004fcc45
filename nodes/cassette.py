"""Recording a run: its ledger as one file that `cassette:FILE` replays."""

import json
import os
from pathlib import Path
from typing import Any

from checkpoints.blobs import BlobStore
from checkpoints.database import open_blobs
from checkpoints.faults import storage_errors
from checkpoints.history import ThreadRecord, read_record
from checkpoints.ledger import Entry
from checkpoints.place import Place as HomePlace
from evaluators.recording import CassetteEntry, Header, Place
from nodes.models.asking import ChatRecord


def export_cassette(home: HomePlace, thread: str, file: Path, *, prompts: bool = False) -> int:
    """Write every reply and evaluation that a thread has paid for until now into `file`, and return their number.

    Args:
        home: the folder of the runs.
        thread: name of the thread, running or not.
        file: replaced in one step when it exists.
        prompts: write the prompts too, for people to read; without them the file is a fraction of the size.

    Raises:
        UsageError: there is no such thread.
        StoreError: the database, a blob or the file failed.
    """
    record = read_record(home, thread)
    blobs = open_blobs(home)
    config = blobs.get_json(record.thread.config)
    header = Header(task=record.thread.task, config=config)
    entries = [entry for entry in _entries(record, blobs, prompts) if entry is not None]
    lines = [header.model_dump(mode="json"), *(entry.model_dump(mode="json", exclude_none=True) for entry in entries)]
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    with storage_errors(file):
        partial.write_text("".join(json.dumps(line, ensure_ascii=True) + "\n" for line in lines), encoding="utf-8")
        partial.replace(file)
    return len(entries)


def _entries(record: ThreadRecord, blobs: BlobStore, prompts: bool) -> list[CassetteEntry | None]:
    # Of two results for one request at one place the search went on with the later: it comes first and is found.
    def order(entry: Entry) -> tuple[Any, ...]:
        key = entry.key
        return (key.round, key.cycle, key.sample, key.role, key.turn, -(entry.finished_at or 0.0))

    finished = sorted((entry for entry in record.entries if entry.result is not None), key=order)
    return [_entry(entry, blobs.get_json(entry.result or ""), prompts) for entry in finished]


def _entry(entry: Entry, result: Any, prompts: bool) -> CassetteEntry | None:
    """Return a paid call as it is recorded; None for those that need no recording: what scripts and knobs answered."""
    key = entry.key
    place = Place(role=key.role, round=key.round, cycle=key.cycle, sample=key.sample, turn=key.turn)
    if not isinstance(result, dict):
        return None
    if result.get("kind") == "chat":
        record = ChatRecord.model_validate(result)
        asked: dict[str, Any] = {"identity": record.request.identity}
        if prompts:
            asked |= record.request.model_dump(mode="json", include={"system", "prompt", "turns"})
        reply = record.reply.model_dump(mode="json")
        return CassetteEntry(
            kind="reply", place=place, digest=record.request.identity_digest, asked=asked, result=reply
        )
    if "effort" in result and "protocol" in result:
        return CassetteEntry(kind="evaluation", place=place, digest=key.request, result=result)
    return None
