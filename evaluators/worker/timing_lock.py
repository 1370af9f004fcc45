"""One lock per machine: whoever times holds it alone, builds and checks share it."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def lock_path() -> Path:
    """Return the lock's file, the same for every user of this machine."""
    return Path(tempfile.gettempdir()) / "ksearch-timing.lock"


@contextmanager
def held(*, alone: bool) -> Iterator[None]:
    """Hold the machine's timing lock, `alone` or with others that do not time; waits as long as it takes."""
    fd = _open(lock_path())
    try:
        fcntl.flock(fd, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
    finally:
        os.close(fd)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        old = os.umask(0)
        try:
            return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        finally:
            os.umask(old)
