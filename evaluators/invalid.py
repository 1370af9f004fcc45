"""What pydantic says of a value from outside, in the words of the file that it stands in."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

_WORDS = (
    (re.compile(r"^Value error, "), ""),
    (re.compile(r"^Field required$"), "missing"),
    (re.compile(r"^Extra inputs are not permitted$"), "is unknown"),
    (re.compile(r"^(?:Input|String|Dictionary|List|Tuple) should "), "must "),
    (re.compile(r" (?:a valid dictionary|an object)(?: or (?:an )?instance of \w+)?"), " a table"),
    (re.compile(r" a valid (?:tuple|list|array)"), " a list"),
    (re.compile(r" a valid integer"), " a whole number"),
    (re.compile(r" a valid string"), " a text"),
    (re.compile(r" a valid boolean"), " true or false"),
    (re.compile(r" a valid number"), " a number"),
    (re.compile(r" after validation, not \d+$"), ""),
)
_BRANCH = re.compile(r"(?:constrained-|list\[|tuple\[|function-|\[key\]).*")
_PLAIN = frozenset({"int", "float", "str", "bool"})


def reason_of(item: Mapping[str, Any]) -> str:
    """Return what is wrong by one entry of `errors()`, without names of ours."""
    text = " ".join(item["msg"].split())
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return text


def keys_of(item: Mapping[str, Any]) -> tuple[int | str, ...]:
    """Return the keys that lead to a value; what stands for one branch of a union of types is none."""
    keys = tuple(part for part in item["loc"] if not _BRANCH.fullmatch(str(part)))
    return keys[:-1] if len(keys) > 1 and keys[-1] in _PLAIN else keys


def first_problem(error: ValidationError) -> str:
    """Return the first problem in one line: the key, if it is with one, and what is wrong."""
    first = error.errors(include_url=False)[0]
    return ": ".join(part for part in (".".join(map(str, keys_of(first))), reason_of(first)) if part)
