"""What can go wrong below the evaluation record, by whose fault it is."""

from evaluators.worker.status import Status

NOT_GIVEN = "an answer came that the runner cannot have given"


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
