"""What can be told of a GPU program without a GPU: whether it builds, what its kernels use, whether it is right.

Triton programs are compiled for a named architecture (nothing is launched), then run by Triton's interpreter on the
smallest workloads and checked like any program. CUDA programs are compiled by nvcc. No figure of time comes of it, and
no verdict on integrity: a GPU judges that.
"""

import dataclasses
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluators.worker import rules
from evaluators.worker.bench_cpu import CpuBench
from evaluators.worker.build import Built, give_away, write_source
from evaluators.worker.build_cuda import compile_cuda
from evaluators.worker.check import Checks, check
from evaluators.worker.failure import CandidateFailure
from evaluators.worker.forge import import_folders
from evaluators.worker.job import Case, CaseVerdict, Job, Program, ProgramVerdict, TaskSpec, Verdict
from evaluators.worker.kernels import kernel_line, kernels_of
from evaluators.worker.layout import lay_out
from evaluators.worker.oracle import Oracle
from evaluators.worker.removal import remove
from evaluators.worker.sandbox import Plan
from evaluators.worker.session import Workshop
from evaluators.worker.status import Status

COMPILE_S = 180
_MOST_CASES = 3
_MOST_BYTES = 16 << 20
"""Workloads above this are left out of the check, but for the smallest: the interpreter takes a millisecond a block."""
_MEMORY_BYTES, _FILE_BYTES, _PROCESSES, _OUTPUT_BYTES = 16 << 30, 512 << 20, 64, 64 << 10
_STAND_IN = "triton_stand_in"
_INTERPRETED = """import os, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import {stand_in}
{entry_point} = {stand_in}.interpret(os.path.join(sys.path[0], {main!r}), {entry_point!r}, {arch})
"""
_COMPILED = """import sys
sys.path[:0] = {places!r}
import {stand_in}
try:
    {stand_in}.compile_only({path!r}, {entry_point!r}, {arch}, {arguments!r}, "report.json")
except BaseException as error:
    import traceback
    lines = traceback.format_exception(error)
    sys.stderr.write("".join(lines)[-6000:])
    sys.stderr.write("\\nksearch: " + type(error).__name__ + ": " + " ".join(str(error).split())[:800] + "\\n")
    sys.exit(1)
"""


def judge_untimed(shop: Workshop, job: Job, arch: str) -> Verdict:
    """Return what can be told of every program of a job. `arch`: such as `sm_90a`. Raises TaskFault, HarnessFault."""
    folder = shop.new_folder(f"job-{os.urandom(6).hex()}")
    try:
        task = _for_cpu(job.task)
        verdicts = []
        for number, program in enumerate(job.programs):
            started = time.monotonic()
            verdict = _One(shop, task, program, arch, shop.new_folder(f"{folder.name}/{number}")).verdict()
            verdicts.append(dataclasses.replace(verdict, wall_s=time.monotonic() - started))
        return Verdict(tuple(verdicts), ())
    finally:
        remove(folder, *shop.folder.glob("run-*"))


class _One:
    """One program."""

    def __init__(self, shop: Workshop, task: TaskSpec, program: Program, arch: str, folder: Path) -> None:
        self._shop, self._task, self._program, self._arch, self._folder = shop, task, program, arch, folder
        self._number = int("".join(mark for mark in arch if mark.isdigit()))
        self._notes: list[str] = []
        self._cases: list[CaseVerdict] = []
        self._tier = "none"
        self._build_s = 0.0

    def verdict(self) -> ProgramVerdict:
        """Build, and check what can be checked."""
        log = ""
        try:
            started = time.monotonic()
            log = self._build()
            self._build_s = time.monotonic() - started
            self._tier = "built"
            if self._program.language in ("triton", "python"):
                self._check()
        except CandidateFailure as failure:
            return self._verdict(failure.status, failure.message, failure.log)
        count = len(self._cases)
        checked = f"right on {count} small workload{'' if count == 1 else 's'}" if count else "not run"
        where = " in Triton's interpreter" if self._cases and self._program.language == "triton" else ""
        return self._verdict(Status.NOT_TIMED, f"builds for {self._arch}, {checked}{where}; not timed", log)

    def _verdict(self, status: Status, message: str, log: str) -> ProgramVerdict:
        return ProgramVerdict(
            status=status,
            tier=self._tier,
            message=message,
            log=log,
            cases=tuple(self._cases),
            notes=tuple(self._notes),
            build_s=self._build_s,
        )

    def _build(self) -> str:
        """Return what is known of the kernels, one line each."""
        source = write_source(self._program, self._folder)
        if self._program.language == "cuda":
            kernels = kernels_of(self._compile_cuda(source))
        elif self._program.language == "triton":
            kernels = self._compile_triton(source)
        else:
            return ""
        self._notes += [f"{self._arch}: {kernel_line(kernel)}" for kernel in kernels]
        return "\n".join(self._notes)

    def _compile_cuda(self, source: Path) -> str:
        """Return what ptxas says. Raises CandidateFailure (build_error), SetupFault without a compiler."""
        output = self._folder / "output"
        output.mkdir()
        give_away(output)
        arch = self._arch.removeprefix("sm_")
        return compile_cuda(self._program, self._shop.forge, source, output / "program.so", arch)

    def _compile_triton(self, source: Path) -> list[dict[str, Any]]:
        """Compile what the program launches for the smallest workload. Raises CandidateFailure (build_error)."""
        output = self._folder / "output"
        output.mkdir()
        give_away(output)
        tools = self._tools()
        script = _COMPILED.format(
            places=[str(tools), *import_folders()],
            stand_in=_STAND_IN,
            path=str(source / self._program.main_file),
            entry_point=self._program.entry_point,
            arch=self._number,
            arguments=self._arguments(self._by_size()[0]),
        )
        (tools / "compile.py").write_text(script)
        readable = (str(source), str(tools), sys.prefix, sys.base_prefix, *import_folders())
        plan = Plan(str(output), readable, True, _MEMORY_BYTES, COMPILE_S, _FILE_BYTES, _PROCESSES)
        child = self._shop.forge.start(
            plan, _OUTPUT_BYTES, [sys.executable, "-S", "-P", "-X", "utf8", str(tools / "compile.py")]
        )
        try:
            code = child.wait_exit(time.monotonic() + COMPILE_S)
            log = child.output()
            report = output / "report.json"
            kernels = json.loads(report.read_text()) if report.is_file() else []
        except CandidateFailure as failure:
            slow = failure.status is Status.TIMEOUT
            message = f"compiling took more than {COMPILE_S} s" if slow else failure.message
            raise CandidateFailure(Status.BUILD_ERROR, message, log=failure.log) from failure
        finally:
            child.end()
        if code != 0:
            raise _refused(log, code, self._folder)
        return _plain(kernels)

    def _tools(self) -> Path:
        tools = self._folder / "tools"
        tools.mkdir()
        _copy_stand_in(tools)
        return tools

    def _arguments(self, case: Case) -> list[dict[str, Any]]:
        outputs = self._task.outputs if self._program.binding == "dps" else ()
        return [
            {
                "dtype": argument.dtype,
                "shape": None if argument.shape is None else [case.axes[axis] for axis in argument.shape],
            }
            for argument in (*self._task.inputs, *outputs)
        ]

    def _by_size(self) -> list[Case]:
        cases = [case for case in self._task.cases if not case.held_out]
        return sorted(cases, key=lambda case: lay_out(self._task, case).stride)

    def _beyond(self, failure: CandidateFailure) -> str:
        """Return why a failure is the interpreter's and not the program's; empty when it is not."""
        if failure.status is Status.TIMEOUT:
            return f"the interpreter took more than {self._task.timeout_s:g} s"
        return failure.message if "NotImplementedError" in failure.message else ""

    def _check(self) -> None:
        """Run the program on the smallest workloads, on the CPU. Raises CandidateFailure when it is wrong."""
        cases = self._by_size()
        small = [case for case in cases if lay_out(self._task, case).stride <= _MOST_BYTES][:_MOST_CASES] or cases[:1]
        place = self._folder / "interpreted"
        place.mkdir()
        for name, text in self._program.files.items():
            (place / name).write_text(text)
        _copy_stand_in(place)
        main = _INTERPRETED.format(
            stand_in=_STAND_IN,
            entry_point=self._program.entry_point,
            main=self._program.main_file,
            arch=self._number,
        )
        (place / "ksearch_interpreted.py").write_text(main)
        built = Built(
            str(place / "ksearch_interpreted.py"), str(place), self._program.entry_point, self._program.binding, 0.0
        )
        everything = {value for value in vars(rules).values() if isinstance(value, str)}
        checked = check(Checks(self._shop, CpuBench(), self._task, Oracle(self._task), everything), built, small)
        self._cases = checked.verdicts
        failure = checked.failure
        if failure is not None and (why := self._beyond(failure)):
            self._notes.append(f"not checked to the end: {why}")
            self._cases = [verdict for verdict in checked.verdicts if verdict.status is Status.PASSED]
        elif failure is not None:
            raise failure
        self._tier = "checked" if self._cases else "built"


def _copy_stand_in(folder: Path) -> None:
    for name in (_STAND_IN, "triton_bfloat16"):
        shutil.copyfile(Path(__file__).with_name(f"{name}.py"), folder / f"{name}.py")


def _refused(log: str, code: int, folder: Path) -> CandidateFailure:
    text = log.replace(f"{folder}/source/", "").replace(f"{folder}/", "")
    told = [line for line in text.split("\n") if line.startswith("ksearch: ")]
    message = told[-1].removeprefix("ksearch: ") if told else f"the compiler ended with code {code}"
    status = Status.LAUNCH_ERROR if message.startswith("TooMuchShared: ") else Status.BUILD_ERROR
    return CandidateFailure(status, message.removeprefix("TooMuchShared: ")[:500], log=text[-4000:])


def _plain(kernels: Any) -> list[dict[str, Any]]:
    """Return a report of the program's process as far as it is one: nothing in it is trusted."""
    found = []
    for kernel in kernels if isinstance(kernels, Sequence) else []:
        if isinstance(kernel, dict):
            numbers = {name: value for name, value in kernel.items() if isinstance(value, int) and math.isfinite(value)}
            found.append({**numbers, "name": str(kernel.get("name", "?"))[:80]})
    return found[:64]


def _for_cpu(task: TaskSpec) -> TaskSpec:
    """Return the task as the CPU can check it."""
    fields = {field.name for field in dataclasses.fields(task)}
    changes: dict[str, Any] = {"device": "cpu"} if "device" in fields else {}
    return dataclasses.replace(task, **changes)
