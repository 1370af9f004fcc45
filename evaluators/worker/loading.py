"""Loading a program inside the confined process, and words for what goes wrong there."""

import ctypes
import importlib.util
import inspect
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch

from evaluators.worker.cuda_errors import status_of
from evaluators.worker.failure import CandidateFailure, lacks_memory
from evaluators.worker.source import load_source
from evaluators.worker.status import Status

_WATCHED: tuple[tuple[Any, str], ...] = (
    (time, "perf_counter"),
    (time, "perf_counter_ns"),
    (time, "monotonic"),
    (time, "process_time"),
    (time, "thread_time"),
    (time, "time"),
    (os, "_exit"),
    (torch, "empty"),
    (torch, "empty_like"),
    (torch, "randn"),
    (torch.cuda, "synchronize"),
    (torch.cuda, "current_stream"),
    (torch.cuda.Event, "elapsed_time"),
    (torch.cuda.Event, "record"),
    (torch.cuda.Event, "synchronize"),
    (torch.cuda, "Event"),
    (torch.cuda, "Stream"),
    (torch, "allclose"),
    (torch, "equal"),
    (torch, "frombuffer"),
    (torch.testing, "assert_close"),
    (torch.Tensor, "copy_"),
    (torch.Tensor, "data_ptr"),
)

Function = Callable[..., Any]


def load(request: dict[str, Any], fds: list[int]) -> tuple[Function, Function | None]:
    """Return the program's function, and what makes its arguments outside of the timed call (planned baselines only).

    Raises CandidateFailure (import_error) when there is no function.
    """
    if request["binding"] == "plain_c":
        return _load_library(request["path"], request["entry_point"]), None
    if request["binding"] == "baseline":
        return _load_baseline(fds[0], request["inputs"])
    return _load_module(request["path"], request["entry_point"]), None


class Guard:
    """Turns whatever the program raises, SystemExit included, into `failure`: the program must not end the runner."""

    failure: dict[str, Any] | None = None

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Keep the failure and go on."""
        if error is not None:
            self.failure = describe(error)
        return True


def snapshot() -> list[Any]:
    """Return what `changed` compares against: the clocks and torch functions as they are before the program loads."""
    return [vars(owner).get(name) for owner, name in _WATCHED]


def changed(before: list[Any]) -> list[str]:
    """Return the names of watched functions that have been replaced."""
    now = snapshot()
    return [name for (_, name), old, new in zip(_WATCHED, before, now, strict=True) if old is not new]


def describe(error: BaseException) -> dict[str, Any]:
    """Return an exception as a failure: status, message, rule and the innermost frames."""
    if isinstance(error, CandidateFailure):
        return {"status": error.status, "message": error.message, "rule": error.rule, "log": error.log}
    text = f"{type(error).__name__}: {error}"
    status = Status.OUT_OF_MEMORY if lacks_memory(error) else status_of(text) or Status.RUNTIME_ERROR
    # What torch says of a full GPU goes on for ten lines, about options of its own.
    message = text.split(". ")[0][:500] if "CUDA out of memory" in text else text[:500]
    return {"status": status, "message": message, "rule": None, "log": _frames(error)}


def _frames(error: BaseException) -> str:
    own = os.path.dirname(__file__)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if os.path.dirname(frame.filename) != own]
    lines = [
        f"{os.path.basename(frame.filename)}:{frame.lineno} in {frame.name}: {frame.line or ''}"
        for frame in frames[-8:]
    ]
    return "\n".join([*lines, f"{type(error).__name__}: {error}"])[-4000:]


def _load_library(path: str, entry_point: str) -> Callable[..., Any]:
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise CandidateFailure(Status.IMPORT_ERROR, f"the program cannot be loaded: {error}") from error
    try:
        function = library[entry_point]
    except AttributeError:
        message = f'the program defines no C function {entry_point}; declare it extern "C"'
        raise CandidateFailure(Status.IMPORT_ERROR, message) from None
    function.restype = None
    return function


def last_error(path: str) -> Callable[[], bytes | None]:
    """Return the function, built into every plain C program for a GPU, that names and clears its runtime's error."""
    function = ctypes.CDLL(path)["ksearch_last_error"]
    function.restype = ctypes.c_char_p
    return function


def _load_module(path: str, entry_point: str) -> Callable[..., Any]:
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location("candidate", path)
    if spec is None or spec.loader is None:
        raise CandidateFailure(Status.IMPORT_ERROR, f"{os.path.basename(path)} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["candidate"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:  # a program may raise anything, SystemExit too: it is its verdict
        failure = describe(error)
        status = failure["status"] if failure["status"] != Status.RUNTIME_ERROR else Status.IMPORT_ERROR
        raise CandidateFailure(status, failure["message"], log=failure["log"]) from error
    function = vars(module).get(entry_point)
    if not callable(function):
        raise CandidateFailure(Status.IMPORT_ERROR, f"the program defines no function {entry_point}")
    return function  # type: ignore[no-any-return]


def _load_baseline(fd: int, inputs: list[str]) -> tuple[Function, Function | None]:
    """Return the reference module's `baseline` (default: `reference`), to be called by position like a program.

    When it has a `planned_baseline`, that takes the inputs by position, and what it returns is called.
    """
    with os.fdopen(fd, "rb") as file:
        source = file.read().decode()
    names = vars(load_source(source))
    if "planned_baseline" in names:
        return _call_planned, _by_position(names["planned_baseline"], inputs)
    return _by_position(names["baseline"] if "baseline" in names else names["reference"], inputs), None


def _call_planned(planned: Callable[[], Any]) -> Any:
    return planned()


def _by_position(function: Function, inputs: list[str]) -> Function:
    if list(inspect.signature(function).parameters) == inputs:
        return function
    return lambda *values: function(**dict(zip(inputs, values, strict=True)))
