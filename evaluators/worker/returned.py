"""Reads what a program returned out of its process' memory, so that the program has no part in handing it over."""

import ctypes
import errno
import secrets
import time
from bisect import bisect_right
from itertools import pairwise
from typing import cast

import numpy as np
import numpy.typing as npt

from evaluators.worker import rules, syscalls
from evaluators.worker.failure import NOT_GIVEN, CandidateFailure, integrity
from evaluators.worker.slots import Slots
from evaluators.worker.status import Status

_HIGHEST = (1 << 63) - 1
_NOT_THERE = (errno.EFAULT, errno.EPERM, errno.ESRCH, errno.ENOMEM)
_SPOILED_BYTES = 1 << 20
_spoiled = ctypes.create_string_buffer(secrets.token_bytes(1 << 12) * (_SPOILED_BYTES >> 12), _SPOILED_BYTES)
_SPOILED_AT = ctypes.addressof(_spoiled)
"""Random bytes, which results are overwritten with."""


def readable(pid: int) -> bool:
    """Return whether this process may read the memory of process `pid`."""
    place = ctypes.c_char()
    try:
        syscalls.read_memory(pid, 0, ctypes.addressof(place), 1)
    except OSError as error:
        if error.errno != errno.EFAULT:
            return False
    # Nothing lies at address 0: whoever is told so was allowed to look.
    return True


def fetch(pid: int, arena: Slots, slots: list[int], addresses: list[int]) -> int:
    """Copy what lies at `addresses` (one per slot and output, 0: nothing fit to be read) into the slots' outputs.

    Return how long that took, nanoseconds, without looking at where it lies, which grows with the libraries that a
    program has loaded. What cannot be read is left as it was, so that it is found unwritten. Raises CandidateFailure
    for addresses that the runner cannot have told, and for results that are not in memory of their own.
    """
    outputs = arena.layout.outputs
    if len(addresses) != len(slots) * len(outputs) or max(addresses) > _HIGHEST:
        raise integrity(rules.CHANNEL, NOT_GIVEN)
    sizes = [field.nbytes for field in outputs] * len(slots)
    _must_be_its_own(pid, [(at, at + nbytes) for at, nbytes in zip(addresses, sizes, strict=True) if at and nbytes])
    places, started = iter(addresses), time.perf_counter_ns()
    for slot in slots:
        for field in outputs:
            target = cast("npt.NDArray[np.uint8]", arena.output_bytes(slot, field))
            _copy(pid, next(places), target.ctypes.data, field.nbytes)
    return time.perf_counter_ns() - started


def _must_be_its_own(pid: int, results: list[tuple[int, int]]) -> None:
    """Raise CandidateFailure when two results overlap, or one lies in memory that is shared or has a file behind it.

    An input under another address, or a page that is there several times, took less than to be written.
    """
    results.sort()
    if any(start < end for (_, end), (start, _) in pairwise(results)):
        raise CandidateFailure(Status.ALIASED_OUTPUT, "a result shares memory with another result")
    foreign = _foreign(pid)
    for start, end in results:
        place = bisect_right(foreign, (start, _HIGHEST))
        if any(first < end and start < last for first, last in foreign[max(0, place - 1) : place + 1]):
            raise CandidateFailure(Status.ALIASED_OUTPUT, "a result is not in memory of its own")


def _foreign(pid: int) -> list[tuple[int, int]]:
    """Return where a process' memory is shared or a file's, in order; nothing when it is gone."""
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            lines = file.read().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return []
    except PermissionError:
        raise integrity(rules.CHANNEL, "the program has closed its memory to the evaluator") from None
    found = []
    for line in lines:
        place, kind, _, _, inode = line.split(None, 5)[:5]
        if inode != b"0" or kind.endswith(b"s"):
            start, end = place.split(b"-")
            found.append((int(start, 16), int(end, 16)))
    return found


def _copy(pid: int, source: int, target: int, nbytes: int) -> None:
    """Copy a result, then spoil it: what is kept for the next call must be written anew, as slots must."""
    done = 0
    while source and done < nbytes:
        at, count = source + done, min(nbytes - done, _SPOILED_BYTES)
        try:
            count = syscalls.read_memory(pid, at, target + done, count)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
            return
        try:
            done += syscalls.write_memory(pid, at, _SPOILED_AT, count)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
            raise CandidateFailure(Status.ALIASED_OUTPUT, "a result lies in memory that cannot be written to") from None
