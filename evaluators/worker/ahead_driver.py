"""Compiles a program's Triton kernels where there is no GPU: runs it on tensors without data, launches nothing.

Its source is run in a confined process (see `script`), with the folder that Triton keeps its results in. What it finds
there later, on the GPU, need not be compiled again. What cannot be compiled this way is left to the first call.
"""

import importlib.util
import sys
from typing import Any


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Compile what calling the entry point on each case compiles; return how many kernels, and what went wrong."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from evaluators.worker.loading import Guard

    compiled: list[str] = []
    problems: list[str] = []
    function: Any = None
    guard = Guard()
    with guard:
        _take_over(tuple(request["capability"]), compiled)
        function = _load(request["path"], request["entry_point"])
    if guard.failure is not None:
        return {"compiled": 0, "problems": [guard.failure["message"][:300]]}
    for arguments in request["cases"]:
        guard = Guard()
        with guard, FakeTensorMode(allow_non_fake_inputs=True):
            function(*(_argument(one) for one in arguments))
        if guard.failure is not None:
            problems.append(guard.failure["message"][:300])
    return {"compiled": len(set(compiled)), "problems": problems[:3]}


def _argument(one: dict[str, Any]) -> Any:
    import torch

    if one["shape"] is None:
        return 1.0 if one["dtype"].startswith("float") else 1
    return torch.empty(one["shape"], dtype=getattr(torch, one["dtype"]), device="cuda")


def _load(path: str, entry_point: str) -> Any:
    spec = importlib.util.spec_from_file_location("candidate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["candidate"] = module
    spec.loader.exec_module(module)
    return vars(module)[entry_point]


def _take_over(capability: tuple[int, int], compiled: list[str]) -> None:
    """Give Triton a driver that names the architecture, and have each launch end once its kernel is compiled."""
    import torch
    from triton.backends.compiler import GPUTarget
    from triton.runtime import autotuner, driver, jit

    target = GPUTarget("cuda", 10 * capability[0] + capability[1], 32)
    driver.set_active(_driver(target))
    launch, mock = jit.JITFunction.run, jit.MockTensor

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        plain = [mock(one.dtype) if isinstance(one, torch.Tensor) else one for one in args]
        named = {key: mock(one.dtype) if isinstance(one, torch.Tensor) else one for key, one in kwargs.items()}
        kernel = launch(self, *plain, grid=grid, warmup=True, **named)
        if kernel is None:
            return None
        compiled.append(kernel.hash)
        active: Any = driver.active
        launcher = active.launcher_cls
        if launcher is not None:
            launcher(kernel.src, kernel.metadata)
        return kernel

    def run_all(self: Any, *args: Any, **kwargs: Any) -> Any:
        kernel = None
        for config in self.configs:
            kernel = self.fn.run(*args, **kwargs, **config.all_kwargs())
        return kernel

    vars_of_autotuner: Any = autotuner.Autotuner
    vars_of_function: Any = jit.JITFunction
    vars_of_function.run = run
    vars_of_autotuner.run = run_all


def _driver(target: Any) -> Any:
    """Return a driver for `target`: Triton's own where the GPU's library is, so that launchers are compiled too."""
    from triton.backends.nvidia.driver import CudaDriver

    class Ahead(CudaDriver):  # type: ignore[misc]
        def __init__(self) -> None:
            try:
                super().__init__()
            except (OSError, AssertionError, ImportError, RuntimeError):
                self.launcher_cls = None

        def get_current_target(self) -> Any:
            return target

        def get_current_device(self) -> int:
            return 0

        def get_current_stream(self, device: int) -> int:
            return 0

    made: Any = Ahead()
    # Triton's own constructor binds torch's functions, which ask the GPU, to the object.
    made.get_current_device = lambda: 0
    made.get_current_stream = lambda device: 0
    return made
