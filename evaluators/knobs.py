"""Knobs: constants that a program declares with their allowed values, as data inside the program's comments.

    // ksearch: flags = -O3 -march=native
    // ksearch: knob UNROLL = 1 | 2 | 4 ; Unroll the inner loop so that several loads are in flight
    #define UNROLL 1

A knob is declared on a comment line of its own (`//`, `#`, `--`, `;`, or inside `/* */`). The first line of code below
that sets the name gives its value: `#define NAME value`, or an assignment (`NAME = value`, `NAME: int = value`,
`constexpr int NAME = value;`, `f(NAME=value)`). The knob named `flags` sets the program's first `ksearch: flags` line.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evaluators.errors import UsageError
from evaluators.objective import Record
from evaluators.solution import Solution

_KNOB = re.compile(r"^\W*ksearch:\s*knob\s+(?P<name>\w+)\s*=\s*(?P<values>[^;]+?)\s*;\s*(?P<intent>\S.*?)\s*(\*/\s*)?$")
_FLAGS = re.compile(r"^\W*ksearch:\s*flags\s*=\s*(?P<value>.*?)\s*(\*/\s*)?$")
_COMMENT = re.compile(r"^\s*(//|/\*|\*|--|;|#(?!\s*define\b))")
_ANNOTATION = r"(?:\s*:(?:[^=,;()\[\]]|\[[^\]]*\])*)?"
_DEFINE_END = r"(?=\s*(?:$|//|/\*))"
_ASSIGN_END = r"(?=\s*(?:$|[;,)}#]|/\*))"
"""What may stand behind an assigned value. No `//`: in Python it divides."""


class Knob(Record):
    """One tunable constant of a program."""

    name: str
    values: tuple[str, ...]
    """Allowed values, as written in the program's text, in the order declared."""
    intent: str
    """What turning it means, in words."""
    value: str
    """The value the program has now."""


@dataclass(frozen=True)
class _Place:
    """A knob and where its value stands: line (from 0), and columns from `start` up to `end`."""

    knob: Knob
    line: int
    start: int
    end: int


def declared_flags(text: str) -> tuple[str, ...] | None:
    """Return the compiler flags that the program declares, None when it declares none."""
    for line in text.split("\n"):
        match = _FLAGS.match(line)
        if match:
            return tuple(match["value"].split())
    return None


def declared_knobs(text: str) -> dict[str, Knob]:
    """Return the program's knobs by name, in the order declared.

    Raises UsageError, naming the line, for a knob declared twice, without a line that sets it, whose value is not one
    of those it allows, or with values that are equal or cannot be told apart.
    """
    return {name: place.knob for name, place in _places(text).items()}


def settings(text: str) -> dict[str, str]:
    """Return the value of every knob that the program declares. Raises UsageError as `declared_knobs`."""
    return {name: knob.value for name, knob in declared_knobs(text).items()}


def turn(text: str, changes: Mapping[str, str]) -> str:
    """Return the program's text with the knobs in `changes` set. Everything else stays to the letter.

    Raises UsageError for a knob or a value that the program does not declare, and as `declared_knobs`.
    """
    for name, value in changes.items():
        places = _places(text)
        if name not in places:
            known = f"it declares {', '.join(places)}" if places else "it declares none"
            raise UsageError(f"the program declares no knob {name}; {known}")
        place = places[name]
        if value not in place.knob.values:
            allowed = ", ".join(place.knob.values)
            raise UsageError(f"line {place.line + 1}: knob {name} has no value {value!r}; it allows {allowed}")
        lines = text.split("\n")
        old = lines[place.line]
        lines[place.line] = old[: place.start] + value + old[place.end :]
        text = "\n".join(lines)
    return text


def turn_solution(solution: Solution, changes: Mapping[str, str]) -> Solution:
    """Return `solution` with knobs set in its main file, and with the flags that the new text declares."""
    text = turn(solution.files[solution.main_file], changes)
    flags = declared_flags(text)
    return Solution(
        files={**solution.files, solution.main_file: text},
        main_file=solution.main_file,
        language=solution.language,
        entry_point=solution.entry_point,
        binding=solution.binding,
        flags=solution.flags if flags is None else flags,
    )


def _places(text: str) -> dict[str, _Place]:
    lines = text.split("\n")
    code = list(_code(lines))
    places: dict[str, _Place] = {}
    for number, line in enumerate(lines):
        match = _KNOB.match(line)
        if match is None:
            continue
        name, values = match["name"], tuple(value.strip() for value in match["values"].split("|"))
        if name in places:
            raise UsageError(f"line {number + 1}: knob {name} is declared twice")
        _check_values(f"line {number + 1}: knob {name}", values)
        at, start, end = _flags_span(lines, number) if name == "flags" else _span(code, number, name, values)
        value = lines[at][start:end]
        if value not in values:
            raise UsageError(f"line {at + 1}: knob {name} is {value!r}; it allows {', '.join(values)}")
        knob = Knob(name=name, values=values, intent=match["intent"], value=value)
        places[name] = _Place(knob, at, start, end)
    return places


def _check_values(where: str, values: tuple[str, ...]) -> None:
    if "" in values or len(set(values)) != len(values):
        raise UsageError(f"{where} has an empty value, or the same one twice")
    for value in values:
        longer = re.compile(re.escape(value) + r"\s*([;,)}#]|//|/\*)")
        clash = next((other for other in values if longer.match(other)), None)
        if clash is not None:
            raise UsageError(f"{where}: in a line of code, {value!r} cannot be told from {clash!r}")


def _code(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield (number, line) of every line that is not just a comment."""
    inside = False
    for number, line in enumerate(lines):
        if inside:
            inside = "*/" not in line
        elif _COMMENT.match(line) or _KNOB.match(line):
            inside = line.lstrip().startswith("/*") and "*/" not in line
        else:
            yield number, line


def _span(code: list[tuple[int, str]], declared: int, name: str, values: tuple[str, ...]) -> tuple[int, int, int]:
    """Return line and columns of the value in the first line of code below `declared` that sets `name`."""
    choices = "|".join(re.escape(value) for value in sorted(values, key=len, reverse=True))
    define = re.compile(rf"^\s*#\s*define\s+{name}\s+(?P<value>{choices}){_DEFINE_END}")
    assign = re.compile(rf"^.*?\b{name}{_ANNOTATION}\s*=\s*(?P<value>{choices}){_ASSIGN_END}")
    other = re.compile(rf"^(?:\s*#\s*define\s+{name}\s+|.*?\b{name}{_ANNOTATION}\s*=(?!=)\s*)(?P<value>.*?)\s*$")
    for number, line in code:
        if number <= declared or name not in line:
            continue
        match = define.match(line) or assign.match(line) or other.match(line)
        if match:
            return number, match.start("value"), match.end("value")
    raise UsageError(f"line {declared + 1}: knob {name} is not followed by a line that sets it")


def _flags_span(lines: list[str], declared: int) -> tuple[int, int, int]:
    """Return line and columns of the first flags line's value: the one that `declared_flags` reads."""
    for number, line in enumerate(lines):
        match = _FLAGS.match(line)
        if match:
            return number, match.start("value"), match.end("value")
    raise UsageError(f"line {declared + 1}: knob flags needs a line `ksearch: flags = ...`")
