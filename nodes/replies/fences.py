"""Code blocks in Markdown, with the file names that people and models give them."""

import re
from dataclasses import dataclass, replace

from evaluators.errors import ReplyError

_FENCE = re.compile(r"(?P<indent>[ \t]*+)(?P<marks>`{3,}+|~{3,}+)(?P<info>[^`\n]*+)")
_SUFFIXES = r"(?:cpp|cc|cxx|cuh?|c|hpp|hh|h|inl|inc|pyi?|ptx|json|toml|txt|md|sh|patch|diff|cmake)"
_FILE = re.compile(rf"(?:[\w.+-]+/)*[\w+-][\w.+-]*\.{_SUFFIXES}")
_IN_INFO = re.compile(rf"(?:^|[\s:=\"'(])(?P<name>{_FILE.pattern})(?=$|[\s\"'):;,}}\]])")
_LEAD = re.compile(
    r"(?:\d{1,3}[.)]\s+)?(?:(?:the|new|full|complete|updated|final)\s+)*(?:(?:file\s*name|file|path)\b)?\s*[:=]?\s*",
    re.IGNORECASE,
)
"""What may stand ahead of a file's name: a number, a word or two."""
_COMMENT = re.compile(r"\s*(?://+|#+|/\*+|<!--|--|;)(?P<said>.*?)(?:\*/|-->)?\s*")
_MARKDOWN = ("", "markdown", "md", "text", "txt")
_REMARK = re.compile(r"[ \t]*\([^()]{0,60}\)[*_:` \t]*$")
_MARKUP = " \t*`\"'#>:"
_LONGEST_LINE = 300
_DEEPEST = 6
"""Blocks within blocks."""
MOST_BLOCKS = 1000


@dataclass(frozen=True)
class Block:
    """One code block."""

    language: str
    """First word behind the fence, in lower case; may be empty."""
    name: str | None
    """File name that was given for it, without folders."""
    text: str
    closed: bool
    """Whether a fence ends it; the reply may be cut off in it."""
    line: int
    """Number of its first line within the reply, from 1."""


def find_blocks(text: str) -> list[Block]:
    """Return the code blocks of a reply in order.

    Of a block of Markdown, what it holds is given instead; fences in the midst of a program are part of it. Raises
    ReplyError when there are more than `MOST_BLOCKS`.

    A fence with a language opens a block, also within one (some models wrap their whole reply in a block); a bare one
    closes what was opened last. Where that leaves something open, a fence with a language is taken to end the block
    before it, whose own end was forgotten.
    """
    return [inner for block in _find(text) for inner in _within(block)]


def _find(text: str) -> list[Block]:
    lines = text.rstrip("\n").split("\n")
    nested = _blocks(lines, _DEEPEST)
    return nested if nested and all(block.closed for block in nested) else _blocks(lines, 1)


def _within(block: Block) -> list[Block]:
    """Return what a block of Markdown holds, also where fences of another length or kind tell them apart."""
    if block.language not in _MARKDOWN or not _begins_with_fence(block):
        return [block]
    return [replace(inner, line=inner.line + block.line - 1) for inner in _find(block.text)] or [block]


def _begins_with_fence(block: Block) -> bool:
    return _FENCE.fullmatch(block.text.lstrip().split("\n", 1)[0][:_LONGEST_LINE]) is not None


@dataclass
class _Open:
    fence: re.Match[str]
    first: int
    before: int
    """Blocks found ahead of it."""


def _blocks(lines: list[str], deepest: int) -> list[Block]:
    """Return the blocks, one within another up to `deepest`; none when more than that are open at once."""
    blocks: list[Block] = []
    opened: list[_Open] = []
    for number, line in enumerate(lines):
        fence = _FENCE.fullmatch(line) if len(line) <= _LONGEST_LINE else None
        if fence is None:
            continue
        opens = not opened or _opens_within(fence, opened[-1].fence)
        if opened and (_closes(fence, opened[-1].fence) or (opens and deepest == 1)):
            _close(blocks, lines, opened, number, closed=True)
        if opens:
            opened.append(_Open(fence, number + 1, len(blocks)))
        if len(opened) > deepest:
            return []
    while opened:
        _close(blocks, lines, opened, len(lines), closed=False)
    return blocks


def _close(blocks: list[Block], lines: list[str], opened: list[_Open], end: int, *, closed: bool) -> None:
    one = opened.pop()
    block = _block(lines, one, end, closed)
    holds_blocks = len(blocks) > one.before
    if holds_blocks and (block.language in _MARKDOWN or _begins_with_fence(block)):
        return
    blocks[one.before :] = [block]
    if len(blocks) > MOST_BLOCKS:
        raise ReplyError(f"more than {MOST_BLOCKS} code blocks")


def _closes(fence: re.Match[str], opening: re.Match[str]) -> bool:
    mark = opening["marks"]
    return not fence["info"].strip() and fence["marks"].startswith(mark)


def _opens_within(fence: re.Match[str], opening: re.Match[str]) -> bool:
    """Return whether a fence opens a block within another; a shorter one, or of the other kind, is only text."""
    return bool(fence["info"].strip()) and fence["marks"].startswith(opening["marks"])


def _block(lines: list[str], opened: _Open, end: int, closed: bool) -> Block:
    indent = len(opened.fence["indent"].expandtabs())
    body = [_unindented(line, indent) for line in lines[opened.first : end]]
    info = opened.fence["info"].strip()
    word = re.split(r"[\s:{(,]", info.strip("{} ."), maxsplit=1)[0]
    told = _IN_INFO.search(info)
    name = told["name"] if told else _name_above(lines, opened.first - 1) or _name_within(body)
    return Block(
        language="" if "." in word else word.lower(),
        name=None if name is None else name.rpartition("/")[2],
        text="\n".join(body) + "\n" if any(line.strip() for line in body) else "",
        closed=closed,
        line=opened.first + 1,
    )


def _unindented(line: str, indent: int) -> str:
    """Return a line of a block whose fence is indented, as in a list, without that indentation."""
    line = line.expandtabs() if indent and line.startswith("\t") else line
    return line[min(indent, len(line) - len(line.lstrip(" "))) :]


def _name_above(lines: list[str], fence: int) -> str | None:
    """Return the file name that stands alone in the line above a block, an empty one between them or not."""
    return name_in(next((line for line in reversed(lines[max(fence - 2, 0) : fence]) if line.strip()), ""))


def _name_within(body: list[str]) -> str | None:
    """Return the file name that the first line of a block consists of, as a comment."""
    comment = _COMMENT.fullmatch(next((line for line in body if line.strip()), "")[:_LONGEST_LINE])
    return None if comment is None else name_in(comment["said"])


def name_in(line: str) -> str | None:
    """Return the file name that a line consists of, but for markup and words like `File:`; None for other lines."""
    if len(line) > _LONGEST_LINE:
        return None
    line = _REMARK.sub("", line.strip()).removeprefix("- ").strip(_MARKUP).removeprefix("__").removesuffix("__")
    lead = _LEAD.match(line)
    rest = line[lead.end() :] if lead else line
    found = _FILE.fullmatch(rest.strip(_MARKUP))
    return None if found is None else found[0]
