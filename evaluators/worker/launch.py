"""Starting a supervisor: its private copy of the worker's modules, its environment, its command line."""

import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from evaluators.worker.failure import SetupFault

NEEDED, USED = ("torch", "numpy"), ("triton",)
"""Packages without which nothing runs, and those that some programs use."""


def own_modules() -> dict[str, bytes]:
    """Return the worker's modules: file name -> content."""
    return {path.name: path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))}


def write_library(folder: Path, modules: Mapping[str, bytes]) -> Path:
    """Write the worker's modules to a new `folder`, where a supervisor sees nothing else of this package."""
    package = folder / "evaluators" / "worker"
    package.mkdir(parents=True)
    (folder / "evaluators" / "__init__.py").write_text('"""Private copy."""\n')
    for name, content in modules.items():
        (package / name).write_bytes(content)
    return folder


def prepare(scratch: Path | None, modules: Mapping[str, bytes], device: str = "") -> tuple[Path, dict[str, str]]:
    """Return a new folder for a supervisor, with its library in it, and the supervisor's whole environment.

    `device`: the GPU that it may see, as CUDA_VISIBLE_DEVICES names it; empty: none. Raises SetupFault when a package
    is missing.
    """
    places = _places()
    folder = Path(tempfile.mkdtemp(prefix="ksearch-", dir=scratch))
    return folder, _environment([str(write_library(folder / "library", modules)), *places], device)


def command(folder: Path, memory_bytes: int, device: str = "") -> list[str]:
    """Return how a supervisor is started; it ends, and removes `folder`, when its standard input closes."""
    own = [sys.executable, "-S", "-P", "-m", "evaluators.worker.supervisor"]
    return [*own, str(folder), str(memory_bytes), *([device] if device else [])]


def log_tail(folder: Path) -> str:
    """Return the end of what a supervisor had to say."""
    log = folder / "supervisor.log"
    text = log.read_text(errors="replace").strip() if log.is_file() else ""
    return text[-800:] or "no output"


def went_on(folder: Path) -> bool:
    """Return whether a supervisor ended because a reference went on after its limit."""
    log = folder / "supervisor.log"
    text = log.read_text(errors="replace") if log.is_file() else ""
    return re.search(r"^Timeout \(\d+:\d\d:\d\d", text, re.MULTILINE) is not None


def _places() -> list[str]:
    """Return the folders from which a supervisor imports packages. Raises SetupFault."""
    places: list[str] = []
    for name in (*NEEDED, *USED):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            place = str(Path(spec.origin).parent.parent)
            places += [] if place in places else [place]
        elif name in NEEDED:
            raise SetupFault(f"{name} is not installed: pip install {name}")
    return places


def _environment(places: Iterable[str], device: str) -> dict[str, str]:
    """Return a supervisor's whole environment: where the compiler and torch are, nothing of the user's."""
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": os.pathsep.join(places),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C.UTF-8",
        "TMPDIR": tempfile.gettempdir(),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": device,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    for name in ("LD_LIBRARY_PATH", "CUDA_HOME"):
        if name in os.environ:
            environment[name] = os.environ[name]
    return environment
