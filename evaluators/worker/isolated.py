"""Isolated runs of Python that nobody vouches for: a process of its own for each, confined like a candidate.

JSON lines on stdin, one answer a line on stdout. A request is `{"driver", "request", "files", "readable", "timeout_s",
"lock"}`: the source of a module whose `main(request)` is called with JSON and returns JSON; files written to a folder
that it may read (its place is `request["folder"]`); more folders it may read; its limit; how to hold the machine's
timing lock (`none`, `shared`, `alone`; a GPU's is held alone in any case). An answer is
`{"answer", "output", "wall_s"}`, `{"failure": {"status", "message", "log"}}` or `{"error": {"kind", "message"}}`;
before it may come asides (replies.py). What it answers and says is the untrusted code's word. It ends, and takes
everything it started and its folder with it, when stdin closes.
"""

import json
import os
import shutil
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from evaluators.worker import nvml, timing_lock, wire
from evaluators.worker.build import give_away
from evaluators.worker.build_cuda import cache_variables, extension_variables, toolkit_or_none
from evaluators.worker.ending import end_with_stdin
from evaluators.worker.failure import CandidateFailure, HarnessFault, SetupFault
from evaluators.worker.forge import Forge, import_folders
from evaluators.worker.removal import remove
from evaluators.worker.replies import ASIDE, SAID, WAITING, Replies
from evaluators.worker.sandbox import GPU_WORK_BYTES, WORK_BYTES, Plan
from evaluators.worker.status import Status
from evaluators.worker.timing_lock import held

_FILE_BYTES = 256 << 20
_OUTPUT_BYTES = 64 << 10
_ANSWER_BYTES = 8 << 20
_ANSWER_DEPTH = 100
"""Lists within lists in an answer: whoever reads it next has fewer frames left than we have."""
_PROCESSES = 256


class Isolator:
    """Runs drivers one after the other."""

    def __init__(
        self, replies: Replies, folder: Path, running: list[Forge], memory_bytes: int, device: str = ""
    ) -> None:
        """Start the zygote, and add it to `running`.

        `replies`: where asides go; `device`: the GPU that drivers may use, as CUDA_VISIBLE_DEVICES names it; empty:
        none. Raises HarnessFault, SetupFault when there is no such GPU.
        """
        self._replies, self._folder, self._memory_bytes, self._gpu = replies, folder, memory_bytes, ""
        if device:
            self._gpu = nvml.identity(device) or ""
            if not self._gpu:
                raise SetupFault(f"no GPU {device} was found, or its driver is missing: this task needs one")
        self._forge = Forge(folder, device)
        running.append(self._forge)
        self._forge.wait_ready()

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request. Raises CandidateFailure, HarnessFault."""
        name = os.urandom(6).hex()
        files, work = self._folder / f"files-{name}", self._folder / f"work-{name}"
        for folder in (files, work):
            folder.mkdir()
        try:
            for file, text in request["files"].items():
                (files / file).write_text(text)
            give_away(work)
            with self._turn(request["lock"]):
                return self._run(request, files, work)
        finally:
            shutil.rmtree(files)
            remove(work)

    def _turn(self, lock: str) -> AbstractContextManager[None]:
        if self._gpu:
            return held(alone=True, device=self._gpu)
        return nullcontext() if lock == "none" else held(alone=lock == "alone")

    def _pass_on(self, line: str) -> None:
        if line.startswith(SAID):
            self._replies.write({ASIDE: "said", "line": line.removeprefix(SAID)})

    def close(self) -> None:
        """End the zygote and what it forked."""
        self._forge.close()

    def _run(self, request: dict[str, Any], files: Path, work: Path) -> dict[str, Any]:
        readable = (str(files), sys.prefix, sys.base_prefix, *import_folders(), str(self._folder / "runner"))
        plan = Plan(
            work=str(work),
            readable=(*readable, *request["readable"]),
            keep_work=False,
            memory_bytes=None if self._gpu else self._memory_bytes,  # CUDA reserves huge ranges of addresses
            cpu_s=int(request["timeout_s"]) * (os.cpu_count() or 1) + 5,
            file_bytes=_FILE_BYTES,
            processes=_PROCESSES,
            shared_memory=True,
            gpu=bool(self._gpu),
            work_bytes=GPU_WORK_BYTES if self._gpu else WORK_BYTES,
        )
        variables = cache_variables(f"{work}/cache") | extension_variables(toolkit_or_none()) if self._gpu else {}
        asked = {**request["request"], "folder": str(files)}
        body = {"driver": request["driver"], "request": asked, "modules": str(files)}
        fds = [os.memfd_create(name, os.MFD_CLOEXEC) for name in ("question", "answer")]
        started = time.monotonic()
        child = self._forge.start(plan, _OUTPUT_BYTES, variables=variables, script=True)
        child.heard = self._pass_on
        try:
            with os.fdopen(os.dup(fds[0]), "wb") as file:
                file.write(json.dumps(body).encode())
            child.request(wire.LOAD, {}, started + request["timeout_s"], fds)
            child.end()  # With it all that it has printed is here.
            answer = _answer_in(fds[1], child.output())
        except CandidateFailure as failure:
            child.end()
            if failure.status is not Status.OUTPUT_LIMIT and child.output().startswith(failure.log):
                failure.log = child.output()  # Its log is what had been read by then, not words of its own.
            if failure.status is Status.TIMEOUT:
                failure.message = f"no end within {request['timeout_s']:g} s"
            raise
        finally:
            child.end()
            wire.close_all(fds)
        return {"answer": answer, "output": child.output(), "wall_s": time.monotonic() - started}


def _answer_in(fd: int, output: str) -> Any:
    size = os.fstat(fd).st_size
    if size > _ANSWER_BYTES:
        raise CandidateFailure(Status.OUTPUT_LIMIT, f"answered with more than {_ANSWER_BYTES >> 20} MiB", log=output)
    try:
        answer = json.loads(os.pread(fd, size, 0))
        json.dumps(answer, ensure_ascii=False).encode()  # Half a surrogate pair could not be written down.
    except (ValueError, RecursionError) as error:
        raise CandidateFailure(Status.RUNTIME_ERROR, f"its answer is not JSON: {error}", log=output) from error
    if _is_deep(answer):
        raise CandidateFailure(Status.RUNTIME_ERROR, "its answer is nested too deeply", log=output)
    return answer


def _is_deep(answer: Any) -> bool:
    """Return whether lists and dicts stand within each other more than so often."""
    layer = [answer]
    for _ in range(_ANSWER_DEPTH):
        outer = [item for item in layer if isinstance(item, list | dict)]
        layer = [item for held in outer for item in (held.values() if isinstance(held, dict) else held)]
    return any(isinstance(item, list | dict) for item in layer)


def _answer(isolator: Isolator, request: dict[str, Any]) -> dict[str, Any]:
    try:
        return isolator.run(request)
    except CandidateFailure as failure:
        return {"failure": {"status": failure.status, "message": failure.message, "log": failure.log}}
    except (HarnessFault, OSError) as error:
        return {"error": {"kind": "harness", "message": f"{error}"}}


def main() -> None:
    """Serve until stdin closes."""
    folder, memory_bytes, device = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else ""
    running = end_with_stdin(folder)
    replies = Replies()
    timing_lock.on_wait.append(lambda: replies.write(WAITING))
    folder.chmod(0o711)
    try:
        isolator = Isolator(replies, folder, running, memory_bytes, device)
    except SetupFault as error:
        for _ in sys.stdin:
            replies.write({"error": {"kind": "setup", "message": str(error)}})
        return
    for line in sys.stdin:
        replies.write(_answer(isolator, json.loads(line)))
    isolator.close()
    remove(folder)


if __name__ == "__main__":
    main()
