"""Reads what a program returned out of its process' memory, so that the program has no part in handing it over."""

import ctypes
import errno
from typing import cast

import numpy as np
import numpy.typing as npt

from evaluators.worker import rules, syscalls
from evaluators.worker.failure import integrity
from evaluators.worker.slots import Slots

_HIGHEST = (1 << 63) - 1


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


def fetch(pid: int, arena: Slots, slots: list[int], addresses: list[int]) -> None:
    """Copy what lies at `addresses` (one per slot and output, 0: nothing fit to be read) into the slots' outputs.

    What cannot be read is left as it was, so that it is found unwritten. Raises CandidateFailure for addresses that
    the runner cannot have told.
    """
    outputs = arena.layout.outputs
    if len(addresses) != len(slots) * len(outputs) or max(addresses) > _HIGHEST:
        raise integrity(rules.CHANNEL, "an answer came that the runner cannot have given")
    places = iter(addresses)
    for slot in slots:
        for field in outputs:
            target = cast("npt.NDArray[np.uint8]", arena.output_bytes(slot, field))
            _copy(pid, next(places), target.ctypes.data, field.nbytes)


def _copy(pid: int, source: int, target: int, nbytes: int) -> None:
    done = 0
    while source and done < nbytes:
        try:
            done += syscalls.read_memory(pid, source + done, target + done, nbytes - done)
        except OSError as error:
            if error.errno not in (errno.EFAULT, errno.EPERM, errno.ESRCH):
                raise
            return
