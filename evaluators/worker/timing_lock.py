"""One lock per machine, and one per GPU: whoever times holds it alone, builds and checks share it (on a machine)."""

import fcntl
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 5.0
"""After so long a wait is told."""
on_wait: list[Callable[[], None]] = []
"""Called then, from another thread: a server adds what tells whoever asked it for the work."""


def lock_path(device: str = "") -> Path:
    """Return the file of the machine's lock or of a GPU's, the same for every user of this machine."""
    return Path(tempfile.gettempdir()) / (f"ksearch-{device}.lock" if device else "ksearch-timing.lock")


@contextmanager
def held(*, alone: bool, device: str = "") -> Iterator[None]:
    """Hold the lock of the machine or of a GPU, `alone` or with others that do not time; waits as long as it takes."""
    fd = _open(lock_path(device))
    try:
        _take(fd, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
    finally:
        os.close(fd)


def _take(fd: int, kind: int) -> None:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        timer = threading.Timer(PATIENCE_S, _tell)
        timer.daemon = True
        timer.start()
        try:
            fcntl.flock(fd, kind)
        finally:
            # Nothing else runs in this process while somebody's program is timed.
            timer.cancel()
            timer.join()


def _tell() -> None:
    for tell in on_wait:
        tell()


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        old = os.umask(0)
        try:
            return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        finally:
            os.umask(old)
