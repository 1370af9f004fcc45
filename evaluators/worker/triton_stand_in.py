"""Stands in for a GPU where there is none: runs in the program's own process, and nothing that it says is trusted.

This file is copied beside the program. `interpret` has Triton's interpreter run the kernels on the CPU; `compile_only`
has every launch compiled for a named architecture, and nothing launched. In both, tensors that a program wants on
`cuda` are made on the CPU.
"""

import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import types
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_MOST_CONFIGS = 4
_SHARED_BYTES = {70: 98304, 75: 65536, 80: 166912, 86: 101376, 87: 166912, 89: 101376, 90: 232448, 100: 232448}
"""Architecture -> shared memory that a block may have (CUDA programming guide, compute capabilities)."""
_SHARED_OTHERWISE = 101376


class TooMuchShared(Exception):
    """A kernel wants more shared memory than the architecture has."""


class CpuForCuda(TorchFunctionMode):
    """Tensors that are wanted on a GPU are made on the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Replace the device in the call."""
        if func is torch.Tensor.cuda:
            return args[0]
        if func == torch.Tensor.is_cuda.__get__:  # type: ignore[attr-defined]
            return True
        changed = {name: _on_cpu(value) for name, value in (kwargs or {}).items()}
        return func(*(_on_cpu(value) for value in args), **changed)


def interpret(path: str, entry_point: str, arch: int) -> Callable[..., Any]:
    """Return the program's function, its kernels run by Triton's interpreter."""
    os.environ["TRITON_INTERPRET"] = "1"
    _stand_in_for_cuda(arch)
    _tame_autotuner(1, launch=False)
    importlib.import_module("triton_bfloat16").Bfloat16().install()
    return _wrapped(_load(path, entry_point))


def compile_only(path: str, entry_point: str, arch: int, arguments: list[dict[str, Any]], report: str) -> None:
    """Call the program's function once, compile what it launches, and write a list of kernels to `report`.

    `arguments`: `{"dtype", "shape"}` each, `shape` None for a scalar. Raises what the compiler raises.
    """
    from triton.runtime.jit import JITFunction

    _stand_in_for_cuda(arch)
    _set_target(arch)
    _tame_autotuner(_MOST_CONFIGS, launch=True)
    kernels: dict[str, dict[str, Any]] = {}
    run = JITFunction.run

    def compiled(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        kernel = run(self, *args, grid=grid, warmup=True, **kwargs)
        facts = _facts(kernel)
        kernels[json.dumps(facts, sort_keys=True)] = facts
        Path(report).write_text(json.dumps(list(kernels.values())))
        if facts["shared_bytes"] > _SHARED_BYTES.get(arch, _SHARED_OTHERWISE):
            raise TooMuchShared(
                f"{facts['name']} needs {facts['shared_bytes']} bytes of shared memory a block, sm_{arch} has "
                f"{_SHARED_BYTES.get(arch, _SHARED_OTHERWISE)}"
            )
        return kernel

    JITFunction.run = compiled
    Path(report).write_text("[]")
    _wrapped(_load(path, entry_point))(*(_argument(argument) for argument in arguments))


def _on_cpu(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return "cpu" if isinstance(value, str) and re.fullmatch(r"cuda(:\d+)?", value) else value


def _wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        with CpuForCuda():
            return function(*args)

    return run


def _load(path: str, entry_point: str) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location("program", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{os.path.basename(path)} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["program"] = module
    with CpuForCuda():
        spec.loader.exec_module(module)
    function: Callable[..., Any] = vars(module)[entry_point]
    return function


def _argument(argument: dict[str, Any]) -> Any:
    if argument["shape"] is None:
        return 1.0 if argument["dtype"].startswith("float") else 1
    return torch.zeros(argument["shape"], dtype=vars(torch)[argument["dtype"]])


def _stand_in_for_cuda(arch: int) -> None:
    """Give programs that look at their GPU something to see."""
    properties = types.SimpleNamespace(
        name=f"sm_{arch}", major=arch // 10, minor=arch % 10, multi_processor_count=132, total_memory=80 << 30,
        shared_memory_per_block_optin=_SHARED_BYTES.get(arch, _SHARED_OTHERWISE), warp_size=32,
        max_threads_per_multi_processor=2048, regs_per_multiprocessor=65536, L2_cache_size=50 << 20,
    )  # fmt: skip
    stream = types.SimpleNamespace(cuda_stream=0, synchronize=lambda: None, wait_stream=lambda other: None)
    stand_ins: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: None,
        "current_stream": lambda device=None: stream,
        "get_device_capability": lambda device=None: (arch // 10, arch % 10),
        "get_device_name": lambda device=None: properties.name,
        "get_device_properties": lambda device=None: properties,
        "device": lambda device: nullcontext(),
        "stream": lambda stream: nullcontext(),
    }
    for name, stand_in in stand_ins.items():
        setattr(torch.cuda, name, stand_in)


def _set_target(arch: int) -> None:
    from triton.backends.compiler import GPUTarget
    from triton.runtime.driver import driver

    target = GPUTarget("cuda", arch, 32)
    active: Any = types.SimpleNamespace(
        get_current_target=lambda: target,
        get_current_device=lambda: 0,
        get_current_stream=lambda device: 0,
        get_active_torch_device=lambda: torch.device("cpu"),
        get_device_interface=lambda: torch.cuda,
        set_current_device=lambda device: None,
        get_device_capability=lambda device=0: (arch // 10, arch % 10),
        utils=types.SimpleNamespace(
            get_device_properties=lambda device: {
                "max_shared_mem": _SHARED_BYTES.get(arch, _SHARED_OTHERWISE),
                "multiprocessor_count": 132,
                "max_num_regs": 65536,
                "warpSize": 32,
            }
        ),
    )
    driver.set_active(active)


def _tame_autotuner(configs: int, *, launch: bool) -> None:
    """Have autotuners try `configs` of their configurations, and measure nothing."""
    from triton.runtime.autotuner import Autotuner

    prune = Autotuner.prune_configs

    def few(self: Any, kwargs: Any) -> Any:
        return prune(self, kwargs)[:configs]

    def bench(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        if launch:
            self.fn.run(*args, **{**meta, **config.all_kwargs()})
        return [1.0, 1.0, 1.0]

    Autotuner.prune_configs, Autotuner._bench = few, bench


def _facts(kernel: Any) -> dict[str, Any]:
    """Return what is known of a compiled kernel: name, warps, shared memory, and what ptxas says of its code."""
    metadata = kernel.metadata
    facts = {"name": metadata.name, "warps": metadata.num_warps, "shared_bytes": metadata.shared}
    return facts | _registers(kernel.asm["ptx"])


def _registers(ptx: str) -> dict[str, int]:
    """Return what ptxas says of a kernel's code; nothing when no ptxas that comes with Triton reads it."""
    import triton.backends.nvidia

    target = re.search(r"^\.target\s+(\w+)", ptx, re.MULTILINE)
    Path("kernel.ptx").write_text(ptx)
    options = ["-v", f"--gpu-name={target[1] if target else ''}", "kernel.ptx", "-o", "kernel.cubin"]
    patterns = {
        "registers": r"Used (\d+) registers",
        "spill_store_bytes": r"(\d+) bytes spill stores",
        "spill_load_bytes": r"(\d+) bytes spill loads",
    }
    # Each reads PTX up to its own version, and Triton writes that of the newer one where it has two.
    for tool in sorted(Path(next(iter(triton.backends.nvidia.__path__)), "bin").glob("ptxas*"), reverse=True):
        done = subprocess.run([str(tool), *options], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            found = {name: re.search(pattern, done.stderr) for name, pattern in patterns.items()}
            return {name: int(match[1]) for name, match in found.items() if match is not None}
    return {}
