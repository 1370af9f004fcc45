"""Whether a process that has been stopped stands still."""

import time

from evaluators.worker import descendants
from evaluators.worker.child import Child


class Standing:
    """Where a process that has been stopped stands."""

    def __init__(self, child: Child, patience_s: float) -> None:
        """Wait until all of its threads have stopped and two readings of its clock agree, or so long.

        Raises CandidateFailure when it has ended.
        """
        descendants.await_stop(child.pid, patience_s)
        self._child, self._cpu_ns, until = child, child.cpu_ns_now(), time.monotonic() + patience_s
        while True:
            before, self._turns = self._cpu_ns, self._turns_now()
            self._cpu_ns = child.cpu_ns_now()
            if self._cpu_ns == before or time.monotonic() > until:
                return

    def ran_ns(self) -> int:
        """Return for how long it has run since, nanoseconds.

        The clock of a thread that is on its way off a processor may be brought up to date only later: none was given a
        processor since, then. Where the kernel keeps no account of that, the clock decides.
        """
        ran_ns = self._child.cpu_ns_now() - self._cpu_ns
        return 0 if ran_ns and self._turns and self._turns == self._turns_now() else ran_ns

    def _turns_now(self) -> dict[int, int]:
        """Return how often each thread was given a processor."""
        accounts = descendants.thread_schedules(self._child.pid)
        return {tid: account.turns for tid, account in accounts.items()}
