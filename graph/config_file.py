"""Options from outside: TOML files and `key=value` on the command line."""

import tomllib
from pathlib import Path
from typing import Any

from evaluators.errors import UsageError


def load_options(path: Path) -> dict[str, Any]:
    """Return the options that a TOML file sets, as flat keys.

    Raises:
        UsageError: the file cannot be read, is no TOML, or holds something other than plain values; names the file,
            the key and the reason.
    """
    options = load_toml(path)
    for key, value in options.items():
        if isinstance(value, dict):
            raise UsageError(f"{path}: {key}: options are plain `key = value` lines, not tables")
    return options


def load_toml(path: Path) -> dict[str, Any]:
    """Return what a TOML file holds. Raises UsageError, naming the file, when it cannot be read or is no TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: is not TOML: {error}") from error


def parse_set(text: str) -> tuple[str, Any]:
    """Return the key and the value of a `key=value` argument.

    The value is read as a TOML value (`3`, `0.5`, `true`, `"text"`); what is no TOML value is taken as text, so that
    `task=softmax` needs no quotes.

    Raises:
        UsageError: there is no `=` or no key.
    """
    key, separator, value = text.partition("=")
    key, value = key.strip(), value.strip()
    if not separator or not key:
        raise UsageError(f"--set {text!r}: write it as key=value")
    try:
        parsed = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        return key, value
    return key, parsed["value"] if list(parsed) == ["value"] else value


def parse_options(texts: list[str] | None) -> dict[str, Any]:
    """Return the options that `key=value` arguments set; the last one of a key holds. Raises UsageError."""
    return dict(parse_set(text) for text in texts or [])
