"""`--record FILE`: what is checked before anything is spent."""

import os
from pathlib import Path

from evaluators.errors import UsageError
from evaluators.recording import load_cassette


def check_record(file: Path) -> None:
    """Raise UsageError when no cassette can be written to `file`, or when it holds something that is none."""
    folder = file.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"--record {file}: there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"--record {file}: {folder} cannot be written")
    if file.is_dir():
        raise UsageError(f"--record {file}: is a folder; name a file")
    if file.exists() and file.stat().st_size:
        try:
            load_cassette(file)
        except UsageError as error:
            raise UsageError(f"--record {file}: exists and is no cassette, so it is left as it is") from error
