"""`flashinfer:ROOT#DEFINITION`, with options behind a question mark."""

from pathlib import Path
from typing import Literal

from evaluators.adapters.flashinfer.folder import DataFolder
from evaluators.adapters.flashinfer.importing import Options, import_task
from evaluators.adapters.flashinfer.protocol import fib_task, read_options
from evaluators.adapters.flashinfer.rules import tolerance
from evaluators.errors import TaskError
from evaluators.task import Task

_OPTIONS = ("tolerance", "device", "protocol")


def load_task(rest: str) -> Task:
    """Return the task of `ROOT#DEFINITION[?tolerance=NAME&device=cpu&protocol=fib]`.

    Tensors that the folder stores are read when the task is evaluated, and must then be what they were: a task with
    such tensors is evaluated where the folder is. Raises TaskError that names file, field and reason.
    """
    root, mark, definition = rest.partition("#")
    definition, _, query = definition.partition("?")
    if not mark or not root or not definition:
        raise TaskError(f"flashinfer:{rest}: must be flashinfer:ROOT#DEFINITION, ROOT a flashinfer-trace folder")
    reference = f"flashinfer:{rest}"
    options = read_options(query, _OPTIONS, reference)
    if options.get("device", "cuda") not in ("cpu", "cuda"):
        raise TaskError(f"{reference}: device: must be cpu or cuda")
    if "/" in definition or definition.startswith("."):
        raise TaskError(f"{reference}: {definition!r} is not the name of a definition")
    rule = tolerance(definition, options.get("tolerance"), reference)
    device: Literal["cpu", "cuda"] = "cpu" if options.get("device") == "cpu" else "cuda"
    task = import_task(DataFolder(Path(root)), definition, Options(rule, device, reference))
    return fib_task(task, reference) if "protocol" in options else task
