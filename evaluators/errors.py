"""Errors, by consequence.

KsearchError                 the base: `str(error)` is one line that says what to do
├── UsageError               the caller's input is wrong (exit 2): task, option, file, key
│   └── TaskError            a task file or its reference is wrong: names file, key and reason
├── HarnessError             the system failed, never a candidate's fault (exit 1)
│   ├── InfrastructureError  evaluator or device: retried at most twice on fresh processes, then the run stops
│   └── StoreError           database, blob store or disk: the run stops and can be resumed after repair
└── ReplyError               a model's reply cannot be used: answered with a corrective turn

A candidate's failure is not an error: it is an `Evaluation` with a status.
"""


class KsearchError(RuntimeError):
    """Base of all errors that a person may see; the message is one line and says what to do.

    A RuntimeError because the LangGraph server tells its clients the words of few kinds of errors, this one among them.
    """


class UsageError(KsearchError):
    """The caller's input is wrong."""


class TaskError(UsageError):
    """A task cannot be used: names the file, the key and the reason."""


class HarnessError(KsearchError):
    """The system failed; never shown to a model as a candidate's fault."""


class InfrastructureError(HarnessError):
    """The evaluator or its device failed."""


class StoreError(HarnessError):
    """The database, the blob store or the disk failed."""


class ReplyError(KsearchError):
    """A model's reply cannot be used."""
