"""Knobs: constants that a program declares with their allowed values, as data inside the program's comments.

    // ksearch: flags = -O3 -march=native
    // ksearch: knob UNROLL = 1 | 2 | 4 ; Unroll the inner loop so that several loads are in flight
    #define UNROLL 1

A knob's declaration is a comment line (any language: `//`, `#`, `--`, `;`, `*`); the next line that is no declaration
of another knob and holds the name sets its value. The knob named `flags` sets the `ksearch: flags` line.
"""

import re
from collections.abc import Mapping

from evaluators.errors import UsageError
from evaluators.objective import Record
from evaluators.solution import Solution

_KNOB = re.compile(r"^\W*ksearch:\s*knob\s+(?P<name>\w+)\s*=\s*(?P<values>[^;]+?)\s*;\s*(?P<intent>\S.*?)\s*(\*/)?$")
_FLAGS = re.compile(r"^\W*ksearch:\s*flags\s*=\s*(?P<flags>.*?)\s*(\*/)?$")


class Knob(Record):
    """One tunable constant of a program."""

    name: str
    values: tuple[str, ...]
    """Allowed values, as written in the program's text, in the order declared."""
    intent: str
    """What turning it means, in words."""
    value: str
    """The value the program has now."""


def declared_flags(text: str) -> tuple[str, ...] | None:
    """Return the compiler flags that the program declares, None when it declares none."""
    for line in text.split("\n"):
        match = _FLAGS.match(line)
        if match:
            return tuple(match["flags"].split())
    return None


def declared_knobs(text: str) -> dict[str, Knob]:
    """Return the program's knobs by name, in the order declared.

    Raises UsageError, naming the line, for a knob declared twice, without a value line, or whose value is not one
    of those it allows.
    """
    lines = text.split("\n")
    knobs: dict[str, Knob] = {}
    for number, line in enumerate(lines):
        match = _KNOB.match(line)
        if match is None:
            continue
        name, values = match["name"], tuple(value.strip() for value in match["values"].split("|"))
        if name in knobs or len(set(values)) != len(values) or "" in values:
            raise UsageError(f"line {number + 1}: knob {name} is declared twice or repeats a value")
        _, value = _value_line(lines, number, name, values)
        knobs[name] = Knob(name=name, values=values, intent=match["intent"], value=value)
    return knobs


def settings(text: str) -> dict[str, str]:
    """Return the value of every knob that the program declares."""
    return {name: knob.value for name, knob in declared_knobs(text).items()}


def turn(text: str, changes: Mapping[str, str]) -> str:
    """Return the program's text with the knobs in `changes` set. Everything else stays to the letter.

    Raises UsageError for a knob or a value that the program does not declare.
    """
    lines = text.split("\n")
    for name, value in changes.items():
        number, values = _declaration(lines, name)
        if value not in values:
            raise UsageError(f"knob {name} has no value {value!r}; it allows {', '.join(values)}")
        at, old = _value_line(lines, number, name, values)
        head, _, tail = lines[at].rpartition(old) if name == "flags" else _split_value(lines[at], name, old)
        lines[at] = head + value + tail
    return "\n".join(lines)


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


def _declaration(lines: list[str], name: str) -> tuple[int, tuple[str, ...]]:
    for number, line in enumerate(lines):
        match = _KNOB.match(line)
        if match and match["name"] == name:
            return number, tuple(value.strip() for value in match["values"].split("|"))
    raise UsageError(f"the program declares no knob {name}")


def _value_line(lines: list[str], after: int, name: str, values: tuple[str, ...]) -> tuple[int, str]:
    for number in range(after + 1, len(lines)):
        if _KNOB.match(lines[number]):
            continue
        if name == "flags":
            match = _FLAGS.match(lines[number])
            if match and match["flags"] in values:
                return number, match["flags"]
        else:
            for value in sorted(values, key=len, reverse=True):
                if _split_value(lines[number], name, value)[1]:
                    return number, value
        if name == "flags" and match is None:
            continue
        if name == "flags" or re.search(rf"\b{name}\b", lines[number]):
            break
    raise UsageError(f"line {after + 1}: knob {name} is not followed by a line that sets one of {', '.join(values)}")


def _split_value(line: str, name: str, value: str) -> tuple[str, str, str]:
    pattern = (
        rf"^(?P<head>.*?\b{re.escape(name)}\b(?:\s*:[^=]*)?\s*=?\s*){re.escape(value)}(?P<tail>\s*(?:[;,)#/].*)?)$"
    )
    match = re.match(pattern, line)
    return (match["head"], value, match["tail"]) if match else (line, "", "")
