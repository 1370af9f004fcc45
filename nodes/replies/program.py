"""The program in a reply: which code blocks are its files, and which of them defines the entry point."""

import re

from evaluators.errors import ReplyError
from evaluators.solution import SUFFIX, Language
from evaluators.task import Contract
from nodes.models.chat import Finish
from nodes.replies.elided import elided_line
from nodes.replies.entry_point import defines
from nodes.replies.fences import Block, find_blocks
from nodes.replies.limits import checked, excerpt

_COMMANDS = frozenset(("bash", "sh", "shell", "console", "zsh", "diff", "patch"))
"""Languages of blocks that are no part of a program, named or not."""
_OTHERS = _COMMANDS | frozenset(
    (
        *("text", "txt", "plaintext", "output", "log", "json", "markdown", "md", "toml", "yaml", "cmake", "makefile"),
        *("make", "asm", "ptx", "latex", "math", "pseudocode"),
    )
)
"""Languages of blocks that are no part of a program unless they have a file name."""
_CODE_START = re.compile(
    r'\s*(?:#\s*(?:include|pragma|define|if)|//|/\*|import |from \w+ import|extern "C"|template\s*<|using |namespace |'
    r'static |constexpr |typedef |struct |__global__|@\w|def \w|class \w|"""|#!)'
)
_PROSE_END = re.compile(r"[A-Z][\w']* [^;{}()=<>]*[.!:?]")
_PAIRS = (("{", "}"), ("(", ")"), ("[", "]"))


def read_program(text: str, contract: Contract, language: Language, finish: Finish = "stop") -> dict[str, str]:
    """Return the files of the program in a reply, the one that defines the entry point first.

    Args:
        text: the reply.
        contract: how the program is called: it names the entry point and the main file of a program without names.
        language: of the program.
        finish: why the reply ended.

    Raises:
        ReplyError: there is no whole program in it; says why, in words that its author can act on.
    """
    text = checked(text)
    blocks = find_blocks(text)
    files = _files_of(text, blocks, contract, language, finish) if blocks else _bare(text, contract, language, finish)
    for name, content in files.items():
        _check_whole(name, content)
    return files


def _files_of(text: str, blocks: list[Block], contract: Contract, language: Language, finish: Finish) -> dict[str, str]:
    entry = contract.entry_point
    named = [block for block in blocks if block.name is not None and block.language not in _COMMANDS]
    plain = [block for block in blocks if block.name is None and block.language not in _OTHERS]
    main = _last_defining(named, entry, language) or _last_defining(plain, entry, language)
    if main is None:
        raise ReplyError(_why_none(text, blocks, [*named, *plain], entry))
    _check_closed(main, finish)
    name = main.name or contract.main_file or f"{entry}{SUFFIX[language]}"
    files = {name: main.text}
    for block in named:
        if block.name is not None and block.name != name:
            _check_closed(block, finish)
            files[block.name] = block.text  # of two with one name the later is the corrected one
    return files


def _last_defining(blocks: list[Block], entry: str, language: Language) -> Block | None:
    """Return the last block that defines the entry point: models think aloud before, and correct themselves."""
    return next((block for block in reversed(blocks) if defines(block.text, entry, language)), None)


def _why_none(text: str, blocks: list[Block], candidates: list[Block], entry: str) -> str:
    if any(not block.closed for block in blocks):
        return f"the reply is cut off within a code block, before {entry} is defined"
    if not candidates:
        kinds = ", ".join(sorted({block.language or "no language" for block in blocks}))
        return f"no code block holds a program (there are blocks of: {kinds})"
    if not any(block.text.strip() for block in candidates):
        return "the code block is empty"
    return f"no code block defines {entry} ({len(candidates)} looked at)"


def _check_closed(block: Block, finish: Finish) -> None:
    """Raise ReplyError when the reply ends within the block, unless only its closing fence was forgotten."""
    if block.closed or (finish == "stop" and _balanced(block.text)):
        return
    last = block.line + block.text.count("\n") - 1
    raise ReplyError(f"the reply is cut off in line {last}, within the code block that begins in line {block.line}")


def _balanced(text: str) -> bool:
    return all(text.count(opening) == text.count(closing) for opening, closing in _PAIRS)


def _bare(text: str, contract: Contract, language: Language, finish: Finish) -> dict[str, str]:
    """Return a reply that is a program from its first to its last line, without any code block."""
    entry = contract.entry_point
    lines = text.strip().split("\n")
    if not defines(text, entry, language):
        raise ReplyError(f"the reply holds no code block and does not define {entry}; it begins {excerpt(text)}")
    if not _CODE_START.match(lines[0]) or _PROSE_END.fullmatch(lines[-1].strip()[:300]):
        raise ReplyError("the program is mixed with prose: put it into a code block")
    if finish != "stop" or not _balanced(text):
        raise ReplyError(f"the reply is cut off within the program, after {len(lines)} lines")
    return {contract.main_file or f"{entry}{SUFFIX[language]}": text.strip("\n") + "\n"}


def _check_whole(name: str, content: str) -> None:
    if not content.strip():
        raise ReplyError(f"the code block of {name} is empty")
    elided = elided_line(content)
    if elided is not None:
        raise ReplyError(f"{name} is not given in full: {excerpt(elided)}; give every line of it")
