"""A planner's reply: its schema, and how it becomes a batch of edits or a list of exact errors."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails

from evaluators.objective import Record
from graph.edits import Edit, EditBatch, Insert, Prune, Reopen, Update
from graph.world_model import Intent
from nodes.prompting.strict_schema import strict_schema

SHOWN_ERRORS = 20
"""Errors of one reply that are told; the rest is counted."""
_LONGEST_INPUT = 120
_PREDICTIONS = ("predicted_gain", "confidence")


class InsertReply(Record):
    """A new intent, flat."""

    kind: Literal["insert"]
    parent: str
    title: str = Field(min_length=1, max_length=160)
    description: str = Field(min_length=1, max_length=8000)
    rationale: str | None = Field(default=None, max_length=8000)
    priority: float = Field(ge=0, le=1, allow_inf_nan=False)
    difficulty: int | None = Field(default=None, ge=1, le=5)
    predicted_gain: float | None = Field(default=None, gt=0, le=1e6, allow_inf_nan=False)
    confidence: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)

    def edit(self) -> Insert:
        """Return the edit of the tree that it asks for."""
        given = self.model_dump(exclude={"kind", "parent"}, exclude_none=True)
        return Insert(parent=self.parent, intent=Intent.model_validate(given))


class PlannerReply(Record):
    """What a planner replies. Nothing in it is trusted: the batch is validated against the tree as a whole."""

    reason: str = Field(default="", max_length=8000)
    summary: str | None = Field(default=None, max_length=20000)
    edits: tuple[Annotated[InsertReply | Update | Prune | Reopen, Field(discriminator="kind")], ...] = Field(
        max_length=200
    )

    def batch(self, cycles: tuple[int, ...]) -> EditBatch:
        """Return the edits that it asks for, as the planner's."""
        edits: list[Edit] = [edit.edit() if isinstance(edit, InsertReply) else edit for edit in self.edits]
        return EditBatch(origin="planner", reason=self.reason, cycles=cycles, summary=self.summary, edits=tuple(edits))


def reply_schema(beyond_paper: bool) -> dict[str, Any]:
    """Return the JSON schema of a reply, strict as providers want it (`beyond_paper`: see prompts.library.Variant)."""
    schema = strict_schema(PlannerReply.model_json_schema())
    if not beyond_paper:
        edits = schema["properties"]["edits"]["items"]
        edits["anyOf"] = [edit for edit in edits["anyOf"] if edit["properties"]["kind"]["enum"] != ["reopen"]]
        for edit in edits["anyOf"]:
            for name in ("difficulty", *_PREDICTIONS):
                edit["properties"].pop(name, None)
            edit["required"] = list(edit["properties"])
    return schema


def validate(data: Any, beyond_paper: bool) -> PlannerReply | list[str]:
    """Return the reply that the JSON `data` holds, or every reason why it holds none.

    `beyond_paper`: see prompts.library.Variant; without it, predictions may be missing.
    """
    try:
        reply = PlannerReply.model_validate(data)
    except ValidationError as error:
        return _errors(error)
    errors = [
        *(f"the text {text[:40]!r} holds {problem}" for text, problem in _unprintable(data)),
        *(_missing_predictions(reply) if beyond_paper else ()),
    ]
    return errors[:SHOWN_ERRORS] or reply


def _missing_predictions(reply: PlannerReply) -> Iterator[str]:
    for number, edit in enumerate(reply.edits, start=1):
        if isinstance(edit, InsertReply):
            for name in _PREDICTIONS:
                if edit.model_dump()[name] is None:
                    yield f"edit {number} (insert): {name}: missing"


def _unprintable(data: Any) -> Iterator[tuple[str, str]]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _unprintable(key)
            yield from _unprintable(value)
    elif isinstance(data, list):
        for value in data:
            yield from _unprintable(value)
    elif isinstance(data, str) and (problem := unprintable(data)):
        yield data, problem


def unprintable(text: str) -> str:
    """Return which control character `text` holds, empty for none; a terminal may show the text one day."""
    for character in text:
        if (character < " " and character not in "\n\t\r") or "\x7f" <= character <= "\x9f":
            return f"the control character U+{ord(character):04X}"
    return ""


def _errors(error: ValidationError) -> list[str]:
    found = error.errors(include_url=False)
    told = [f"{_place(item['loc'])}{_problem(item)}{_given(item)}" for item in found[:SHOWN_ERRORS]]
    rest = len(found) - len(told)
    return [*told, f"... and {rest} more errors"] if rest else told


def _problem(item: ErrorDetails) -> str:
    return "kind: missing" if item["type"] == "union_tag_not_found" else item["msg"]


def _place(loc: tuple[int | str, ...]) -> str:
    """Return where an error is, with edits counted from 1 as everywhere else."""
    parts = list(loc)
    place = ""
    if len(parts) > 1 and parts[0] == "edits" and isinstance(parts[1], int):
        kind = f" ({parts[2]})" if len(parts) > 2 else ""
        place, parts = f"edit {parts[1] + 1}{kind}: ", parts[3:]
    return place + (".".join(str(part) for part in parts) + ": " if parts else "")


def _given(item: Any) -> str:
    if item["type"] == "missing" or isinstance(item["input"], dict | list):
        return ""
    text = repr(item["input"])
    return f" (given: {text if len(text) <= _LONGEST_INPUT else text[:_LONGEST_INPUT] + '...'})"
