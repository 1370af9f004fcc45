"""What pydantic says of a value from outside, in plain words that fit TOML, JSON, YAML and Python alike.

In the place of a problem pydantic also puts words of its own: the branch of a union of types (`int`, `list[int]`, a
record's name, a tag). A key may be called the same, so what is a key is told by following the place through the value
that was validated: callers whose records have unions hand it over. Without it, every part counts as a key.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

Keys = tuple[int | str, ...]

_WHOLE, _NUMBER, _TEXT, _FLAG = "must be a whole number", "must be a number", "must be a text", "must be true or false"
_LIST, _MAPPING = "must be a list", "must be a mapping of keys to values"
_REASONS: Mapping[str, str] = {
    "missing": "missing",
    "extra_forbidden": "is unknown",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": f"{_WHOLE} of fewer digits",
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "string_type": _TEXT,
    "string_sub_type": _TEXT,
    "string_unicode": f"{_TEXT} that UTF-8 can hold",
    "bool_type": _FLAG,
    "bool_parsing": _FLAG,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "dict_type": _MAPPING,
    "mapping_type": _MAPPING,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "dataclass_type": _MAPPING,
}
"""Type of an error -> what is wrong. Of other types pydantic's own message is told, see `_reason`."""
_SHOULD = re.compile(r"[A-Z][a-z]+ should ")
_OF_A_KEY = "[key]"
"""What pydantic puts behind a key that is itself what is wrong."""
_NOT_GIVEN = object()


@dataclass(frozen=True)
class Problem:
    """The first thing that is wrong with a value."""

    keys: Keys
    """They lead from the value that was validated to what is wrong."""
    reason: str
    """One line, such as `must be a whole number or a text`."""
    value: Any
    """What stands there; where a key is missing, what it is missing in."""

    @property
    def key(self) -> str:
        """The keys as they are written in front of a reason, empty when the whole value is wrong."""
        return ".".join(map(str, self.keys))


def first_problem(error: ValidationError, given: Any = _NOT_GIVEN) -> str:
    """Return the first problem in one line: the key, if it is with one, and what is wrong."""
    problem = problem_in(error, given)
    return f"{problem.key}: {problem.reason}" if problem.keys else problem.reason


def problem_in(error: ValidationError, given: Any = _NOT_GIVEN) -> Problem:
    """Return the first problem; `given` is what was validated."""
    items: list[Any] = list(error.errors(include_url=False))
    places = [_place(item, given) for item in items]
    first = places[0]
    # That a value fits no branch of a union is less than what is wrong within the branch whose kind it has.
    while (inner := next((place for place in places if _within(place, first)), None)) is not None:
        first = inner
    there = [item for item, place in zip(items, places, strict=True) if place == first]
    return Problem(first.keys, _joined(_reason(item) for item in there), there[0]["input"])


@dataclass(frozen=True)
class _Place:
    keys: Keys
    of_key: bool = False
    """Whether it is the last key itself that is wrong, not what it leads to."""


def _within(place: _Place, other: _Place) -> bool:
    depth = len(other.keys)
    return not other.of_key and len(place.keys) > depth and place.keys[:depth] == other.keys


def _place(item: Any, given: Any) -> _Place:
    """Return where a problem is, without what stands for a branch of a union."""
    loc, value = tuple(item["loc"]), item["input"]
    if item["type"] == "missing":
        return _Place((*_keys(given, loc[:-1], lambda found: _equal(found, value)), loc[-1]))
    if loc[-1:] == (_OF_A_KEY,) and loc[-2:-1] == (value,):
        within = _keys(given, loc[:-2], lambda found: isinstance(found, Mapping) and value in found)
        return _Place((*within, loc[-2]), of_key=True)
    return _Place(_keys(given, loc, lambda found: _equal(found, value)))


def _keys(given: Any, loc: Keys, reached: Callable[[Any], bool]) -> Keys:
    """Return the parts of `loc` that lead to what is `reached`; all of them when that cannot be followed."""
    found = _path(given, loc, reached)
    return loc if found is None else found


def _path(value: Any, loc: Keys, reached: Callable[[Any], bool]) -> Keys | None:
    if not loc:
        return () if reached(value) else None
    part, rest = loc[0], loc[1:]
    if _holds(value, part):
        found = _path(value[part], rest, reached)
        if found is not None:
            return (part, *found)
    return _path(value, rest, reached)


def _holds(value: Any, part: int | str) -> bool:
    if isinstance(value, list | tuple):
        return isinstance(part, int) and 0 <= part < len(value)
    return isinstance(value, Mapping) and part in value


def _equal(value: Any, other: Any) -> bool:
    return value is other or (type(value) is type(other) and bool(value == other))


def _joined(reasons: Iterable[str]) -> str:
    """Return the reasons of all branches of a union, without saying twice what they begin with."""
    first, *others = dict.fromkeys(reasons)
    start = next(words for words in ("must be ", "must ", "") if first.startswith(words))
    return " or ".join([first, *(reason.removeprefix(start) for reason in others)])


def _reason(item: Any) -> str:
    """Return what is wrong by the type of an error. Words of our own validators, and values, stay as they are."""
    kind, context = item["type"], item.get("ctx", {})
    text = " ".join(item["msg"].splitlines())
    match kind:
        case "value_error":
            return text.removeprefix("Value error, ")
        case "too_short":
            return f"must have at least {_items(context['min_length'])}"
        case "too_long":
            return f"must have at most {_items(context['max_length'])}"
        case "union_tag_not_found":
            return f"must have the key {context['discriminator']}"
        case "union_tag_invalid":
            return f"{context['discriminator']} must be one of {context['expected_tags']}"
    should = _SHOULD.match(text)
    return _REASONS.get(kind) or (f"must {text[should.end() :]}" if should else text)


def _items(count: int) -> str:
    return f"{count} item{'' if count == 1 else 's'}"
