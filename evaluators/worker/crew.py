"""Several supervisors at work on one list of jobs: builds and checks go side by side, timing takes its lock."""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from evaluators.worker import launch
from evaluators.worker.removal import remove
from evaluators.worker.replies import ASIDE

_Done = SimpleQueue[tuple[int, Future[dict[str, Any]]]]
_ATTEMPTS = 3
_CLOSE_S = 10.0
_LOOK_S = 0.2
"""How often a crew looks whether it was told to stop: a signal handler that raises may do so anywhere."""


class Supervised:
    """A supervisor process that is started when it is first asked, and again when it has failed."""

    def __init__(
        self, modules: Mapping[str, bytes], memory_bytes: int, device: str = "", scratch: Path | None = None
    ) -> None:
        """`modules`: the code that it runs; `device`: its GPU, empty: none; `scratch`: where its folder goes."""
        self._modules, self._memory_bytes = modules, memory_bytes
        self._device, self._scratch = device, scratch
        self._process: subprocess.Popen[str] | None = None
        self._folder: Path | None = None
        self._stopped = False

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the supervisor's answer; when the machine fails three times, that of the last try, an `error`."""
        answer: dict[str, Any] = {}
        for _ in range(_ATTEMPTS):
            answer = self._ask_once(request)
            if "error" not in answer or answer["error"]["kind"] == "task":
                return answer
            self.close()
            if answer["error"]["kind"] == "setup" or self._stopped:
                break
        return answer

    def stop(self) -> None:
        """End the supervisor from another thread than the one that asks, which gets an error for its answer."""
        self._stopped = True
        process = self._process
        if process is not None and process.stdin is not None:
            process.stdin.close()

    def close(self) -> None:
        """End the supervisor with all that it started, and remove its folder."""
        process, folder = self._process, self._folder
        self._process = self._folder = None
        if process is not None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            try:
                process.wait(_CLOSE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        if folder is not None:
            remove(folder)

    def _ask_once(self, request: dict[str, Any]) -> dict[str, Any]:
        process, folder = self._started()
        if self._stopped:
            return {"error": {"kind": "harness", "message": "stopped"}}
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            # Of waits nothing is said: as a rule it is the crew's own others that are waited for.
            while line.endswith("\n") and ASIDE in line and ASIDE in json.loads(line):
                line = process.stdout.readline()
        except (BrokenPipeError, ConnectionResetError, ValueError):  # ValueError: `stop` has closed the pipe
            line = ""
        if line.endswith("\n"):
            return dict(json.loads(line))
        message = f"the supervisor ended ({process.wait()}): {launch.log_tail(folder)}"
        return {"error": {"kind": "harness", "message": message}}

    def _started(self) -> tuple[subprocess.Popen[str], Path]:
        if self._process is None or self._folder is None:
            self._folder, environment = launch.prepare(self._scratch, self._modules, self._device)
            with (self._folder / "supervisor.log").open("wb") as log:
                self._process = subprocess.Popen(
                    launch.command(self._folder, self._memory_bytes, self._device),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd=self._folder,
                    env=environment,
                    text=True,
                    start_new_session=True,
                )
        return self._process, self._folder


class Stopped(Exception):
    """The crew was told to stop."""


class Crew:
    """Supervisors that share work."""

    def __init__(self, supervisors: Sequence[Supervised]) -> None:
        """The caller makes them; `close` ends them."""
        self._all = tuple(supervisors)
        self._stopped = False
        self._idle: SimpleQueue[Supervised] = SimpleQueue()
        for supervisor in self._all:
            self._idle.put(supervisor)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return an idle supervisor's answer; waits for one."""
        supervisor = self._idle.get()
        try:
            return supervisor.ask(request)
        finally:
            self._idle.put(supervisor)

    def stop(self) -> None:
        """Have `ask_all` give up; may be called by a signal handler."""
        self._stopped = True

    def ask_all(self, requests: Sequence[dict[str, Any]], answered: Callable[[int, dict[str, Any]], None]) -> None:
        """Ask them all, as many at once as there are supervisors; `answered` is told one at a time, as they come.

        Raises Stopped, and whatever `answered` raises; what is under way is then ended.
        """
        done: _Done = SimpleQueue()
        with ThreadPoolExecutor(max_workers=len(self._all)) as threads:
            try:
                for number, request in enumerate(requests):
                    future = threads.submit(self.ask, request)
                    future.add_done_callback(partial(_put, done, number))
                for _ in requests:
                    number, future = self._next(done)
                    answered(number, future.result())
            except BaseException:  # raised again, Ctrl-C too: nothing is left running
                threads.shutdown(wait=False, cancel_futures=True)
                for supervisor in self._all:
                    supervisor.stop()
                raise

    def _next(self, done: _Done) -> tuple[int, Future[dict[str, Any]]]:
        while not self._stopped:
            try:
                return done.get(timeout=_LOOK_S)
            except Empty:
                continue
        raise Stopped

    def close(self) -> None:
        """End every supervisor."""
        for supervisor in self._all:
            supervisor.close()


def _put(done: _Done, number: int, future: Future[dict[str, Any]]) -> None:
    done.put((number, future))
