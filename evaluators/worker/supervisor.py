"""The supervisor: the trusted process between ksearch and the candidates.

JSON lines on stdin, one answer a line on stdout: `{"op": "environment"}`, `{"op": "run", "job": {...}}`. An answer is
`{"environment"}`, `{"verdict", "environment"}` or `{"error": {"kind": "task" | "setup" | "harness", "message"}}`;
before it may come asides (replies.py). It ends, and takes everything it started and its scratch folder with it, when
stdin closes.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch

from evaluators.worker import host, syscalls, timing_lock
from evaluators.worker.assess import Assessor
from evaluators.worker.bench import Bench
from evaluators.worker.bench_cpu import CpuBench
from evaluators.worker.build import compiler_version, give_away
from evaluators.worker.ending import end_with_stdin
from evaluators.worker.failure import HarnessFault, SetupFault, TaskFault
from evaluators.worker.forge import Forge
from evaluators.worker.job import Job, decode, encode
from evaluators.worker.replies import WAITING, Replies
from evaluators.worker.returned import readable
from evaluators.worker.sandbox import LAYERS, Plan
from evaluators.worker.session import Workshop
from evaluators.worker.untimed import judge_untimed


class Supervisor:
    """Owns the zygote and the workshop."""

    def __init__(self, forge: Forge, folder: Path, memory_bytes: int, device: str) -> None:
        """Wait for the zygote and find out what the host's sandbox can do. Raises HarnessFault."""
        self._forge = forge
        self._facts = {"device": host.processor(), "compiler": compiler_version(), "driver": "", "triton": ""}
        bench: Bench = CpuBench()
        capability = (0, 0)
        if device:
            from evaluators.worker import supervisor_cuda

            bench, capability, self._facts = supervisor_cuda.start()
            memory_bytes = bench.limits.program_bytes
        self._forge.wait_ready()
        layers, reads_results = confined(self._forge, folder)
        self.layers = (
            *(("user_namespace",) if self._forge.user_namespace else ()),
            *(("pid_namespace",) if self._forge.namespaces else ()),
            *layers,
        )
        self._results = "" if device else "read" if reads_results else "copied"
        self._assessor = Assessor(Workshop(self._forge, folder, memory_bytes, layers, reads_results), bench, capability)

    def environment(self) -> dict[str, Any]:
        """Return what figures measured here depend on."""
        return {
            **self._facts,
            "torch": torch.__version__,
            "threads": 1,
            "results": self._results,
            "sandbox": [name for name in LAYERS if name in self.layers],
        }

    def run_job(self, job: dict[str, Any]) -> dict[str, Any]:
        """Return the verdict on a job, both as plain JSON data. Raises TaskFault, HarnessFault."""
        return encode(self._assessor.run(decode(Job, job)))

    def run_untimed(self, job: dict[str, Any], arch: str) -> dict[str, Any]:
        """Return what can be told of a job's programs without a GPU. Raises TaskFault, HarnessFault."""
        return encode(judge_untimed(self._assessor.shop, decode(Job, job), arch))

    def close(self) -> None:
        """End the zygote and all that it forked."""
        self._forge.close()


def confined(forge: Forge, folder: Path) -> tuple[tuple[str, ...], bool]:
    """Start a process to see what this host allows: the sandbox layers it has, and whether its memory may be read."""
    work = folder / "probe"
    work.mkdir()
    give_away(work)
    child = forge.start(Plan(str(work), tuple(sys.path), False, 1 << 30, 60, 1 << 20, 16), 1 << 16)
    try:
        return child.layers, readable(child.pid)
    finally:
        child.end()


def _answer(supervisor: Supervisor, request: dict[str, Any]) -> dict[str, Any]:
    try:
        if request["op"] == "environment":
            return {"environment": supervisor.environment()}
        if request["op"] == "untimed":
            verdict = supervisor.run_untimed(request["job"], request["arch"])
            return {"verdict": verdict, "environment": supervisor.environment()}
        return {"verdict": supervisor.run_job(request["job"]), "environment": supervisor.environment()}
    except TaskFault as error:
        return {"error": {"kind": "task", "message": str(error)}}
    except SetupFault as error:
        return {"error": {"kind": "setup", "message": str(error)}}
    except (HarnessFault, OSError) as error:
        return {"error": {"kind": "harness", "message": f"{error}"}}


def main() -> None:
    """Serve until stdin closes."""
    folder, memory_bytes, device = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else ""
    torch.set_num_threads(1)
    # Expected values are in this memory: a program that runs as the same user must not be able to read it.
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    running = end_with_stdin(folder)
    replies = Replies()
    timing_lock.on_wait.append(lambda: replies.write(WAITING))
    folder.chmod(0o711)
    running.append(Forge(folder, device))
    try:
        supervisor = Supervisor(running[0], folder, memory_bytes, device)
    except SetupFault as error:
        _refuse(replies, str(error))
        running[0].close()
        return
    for line in sys.stdin:
        replies.write(_answer(supervisor, json.loads(line)))
    supervisor.close()


def _refuse(replies: Replies, message: str) -> None:
    """Give every request the same answer: this machine lacks something."""
    for _ in sys.stdin:
        replies.write({"error": {"kind": "setup", "message": message}})


if __name__ == "__main__":
    main()
