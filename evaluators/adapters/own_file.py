"""A task in one Python file: which kind it is, is told by what the file defines."""

from pathlib import Path

from evaluators.adapters.own_evaluator import is_evaluator, own_evaluator
from evaluators.adapters.own_task import own_task
from evaluators.adapters.source_file import SourceFile
from evaluators.task import Task


def load_task(rest: str) -> Task:
    """Return the task in the file `rest`. Raises TaskError, one line that names the file and what in it is wrong."""
    source = SourceFile.read(Path(rest))
    if "Model" in source.classes and "get_inputs" in source.functions:
        source.refuse(f"is a KernelBench problem: call it kernelbench:{rest}")
    if "reference" in source.functions:
        return own_task(source)
    if is_evaluator(source):
        return own_evaluator(source)
    source.refuse(
        "defines no function reference(...), which says what to compute, nor evaluate(path); docs/own-task.md shows how"
    )
