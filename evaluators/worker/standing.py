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
        all_stopped = descendants.await_stop(child.pid, patience_s)
        self._child, self._cpu_ns, until = child, child.cpu_ns_now(), time.monotonic() + patience_s
        while True:
            before, turns = self._cpu_ns, descendants.stopped_turns(child.pid)
            self._cpu_ns = child.cpu_ns_now()
            settled = self._cpu_ns == before
            if settled or time.monotonic() > until:
                break
        self._turns = turns if all_stopped and settled else {}

    def ran_ns(self) -> int:
        """Return for how long it has run since, nanoseconds; 0 when nobody can have continued it.

        A thread that had stopped may have been pushed off its processor just before it could leave it, and is given one
        again for that. Whoever continues a process, though, continues all of its threads. Where the kernel keeps no
        account of their turns, the clock decides.
        """
        ran_ns = self._child.cpu_ns_now() - self._cpu_ns
        if not ran_ns or not self._turns:
            return ran_ns
        still = self._turns.items() & descendants.stopped_turns(self._child.pid).items()
        return 0 if still else ran_ns
