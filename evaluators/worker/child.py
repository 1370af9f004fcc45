"""The supervisor's side of one confined process: requests, deadlines, its clock, its end."""

import json
import os
import secrets
import select
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn, Protocol

from evaluators.worker import descendants, warden, wire
from evaluators.worker.failure import NOT_GIVEN, CandidateFailure, HarnessFault
from evaluators.worker.rules import CHANNEL, OUTPUT_TYPE
from evaluators.worker.status import Status

_END_S = 10.0
_SLEEP_NS, _NAP_S = 20_000_000, 20e-6
_EXIT_REPORT_S = 2.0
_TOLD = frozenset(Status) - {Status.PASSED, Status.NOT_TIMED, Status.INFRASTRUCTURE, Status.TIMEOUT, Status.CRASHED}
"""What a program's own process may say that became of it."""
_POLL_S = 3600.0
"""A poll's limit is a number of 32 bits, of milliseconds: of 24 days."""


class Reaper(Protocol):
    """Whoever forked the process and collects it."""

    def exit_of(self, identity: int, patience_s: float) -> int | None:
        """Return how the process ended (negative: the signal), None when it has not within `patience_s`."""
        ...

    def end(self, identity: int) -> None:
        """Kill the process and all that it started; return when they are gone."""
        ...

    def strays(self) -> set[int]:
        """Return the processes that descend from some confined process but from none that still runs."""
        ...


class Child:
    """One confined process. Not reusable after `end`."""

    def __init__(
        self,
        identity: int,
        control: socket.socket,
        output: int,
        lifeline: socket.socket | None,
        reaper: Reaper,
        output_bytes: int,
    ) -> None:
        """Take over the supervisor's ends. `lifeline` None: no PID namespace holds the process."""
        self.identity = identity
        self._control, self._output, self._lifeline, self._reaper = control, output, lifeline, reaper
        self._output_cap, self._captured = output_bytes, bytearray()
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._poll.register(output, select.POLLIN)
        self._ended = False
        self.holder = 0
        self.pid = 0
        self._handle = self._status = self._process = -1
        self._answered, self._switches = True, 0
        self.heard: Callable[[str], None] | None = None
        """Is told each line of the output while an answer is waited for."""
        self._told = 0
        self.layers: tuple[str, ...] = ()

    def hello(self, patience_s: float) -> None:
        """Wait until the process is confined. Raises HarnessFault when it does not come up."""
        if self._lifeline is not None:
            self._lifeline.settimeout(patience_s)
            self.holder = wire.receive(self._lifeline).pid
            if self.holder:
                # Held from now on: a process id could be another process' by the time it is needed.
                self._handle = os.pidfd_open(self.holder)
        message = self._next(time.monotonic() + patience_s)
        if message is None or not message.data:
            raise HarnessFault(f"a confined process did not start: {self.output() or 'no output'}")
        self._status = os.open(f"/proc/{message.pid}/status", os.O_RDONLY | os.O_CLOEXEC)
        self._process = os.pidfd_open(message.pid)
        self.pid, self.layers = message.pid, tuple(json.loads(message.data)["layers"])

    def request(
        self, op: int, body: dict[str, Any], deadline: float, fds: list[int] | None = None, *, awake_s: float = 0.0
    ) -> dict[str, Any]:
        """Make a request and return the data of its answer. Raises CandidateFailure. `awake_s`: as for `call`."""
        nonce = secrets.token_bytes(wire.NONCE_BYTES)
        data = self._exchange(wire.pack_json(op, nonce, body), nonce, deadline, fds or [], awake_s)
        return self._decoded(data or b"{}")

    def call(
        self, case: int, slots: list[int], deadline: float, op: int = wire.CALL, *, awake_s: float = 0.0
    ) -> list[int]:
        """Have the program called on `slots`, in this order; return the addresses that it answers, if any.

        Raises CandidateFailure.

        For `awake_s` the answer is waited for without sleeping: to be woken takes some 50 us, now more, now less.
        """
        nonce = secrets.token_bytes(wire.NONCE_BYTES)
        body = self._exchange(wire.pack_call(op, nonce, case, slots), nonce, deadline, [], awake_s)
        if not body:
            return []
        try:
            return wire.unpack_addresses(body)
        except ValueError:
            self._forged(NOT_GIVEN)

    def stop(self) -> bool:
        """Let none of its threads run until `go_on`; return whether there is still a process.

        Whatever else there is in its sandbox is stopped for good: nothing that is timed may have children.
        """
        try:
            if self._lifeline is not None:
                self._lifeline.send(warden.STOP)
                return bool(self._lifeline.recv(32))
            signal.pidfd_send_signal(self._process, signal.SIGSTOP)
        except (ProcessLookupError, BrokenPipeError, ConnectionResetError):
            return False
        return True

    def go_on(self) -> None:
        """Let it run again."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._process, signal.SIGCONT)

    def cpu_ns(self) -> int:
        """Return the processor time that all threads of the process have used, nanoseconds.

        The kernel brings another process' clock up to date only when it stops running or at a timer tick. Right after
        an answer the process is still on its way to sleep, so this waits (20 ms at most) for it to get there: until it
        sleeps and its count of voluntary switches has grown since the request. It does so asleep itself, lest it keep
        the process off the processor that they may share.
        """
        if self._answered:
            self._answered = False
            until = time.perf_counter_ns() + _SLEEP_NS
            while self._voluntary_switches() <= self._switches and time.perf_counter_ns() < until:
                time.sleep(_NAP_S)
        return self.cpu_ns_now()

    def cpu_ns_now(self) -> int:
        """Return the same without waiting: exact when the process does not run, as when both share a processor."""
        try:
            return time.clock_gettime_ns((~self.pid << 3) | 2)
        except OSError:
            # It ended after its answer.
            self._gone()

    def _voluntary_switches(self) -> int:
        """Return the count, negative unless the process sleeps."""
        try:
            text = os.pread(self._status, 4096, 0)
        except ProcessLookupError:
            return 0
        place = text.find(b"\nvoluntary_ctxt_switches:")
        count = int(text[place + 25 :].split(None, 1)[0])
        return count if b"\nState:\tS" in text else -count

    def others(self, *, alone: bool) -> int:
        """Return how many processes besides the runner are alive in its sandbox.

        Without a PID namespace, orphans can be told apart from another program's only when this one runs `alone`.
        """
        inside = descendants.below(self.pid) | (descendants.below(self.holder) - {self.pid} if self.holder else set())
        if not self.holder and alone:
            inside |= self._reaper.strays()
        if self.holder:
            inside |= descendants.in_namespace_of(self.holder) - {self.holder, self.pid}
        return len(inside)

    def newest(self) -> int | None:
        """Return the number that the newest process or thread in the sandbox was given: it grows with each one.

        None without a PID namespace, or when its holder does not tell.
        """
        if self._lifeline is None:
            return None
        try:
            self._lifeline.send(b"?")
            told = self._lifeline.recv(32)
        except OSError:
            return None
        return int(told) if told.isdigit() else None

    def output(self) -> str:
        """Return what the program has printed so far, bounded."""
        return self._captured[-self._output_cap :].decode(errors="replace")

    def wait_exit(self, deadline: float) -> int:
        """Wait until the process has ended and return how (negative: the signal). Raises CandidateFailure."""
        while True:
            message = self._next(deadline)
            if message is None:
                raise CandidateFailure(Status.TIMEOUT, "no end in time", log=self.output())
            if not message.data:
                self._drain_rest(deadline)
                code = self._reaper.exit_of(self.identity, max(0.0, deadline - time.monotonic()))
                if code is None:
                    raise CandidateFailure(Status.TIMEOUT, "no end in time", log=self.output())
                return code

    def end(self) -> None:
        """Kill the process and everything in its sandbox; return when all of it is gone. Raises HarnessFault."""
        if self._ended:
            return
        self._ended = True
        if self._handle >= 0:
            self._kill_holder()
            if not select.select([self._handle], [], [], _END_S)[0]:
                raise HarnessFault(f"a confined process survives SIGKILL for {_END_S:.0f} s")
        else:
            self._reaper.end(self.identity)
        self._drain_now()
        self.close()

    def close(self) -> None:
        """Give up the supervisor's ends; where a PID namespace holds the process, this ends it in a while."""
        self._ended = True
        self._control.close()
        os.close(self._output)
        for fd in (self._status, self._process, self._handle):
            if fd >= 0:
                os.close(fd)
        if self._lifeline is not None:
            self._lifeline.close()

    def abandon(self) -> None:
        """Send the kill without waiting for its effect."""
        if not self._ended and self._handle >= 0:
            self._kill_holder()

    def _kill_holder(self) -> None:
        try:
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        except ProcessLookupError:
            return

    def _exchange(self, message: bytes, nonce: bytes, deadline: float, fds: list[int], awake_s: float = 0.0) -> bytes:
        self._switches = abs(self._voluntary_switches())
        try:
            socket.send_fds(self._control, [message], fds)
        except (BrokenPipeError, ConnectionResetError):
            self._gone()
        answer = self._next(deadline, time.monotonic() + awake_s)
        self._answered = True
        if answer is None:
            raise CandidateFailure(Status.TIMEOUT, "no answer in time", log=self.output())
        if not answer.data:
            self._gone()
        return self._accept(answer, nonce)

    def _accept(self, answer: wire.Received, nonce: bytes) -> bytes:
        """Return the data of an answer. Raises CandidateFailure when that is a failure, or no answer."""
        head, body = answer.data[: wire.NONCE_BYTES], answer.data[wire.NONCE_BYTES :]
        if head != nonce or answer.pid != self.pid:
            self._forged("an answer came that the runner did not give")
        if not body.startswith(wire.FAILED):
            return body
        told = self._decoded(body.removeprefix(wire.FAILED))
        status, rule = told.get("status"), told.get("rule")
        known = isinstance(status, str) and status in _TOLD and rule in (None, OUTPUT_TYPE)
        if not known or (rule is not None) != (status == Status.INTEGRITY):
            self._forged(NOT_GIVEN)
        message, log = plain(told.get("message"), 1000), plain(told.get("log"), 4000)
        raise CandidateFailure(Status(str(status)), message, rule=rule, log=log)

    def _decoded(self, body: bytes) -> dict[str, Any]:
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            self._forged(NOT_GIVEN)
        if not isinstance(data, dict):
            self._forged(NOT_GIVEN)
        return data

    def _forged(self, message: str) -> NoReturn:
        raise CandidateFailure(Status.INTEGRITY, message, rule=CHANNEL, log=self.output())

    def _gone(self) -> NoReturn:
        code = self._reaper.exit_of(self.identity, _EXIT_REPORT_S)
        self._drain_now()
        if code is None:
            self._forged("the program closed the runner's channel")
        raise crash(code, self.output())

    def _next(self, deadline: float, awake_until: float = 0.0) -> wire.Received | None:
        """Return the next control message (empty data: closed), None at the deadline; drain output meanwhile."""
        while True:
            now = time.monotonic()
            remaining = deadline - now
            if remaining <= 0:
                return None
            ready = {fd for fd, _ in self._poll.poll(0 if now < awake_until else min(remaining, _POLL_S) * 1000)}
            if self._control.fileno() in ready:
                try:
                    received = wire.receive(self._control)
                except ConnectionResetError:
                    return wire.Received(b"", 0, [])
                # No runner sends any: what keeps them open would keep what they hold.
                wire.close_all(received.fds)
                return received._replace(fds=[])
            if self._output in ready:
                self._drain()

    def _drain(self) -> None:
        data = os.read(self._output, 65536)
        if not data:
            self._poll.unregister(self._output)
        self._captured += data
        if len(self._captured) > self._output_cap:
            message = f"printed more than {self._output_cap // 1024} KiB"
            raise CandidateFailure(Status.OUTPUT_LIMIT, message, log=self.output()[:2000])
        if self.heard is not None:
            *lines, rest = self._captured[self._told :].split(b"\n")
            self._told = len(self._captured) - len(rest)
            for line in lines:
                self.heard(line.decode(errors="replace"))

    def _drain_rest(self, deadline: float) -> None:
        while time.monotonic() < deadline and select.select([self._output], [], [], deadline - time.monotonic())[0]:
            data = os.read(self._output, 65536)
            if not data:
                return
            self._captured = (self._captured + data)[: self._output_cap]

    def _drain_now(self) -> None:
        while select.select([self._output], [], [], 0)[0]:
            data = os.read(self._output, 65536)
            self._captured = (self._captured + data)[: self._output_cap]
            if not data or len(self._captured) >= self._output_cap:
                return


def crash(code: int, output: str) -> CandidateFailure:
    """Return the failure of a process that ended by itself with `code` (negative: the signal)."""
    if code < 0:
        name = signal.Signals(-code).name
        if "std::bad_alloc" in output:
            return CandidateFailure(Status.OUT_OF_MEMORY, f"std::bad_alloc, ended by {name}", log=output)
        hint = " (out of processor time or memory)" if -code == signal.SIGKILL else ""
        return CandidateFailure(Status.CRASHED, f"ended by {name}{hint}", log=output)
    return CandidateFailure(Status.CRASHED, f"exited with code {code} before it answered", log=output)


def plain(text: object, most: int) -> str:
    """Return what a program's process said as text that can be written everywhere, cut."""
    return str(text)[:most].encode("utf-8", "replace").decode()
