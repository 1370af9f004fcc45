"""Output classes: `TASK?output=float16` wants narrower results than TASK, and is ranked apart: it is another task.

Half the bytes of a result are saved then, which is no better kernel. So such programs never meet those of the task.
"""

from evaluators.errors import TaskError
from evaluators.task import Task, Tensor

OUTPUT = "output"
"""The option's name."""
_CLASSES = ("float16", "bfloat16")
_WIDE, _SAVED_BYTES = "float32", 2
_DESCRIPTION = """{about}

Output class {dtype}: {names} must be {dtype} here, contiguous, whatever is said above of float32.
"""
_NARROWED = """


def _narrowed(function):
    import functools

    import torch

    def narrow(value):
        if isinstance(value, dict):
            return {{name: narrow(item) for name, item in value.items()}}
        if isinstance(value, (tuple, list)):
            return type(value)(narrow(item) for item in value)
        return value.to(torch.{dtype}) if value.dtype == torch.float32 else value

    @functools.wraps(function)
    def call(*arguments, **named):
        return narrow(function(*arguments, **named))

    return call


def _narrowed_plan(plan):
    return lambda *arguments, **named: _narrowed(plan(*arguments, **named))


def _narrowed_floor(floor):
    import math

    def call(axes):
        found = floor(axes)
        saved = sum({saved} * math.prod(axes[axis] for axis in shape) for shape in {shapes!r})
        return {{**found, "bytes": max(0, found.get("bytes", 0) - saved)}}

    return call


for _name, _change in (("reference", _narrowed), ("baseline", _narrowed), ("planned_baseline", _narrowed_plan),
                       ("floor", _narrowed_floor)):
    if _name in globals():
        globals()[_name] = _change(globals()[_name])
"""


def with_output(task: Task, dtype: str, reference: str) -> Task:
    """Return the task with its float32 results as `dtype`, and without seed programs, which are not of that class.

    Args:
        task: Judged by our evaluator.
        dtype: float16 or bfloat16.
        reference: What names the class' task, for people.

    Raises TaskError.
    """
    if dtype not in _CLASSES:
        raise TaskError(f"{reference}: {OUTPUT}: must be {' or '.join(_CLASSES)}; leave it out for the task's own type")
    wide = _wide(task)
    if not wide:
        raise TaskError(f"{reference}: {OUTPUT}: is for tasks judged by ksearch that have {_WIDE} results")
    outputs = {name: _narrow(tensor, dtype) if name in wide else tensor for name, tensor in task.outputs.items()}
    shapes = [tuple(task.outputs[name].shape) for name in wide]
    return task.model_copy(
        update={
            "name": f"{task.name}-{dtype}",
            "title": f"{task.title or task.name}, {dtype} results",
            "description": _DESCRIPTION.format(about=task.description.rstrip(), dtype=dtype, names=", ".join(wide)),
            "outputs": outputs,
            "contracts": {
                language: contract.model_copy(update={"seed": None}) for language, contract in task.contracts.items()
            },
            "reference": task.reference.rstrip() + _NARROWED.format(dtype=dtype, saved=_SAVED_BYTES, shapes=shapes),
            "origin": reference,
        }
    )


def takes_output(task: Task) -> bool:
    """Return whether a task has output classes."""
    return bool(_wide(task))


def _wide(task: Task) -> list[str]:
    """Return the results that may be narrower; none of a task that ksearch does not judge."""
    return [name for name, tensor in task.outputs.items() if tensor.dtype == _WIDE and task.verdict == "harness"]


def _narrow(tensor: Tensor, dtype: str) -> Tensor:
    return Tensor.model_validate({**tensor.model_dump(), "dtype": dtype})
