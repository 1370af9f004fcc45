"""What can go wrong below the evaluation record, by whose fault it is."""

from evaluators.worker.status import Status

NOT_GIVEN = "an answer came that the runner cannot have given"
_MEMORY_WORDS = ("MemoryError", "not enough memory", "can't allocate memory", "Cannot allocate memory", "out of memory")
"""What Python, torch, the C library and CUDA say when there is no memory left; torch has no exception for all of it."""


class CandidateFailure(Exception):
    """The candidate failed: becomes its verdict."""

    def __init__(self, status: Status, message: str, *, rule: str | None = None, log: str = "") -> None:
        """Keep what becomes the verdict; `rule` exactly when `status` is `integrity`."""
        super().__init__(message)
        self.status, self.message, self.rule, self.log = status, message, rule, log


def integrity(rule: str, message: str) -> CandidateFailure:
    """Return the failure of a candidate that broke an integrity rule."""
    return CandidateFailure(Status.INTEGRITY, message, rule=rule)


class TaskFault(Exception):
    """The task is wrong: its reference raises, or returns something other than the task declares."""


class HarnessFault(Exception):
    """The machinery failed: retried on a fresh supervisor, never shown as a candidate's fault."""


class SetupFault(HarnessFault):
    """This machine lacks something that a person must install: trying again does not help."""


def lacks_memory(error: BaseException | str) -> bool:
    """Return whether something failed for want of memory, by its exception or by what is kept of it: type and words."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return isinstance(error, MemoryError) or any(words in text for words in _MEMORY_WORDS)
