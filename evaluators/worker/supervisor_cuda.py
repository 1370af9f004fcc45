"""The supervisor's start on a GPU."""

import importlib.metadata
import re
import subprocess

import torch

from evaluators.worker import nvml, timing_lock
from evaluators.worker.bench import Bench
from evaluators.worker.bench_cuda import CudaBench, device_name
from evaluators.worker.build_cuda import toolkit_or_none
from evaluators.worker.failure import SetupFault

_WIDTH = 256


def start() -> tuple[Bench, tuple[int, int], dict[str, str]]:
    """Return the GPU as a bench, its compute capability, and what figures measured on it depend on.

    Raises SetupFault when there is no GPU that torch can use.
    """
    if not torch.cuda.is_available():
        raise SetupFault("no GPU was found: its driver, or a build of torch with CUDA, is missing")
    with timing_lock.held(alone=True, device=device_name()):
        _load_libraries()
        bench = CudaBench()
    facts = {
        "device": bench.properties.name,
        "driver": nvml.driver_version(),
        "triton": _version("triton"),
        "compiler": _nvcc_version(),
    }
    return bench, torch.cuda.get_device_capability(0), facts


def _load_libraries() -> None:
    """Have torch load the libraries that references use, before a job's first check holds the device."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        rows = torch.randn(2, _WIDTH, _WIDTH, device="cuda").to(dtype)
        product = torch.bmm(rows, rows.transpose(1, 2)) + rows @ rows[0].T
        product = torch.nn.functional.layer_norm(product, (_WIDTH,)) * torch.sigmoid(rows)
        torch.softmax(product.float(), dim=-1).sum().item()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _nvcc_version() -> str:
    tools = toolkit_or_none()
    if tools is None:
        return ""
    run = subprocess.run(
        [str(tools / "bin" / "nvcc"), "--version"], capture_output=True, text=True, timeout=30, check=False
    )
    found = re.search(r"release [^,]*, V([0-9.]+)", run.stdout)
    return f"nvcc {found.group(1)}" if found else ""
