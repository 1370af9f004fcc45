"""Processes by parentage, read from /proc."""

import os
import signal
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple


def below(root: int) -> set[int]:
    """Return the living descendants of process `root` (zombies left out)."""
    children: dict[int, list[int]] = defaultdict(list)
    for name in os.listdir("/proc"):
        if name.isdigit():
            state, parent = _state_and_parent(int(name))
            if state not in ("Z", "X", ""):
                children[parent].append(int(name))
    found: set[int] = set()
    waiting = [root]
    while waiting:
        for child in children[waiting.pop()]:
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def kill_below(root: int, keep: set[int], patience_s: float = 2.0) -> None:
    """Kill every descendant of `root` that is neither in `keep` nor below one of those, until none is left.

    Raises TimeoutError when some outlive `patience_s`.
    """
    deadline = time.monotonic() + patience_s
    while True:
        stray = below(root) - keep
        for kept in keep:
            stray -= below(kept)
        if not stray:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {sorted(stray)} survive SIGKILL")
        for pid in stray:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.005)


def thread_names(pid: int) -> dict[int, str]:
    """Return the names of a process' threads by their identity, none when it is gone."""
    names = {}
    for tid in _threads(pid):
        with (
            suppress(FileNotFoundError, ProcessLookupError),
            open(f"/proc/{pid}/task/{tid}/comm", errors="replace") as file,
        ):
            names[tid] = file.read().strip()
    return names


def await_sleep(pid: int, patience_s: float) -> bool:
    """Wait until every thread of a process but the main one sleeps; return whether that came about in time."""
    deadline = time.monotonic() + patience_s
    while any(_state(f"{pid}/task/{tid}") == "R" for tid in _threads(pid) if tid != pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.0005)
    return True


def thread_run_ns(pid: int) -> dict[int, int]:
    """Return for how long each thread of a process has run, nanoseconds, by its identity; none when it is gone.

    Threads of which the kernel keeps no account are left out.
    """
    accounts = {tid: schedule(f"{pid}/task/{tid}") for tid in _threads(pid)}
    return {tid: account.ran_ns for tid, account in accounts.items() if account is not None}


def await_stop(pid: int, patience_s: float) -> bool:
    """Wait until no thread of a process that was stopped can run, or so long; return whether all have stopped."""
    deadline = time.monotonic() + patience_s
    while True:
        states = {_state(f"{pid}/task/{tid}") for tid in _threads(pid)}
        if not states - {"T", "Z", "X", ""} or time.monotonic() > deadline:
            return states == {"T"}
        time.sleep(0.0001)


def stopped_turns(pid: int) -> dict[int, int]:
    """Return how often each thread of a process that stands stopped was given a processor, by its identity.

    Threads of which the kernel keeps no account are left out. What is returned was so while the thread stood stopped:
    its state is read first.
    """
    turns = {}
    for tid in _threads(pid):
        stopped, account = _state(f"{pid}/task/{tid}") == "T", schedule(f"{pid}/task/{tid}")
        if stopped and account is not None and account.turns:
            turns[tid] = account.turns
    return turns


def worked_since(pid: int, known: Mapping[int, int], passes_ns: int = 0) -> list[str]:
    """Return the names of threads that have come, or have run for longer, since `thread_run_ns` gave `known`.

    The main thread is left out.
    """
    idle = {tid for tid, ran_ns in thread_run_ns(pid).items() if tid in known and ran_ns - known[tid] <= passes_ns}
    return sorted(name for tid, name in thread_names(pid).items() if tid != pid and tid not in idle)


def descriptors(pid: int) -> int | None:
    """Return how many files a process holds open, None when we may not look."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


class Schedule(NamedTuple):
    """The kernel's account of one thread."""

    ran_ns: int
    waited_ns: int
    """Time in which it was ready to run and had no processor."""
    turns: int
    """How often it was given a processor."""


def schedule(pid: int | str) -> Schedule | None:
    """Return the account of a process' main thread (`self`: this process), or of thread `PID/task/TID`.

    None when the kernel keeps none.
    """
    try:
        with open(f"/proc/{pid}/schedstat", "rb") as file:
            ran, waited, turns = file.read().split()
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return None
    return Schedule(int(ran), int(waited), int(turns))


def _threads(pid: int) -> list[int]:
    try:
        return list(map(int, os.listdir(f"/proc/{pid}/task")))
    except (FileNotFoundError, ProcessLookupError):
        return []


def _state_and_parent(pid: int) -> tuple[str, int]:
    fields = _stat(str(pid))
    if not fields:
        return "", 0
    return "S" if fields[0] == b"Z" and _has_threads(pid) else fields[0].decode(), int(fields[1])


def _state(thread: str) -> str:
    fields = _stat(thread)
    return fields[0].decode() if fields else ""


def _stat(thread: str) -> list[bytes]:
    """Return what is told of a process or of thread `PID/task/TID`, from its state on; nothing when it is gone."""
    try:
        with open(f"/proc/{thread}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _has_threads(pid: int) -> bool:
    """Return whether other threads of a process live on whose main thread has ended, which then looks like a zombie."""
    try:
        threads = [tid for tid in os.listdir(f"/proc/{pid}/task") if tid != str(pid)]
        return any(_state(f"{pid}/task/{tid}") not in ("Z", "X", "") for tid in threads)
    except (FileNotFoundError, ProcessLookupError):
        return False


def in_namespace_of(pid: int) -> set[int]:
    """Return the living processes in the PID namespace of process `pid`, itself included."""
    try:
        wanted = os.readlink(f"/proc/{pid}/ns/pid")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return set()
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit() and _namespace(int(name)) == wanted and _state_and_parent(int(name))[0] not in ("Z", "X", ""):
            found.add(int(name))
    return found


def _namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""
