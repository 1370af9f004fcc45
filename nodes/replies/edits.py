"""Search and replace blocks: changes to a program instead of the whole of it.

    kernel.cpp
    <<<<<<< SEARCH
    lines as they are
    =======
    lines as they shall be
    >>>>>>> REPLACE

The file's name stands alone in a line above the block, or above the code fence around it; without one the main file is
meant. Blocks are applied in order.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from evaluators.errors import ReplyError
from nodes.replies.fences import name_in
from nodes.replies.limits import checked, excerpt

MOST_EDITS = 200
_SEARCH = re.compile(r"\s*<{5,9} ?SEARCH\s*", re.IGNORECASE)
_DIVIDER = re.compile(r"\s*={5,9}\s*")
_REPLACE = re.compile(r"\s*>{5,9} ?REPLACE\s*", re.IGNORECASE)
_FENCE = re.compile(r"\s*(?:`{3,}+|~{3,}+)[^`]*")


@dataclass(frozen=True)
class SearchReplace:
    """One change."""

    file: str | None
    """None: the main file."""
    search: str
    replace: str


def holds_edits(text: str) -> bool:
    """Return whether a reply holds a line that begins a search and replace block."""
    return any(_SEARCH.fullmatch(line) for line in text.splitlines() if "SEARCH" in line.upper()[:40])


def edited_program(text: str, base: Mapping[str, str], main_file: str) -> dict[str, str]:
    """Return `base` (file name -> text) changed as a reply says, the main file first.

    Raises:
        ReplyError: a block is malformed, does not apply, or nothing is changed; names the block, from 1, and why.
    """
    edits = read_edits(text)
    files = {main_file: base[main_file], **base}
    for number, edit in enumerate(edits, start=1):
        name = edit.file or main_file
        if name not in files:
            raise ReplyError(f"block {number}: there is no file {name}; the program has {', '.join(files)}")
        files[name] = _applied(files[name], edit, f"block {number}", name)
    if files == dict(base):
        raise ReplyError("the blocks change nothing: the program would be the same as before")
    return files


def read_edits(text: str) -> tuple[SearchReplace, ...]:
    """Return the blocks of a reply in order, at least one. Raises ReplyError."""
    lines = checked(text).split("\n")
    edits: list[SearchReplace] = []
    at = 0
    while at < len(lines):
        if not _SEARCH.fullmatch(lines[at]):
            at += 1
            continue
        label = f"block {len(edits) + 1}"
        divider = _find(lines, at + 1, _DIVIDER, f"{label} (line {at + 1}) has no ======= line")
        end = _find(lines, divider + 1, _REPLACE, f"{label} (line {at + 1}) has no >>>>>>> REPLACE line")
        search, replace = "\n".join(lines[at + 1 : divider]), "\n".join(lines[divider + 1 : end])
        if not search.strip():
            raise ReplyError(f"{label}: its SEARCH part is empty; give the lines that are to be replaced")
        edits.append(SearchReplace(_file_above(lines, at), search, replace))
        if len(edits) > MOST_EDITS:
            raise ReplyError(f"more than {MOST_EDITS} blocks: give the whole program")
        at = end + 1
    if not edits:
        raise ReplyError(f"the reply holds no <<<<<<< SEARCH block; it begins {excerpt(text)}")
    return tuple(edits)


def _find(lines: list[str], start: int, wanted: re.Pattern[str], missing: str) -> int:
    for number in range(start, len(lines)):
        if wanted.fullmatch(lines[number]):
            return number
        if _SEARCH.fullmatch(lines[number]):
            break
    raise ReplyError(f"{missing}: the reply is cut off, or the line is missing")


def _file_above(lines: list[str], at: int) -> str | None:
    """Return the file name in the nearest line above that is neither empty nor a fence."""
    for line in reversed(lines[max(at - 4, 0) : at]):
        if line.strip() and not _FENCE.fullmatch(line):
            name = name_in(line)
            return None if name is None else name.rpartition("/")[2]
        in_fence = None if not line.strip() else name_in(line.strip(" `~").partition(" ")[2])
        if in_fence is not None:
            return in_fence.rpartition("/")[2]
    return None


def _applied(text: str, edit: SearchReplace, label: str, name: str) -> str:
    # Whole lines: a line break on both sides keeps `int x` from being found within `uint x`.
    padded, wanted = f"\n{text}\n", f"\n{edit.search}\n"
    found = _count(padded, wanted)
    if found == 1:
        return padded.replace(wanted, f"\n{edit.replace}\n" if edit.replace else "\n", 1)[1:-1]
    if found > 1:
        raise ReplyError(f"{label}: its SEARCH text occurs {found} times in {name}; take more lines around it")
    return _applied_loosely(text, edit, label, name)


def _count(text: str, wanted: str) -> int:
    """Return how often `wanted` occurs, overlapping in its first and last line break."""
    count = at = 0
    while (at := text.find(wanted, at)) >= 0:
        count += 1
        at += len(wanted) - 1
    return count


def _applied_loosely(text: str, edit: SearchReplace, label: str, name: str) -> str:
    """Apply an edit whose lines differ from the file's in white space only, keeping the file's indentation."""
    have = text.split("\n")
    want = edit.search.strip("\n").split("\n")
    squeezed = "\n" + "\n".join(_squeezed(line) for line in have) + "\n"
    wanted = "\n" + "\n".join(_squeezed(line) for line in want) + "\n"
    found = _count(squeezed, wanted)
    if found == 0:
        raise ReplyError(f"{label}: its SEARCH text is not in {name}{_nearest(have, want)}")
    if found > 1:
        raise ReplyError(
            f"{label}: its SEARCH text occurs {found} times in {name}, but for white space; take more lines"
        )
    first = squeezed.count("\n", 0, squeezed.find(wanted))
    place = have[first : first + len(want)]
    lines = edit.replace.strip("\n").split("\n") if edit.replace.strip() else []
    return "\n".join([*have[:first], *_reindented(lines, _indent(want), _indent(place)), *have[first + len(want) :]])


def _squeezed(line: str) -> str:
    return " ".join(line.split())


def _indent(lines: list[str]) -> str:
    first = next((line for line in lines if line.strip()), "")
    return first[: len(first) - len(first.lstrip())]


def _reindented(lines: list[str], given: str, actual: str) -> list[str]:
    if given == actual:
        return lines
    return [actual + line[len(given) :] if line.strip() and line.startswith(given) else line for line in lines]


def _nearest(have: list[str], want: list[str]) -> str:
    """Return which line of the SEARCH text is not in the file at all, for the message."""
    known = {_squeezed(line) for line in have}
    for number, line in enumerate(want, start=1):
        if _squeezed(line) not in known:
            return f": line {number} of it, {excerpt(line)}, is nowhere there"
    return ": each of its lines is there, but not in this order without others between"
