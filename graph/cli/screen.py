"""Where output goes: data on stdout, everything for people on stdout or, when that is taken by JSON, on stderr."""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rich.console import Console
from rich.text import Text

from evaluators.errors import HarnessError


@dataclass
class Screen:
    """One command's output."""

    json: bool = False
    """Stdout carries JSON and nothing else."""

    @cached_property
    def console(self) -> Console:
        """The stream for people."""
        return Console(stderr=self.json, highlight=False, soft_wrap=True)

    @property
    def live(self) -> bool:
        """Whether a display that moves makes sense: a terminal with a person behind it."""
        stream = sys.stderr if self.json else sys.stdout
        return stream.isatty() and "CI" not in os.environ and os.environ.get("TERM") != "dumb"

    def say(self, text: str, style: str = "") -> None:
        """Write one line for people."""
        with _written():
            self.console.print(Text(_harmless(text), style=style))

    def facts(self, lines: list[tuple[str, str]]) -> None:
        """Write (label, text) lines with the texts in one column; a repeated label is written once."""
        width = max((len(label) for label, _ in lines), default=0)
        before = ""
        for label, text in lines:
            name = "" if label == before else label
            before = label
            with _written():
                self.console.print(Text.assemble((name.ljust(width + 2), "bold"), _harmless(text)))

    def page(self, lines: Iterable[str]) -> None:
        """Write many lines for people, without styles: thousands take no time."""
        with _written():
            self.console.file.write("".join(f"{line}\n" for line in lines))
            self.console.file.flush()

    def data(self, value: Any) -> None:
        """Write `value` as JSON on stdout."""
        with _written():
            sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
            sys.stdout.flush()


def _harmless(text: str) -> str:
    """Return `text` without what could steer a terminal: what a task says of itself is nobody's word."""
    return "".join(mark if mark.isprintable() or mark in "\n\t" else "?" for mark in text)


@contextmanager
def _written() -> Iterator[None]:
    """Tell in one line that what is written within the block arrives nowhere; a reader that went away is no error."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise HarnessError(
            f"the output cannot be written ({error.strerror}): send it elsewhere; nothing that was recorded is lost"
        ) from error


def complain(line: str) -> None:
    """Write one line on stderr, whatever may become of it."""
    print(line, file=sys.stderr)  # noqa: T201 - the last resort must not depend on a library
