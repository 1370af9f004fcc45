"""The JSON object in a reply, whatever stands around it.

Accepted beyond JSON, because models write it: prose and code fences around the object, fences within its strings,
comments (`//`, `/* */`, `#`), trailing commas, raw line breaks in strings. Never guessed: a missing bracket, a cut-off
rest, which of two objects of the same size is meant. Work is linear in the length, times a fixed number of starts.
"""

import json
import math
import re
from dataclasses import dataclass
from typing import Any, NoReturn

from evaluators.errors import ReplyError
from nodes.replies.limits import checked, excerpt, line_of

DEEPEST = 64
_STARTS = 32
"""Opening braces that are tried as the object's beginning."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.?)*+"?|//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?|\#[^\n]*|[{}\[\],]', re.DOTALL)
_COMMENT = ("//", "/*", "#")
_LIKE_JSON = re.compile(r'\{\s*(?:["}]|//|/\*|#)')


@dataclass(frozen=True)
class _Trouble:
    """Something that begins like an object and is none."""

    size: int
    reason: str


def find_json(text: str) -> dict[str, Any]:
    """Return the JSON object in a reply: of several, the longest.

    Raises:
        ReplyError: there is none; says where it breaks off or which character is wrong.
    """
    objects, troubles = _search(checked(text))
    _raise_if_worse(text, objects, troubles)
    return objects[0][1]


def _raise_if_worse(text: str, objects: list[tuple[int, dict[str, Any]]], troubles: list[_Trouble]) -> None:
    """Raise when no object was found, or a broken one is longer than what was found: that one was meant."""
    worst = max(troubles, key=lambda trouble: trouble.size, default=None)
    if worst is not None and (not objects or worst.size > objects[0][0]):
        raise ReplyError(worst.reason)
    if not objects:
        raise ReplyError(f"the reply holds no JSON object; it begins {excerpt(text)}")


def _search(text: str) -> tuple[list[tuple[int, dict[str, Any]]], list[_Trouble]]:
    """Return (length, object) of every outermost object, longest first, and what was broken."""
    objects: list[tuple[int, dict[str, Any]]] = []
    troubles: list[_Trouble] = []
    at = text.find("{")
    for _ in range(_STARTS):
        if at < 0:
            break
        meant = _LIKE_JSON.match(text, at) is not None
        end = _end(text, at)
        found = _Trouble(len(text) - at, _cut_off(text, at)) if end is None else _parsed(text, at, end)
        if isinstance(found, dict):
            objects.append(((end or at) - at, found))
        elif meant:
            troubles.append(found)
        # Braces in prose may stand around the object; what begins like an object is not looked into.
        passed = end if end is not None and (meant or isinstance(found, dict)) else at + 1
        at = -1 if end is None and meant else text.find("{", passed)
    objects.sort(key=lambda item: -item[0])
    return objects, troubles


def _end(text: str, start: int) -> int | None:
    """Return the position behind the bracket that closes the one at `start`, None when it never is closed."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        mark = token[0]
        if mark in ("{", "["):
            depth += 1
            if depth > DEEPEST:
                raise ReplyError(f"the JSON in line {line_of(text, start)} is nested deeper than {DEEPEST} levels")
        elif mark in ("}", "]"):
            depth -= 1
            if depth == 0:
                return token.end()
    return None


def _cut_off(text: str, start: int) -> str:
    return (
        f"the JSON object that begins in line {line_of(text, start)} is never closed: the reply is cut off, or a "
        "bracket or quotation mark is missing"
    )


def _parsed(text: str, start: int, end: int) -> dict[str, Any] | _Trouble:
    plain = text[start:end]
    try:
        data = _loads(plain)
    except ValueError:
        try:
            data = _loads(_relaxed(plain))
        except ValueError as error:
            return _Trouble(end - start, f"the JSON that begins in line {line_of(text, start)} is wrong: {error}")
    return data if isinstance(data, dict) else _Trouble(0, "")


def _loads(text: str) -> Any:
    return json.loads(text, strict=False, parse_constant=_no_number, parse_float=_finite)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:20]} is too large a number")
    return value


def _relaxed(text: str) -> str:
    """Return JSON without comments (as many line breaks are kept) and without commas ahead of a closing bracket."""
    parts: list[str] = []
    comma: int | None = None
    at = 0
    for token in _TOKEN.finditer(text):
        between = text[at : token.start()]
        parts.append(between)
        at = token.end()
        mark = token[0]
        if between.strip():
            comma = None
        if mark.startswith(_COMMENT):
            parts.append("\n" * mark.count("\n"))
            continue
        if mark in ("}", "]") and comma is not None:
            parts[comma] = ""
        comma = len(parts) if mark == "," else None
        parts.append(mark)
    return "".join([*parts, text[at:]])
