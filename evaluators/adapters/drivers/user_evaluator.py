"""Driver: has a user's own evaluator judge a program, and returns what it says as plain JSON."""

import asyncio
import importlib.util
import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

LONGEST = 4000
"""Characters of a text that are returned."""


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Return `{"metrics", "feedback"}` or `{"problem"}`.

    `request`: `folder` with the evaluator's files, its `evaluator` (file) and `function`, whether that is handed the
    program's `text` or its path, and the program: `files`, `main`.
    """
    program = Path(os.getcwd()) / "program"
    program.mkdir()
    for name, text in request["files"].items():
        (program / name).write_text(text)
    spec = importlib.util.spec_from_file_location("evaluator", os.path.join(request["folder"], request["evaluator"]))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["evaluator"] = module
    spec.loader.exec_module(module)
    given = request["files"][request["main"]] if request["text"] else str(program / request["main"])
    answer = vars(module)[request["function"]](given)
    if inspect.isawaitable(answer):
        answer = asyncio.run(_awaited(answer))
    return _plain(answer)


async def _awaited(answer: Any) -> Any:
    return await answer


def _plain(answer: Any) -> dict[str, Any]:
    """Return what an evaluator may return as metrics and feedback: a number, a dict, a pair, or an object with both."""
    feedback: Any = None
    metrics_of = getattr(answer, "metrics", None)
    if isinstance(answer, tuple) and len(answer) == 2:
        answer, feedback = answer
    elif metrics_of is not None:
        answer, feedback = metrics_of, getattr(answer, "artifacts", None)
    if isinstance(answer, dict):
        metrics = {_whole(str(name)): _number(value) for name, value in answer.items()}
        words = {name: value for name, value in answer.items() if _number(value) is None}
        feedback = feedback if feedback is not None else words or None
    else:
        metrics = {"score": _number(answer)}
    if not any(value is not None for value in metrics.values()):
        return {"problem": f"returned {type(answer).__name__}, in which there is no number"}
    known = {name: value for name, value in metrics.items() if value is not None}
    return {"metrics": known, "feedback": _text(feedback)}


def _number(value: Any) -> float | None:
    if isinstance(value, str | bytes) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _text(feedback: Any) -> str:
    if feedback is None:
        return ""
    if isinstance(feedback, str):
        return _whole(feedback[:LONGEST])
    try:
        text = json.dumps(feedback, indent=1, default=str)
    except (TypeError, ValueError):  # keys that JSON has none of, or a list within itself
        text = str(feedback)
    return _whole(text[:LONGEST])


def _whole(text: str) -> str:
    """Return `text` without halves of surrogate pairs, as what another program wrote may hold."""
    return text.encode(errors="replace").decode()
