"""The supervisor's hold on its zygote: starts it, has it fork confined processes, collects how they ended."""

import json
import os
import select
import shutil
import socket
import subprocess
import sys
import time
import weakref
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evaluators.worker import descendants, wire
from evaluators.worker.child import Child
from evaluators.worker.failure import HarnessFault
from evaluators.worker.sandbox import Plan

RUNNER_MODULES = (
    "__init__",
    "calls",
    "cuda",
    "cuda_errors",
    "descendants",
    "device_view",
    "dtypes",
    "failure",
    "job",
    "landlock",
    "layout",
    "loading",
    "memory",
    "rules",
    "runner",
    "runner_cuda",
    "sandbox",
    "script",
    "seccomp",
    "source",
    "status",
    "syscalls",
    "warden",
    "wire",
    "zygote",
)
_START_S = 120.0
_FORK_S = 20.0
_REMEMBERED = 64
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Forge:
    """One zygote. Every method raises HarnessFault when it is broken; then only `close` is of use."""

    def __init__(self, folder: Path, device: str = "") -> None:
        """Start a zygote that sees only the runner's modules, copied below `folder`.

        `device`: the GPU that programs may see, as CUDA_VISIBLE_DEVICES names it; empty: none.
        """
        self._device = device
        self._own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._log = folder / "zygote.log"
        self._exits: dict[int, int] = {}
        self._ended: set[int] = set()
        self._children: weakref.WeakSet[Child] = weakref.WeakSet()
        self._last = 0
        library = _copy_modules(folder / "runner")
        environment = {
            **ONE_THREAD,
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join([str(library), *import_folders()]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "CUDA_VISIBLE_DEVICES": "",
        }
        if "LD_LIBRARY_PATH" in os.environ:
            environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-S", "-P", "-m", "evaluators.worker.zygote"),
                    *(str(theirs.fileno()), str(os.getpid()), "torch,triton" if device else "torch"),
                ],
                pass_fds=[theirs.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                start_new_session=True,
            )
        theirs.close()
        self._environment = environment
        self.namespaces = False
        self.user_namespace = False

    def wait_ready(self) -> None:
        """Wait until the zygote has imported torch."""
        ready = self._receive(_START_S)
        self.namespaces, self.user_namespace = ready["namespaces"], ready["user_namespace"]

    def start(
        self,
        plan: Plan,
        output_bytes: int,
        argv: list[str] | None = None,
        variables: dict[str, str] | None = None,
        *,
        script: bool = False,
    ) -> Child:
        """Return a new confined process: a runner, the program `argv`, or with `script` one for a single driver.

        `variables` join its environment.
        """
        self._last += 1
        self._drain()
        control, theirs = wire.pair()
        lifeline, their_lifeline = wire.pair()
        output, their_output = os.pipe()
        environment = {key: self._environment[key] for key in (*ONE_THREAD, "PATH", "LC_ALL")}
        environment |= {"HOME": plan.work, "TMPDIR": plan.work, **(variables or {})}
        environment["CUDA_VISIBLE_DEVICES"] = self._device if plan.gpu else ""
        request = {
            "id": self._last,
            "mode": "script" if script else "runner" if argv is None else "exec",
            "plan": asdict(plan),
            "argv": argv or [],
            "environment": environment,
        }
        fds = [theirs.fileno(), their_output, their_lifeline.fileno()]
        if not self.namespaces:
            lifeline.close()
        child = Child(self._last, control, output, lifeline if self.namespaces else None, self, output_bytes)
        try:
            wire.send_json(self._own, request, fds)
        except (BrokenPipeError, ConnectionResetError):
            child.close()
            raise self._broken() from None
        finally:
            theirs.close()
            their_lifeline.close()
            os.close(their_output)
        self._children.add(child)
        try:
            child.hello(_FORK_S)
        except HarnessFault:
            child.close()
            raise
        return child

    def exit_of(self, identity: int, patience_s: float) -> int | None:
        """Return how a process ended, None when it has not within `patience_s`."""
        deadline = time.monotonic() + patience_s
        while identity not in self._exits:
            if not self._collect(deadline):
                return None
        return self._exits[identity]

    def end(self, identity: int) -> None:
        """Kill a process and what it started (without PID namespaces)."""
        wire.send_json(self._own, {"end": identity})
        deadline = time.monotonic() + _FORK_S
        while identity not in self._ended or identity not in self._exits:
            if not self._collect(deadline):
                raise HarnessFault("a confined process does not end")

    def strays(self) -> set[int]:
        """Return the processes that descend from some confined process but from none that still runs."""
        known = {child.pid for child in self._children}
        found = descendants.below(self._process.pid) - known
        for pid in known:
            found -= descendants.below(pid)
        return found

    def abandon(self) -> None:
        """Kill the zygote and every confined process at once, from any thread, while others may be using them."""
        self._process.kill()
        for child in list(self._children):
            child.abandon()

    def close(self) -> None:
        """End the zygote and everything it forked."""
        self._own.close()
        self._process.kill()
        self._process.wait()

    def _drain(self) -> None:
        """Take what the zygote has reported, lest its socket fills up and it stalls; forget long-gone processes."""
        if self._process.poll() is not None:
            raise self._broken()
        while select.select([self._own], [], [], 0)[0]:
            self._take(self._receive(0))
        for identity in [identity for identity in self._exits if identity < self._last - _REMEMBERED]:
            del self._exits[identity]

    def _collect(self, deadline: float) -> bool:
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not select.select([self._own], [], [], remaining)[0]:
            return False
        self._take(self._receive(1.0))
        return True

    def _receive(self, patience_s: float) -> dict[str, Any]:
        if not select.select([self._own], [], [], patience_s)[0]:
            raise HarnessFault(f"the zygote does not answer: {self._tail()}")
        data = self._own.recv(wire.MAX_MESSAGE)
        if not data:
            raise self._broken()
        return dict(json.loads(data))

    def _take(self, message: dict[str, Any]) -> None:
        if "exit" in message:
            self._exits[message["id"]] = message["exit"]
        elif "ended" in message:
            self._ended.add(message["ended"])

    def _broken(self) -> HarnessFault:
        return HarnessFault(f"the zygote ended: {self._tail()}")

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-800:].strip() or "no output"


def import_folders() -> list[str]:
    """Return the folders of Python's modules that a program may read and import from: all but our own code's."""
    folders = [Path(path) for path in sys.path if path]
    return [str(path) for path in folders if not (path / "evaluators").is_dir() or (path / "torch").is_dir()]


def _copy_modules(folder: Path) -> Path:
    package = folder / "evaluators" / "worker"
    package.mkdir(parents=True, exist_ok=True)
    own = Path(__file__).parent
    (folder / "evaluators" / "__init__.py").write_text('"""Private copy."""\n')
    for name in RUNNER_MODULES:
        shutil.copyfile(own / f"{name}.py", package / f"{name}.py")
    return folder
