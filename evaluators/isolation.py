"""Running Python that nobody vouches for: in a confined process, with a limit, and what it answers is only its word."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evaluators.errors import InfrastructureError
from evaluators.local import MEMORY_BYTES
from evaluators.waiting import Waits
from evaluators.worker import gpus, launch
from evaluators.worker.failure import SetupFault
from evaluators.worker.removal import remove
from evaluators.worker.replies import ASIDE
from evaluators.worker.status import Status

_START_S = 150.0
"""What a first request may take on top of its limit: the processes start, torch is imported."""
_SLACK_S = 15.0
_WAIT_S = 1800.0
"""How long a request may wait for its turn on the machine."""
_STAGE = "at: "
Lock = Literal["none", "shared", "alone"]


class IsolatedFailure(Exception):
    """The isolated code failed; the message says how."""

    def __init__(self, status: Status, message: str, log: str) -> None:
        """Keep what an evaluation says of it."""
        super().__init__(message)
        self.status, self.message, self.log = status, message, log

    @property
    def stage(self) -> str:
        """What the driver said last that it was doing, in a line `at: ...` that it printed; empty when it said nothing.

        It is the isolated code's word, like all that it prints.
        """
        said = [line.removeprefix(_STAGE) for line in self.log.splitlines() if line.startswith(_STAGE)]
        return said[-1][:200] if said else ""


@dataclass(frozen=True)
class Answer:
    """What an isolated run returned (unverified JSON), what it printed (bounded), how long it took."""

    value: Any
    output: str
    wall_s: float


class Isolation:
    """A server of isolated runs, started by the first one. Not for two threads at a time."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES, gpu: str = "") -> None:
        """Nothing starts yet. `gpu`: the one that the code may use, as CUDA_VISIBLE_DEVICES names it; empty: none."""
        self._memory_bytes, self._gpu = memory_bytes, gpu
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._waits = Waits()

    def run(
        self,
        driver: str,
        request: Mapping[str, Any],
        *,
        files: Mapping[str, str] | None = None,
        readable: Sequence[Path] = (),
        timeout_s: float = 60.0,
        lock: Lock = "none",
        said: Callable[[str], None] | None = None,
    ) -> Answer:
        """Call `main(request)` of the module `driver` in a confined process.

        Args:
            driver: Source of the module; it is ours, what it imports and calls is not.
            request: JSON; its key `folder` is where `files` were written.
            files: Name -> text.
            readable: Further folders that may be read.
            timeout_s: Wall-clock limit, seconds.
            lock: How to hold the machine's timing lock: `alone` for what is timed, `shared` for what may not run
                beside that, `none` for what is short.
            said: Is told what the driver prints in lines that begin with SAID, each when it comes.

        Raises IsolatedFailure when the code fails, InfrastructureError when the machinery does.
        """
        body = {
            "driver": driver,
            "request": dict(request),
            "files": dict(files or {}),
            "readable": [str(path) for path in readable],
            "timeout_s": timeout_s,
            "lock": lock,
        }
        patience_s = (
            timeout_s + (_SLACK_S if lock == "none" else _WAIT_S) + (_START_S if self._process is None else 0.0)
        )
        answer = self._ask(body, patience_s, said)
        if "error" in answer:
            self.close()
            raise InfrastructureError(answer["error"]["message"])
        if "failure" in answer:
            failure = answer["failure"]
            raise IsolatedFailure(Status(failure["status"]), failure["message"], failure["log"])
        return Answer(answer["answer"], answer["output"], answer["wall_s"])

    def close(self) -> None:
        """End the processes. It can be used again."""
        process, folder = self._process, self._folder
        self._process = self._folder = None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
        if folder is not None:
            remove(folder)

    def _ask(self, body: Mapping[str, Any], patience_s: float, said: Callable[[str], None] | None) -> dict[str, Any]:
        process = self._process if self._process is not None else self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(body).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._ended()
        for line in _lines(process, time.monotonic() + patience_s):
            answer = dict(json.loads(line))
            if ASIDE not in answer:
                return answer
            self._waits.hear(answer)
            if said is not None and "line" in answer:
                said(answer["line"])
        return self._ended()

    def _ended(self) -> dict[str, Any]:
        log = self._folder / "isolated.log" if self._folder is not None else None
        text = log.read_text(errors="replace").strip()[-800:] if log is not None and log.is_file() else ""
        return {
            "error": {"kind": "harness", "message": f"the isolated runs' server gave no answer: {text or 'no log'}"}
        }

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            self._folder, environment = launch.prepare(None, launch.own_modules(), self._gpu)
        except SetupFault as error:
            raise InfrastructureError(str(error)) from error
        module = ("-S", "-P", "-m", "evaluators.worker.isolated", str(self._folder), str(self._memory_bytes))
        gpu = [self._gpu] if self._gpu else []
        with (self._folder / "isolated.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, *module, *gpu],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._folder,
                env=environment,
                start_new_session=True,
            )
        return self._process


class Isolations:
    """Servers of isolated runs, one for each device of tasks. Not for two threads at a time."""

    def __init__(self) -> None:
        """Nothing starts yet."""
        self._servers: dict[str, Isolation] = {}

    def of(self, device: str) -> Isolation:
        """Return the server for tasks of a device: with a GPU in sight when that is `cuda`."""
        if device not in self._servers:
            self._servers[device] = Isolation(gpu=gpus.visible() if device == "cuda" else "")
        return self._servers[device]

    def close(self) -> None:
        """End their processes. They can be used again."""
        for server in self._servers.values():
            server.close()


def _lines(process: subprocess.Popen[bytes], deadline: float) -> Iterator[bytes]:
    """Yield whole lines as they come, until the deadline or the end of the process."""
    assert process.stdout is not None
    found = bytearray()
    while (remaining := deadline - time.monotonic()) > 0:
        if not select.select([process.stdout], [], [], remaining)[0]:
            return
        data = os.read(process.stdout.fileno(), 1 << 20)
        if not data:
            return
        found += data
        if b"\n" in data:
            *lines, found = found.split(b"\n")
            yield from map(bytes, lines)


@contextlib.contextmanager
def isolation(memory_bytes: int = MEMORY_BYTES, gpu: str = "") -> Iterator[Isolation]:
    """Hold a server of isolated runs for a while."""
    server = Isolation(memory_bytes, gpu)
    try:
        yield server
    finally:
        server.close()
