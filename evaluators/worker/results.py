"""The result of a bundle: one JSON file, bound to the bundle by digest, written anew after every evaluation.

    {"format", "bundle", "entries": [{"request", "answer" | "failed"}], "seconds", "sha256"}

`sha256` is over the rest, so a file that was cut off or edited is told from a whole one. It is no signature.
"""

import dataclasses
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluators.worker.bundle import Request, sha256
from evaluators.worker.job import decode

FORMAT = "ksearch-result-1"


class ResultFault(Exception):
    """What was given is no result, or is not as it was written."""


@dataclass(frozen=True)
class Outcome:
    """What became of one request."""

    request: Request
    answer: dict[str, Any] | None
    """The supervisor's: `verdict` and `environment`; None when the machine failed, and the program is not to blame."""
    failed: str = ""
    """How the machine failed."""


@dataclass(frozen=True)
class Result:
    """Everything that is known of a bundle."""

    bundle: str
    """Digest of the bundle."""
    outcomes: tuple[Outcome, ...]
    seconds: float
    """That the trip has taken, wall clock."""


def write_result(path: Path, bundle: str, outcomes: Iterable[Outcome], seconds: float) -> None:
    """Write what is known so far, replacing the file in one step."""
    content = {
        "format": FORMAT,
        "bundle": bundle,
        "entries": [_entry(outcome) for outcome in outcomes],
        "seconds": round(seconds, 3),
    }
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(json.dumps({**content, "sha256": _digest(content)}, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


def read_result(data: bytes) -> Result:
    """Return a result from its file's content. Raises ResultFault."""
    try:
        content = json.loads(data)
    except ValueError as error:
        raise ResultFault("is not the whole of a result: the file was cut off, or is something else") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ResultFault(f"is not a result of a bundle in the format {FORMAT}")
    if content.pop("sha256", None) != _digest(content):
        raise ResultFault("was changed since it was written: deliver the file as the worker left it")
    try:
        outcomes = tuple(_outcome(entry) for entry in content["entries"])
        return Result(content["bundle"], outcomes, float(content["seconds"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ResultFault(f"does not hold what a result holds: {error}") from error


def _entry(outcome: Outcome) -> dict[str, Any]:
    told = {"failed": outcome.failed} if outcome.answer is None else {"answer": outcome.answer}
    return {"request": dataclasses.asdict(outcome.request), **told}


def _outcome(entry: dict[str, Any]) -> Outcome:
    return Outcome(decode(Request, entry["request"]), entry.get("answer"), str(entry.get("failed", "")))


def _digest(content: dict[str, Any]) -> str:
    return sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())
