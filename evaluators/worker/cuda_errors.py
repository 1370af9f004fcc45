"""From the names and words of CUDA errors to what became of the program."""

from evaluators.worker.failure import CandidateFailure
from evaluators.worker.status import Status

_BY_WORD: tuple[tuple[str, Status, str], ...] = (
    ("out of memory", Status.OUT_OF_MEMORY, "out of device memory"),
    ("OUT_OF_MEMORY", Status.OUT_OF_MEMORY, "out of device memory"),
    ("illegal memory access", Status.ILLEGAL_ACCESS, "a kernel accessed memory that it may not"),
    ("ILLEGAL_ADDRESS", Status.ILLEGAL_ACCESS, "a kernel accessed memory that it may not"),
    ("misaligned address", Status.ILLEGAL_ACCESS, "a kernel accessed a misaligned address"),
    ("MISALIGNED_ADDRESS", Status.ILLEGAL_ACCESS, "a kernel accessed a misaligned address"),
    ("INVALID_ADDRESS_SPACE", Status.ILLEGAL_ACCESS, "a kernel used an address of the wrong kind"),
    ("device-side assert", Status.RUNTIME_ERROR, "an assertion failed in a kernel"),
    ("CUDA_ERROR_ASSERT", Status.RUNTIME_ERROR, "an assertion failed in a kernel"),
    ("invalid configuration", Status.LAUNCH_ERROR, "a kernel was launched with an impossible grid or block"),
    ("invalid argument", Status.LAUNCH_ERROR, "a kernel was launched with invalid arguments"),
    ("out of resource", Status.LAUNCH_ERROR, "a kernel needs more shared memory or registers than there are"),
    ("too many resources", Status.LAUNCH_ERROR, "a kernel needs more registers or threads than there are"),
    ("launch failure", Status.RUNTIME_ERROR, "a kernel failed while it ran"),
    ("LAUNCH_FAILED", Status.RUNTIME_ERROR, "a kernel failed while it ran"),
    ("no kernel image", Status.LAUNCH_ERROR, "the program was built for another architecture"),
)


def status_of(text: str) -> Status | None:
    """Return the status that an error's words stand for, None when they are not about a device."""
    return next((status for word, status, _ in _BY_WORD if word in text), None)


def failure_of(name: str, *, launching: bool) -> CandidateFailure:
    """Return the failure of a program after the driver (or the runtime, when `launching`) said `name`."""
    found = next(((status, words) for word, status, words in _BY_WORD if word in name), None)
    if found is None:
        found = (Status.LAUNCH_ERROR, "a kernel could not be launched") if launching else (Status.RUNTIME_ERROR, "")
    status, words = found
    return CandidateFailure(status, f"{words} ({name})" if words else name)
