"""Compiling CUDA programs without a GPU, and what ptxas says of their kernels."""

import importlib.util
import os
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from evaluators.worker.build import give_away
from evaluators.worker.failure import CandidateFailure, SetupFault
from evaluators.worker.forge import Forge, import_folders
from evaluators.worker.job import Program
from evaluators.worker.sandbox import Plan
from evaluators.worker.status import Status

BUILD_S = 120
_MEMORY_BYTES, _FILE_BYTES, _PROCESSES, _OUTPUT_BYTES = 16 << 30, 512 << 20, 64, 1 << 20
_SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".c")
_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)'")
_SPILLS = re.compile(r"(?P<stored>\d+) bytes spill stores, (?P<loaded>\d+) bytes spill loads")
_USED = re.compile(r"Used (?P<registers>\d+) registers(?:.*?(?P<shared>\d+) bytes smem)?")


def toolkit() -> Path:
    """Return the folder of the CUDA compiler: of the system, or of the wheels that pip installs. Raises SetupFault."""
    found = shutil.which("nvcc")
    places = [os.environ.get("CUDA_HOME", ""), str(Path(found).resolve().parent.parent) if found else ""]
    places += ["/usr/local/cuda", *sorted(map(str, Path("/usr/local").glob("cuda-*")), reverse=True), *_wheels()]
    for place in places:
        if place and Path(place, "bin", "nvcc").is_file() and Path(place, "include", "cuda_runtime.h").is_file():
            return Path(place)
    raise SetupFault(
        "nvcc was not found: install the CUDA toolkit and set CUDA_HOME to its folder, or pip install "
        "'kernel-search[cuda]'"
    )


def compile_cuda(forge: Forge, program: Program, source: Path, output: Path, arch: str) -> list[dict[str, Any]]:
    """Compile the program in `source` for `arch` (`sm_90a`) and return its kernels.

    Raises CandidateFailure (build_error) with the first errors, SetupFault without a compiler.
    """
    tools = toolkit()
    output.mkdir()
    give_away(output)
    files = [str(source / name) for name in program.files if name.endswith(_SOURCES)]
    number = arch.removeprefix("sm_")
    argv = [
        *(str(tools / "bin" / "nvcc"), "-shared", "-Xcompiler=-fPIC", "-Xptxas=-v", f"-I{tools}/include"),
        *(f"-gencode=arch=compute_{number},code=sm_{number}", *program.flags),
        *("-o", str(output / "program.so"), f"-L{tools}/lib", f"-L{tools}/lib64", *files),
    ]
    readable = (str(source), str(tools), str(tools.resolve()), sys.prefix, sys.base_prefix, *import_folders())
    child = forge.start(
        Plan(str(output), readable, True, _MEMORY_BYTES, BUILD_S, _FILE_BYTES, _PROCESSES), _OUTPUT_BYTES, argv
    )
    try:
        code = child.wait_exit(time.monotonic() + BUILD_S)
        log = child.output().replace(f"{source}/", "")
    except CandidateFailure as failure:
        slow = failure.status is Status.TIMEOUT
        message = f"compiling took more than {BUILD_S} s" if slow else failure.message
        raise CandidateFailure(Status.BUILD_ERROR, message, log=failure.log) from failure
    finally:
        child.end()
    if code != 0:
        errors = [line for line in log.split("\n") if re.search(r"\b(error|fatal|undefined reference)\b", line)]
        message = errors[0] if errors else f"nvcc ended with code {code}"
        raise CandidateFailure(Status.BUILD_ERROR, message[:500], log="\n".join(errors[:20])[:4000] or log[-4000:])
    return kernels_of(log)


def kernels_of(log: str) -> list[dict[str, Any]]:
    """Return the kernels that ptxas -v tells of."""
    found: list[dict[str, Any]] = []
    for line in log.split("\n"):
        if match := _ENTRY.search(line):
            found.append({"name": match["name"][:80]})
        elif found and (match := _SPILLS.search(line)):
            found[-1] |= {"spill_store_bytes": int(match["stored"]), "spill_load_bytes": int(match["loaded"])}
        elif found and (match := _USED.search(line)):
            found[-1] |= {"registers": int(match["registers"]), "shared_bytes": int(match["shared"] or 0)}
    return found


def _wheels() -> list[str]:
    spec = importlib.util.find_spec("nvidia")
    places = [] if spec is None else list(spec.submodule_search_locations or [])
    return [str(folder) for place in places for folder in sorted(Path(place).glob("cu*"), reverse=True)]
