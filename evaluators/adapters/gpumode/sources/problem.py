"""The problem's modules, loaded from their texts."""

import importlib
import importlib.abc
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class Problem:
    """What the problem's reference.py defines, called where its modules can import each other."""

    def __init__(self, files: Mapping[str, str], device: str) -> None:
        """Load the modules in `files` (file name -> text).

        On the device "cpu", and where there is no GPU in sight, nothing is asked of one.
        """
        self._finder, self._device = _Finder(files), device if torch.cuda.is_available() else "cpu"
        self._modules: dict[str, ModuleType] = {}
        with self._inside():
            self._reference = importlib.import_module("reference")

    def generated(self, axes: Mapping[str, Any], params: Mapping[str, Any], seed: int) -> Any:
        """Return the `data` of a case, drawn from `seed`."""
        taken = inspect.signature(self._reference.generate_input).parameters
        case = {name: value for name, value in {**params, **axes}.items() if name in taken}
        if "seed" in case:
            case["seed"] = seed % (2**31 - 1)
        torch.manual_seed(seed)
        with self._inside():
            return self._reference.generate_input(**case)

    def answer(self, data: Any) -> Any:
        """Return what the problem's reference returns."""
        with torch.no_grad(), self._inside():
            return self._reference.ref_kernel(data)

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """Let the problem's modules be imported, in place of others of their names."""
        before = {name: sys.modules.pop(name, None) for name in self._finder.names}
        sys.modules.update(self._modules)
        sys.meta_path.insert(0, self._finder)
        try:
            with _on_processor() if self._device == "cpu" else nullcontext():
                yield
        finally:
            sys.meta_path.remove(self._finder)
            for name, module in before.items():
                found = sys.modules.pop(name, None)
                if found is not None:
                    self._modules[name] = found
                if module is not None:
                    sys.modules[name] = module


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules in texts."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._texts = {name.removesuffix(".py"): text for name, text in files.items()}
        self.names = tuple(self._texts)

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return where the module is found."""
        return importlib.util.spec_from_loader(fullname, self) if fullname in self._texts else None

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's text."""
        name = module.__name__
        exec(compile(self._texts[name], f"{name}.py", "exec"), vars(module))


@contextmanager
def _on_processor() -> Iterator[None]:
    """Have what asks for a GPU run on the processor."""
    generator, synchronize = torch.Generator, torch.cuda.synchronize
    torch.__dict__["Generator"] = _Generator
    torch.cuda.__dict__["synchronize"] = lambda *args: None
    try:
        with _Processor():
            yield
    finally:
        torch.__dict__["Generator"], torch.cuda.__dict__["synchronize"] = generator, synchronize


class _Generator(torch.Generator):
    """One for any device, on the processor."""

    def __new__(cls, device: object = "cpu") -> "_Generator":
        """Make one."""
        return super().__new__(cls)


class _Processor(TorchFunctionMode):
    """Makes on the processor what is asked for on a GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call `func`, with the processor in place of every GPU."""
        if func is torch.Tensor.cuda:
            return args[0]
        if kwargs:
            kwargs = {name: _placed(value) for name, value in kwargs.items()}
        return func(*map(_placed, args), **kwargs or {})


def _placed(value: Any) -> Any:
    on_gpu = isinstance(value, (str, torch.device)) and str(value).split(":")[0] == "cuda"
    return torch.device("cpu") if on_gpu else value
