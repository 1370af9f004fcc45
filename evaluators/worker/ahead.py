"""The build stage of Triton programs: their kernels are compiled before a GPU is held, into the program's own cache."""

import json
import os
import sys
import time
from pathlib import Path

from evaluators.worker import wire
from evaluators.worker.build import Built, give_away
from evaluators.worker.failure import CandidateFailure
from evaluators.worker.forge import Forge, import_folders
from evaluators.worker.job import Case, TaskSpec
from evaluators.worker.sandbox import GPU_WORK_BYTES, Plan

AHEAD_S = 60.0
_MEMORY_BYTES, _FILE_BYTES, _OUTPUT_BYTES, _PROCESSES = 8 << 30, 512 << 20, 64 << 10, 64
_DRIVER = Path(__file__).with_name("ahead_driver.py")


def compile_ahead(
    forge: Forge, task: TaskSpec, built: Built, cases: list[Case], capability: tuple[int, int], folder: Path
) -> str:
    """Compile the kernels that `built` launches on `cases`; return a note on what was compiled.

    Whatever goes wrong is left to the program's first call, which says so better.
    """
    work = folder / "ahead"
    work.mkdir()
    give_away(work)
    readable = (built.folder, sys.prefix, sys.base_prefix, *import_folders(), str(folder.parent.parent / "runner"))
    plan = Plan(
        work=str(work),
        readable=readable,
        keep_work=False,
        memory_bytes=_MEMORY_BYTES,
        cpu_s=int(AHEAD_S),
        file_bytes=_FILE_BYTES,
        processes=_PROCESSES,
        work_bytes=GPU_WORK_BYTES,
        writable=(built.cache,),
    )
    arguments = [_arguments(task, case, dps=built.binding == "dps") for case in cases]
    request = {"path": built.path, "entry_point": built.entry_point, "capability": capability, "cases": arguments}
    fds = [os.memfd_create(name, os.MFD_CLOEXEC) for name in ("question", "answer")]
    child = None
    try:
        with os.fdopen(os.dup(fds[0]), "wb") as file:
            file.write(json.dumps({"driver": _DRIVER.read_text(), "request": request}).encode())
        child = forge.start(plan, _OUTPUT_BYTES, variables=built.variables, script=True)
        child.request(wire.LOAD, {}, time.monotonic() + AHEAD_S, fds)
        found = json.loads(os.pread(fds[1], 1 << 16, 0))
        problems = "".join(f"; {words}" for words in found["problems"])
        return f"compiled ahead: {found['compiled']} kernels{problems}"[:600]
    except (CandidateFailure, ValueError, KeyError, TypeError) as error:
        return f"compiled ahead: nothing ({error})"[:600]
    finally:
        if child is not None:
            child.end()
        wire.close_all(fds)


def _arguments(task: TaskSpec, case: Case, *, dps: bool) -> list[dict[str, object]]:
    """Return what the entry point is called with, as shapes and types."""
    called = (*task.inputs, *task.outputs) if dps else task.inputs
    return [
        {
            "dtype": one.dtype,
            "shape": None if one.shape is None else [case.axes[axis] for axis in one.shape],
        }
        for one in called
    ]
