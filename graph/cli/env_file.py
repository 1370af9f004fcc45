"""`.env` in the current folder: keys, and where runs are kept, for those who do not want to export them."""

import os
import re
from pathlib import Path

from evaluators.errors import UsageError

_TAKEN = re.compile(r"KSEARCH_\w+|\w+_API_KEY")
"""Nothing else: a folder from somebody else must not say to which address a key is sent."""


def load_env(file: Path) -> None:
    """Set the variables of `file` that are ours to read and that the environment does not set.

    Raises UsageError when the file cannot be read.
    """
    if not file.is_file():
        return
    from dotenv import dotenv_values

    try:
        values = dotenv_values(file, interpolate=False, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read: {error}") from error
    for name, value in values.items():
        if value and _TAKEN.fullmatch(name):
            os.environ.setdefault(name, value)
