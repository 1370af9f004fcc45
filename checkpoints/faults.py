"""What SQLite and the operating system report, told as one line that says what to do."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from checkpoints.place import Place
from evaluators.errors import StoreError

_RESUME = "then resume the run; nothing that was recorded is lost"
_RESTORE = (
    "restore it from a copy, or choose another folder for the runs; "
    "plans, logs and accounts of its runs are in it, programs and replies are safe in the blobs beside it"
)
_BY_SQLITE_CODE = {
    sqlite3.SQLITE_BUSY: "another process keeps {place} locked: end it or wait for it, " + _RESUME,
    sqlite3.SQLITE_LOCKED: "another connection keeps {place} locked: end it, " + _RESUME,
    sqlite3.SQLITE_READONLY: "{place} cannot be written: make it and its folder writable, " + _RESUME,
    sqlite3.SQLITE_PERM: "{place} cannot be written: make it and its folder writable, " + _RESUME,
    sqlite3.SQLITE_FULL: "no space is left for {place}: free some, " + _RESUME,
    sqlite3.SQLITE_IOERR: "the disk failed under {place} ({text}): check the disk and its quota, " + _RESUME,
    sqlite3.SQLITE_CANTOPEN: "{place} cannot be opened: make it and its folder readable, and writable for a run",
    sqlite3.SQLITE_NOTADB: "{place} is no database of ksearch: choose another folder for the runs, or "
    "restore it from a copy if it was one",
    sqlite3.SQLITE_CORRUPT: "{place} is damaged: " + _RESTORE,
}
_BY_ERRNO = {
    errno.ENOSPC: _BY_SQLITE_CODE[sqlite3.SQLITE_FULL],
    errno.EDQUOT: _BY_SQLITE_CODE[sqlite3.SQLITE_FULL],
    errno.EFBIG: "{place} may not grow any further: raise the limit on file sizes (ulimit -f), " + _RESUME,
    errno.EROFS: _BY_SQLITE_CODE[sqlite3.SQLITE_READONLY],
    errno.EACCES: _BY_SQLITE_CODE[sqlite3.SQLITE_READONLY],
    errno.EPERM: _BY_SQLITE_CODE[sqlite3.SQLITE_READONLY],
    errno.ENOTDIR: "{place} cannot be made, a file is in its way: choose another folder for the runs",
    errno.EEXIST: "{place} cannot be made, a file is in its way: choose another folder for the runs",
}


@contextmanager
def storage_errors(place: Place) -> Iterator[None]:
    """Turn errors of SQLite and of the operating system within the block into StoreError.

    Args:
        place: the database or folder that the block works on; the message names it.

    Raises:
        StoreError: for every sqlite3.Error and OSError, with the original as its cause.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(_sqlite_line(error, place)) from error
    except OSError as error:
        line = _BY_ERRNO.get(error.errno or 0, "{place} failed ({text}): repair it, " + _RESUME)
        raise StoreError(line.format(place=place, text=_one_line(error))) from error


def emptied(place: Place) -> StoreError:
    """Return the error of a database that has lost all it held."""
    return StoreError(f"{place} is empty and was not: {_RESTORE}")


def is_code(error: sqlite3.Error, code: int) -> bool:
    """Return whether `error` is the primary SQLite result `code` or one of its extended forms."""
    return _code(error) & 0xFF == code


def _sqlite_line(error: sqlite3.Error, place: Place) -> str:
    line = _BY_SQLITE_CODE.get(_code(error) & 0xFF, "{place} cannot be used ({text}): " + _RESTORE)
    return line.format(place=place, text=_one_line(error))


def _code(error: sqlite3.Error) -> int:
    # Errors that Python raises itself, such as "Cannot operate on a closed database.", carry no code.
    return error.sqlite_errorcode if "sqlite_errorcode" in vars(error) else sqlite3.SQLITE_ERROR


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
