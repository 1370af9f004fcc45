"""What this machine is and has, as far as a search is concerned."""

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from checkpoints.place import Place, local_folder
from evaluators.errors import KsearchError, UsageError
from evaluators.worker import nvml
from evaluators.worker.gpus import present as gpu_present
from graph.config import SearchConfig
from graph.report.causes import Machine
from graph.report.diagnosis import Facts

PACKAGES = ("torch", "triton", "langgraph-cli", "langgraph-api")
KEYS = ("OPENAI_API_KEY", "GOOGLE_API_KEY")


def look() -> Machine:
    """Return what bears on the speed of programs, as it is now; nothing is loaded for it."""
    return Machine(cores=os.cpu_count() or 1, load=os.getloadavg()[0], avx2=has_vectors(), compiler=compiler())


def compiler() -> str:
    """Return the C++ compiler's version line, empty when there is none."""
    found = shutil.which("g++")
    if found is None:
        return ""
    done = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[0].strip()


def has_vectors() -> bool:
    """Return whether the processor has AVX2; True on architectures where that is not the question."""
    file = Path("/proc/cpuinfo")
    if platform.machine().lower() not in ("x86_64", "amd64", "i686") or not file.exists():
        return True
    flags = next((line for line in file.read_text().splitlines() if line.startswith("flags")), "")
    return "avx2" in flags.split()


async def examine(home: Place) -> Facts:
    """Return everything that `doctor` tells of; starts the local evaluator and loads torch for it."""
    from evaluators.worker.host import processor
    from evaluators.worker.sandbox import LAYERS

    machine = look()
    versions = {name: version(name) for name in PACKAGES}
    layers, problem = await _evaluator() if versions["torch"] else ((), "torch is not installed")
    return Facts(
        machine=machine,
        processor=processor(),
        versions=versions,
        gpus=gpus() if versions["torch"] else (),
        layers=layers,
        all_layers=LAYERS,
        evaluator_problem=problem,
        keys={name: key_place(name, Path(".env")) for name in KEYS},
        home=str(home),
        home_problem=home_problem(home),
        free_bytes=shutil.disk_usage(_existing(local_folder(home))).free,
    )


def version(package: str) -> str:
    """Return the installed version of a package, empty when there is none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def no_gpu(verdict: str) -> str:
    """Return what was done instead, where programs were to be judged on a GPU; `verdict` is the task's field."""
    done = "this machine has no GPU: programs were built for sm_90a and checked as far as that goes, not timed"
    return f"{done}; protocol=fib was not applied, it needs a GPU" if verdict == "fib" else done


def lacks_gpu(device: str) -> bool:
    """Return whether programs for `device` (`cpu`, `cuda`) need a GPU and this machine shows none; loads no torch."""
    return device == "cuda" and nvml.identity("0") is None and not gpu_present()


def require_gpu(config: SearchConfig, device: str, deferred: str) -> None:
    """Raise UsageError when programs for `device` are to be judged here on a GPU that is not there.

    To be asked before anything is done. `deferred`: how the command is told to have them judged elsewhere.
    """
    if config.evaluator == "local" and lacks_gpu(device):
        raise UsageError(
            f"the task is for a GPU and this machine has none: {deferred} has programs judged on a machine that has one"
            " (docs/deferred.md); what can be done without is in docs/without-gpu.md"
        )


def gpus() -> tuple[str, ...]:
    """Return the names of the GPUs that torch can use."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return tuple(torch.cuda.get_device_name(index) for index in range(count))


def key_place(name: str, file: Path) -> str:
    """Return where a key is set: `environment`, the name of `file`, or nowhere (empty). Its value is not kept."""
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    found = re.search(rf"^\s*(?:export\s+)?{name}\s*=\s*([^\s#]+)", text, re.MULTILINE)
    # What the file says is in our environment by now, unless it was there before.
    if os.environ.get(name) and (found is None or os.environ[name] != found[1].strip("\"'")):
        return "environment"
    return "" if found is None else file.name


def home_problem(home: Place) -> str:
    """Return why runs cannot be kept in `home`, empty when they can. Nothing is made or changed."""
    from checkpoints.database import has_runs, open_reader

    place = _existing(local_folder(home))
    if not place.is_dir():
        return f"{place} is a file"
    if not os.access(place, os.W_OK | os.X_OK):
        return f"{place} cannot be written"
    try:
        if not has_runs(home):
            return ""
        open_reader(home).close()
    except KsearchError as error:
        return str(error)
    return ""


def _existing(path: Path) -> Path:
    """Return the nearest part of `path` that exists."""
    return next(part for part in (path.absolute(), *path.absolute().parents) if part.exists())


async def _evaluator() -> tuple[tuple[str, ...], str]:
    """Return the sandbox's active layers, and why the evaluator does not start (empty when it does)."""
    from evaluators.local import LocalEvaluator

    evaluator = LocalEvaluator()
    try:
        return (await evaluator.environment()).sandbox, ""
    except KsearchError as error:
        return (), str(error)
    finally:
        await evaluator.close()
