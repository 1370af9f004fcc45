"""Texts that people hand to commands, and texts that commands write for them."""

import sys
from pathlib import Path

from evaluators.errors import UsageError


def read_text(file: Path) -> str:
    """Return a text in UTF-8; `-` is standard input. Raises UsageError."""
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return data.decode()
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: is not a text in UTF-8") from error


def write_text(file: Path, text: str) -> None:
    """Write a text in UTF-8, and the folders it needs; half a surrogate pair becomes `?`. Raises StoreError."""
    from checkpoints.faults import storage_errors

    with storage_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", errors="replace")
