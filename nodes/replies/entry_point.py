"""Whether a program's text defines the function that the evaluator calls. A reading, not a compiler's verdict."""

import re
from itertools import islice

from evaluators.solution import Language

_LOOKED_AT = 200
"""Mentions of the name that are looked at."""
_LONGEST_HEAD = 4000
"""Characters between a C function's name and its body."""
_HEAD = re.compile(r"[^;{}]*+\{")


def defines(text: str, name: str, language: Language) -> bool:
    """Return whether `text` defines `name` at its top level."""
    return _defined_in_python(text, name) if language in ("python", "triton") else _defined_in_c(text, name)


def _defined_in_python(text: str, name: str) -> bool:
    word = re.escape(name)
    return (
        re.search(rf"^(?:(?:async\s+)?def\s+{word}\s*[(\[]|class\s+{word}\b|{word}\s*[:=](?!=))", text, re.M)
        is not None
    )


def _defined_in_c(text: str, name: str) -> bool:
    word = re.escape(name)
    for mention in islice(re.finditer(rf"\b{word}\s*\(", text), _LOOKED_AT):
        if _HEAD.match(text[mention.end() : mention.end() + _LONGEST_HEAD]):
            return True
    # A Python extension gives the name as text.
    return "PYBIND11_MODULE" in text and f'"{name}"' in text
