"""How figures and texts from outside are written into a prompt.

What comes in may be a variable that nobody gave: `str` and `float` of it raise jinja's UndefinedError.
"""

import re


def figure(value: float | None, digits: int = 4) -> str:
    """Return a number with so many significant digits; `not measured` for None."""
    return "not measured" if value is None else f"{float(value):.{digits}g}"


def times(value: float | None) -> str:
    """Return a factor, such as `x1.25`; `not measured` for None."""
    return "not measured" if value is None else f"x{float(value):.4g}"


def fenced(text: str, info: str = "") -> str:
    """Return `text` as a Markdown code block whose fence cannot occur in it."""
    text = str(text)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{info}\n{text}{end}{fence}"


def one_line(text: str) -> str:
    """Return `text` with every run of white space as one blank."""
    return " ".join(str(text).split())
