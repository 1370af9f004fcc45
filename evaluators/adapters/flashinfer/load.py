"""`flashinfer:ROOT#DEFINITION`, with options behind a question mark."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl

from evaluators.adapters.flashinfer.folder import DataFolder
from evaluators.adapters.flashinfer.importing import Options, import_task
from evaluators.adapters.flashinfer.rules import tolerance
from evaluators.errors import TaskError
from evaluators.task import Task

_OPTIONS = ("tolerance", "device")


def load_task(rest: str) -> Task:
    """Return the task of `ROOT#DEFINITION[?tolerance=NAME&device=cpu]`.

    Tensors that the folder stores are read when the task is evaluated, and must then be what they were: a task with
    such tensors is evaluated where the folder is. Raises TaskError that names file, field and reason.
    """
    root, mark, definition = rest.partition("#")
    definition, _, query = definition.partition("?")
    if not mark or not root or not definition:
        raise TaskError(f"flashinfer:{rest}: must be flashinfer:ROOT#DEFINITION, ROOT a flashinfer-trace folder")
    options = _options(query, rest)
    if "/" in definition or definition.startswith("."):
        raise TaskError(f"flashinfer:{rest}: {definition!r} is not the name of a definition")
    rule = tolerance(definition, options.get("tolerance"))
    device: Literal["cpu", "cuda"] = "cpu" if options.get("device") == "cpu" else "cuda"
    return import_task(DataFolder(Path(root)), definition, Options(rule, device, f"flashinfer:{rest}"))


def _options(query: str, rest: str) -> Mapping[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if name not in _OPTIONS:
            raise TaskError(f"flashinfer:{rest}: unknown option {name!r}; it may be one of {', '.join(_OPTIONS)}")
    if options.get("device", "cuda") not in ("cpu", "cuda"):
        raise TaskError(f"flashinfer:{rest}: device: must be cpu or cuda")
    return options
