"""What no reader of replies looks into, and how reasons are worded."""

from evaluators.errors import ReplyError

LONGEST_CHARS = 2_000_000
_EXCERPT = 80


def checked(text: str) -> str:
    """Return a reply with Unix line ends. Raises ReplyError when it is empty, far too long, or no text."""
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise ReplyError("the reply is empty")
    if len(text) > LONGEST_CHARS:
        raise ReplyError(f"the reply has {len(text)} characters; more than {LONGEST_CHARS} are not read")
    if "\0" in text:
        raise ReplyError("the reply holds a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ReplyError(f"the reply holds half a surrogate pair, at character {error.start}") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def excerpt(text: str) -> str:
    """Return the beginning of `text` as one quoted line."""
    line = " ".join(text[: 4 * _EXCERPT].split())
    return repr(line if len(line) <= _EXCERPT else f"{line[:_EXCERPT]}...")


def line_of(text: str, at: int) -> int:
    """Return the number of the line that position `at` is in, from 1."""
    return text.count("\n", 0, at) + 1
