"""Programs that are not given in full: `// ... rest of the code ...`."""

import re

_COMMENT = re.compile(r"\s*+(?://+|#+|/\*+)(?P<said>.*+)")
_DOTS = ("...", "…")
_MARKED = re.compile(
    r"\b(?:(?:rest|remainder) of (?:the |your |this )?(?:code|file|program|kernel|function|implementation|class)|"
    r"(?:existing|remaining|previous|original|other|old) (?:code|implementation|functions?|kernels?|helpers?)|"
    r"unchanged|omitted|(?:same )?as (?:before|above|in the)|the same|stays?|snip)\b"
)
"""What a comment with an ellipsis at one end is about when it stands for code."""
_PHRASE = re.compile(
    r"(?:the )?(?:rest(?: of (?:the |your |this )?(?:code|file|program|kernel|function))?|"
    r"(?:existing|remaining|previous|original) (?:code|implementation)|code|implementation|everything else|same)"
    r" ?(?:here|goes here|is|are|remains?|stays?|as)? ?(?:unchanged|the same|same|omitted|before|above|as before|here)"
    r"(?: (?:as before|for brevity))?"
)
"""A whole comment that stands for code without an ellipsis."""


def elided_line(text: str) -> str | None:
    """Return the first line that stands for code left out, None when the program is whole."""
    return next((line for line in text.split("\n") if len(line) <= 200 and _is_elided(line)), None)


def _is_elided(line: str) -> bool:
    comment = _COMMENT.fullmatch(line)
    if comment is None:
        return False
    said = comment["said"].strip().removesuffix("*/").strip("[]()<>-* ").lower()
    if said.startswith(_DOTS) or said.endswith(_DOTS):
        return _MARKED.search(said) is not None
    return _PHRASE.fullmatch(said.rstrip(".")) is not None
