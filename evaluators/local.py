"""The evaluator of this machine: CPU programs, judged by a supervisor process."""

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluators.errors import InfrastructureError, TaskError
from evaluators.evaluation import Comparison, Effort, Environment, Evaluation
from evaluators.jobs import comparison, evaluation, job_data, reject_unsupported
from evaluators.protocols import PROTOCOLS
from evaluators.solution import Solution
from evaluators.task import Task
from evaluators.task_file import one_line
from evaluators.waiting import Waits
from evaluators.worker import gpus, launch
from evaluators.worker.failure import SetupFault
from evaluators.worker.removal import remove
from evaluators.worker.replies import ASIDE

MEMORY_BYTES = 4 << 30
_ATTEMPTS = 3
_LINE_BYTES = 64 << 20
_CLOSE_S = 10.0
_OWN_SIGNALS = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
"""What a process brings upon itself; whoever ends one from outside uses others."""


class LocalEvaluator:
    """Judges programs in confined processes of this machine, one job at a time. Use it from one event loop.

    One supervisor process serves the tasks of one device; a task of the other device replaces it.
    """

    def __init__(
        self,
        scratch: Path | None = None,
        *,
        memory_bytes: int = MEMORY_BYTES,
        rules_off: Sequence[str] = (),
        gpu: str | None = None,
    ) -> None:
        """Nothing starts until the first job.

        Args:
            scratch: Folder for private working folders, which are removed again (default: the system's temporary
                folder). Other users must be able to reach it, or programs keep this user's identity.
            memory_bytes: What a program may allocate on the CPU.
            gpu: The GPU for tasks with device `cuda`, as CUDA_VISIBLE_DEVICES names it (default: the first).
            rules_off: Integrity rules not to apply, for tests of the rules; every evaluation notes them.
        """
        self._scratch, self._memory_bytes, self._rules_off = scratch, memory_bytes, tuple(rules_off)
        self._gpu, self._device = gpus.visible() if gpu is None else gpu, ""
        self._folder: Path | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._busy = asyncio.Lock()
        self.waits = Waits()

    async def evaluate(
        self, task: Task, solution: Solution, effort: Effort, rival: Solution | None = None
    ) -> Evaluation:
        """Build, check and (by `effort`) time `solution`; with `rival`, interleave the two and fill versus_rival.

        Raises InfrastructureError when the machinery fails three times or the compiler is missing, TaskError when
        the task cannot be run here.
        """
        programs = [solution] if rival is None else [solution, rival]
        answer = await self._run(task, programs, effort)
        return evaluation(task, programs, effort, answer)

    async def compare(self, task: Task, solutions: Sequence[Solution], effort: Effort) -> Comparison:
        """Check every program and time those that pass in one interleaved run. Raises as `evaluate`."""
        return comparison(task, list(solutions), effort, await self._run(task, solutions, effort))

    def protocol(self, task: Task) -> str:
        """Return the timing protocol."""
        return PROTOCOLS[task.device]

    async def environment(self) -> Environment:
        """Return what figures measured here depend on. Raises InfrastructureError."""
        answer = await self._ask({"op": "environment"}, self._device)
        return Environment(**answer["environment"])

    async def close(self) -> None:
        """End the processes that this evaluator started and remove its scratch folder. It can be used again."""
        async with self._busy:
            await self._stop()

    async def _run(self, task: Task, programs: Sequence[Solution], effort: Effort) -> dict[str, Any]:
        reject_unsupported(task, programs)
        device = self._gpu if task.device == "cuda" else ""
        return await self._ask({"op": "run", "job": job_data(task, programs, effort, self._rules_off)}, device)

    async def _ask(self, request: dict[str, Any], device: str = "") -> dict[str, Any]:
        """Return the answer of the supervisor for `device`; a failed supervisor is replaced, at most twice."""
        problem = ""
        async with self._busy:
            if device != self._device:
                await self._stop()
                self._device = device
            for _ in range(_ATTEMPTS):
                answer = await self._ask_once(request)
                error = answer.get("error")
                if error is None:
                    return answer
                if error["kind"] == "task":
                    raise TaskError(one_line(error["message"]))
                problem = error["message"]
                await self._stop()
                if error["kind"] == "setup":
                    break
        raise InfrastructureError(problem)

    async def _ask_once(self, request: dict[str, Any]) -> dict[str, Any]:
        process = self._process if self._process is not None else await self._start()
        answer: dict[str, Any] = {}
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            await process.stdin.drain()
            line = await process.stdout.readline()
            while line and ASIDE in (answer := json.loads(line)):
                self.waits.hear(answer)
                line = await process.stdout.readline()
        except (BrokenPipeError, ConnectionResetError):
            line = b""
        except asyncio.CancelledError:
            await asyncio.shield(self._stop())
            raise
        if not line:
            code = await process.wait()
            tail = "no output" if self._folder is None else launch.log_tail(self._folder)
            message = f"the supervisor ended ({code}): {tail}"
            if "job" in request and (code >= 0 or -code in _OWN_SIGNALS):
                task = request["job"]["task"]
                if self._folder is not None and launch.went_on(self._folder):
                    await self._stop()
                    went_on = f"task {task['name']}: its reference went on after its limit of {task['timeout_s']:g} s"
                    return {"error": {"kind": "task", "message": went_on}}
                message += f"; the reference of task {task['name']} may have ended its process"
            return {"error": {"kind": "harness", "message": message}}
        return answer

    async def _start(self) -> asyncio.subprocess.Process:
        # Files and folders in another thread: an event loop that serves others must not wait for the disk.
        folder, environment = await asyncio.to_thread(_prepare, self._scratch, self._device)
        self._folder = folder
        with (folder / "supervisor.log").open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *launch.command(folder, self._memory_bytes, self._device),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                cwd=folder,
                env=environment,
                limit=_LINE_BYTES,
                start_new_session=True,
            )
        return self._process

    async def _stop(self) -> None:
        process, folder = self._process, self._folder
        self._process = self._folder = None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                await asyncio.wait_for(process.wait(), _CLOSE_S)
            except TimeoutError:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if folder is not None:
            await asyncio.to_thread(remove, folder)


def _prepare(scratch: Path | None, device: str) -> tuple[Path, dict[str, str]]:
    """Return a new folder for a supervisor and the supervisor's environment; blocks. Raises InfrastructureError."""
    try:
        return launch.prepare(scratch, launch.own_modules(), device)
    except SetupFault as error:
        raise InfrastructureError(str(error)) from error
