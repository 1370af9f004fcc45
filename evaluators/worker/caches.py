"""What compilers keep for a program at run time: each of its timed processes begins with the same.

A program could otherwise tell its next process which answers belong to which inputs.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from evaluators.worker.build import Built, give_away
from evaluators.worker.failure import CandidateFailure
from evaluators.worker.status import Status

_MOST_BYTES, _MOST_FILES = 2 << 30, 50_000


def kept(built: Built) -> Built:
    """Return the program with a copy of its cache as it is now, with which `restore` makes every later process begin.

    Raises CandidateFailure when there is too much of it, or it cannot be copied.
    """
    if not built.cache:
        return built
    copy = Path(f"{built.cache}-kept")
    with _told():
        _copy(Path(built.cache), copy)
    return replace(built, kept_cache=str(copy))


def restore(built: Built) -> None:
    """Make the program's cache what it was when it was kept, if it was. None of its processes may be left."""
    if not built.kept_cache:
        return
    cache = Path(built.cache)
    with _told():
        for path in cache.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        _copy(Path(built.kept_cache), cache)


@contextmanager
def _told() -> Iterator[None]:
    """Blame the program for what cannot be read or removed: nobody else writes there."""
    try:
        yield
    except OSError as error:
        message = f"the compilers' cache cannot be copied: {error.strerror}"
        raise CandidateFailure(Status.RUNTIME_ERROR, message) from error


def _copy(source: Path, target: Path) -> None:
    """Copy folders and regular files with their times; whatever else there is is left out."""
    nbytes = files = 0
    for folder, _, names in os.walk(source):
        place = target / Path(folder).relative_to(source)
        place.mkdir(exist_ok=True)
        give_away(place)
        for name in names:
            path = Path(folder, name)
            found = path.lstat()
            if not stat.S_ISREG(found.st_mode):
                continue
            nbytes, files = nbytes + found.st_size, files + 1
            if nbytes > _MOST_BYTES or files > _MOST_FILES:
                message = f"more than {_MOST_BYTES >> 30} GiB or {_MOST_FILES} files were left in the compilers' cache"
                raise CandidateFailure(Status.OUTPUT_LIMIT, message)
            shutil.copy2(path, place / name, follow_symlinks=False)
            give_away(place / name)
