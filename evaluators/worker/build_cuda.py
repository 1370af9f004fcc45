"""Turning the programs of a GPU task into something a runner can load, without touching a GPU.

`cuda` programs are compiled by nvcc for one architecture: a plain C function (about 2 s), or a module with its own
binding to torch (about 17 s, most of it torch's headers). Python programs that compile extensions when they are
imported are imported once here, where they see no GPU, so that their compilers do not run while a GPU waits.
"""

import importlib.util
import os
import re
import shutil
import sys
import sysconfig
import time
from pathlib import Path

import torch

from evaluators.worker.build import Built, first_error, give_away, run_compiler, trim, write_source
from evaluators.worker.failure import CandidateFailure, SetupFault
from evaluators.worker.forge import Forge, import_folders
from evaluators.worker.job import Program
from evaluators.worker.kernels import kernel_line, kernels_of
from evaluators.worker.status import Status

CUDA_BUILD_S = 120
_SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".c")
_COMPILES_AT_IMPORT = ("load_inline", "cpp_extension", "TORCH_EXTENSIONS_DIR")
_HEADER = """#pragma once
#include <cuda_runtime_api.h>
extern "C" __attribute__((weak, visibility("default"))) const char* ksearch_last_error() {
    cudaError_t code = cudaGetLastError();
    return code == cudaSuccess ? (const char*)0 : cudaGetErrorString(code);
}
"""
_IMPORT = """
import importlib.util, sys, traceback
spec = importlib.util.spec_from_file_location("candidate", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["candidate"] = module
try:
    spec.loader.exec_module(module)
except BaseException as error:
    if "Error building extension" in str(error) or "compilation" in str(error).lower():
        traceback.print_exc()
        sys.exit(7)
"""


def architecture(capability: tuple[int, int]) -> str:
    """Return nvcc's name of an architecture, with the instructions that only that one has: (9, 0) -> 90a."""
    major, minor = capability
    return f"{major}{minor}a" if major in (9, 10, 12) else f"{major}{minor}"


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


def toolkit_or_none() -> Path | None:
    """Return the folder of the CUDA toolkit, None when there is none: Triton and torch programs need none."""
    try:
        return toolkit()
    except SetupFault:
        return None


def build_for_gpu(program: Program, forge: Forge, folder: Path, arch: str, limit_s: int = CUDA_BUILD_S) -> Built:
    """Write the program's files below `folder` (new, private) and compile what can be compiled without a GPU.

    Raises CandidateFailure (build_error) with the compiler's first errors, SetupFault without a compiler.
    """
    source = write_source(program, folder)
    output, cache = folder / "output", folder / "cache"
    for place in (output, cache):
        place.mkdir()
        give_away(place)
    started = time.monotonic()
    path, log = source / program.main_file, ""
    if program.language == "cuda":
        path = output / ("candidate.so" if program.binding == "torch" else "program.so")
        log = trim(resources(compile_cuda(program, forge, source, path, arch, limit_s)), source)
    elif any(word in text for text in program.files.values() for word in _COMPILES_AT_IMPORT):
        _import(forge, source, path, cache, arch, limit_s)
    seconds = time.monotonic() - started
    variables = cache_variables(str(cache)) | extension_variables(toolkit_or_none(), arch)
    return Built(
        str(path), str(path.parent), program.entry_point, program.binding, seconds, log, str(cache), variables=variables
    )


def baseline_for_gpu(folder: Path, arch: str) -> Built:
    """Return the baseline of a GPU task; what its compilers keep lies below `folder` (new, private)."""
    cache = folder / "cache"
    cache.mkdir(parents=True)
    give_away(cache)
    variables = cache_variables(str(cache)) | extension_variables(toolkit_or_none(), arch)
    variables["MAX_JOBS"] = str(os.cpu_count() or 1)
    return Built("", "", "", "baseline", 0.0, cache=str(cache), variables=variables)


def compile_cuda(
    program: Program, forge: Forge, source: Path, library: Path, arch: str, limit_s: int = CUDA_BUILD_S
) -> str:
    """Compile the program in `source` to `library`, whose folder it may write to; return what the compiler printed.

    `arch`: such as `90a`. Raises CandidateFailure (build_error) with the first errors, SetupFault without a compiler.
    """
    tools = toolkit()
    own = library.parent / "ksearch.h"
    own.write_text(_HEADER)
    files = [str(source / name) for name in program.files if name.endswith(_SOURCES)]
    if not any(name.endswith(".cu") for name in files):
        raise CandidateFailure(Status.BUILD_ERROR, "a cuda program needs a file that ends in .cu")
    argv = [
        *(str(tools / "bin" / "nvcc"), *program.flags, "-shared", "-Xcompiler=-fPIC", "-Xptxas=-v", "-t", "2"),
        f"-gencode=arch=compute_{arch},code=sm_{arch}",
        *("-include", str(own), f"-I{tools}/include", f"-I{source}"),
        *(_torch_options() if program.binding == "torch" else []),
        *(f"-L{tools}/lib", f"-L{tools}/lib64", "-o", str(library), *files),
    ]
    readable = (str(source), str(tools), str(tools.resolve()), sys.prefix, sys.base_prefix, *import_folders())
    variables = {"CUDA_HOME": str(tools), "PATH": f"{tools}/bin{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    code, log = run_compiler(forge, argv, source, library.parent, readable, limit_s, variables)
    if code != 0 or not library.is_file():
        raise CandidateFailure(Status.BUILD_ERROR, first_error(log, code, source), log=trim(_errors(log), source))
    return log


def _torch_options() -> list[str]:
    folder = Path(torch.__file__).parent
    include = folder / "include"
    # A build of torch without CUDA has only the first: what is built with it is not run.
    present = [
        name
        for name in ("c10", "torch", "torch_cpu", "torch_python", "c10_cuda", "torch_cuda")
        if (folder / "lib" / f"lib{name}.so").is_file()
    ]
    return [
        *(f"-I{include}", f"-I{include}/torch/csrc/api/include", f"-I{sysconfig.get_path('include')}"),
        *("-DTORCH_EXTENSION_NAME=candidate", "-DTORCH_API_INCLUDE_EXTENSION_H", "-std=c++17"),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        *("-diag-suppress=20012", "--expt-relaxed-constexpr", f"-L{folder}/lib"),
        *(f"-l{name}" for name in present),
    ]


def _import(forge: Forge, source: Path, path: Path, cache: Path, arch: str, limit_s: int) -> None:
    tools = toolkit()
    argv = [sys.executable, "-S", "-P", "-c", _IMPORT, str(path)]
    readable = (str(source), str(tools), str(tools.resolve()), sys.prefix, sys.base_prefix, *import_folders())
    variables = {
        **cache_variables(str(cache)),
        **extension_variables(tools, arch),
        "PYTHONPATH": os.pathsep.join(import_folders()),
        "CUDA_VISIBLE_DEVICES": "",
    }
    code, log = run_compiler(forge, argv, source, cache, readable, limit_s, variables)
    if code == 7:
        raise CandidateFailure(Status.BUILD_ERROR, first_error(log, code, source), log=trim(_errors(log), source))


def cache_variables(cache: str) -> dict[str, str]:
    """Return the environment that keeps what compilers cache at run time in `cache`."""
    return {
        "TRITON_CACHE_DIR": f"{cache}/triton",
        "TORCH_EXTENSIONS_DIR": f"{cache}/torch_extensions",
        "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "CUDA_CACHE_PATH": f"{cache}/driver",
        "FLASHINFER_WORKSPACE_BASE": f"{cache}/flashinfer",
        "MAX_JOBS": "2",
    }


def extension_variables(tools: Path | None, arch: str = "") -> dict[str, str]:
    """Return the environment in which torch compiles extensions for one architecture (empty: that of the GPU)."""
    places = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    dotted = re.sub(r"(\d)([a-z]?)$", r".\1\2", arch)
    variables = {"TORCH_CUDA_ARCH_LIST": dotted, "FLASHINFER_CUDA_ARCH_LIST": dotted} if arch else {}
    if tools is not None:
        places.insert(0, f"{tools}/bin")
        # What links to the driver's library links to its stub.
        variables |= {"CUDA_HOME": str(tools), "LIBRARY_PATH": f"{tools}/lib64/stubs"}
    return {**variables, "PATH": os.pathsep.join(places)}


def _errors(log: str) -> str:
    """Return a compiler's output from its first error on."""
    lines = log.split("\n")
    first = next((number for number, line in enumerate(lines) if re.search(r"\berror\b", line)), 0)
    return "\n".join(lines[first:])


def resources(log: str) -> str:
    """Return what each kernel uses, one line each, and the compiler's warnings."""
    kernels = [kernel_line(kernel) for kernel in kernels_of(log)]
    return "\n".join([*kernels, *(line.strip() for line in log.split("\n") if "warning" in line)])


def _wheels() -> list[str]:
    spec = importlib.util.find_spec("nvidia")
    places = [] if spec is None else list(spec.submodule_search_locations or [])
    return [str(folder) for place in places for folder in sorted(Path(place).glob("cu*"), reverse=True)]
