"""Which process holds a thread, and whether it still lives."""

import os
import socket
from functools import cache
from pathlib import Path

from evaluators.objective import Record

LEASE_S = 30.0
"""How long a thread stays held by a process out of sight that says nothing, by the database's clock, seconds."""


class Holder(Record):
    """A process, told apart from a later one with the same number."""

    pid: int
    host: str
    boot: str
    """The kernel's boot id; empty where it has none."""
    space: str
    """The process-number space (PID namespace); empty where there is none."""
    started: str
    """When the process started, in clock ticks after boot; empty where the kernel does not tell."""

    def __str__(self) -> str:
        """Return how to name it to a person."""
        return f"process {self.pid} on {self.host}"


@cache
def _place(pid: int) -> Holder:
    return Holder(pid=pid, host=socket.gethostname(), boot=_boot(), space=_space(), started=_started(pid) or "")


def this_process() -> Holder:
    """Return the process that asks."""
    return _place(os.getpid())


def alive(holder: Holder) -> bool:
    """Return whether the holder may still be at work.

    A process of another machine or container cannot be seen from here and counts as alive.
    """
    here = this_process()
    if holder.boot != here.boot:
        return holder.host != here.host  # this very machine has been started anew since
    if holder.host != here.host or holder.space != here.space:
        # Without a boot id, or in another container, its process number means nothing here.
        return True
    if holder.boot:
        return _started(holder.pid) == holder.started
    return _exists(holder.pid)


def out_of_sight(holder: Holder, here: Holder) -> bool:
    """Return whether `here` cannot see the holder: on another machine, in another container."""
    return (holder.host, holder.space) != (here.host, here.space)


def why_gone(holder: Holder | None, silent_s: float | None) -> str:
    """Return why the holder of a thread that is said to be running is not at work any more, nothing when it may be.

    Args:
        holder: who the thread's row says it is.
        silent_s: how long it has said nothing, by the database's clock; None when it never has.
    """
    if holder is None or not alive(holder):
        return f"{holder or 'its process'} ended without releasing it"
    if silent_s and silent_s > LEASE_S and out_of_sight(holder, this_process()):
        return f"{holder} has said nothing for {silent_s:.0f} s"
    return ""


def _boot() -> str:
    file = Path("/proc/sys/kernel/random/boot_id")
    return file.read_text().strip() if file.exists() else ""


def _space() -> str:
    link = Path("/proc/self/ns/pid")
    return str(link.readlink()) if link.is_symlink() else ""


def _started(pid: int) -> str | None:
    """Return the process's start time, None when there is no such process or it only waits to be collected."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field, the program's name, may hold spaces and brackets.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
