"""Turning a program's files into something a runner can load. Compilers run confined like the programs themselves."""

import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from evaluators.worker import flags as flag_rules
from evaluators.worker import syscalls
from evaluators.worker.failure import CandidateFailure, HarnessFault, SetupFault
from evaluators.worker.forge import Forge
from evaluators.worker.job import Program
from evaluators.worker.sandbox import NOBODY, Plan
from evaluators.worker.status import Status

BUILD_S = 60
_MEMORY_BYTES = 8 << 30
_FILE_BYTES = 512 << 20
_PROCESSES = 64
_OUTPUT_BYTES = 1 << 20
_SOURCES = (".cpp", ".cc", ".cxx", ".c")


@dataclass(frozen=True)
class Built:
    """A program that is ready to load. `binding` `baseline` has no path: its source is handed over in memory."""

    path: str
    folder: str
    entry_point: str
    binding: str
    seconds: float
    log: str = ""
    cache: str = ""
    """Folder for what compilers keep at run time, of this program alone; empty: none."""
    kept_cache: str = ""
    """A copy of `cache`, with which every process begins; empty: each finds what the one before it left."""
    variables: dict[str, str] = field(default_factory=dict)
    """Environment that the program's processes need."""


def compiler() -> str:
    """Return the path of the C++ compiler. Raises SetupFault when there is none."""
    found = shutil.which("g++")
    if found is None:
        raise SetupFault("g++ was not found: install it (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++)")
    return found


@lru_cache(maxsize=1)
def compiler_version() -> str:
    """Return the compiler's name and version, empty when there is none."""
    found = shutil.which("g++")
    if found is None:
        return ""
    run = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=30, check=False)
    return run.stdout.split("\n")[0].strip()


def write_source(program: Program, folder: Path) -> Path:
    """Write the program's files below `folder` (new, private) and return where they are. Raises CandidateFailure."""
    source = folder / "source"
    source.mkdir(parents=True)
    for name, text in program.files.items():
        (source / name).write_text(text)
    bad = flag_rules.refused(program.flags, program.language)
    if bad:
        raise CandidateFailure(Status.BUILD_ERROR, f"compiler flag {bad[0]} is not allowed")
    return source


def build(program: Program, forge: Forge, folder: Path) -> Built:
    """Write the program's files below `folder` (new, private) and compile them where its language needs it.

    Raises CandidateFailure (build_error) with the compiler's first errors, SetupFault without a compiler.
    """
    source = write_source(program, folder)
    if program.language != "cpp":
        return Built(str(source / program.main_file), str(source), program.entry_point, program.binding, 0.0)
    output = folder / "output"
    output.mkdir()
    give_away(output)
    started = time.monotonic()
    log = _compile(program, forge, source, output)
    seconds = time.monotonic() - started
    return Built(str(output / "program.so"), str(output), program.entry_point, program.binding, seconds, log)


def give_away(path: Path) -> None:
    """Make `path` the unprivileged user's when running as root and where there is such a user."""
    if os.geteuid() == 0:
        try:
            os.chown(path, NOBODY, NOBODY)
        except OSError as error:
            if not syscalls.is_refusal(error):
                raise


def _compile(program: Program, forge: Forge, source: Path, output: Path) -> str:
    path = compiler()
    library = output / "program.so"
    files = [str(source / name) for name in program.files if name.endswith(_SOURCES)]
    argv = [path, *program.flags, "-shared", "-fPIC", "-o", str(library), *files]
    readable = (str(source), str(Path(path).resolve().parent.parent), sys.prefix)
    code, log = run_compiler(forge, argv, source, output, readable, BUILD_S)
    if code != 0 or not library.is_file():
        raise CandidateFailure(Status.BUILD_ERROR, first_error(log, code, source), log=trim(log, source))
    return trim(log, source)


def run_compiler(
    forge: Forge,
    argv: list[str],
    source: Path,
    output: Path,
    readable: tuple[str, ...],
    limit_s: int,
    variables: dict[str, str] | None = None,
) -> tuple[int, str]:
    """Run a compiler confined: it writes to `output` alone. Return its exit code and what it printed.

    Raises CandidateFailure (build_error) when it does not end in `limit_s` or is killed, HarnessFault without disk.
    """
    plan = Plan(str(output), readable, True, _MEMORY_BYTES, limit_s, _FILE_BYTES, _PROCESSES)
    child = forge.start(plan, _OUTPUT_BYTES, argv, variables)
    try:
        code = child.wait_exit(time.monotonic() + limit_s)
        log = child.output()
    except CandidateFailure as failure:
        message = f"compiling took more than {limit_s} s" if failure.status is Status.TIMEOUT else failure.message
        raise CandidateFailure(Status.BUILD_ERROR, message, log=trim(failure.log, source)) from failure
    finally:
        child.end()
    if "No space left on device" in log:
        raise HarnessFault("the compiler ran out of disk space in the scratch folder")
    return code, log


def first_error(log: str, code: int, source: Path) -> str:
    """Return the first error of a compiler's output."""
    for line in log.split("\n"):
        if re.search(r"\b(error|undefined reference)\b", line):
            return line.replace(f"{source}/", "")[:500]
    return f"the compiler ended with code {code}"


def trim(log: str, source: Path, lines: int = 40) -> str:
    """Return the head of a compiler's output, without the folder's name."""
    kept = log.replace(f"{source}/", "").strip().split("\n")
    if len(kept) > lines:
        kept = [*kept[:lines], f"... {len(kept) - lines} more lines"]
    return "\n".join(kept)[:6000]
