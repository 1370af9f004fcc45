"""What compilers keep for a program at run time: each of its timed processes begins with the same.

A program could otherwise tell its next process which answers belong to which inputs.
"""

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from evaluators.worker.build import Built, give_away
from evaluators.worker.failure import CandidateFailure, HarnessFault
from evaluators.worker.status import Status

_MOST_BYTES, _MOST_ENTRIES, _DEEPEST = 512 << 20, 10_000, 32
_MACHINES = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE)
"""Errors that a program is not blamed for."""


def kept(built: Built) -> Built:
    """Return the program with a copy of its cache as it is now, with which `restore` makes every later process begin.

    Raises CandidateFailure when there is too much of it, or it cannot be read; HarnessFault when there is no room.
    """
    if not built.cache:
        return built
    copy = Path(f"{built.cache}-kept")
    with _told():
        copy.mkdir(mode=0o700)
        _copy(Path(built.cache), copy, give=False)
    return replace(built, kept_cache=str(copy))


def restore(built: Built) -> None:
    """Make the program's cache what it was when it was kept, if it was. None of its processes may be left.

    The one that was used is moved aside: to remove it may take long. Raises what `kept` does.
    """
    if not built.kept_cache:
        return
    cache = Path(built.cache)
    with _told():
        cache.rename(f"{cache}-used-{os.urandom(6).hex()}")
        cache.mkdir()
        give_away(cache)
        _copy(Path(built.kept_cache), cache, give=True)


def _copy(source: Path, target: Path, *, give: bool) -> None:
    """Copy folders, and regular files with their times, into `target`; whatever else there is is left out."""
    nbytes = entries = 0
    waiting = [(source, target, 1)]
    while waiting:
        folder, place, depth = waiting.pop()
        with os.scandir(folder) as found_there:
            entries_there = list(found_there)
        for entry in entries_there:
            found, copy = entry.stat(follow_symlinks=False), place / entry.name
            nbytes, entries = nbytes + found.st_size, entries + 1
            if nbytes > _MOST_BYTES or entries > _MOST_ENTRIES or depth > _DEEPEST:
                limits = f"{_MOST_BYTES >> 20} MiB, {_MOST_ENTRIES} entries or {_DEEPEST} folders within one another"
                raise CandidateFailure(Status.OUTPUT_LIMIT, f"more than {limits} were left in the compilers' cache")
            if stat.S_ISDIR(found.st_mode):
                copy.mkdir()
                waiting.append((Path(entry.path), copy, depth + 1))
            elif stat.S_ISREG(found.st_mode):
                shutil.copy2(entry.path, copy, follow_symlinks=False)
            else:
                continue
            if give:
                give_away(copy)


@contextmanager
def _told() -> Iterator[None]:
    """Blame the program for what cannot be read, as nobody else writes there, and the machine for want of room."""
    try:
        yield
    except OSError as error:
        message = f"the compilers' cache cannot be copied: {error.strerror}"
        if error.errno in _MACHINES:
            raise HarnessFault(message) from error
        raise CandidateFailure(Status.RUNTIME_ERROR, message) from error
