"""A definition with its workloads becomes a task. Nothing is run."""

import ast
import inspect
import json
import keyword
import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import ValidationError

from evaluators.adapters.flashinfer import synthesis
from evaluators.adapters.flashinfer.folder import DataFolder
from evaluators.adapters.flashinfer.records import DTYPES, Argument, ConstAxis, Definition, Number, Stored
from evaluators.adapters.flashinfer.records import Workload as FibWorkload
from evaluators.adapters.flashinfer.stored import file_digest, find_tensor
from evaluators.errors import TaskError
from evaluators.invalid import first_problem
from evaluators.objective import Objective
from evaluators.task import Contract, DType, Scalar, Task, Tensor, Tolerance, Workload
from evaluators.task_file import MAX_WORKLOAD_BYTES
from evaluators.task_source import check_reference
from evaluators.worker.layout import ITEM_BYTES

SEARCHED = 8
"""Of more workloads than this, so many, evenly spaced in the file, are searched on; the others are held out."""
_LARGEST_FLOAT = 3.4028234e38


@dataclass(frozen=True)
class Options:
    """What the person who names a definition may choose."""

    tolerance: Tolerance
    device: Literal["cpu", "cuda"] = "cuda"
    origin: str = "flashinfer"


def import_task(folder: DataFolder, name: str, options: Options) -> Task:
    """Return the task of the definition `name`. Raises TaskError, one line with file, field and reason."""
    definition, path = folder.definition(name)
    _check_definition(definition, str(path))
    workloads = folder.workloads(definition)
    made = tuple(
        _workload(folder, definition, workload, place, _split(number, len(workloads)))
        for number, (workload, place) in enumerate(workloads)
    )
    reference = _reference(definition, folder.root, options.device)
    arguments = (*definition.inputs, *definition.outputs)
    try:
        task = Task(
            name=definition.name,
            title=f"{definition.name} (FlashInfer-Bench, {definition.op_type})",
            description=_description(definition),
            device=options.device,
            constants={axis: item.value for axis, item in definition.axes.items() if isinstance(item, ConstAxis)},
            axes=_variable(definition),
            inputs={input_: _argument(item) for input_, item in definition.inputs.items()},
            outputs={output: _tensor(item) for output, item in definition.outputs.items()},
            arguments=arguments,
            workloads=made,
            tolerance=options.tolerance,
            objective=Objective(aggregate="mean"),
            contracts={
                "python": Contract(entry_point="run", binding="dps"),
                "triton": Contract(entry_point="run", binding="dps"),
            },
            reference=reference,
            timeout_s=300.0,
            origin=options.origin,
            reference_at=f"{path.relative_to(folder.root)}: reference",
            workloads_at=workloads[0][1].rpartition(":")[0],
            notes=_drawn(workloads, made),
        )
        check_reference(reference, tuple(definition.inputs))
    except ValidationError as error:
        raise TaskError(f"{path}: {first_problem(error)}") from error
    except TaskError as error:
        raise TaskError(f"{path}: {error}") from error
    return task


def folder_of(task: Task) -> Path | None:
    """Return the folder whose tensors an imported task's inputs are read from, None when there are none."""
    if not any(name.startswith("stored_") for workload in task.workloads for name in workload.params):
        return None
    said = [node.value for node in ast.parse(task.reference).body if isinstance(node, ast.Assign) and _is_spec(node)]
    return Path(ast.literal_eval(said[-1])["root"]) if said else None


def _is_spec(node: ast.Assign) -> bool:
    return [target.id for target in node.targets if isinstance(target, ast.Name)] == ["SPEC"]


def _check_definition(definition: Definition, place: str) -> None:
    for group, arguments in (("inputs", definition.inputs), ("outputs", definition.outputs)):
        for name, argument in arguments.items():
            if keyword.iskeyword(name):
                raise TaskError(f"{place}: {group}.{name}: is a word of Python, no argument can be called by it")
            _check_argument(definition, argument, f"{place}: {group}.{name}", output=group == "outputs")
    both = set(definition.inputs) & set(definition.outputs)
    if both:
        raise TaskError(f"{place}: outputs.{sorted(both)[0]}: is an input too")
    _check_run(definition, place)


def _check_argument(definition: Definition, argument: Argument, place: str, *, output: bool) -> None:
    if argument.dtype not in DTYPES:
        raise TaskError(f"{place}.dtype: unknown dtype {argument.dtype!r}; it may be one of {', '.join(DTYPES)}")
    if argument.shape is None:
        if output or argument.dtype == "bool":
            raise TaskError(f"{place}: {'outputs' if output else 'bools'} that are Python numbers are not supported")
        return
    if argument.dtype not in get_args(DType):
        raise TaskError(f"{place}.dtype: {argument.dtype} is not supported")
    if not argument.shape:
        raise TaskError(f"{place}.shape: tensors without axes are not supported")
    for axis in argument.shape:
        if axis not in definition.axes:
            raise TaskError(f"{place}.shape: unknown axis {axis!r}")


def _check_run(definition: Definition, place: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(definition.reference)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise TaskError(f"{place}: reference: is not Python: {str(error) or 'nested too deeply'}") from error
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "run"]
    if not functions:
        raise TaskError(f"{place}: reference: defines no function run({', '.join(definition.inputs)})")
    arguments = functions[-1].args
    most = len(arguments.posonlyargs) + len(arguments.args)
    fewest = most - len(arguments.defaults)
    if not fewest <= len(definition.inputs) or (len(definition.inputs) > most and arguments.vararg is None):
        raise TaskError(f"{place}: reference: run takes {most} arguments, there are {len(definition.inputs)} inputs")


def _split(number: int, count: int) -> Literal["search", "held_out"]:
    if count <= SEARCHED:
        return "search"
    chosen = {round(step * (count - 1) / (SEARCHED - 1)) for step in range(SEARCHED)}
    return "search" if number in chosen else "held_out"


def _variable(definition: Definition) -> tuple[str, ...]:
    return tuple(axis for axis, item in definition.axes.items() if not isinstance(item, ConstAxis))


def _workload(
    folder: DataFolder, definition: Definition, workload: FibWorkload, place: str, split: Literal["search", "held_out"]
) -> Workload:
    if set(workload.axes) != set(_variable(definition)):
        raise TaskError(f"{place}: workload.axes: must be exactly {sorted(_variable(definition))}")
    if set(workload.inputs) != set(definition.inputs):
        raise TaskError(f"{place}: workload.inputs: must be exactly {sorted(definition.inputs)}")
    constants = {axis: item.value for axis, item in definition.axes.items() if isinstance(item, ConstAxis)}
    sizes = {**constants, **workload.axes}
    total = sum(
        ITEM_BYTES[argument.dtype] * math.prod(sizes[axis] for axis in argument.shape)
        for argument in (*definition.inputs.values(), *definition.outputs.values())
        if argument.shape is not None
    )
    if total > MAX_WORKLOAD_BYTES:
        raise TaskError(
            f"{place}: workload.axes: the tensors take {total >> 30} GiB, more than {MAX_WORKLOAD_BYTES >> 30} GiB"
        )
    params: dict[str, int | float | str | bool] = {}
    for name, argument in definition.inputs.items():
        params.update(_source(folder, definition, workload, name, argument, sizes, place))
    return Workload(name=workload.uuid, split=split, axes=workload.axes, params=params)


def _drawn(given: Sequence[tuple[FibWorkload, str]], made: Sequence[Workload]) -> tuple[str, ...]:
    """Return a note on the tensors that are drawn because the files that should hold them are not there."""
    missing = Counter(
        name
        for (workload, _), task_workload in zip(given, made, strict=True)
        for name, source in workload.inputs.items()
        if isinstance(source, Stored) and f"stored_{name}" not in task_workload.params
    )
    if not missing:
        return ()
    found = ", ".join(f"{name} ({count} of {len(made)} workloads)" for name, count in missing.items())
    return (f"inputs made up because their files are missing: {found}",)


def _source(
    folder: DataFolder,
    definition: Definition,
    workload: FibWorkload,
    name: str,
    argument: Argument,
    sizes: Mapping[str, int],
    place: str,
) -> dict[str, int | float | str | bool]:
    """Return the generator's parameters for one input."""
    given = workload.inputs[name]
    place = f"{place}: workload.inputs.{name}"
    if isinstance(given, Number):
        _check_number(argument, given.value, place)
        return {name: given.value}
    if not isinstance(given, Stored):
        return {}
    if argument.shape is None:
        raise TaskError(f"{place}: a Python number cannot come from a file")
    path = folder.blob(given.path, f"{place}.path")
    if not path.is_file():
        _check_makeable(definition, name, f"{place}.path: {path} is missing")
        return {}
    found = find_tensor(path, given.tensor_key, f"{place}.tensor_key")
    wanted = tuple(sizes[axis] for axis in argument.shape)
    if found.dtype != argument.dtype or found.shape != wanted:
        raise TaskError(
            f"{place}: {path} holds {found.dtype} {list(found.shape)}, declared is {argument.dtype} {list(wanted)}"
        )
    return {f"stored_{name}": f"{file_digest(path)}:{found.start}:{found.dtype}:{given.path}"}


def _check_number(argument: Argument, value: float, place: str) -> None:
    """Check that a given number is one that a program can be handed; raises TaskError."""
    if argument.shape is not None:
        raise TaskError(f"{place}: {str(value)[:40]} is a number, the argument is a tensor")
    if argument.dtype.startswith("int"):
        most = 2**63 if argument.dtype == "int64" else 2**31
        if type(value) is not int or not -most <= value < most:
            raise TaskError(f"{place}: {str(value)[:40]} is not an {'int64' if most == 2**63 else 'int32'}")
    elif isinstance(value, bool) or abs(value) > _LARGEST_FLOAT or value != value:
        raise TaskError(f"{place}: {str(value)[:40]} is not a number, or not finite")


def _check_makeable(definition: Definition, name: str, problem: str) -> None:
    """Raise TaskError when an input whose file is missing cannot be made up sensibly."""
    inputs = _plain(definition)
    if inputs[name]["dtype"].startswith("int") and not synthesis.is_index(name, inputs[name], inputs):
        raise TaskError(f"{problem}, and integers of an unknown meaning cannot be made up; git lfs pull fetches it")


def _plain(definition: Definition) -> dict[str, dict[str, Any]]:
    return {
        name: {"shape": None if item.shape is None else list(item.shape), "dtype": item.dtype}
        for name, item in definition.inputs.items()
    }


def _argument(argument: Argument) -> Tensor | Scalar:
    if argument.shape is not None:
        return _tensor(argument)
    kind: Literal["float32", "int32", "int64"] = "float32"
    if argument.dtype.startswith("int"):
        kind = "int64" if argument.dtype == "int64" else "int32"
    return Scalar(scalar=kind, description=argument.description or "")


def _tensor(argument: Argument) -> Tensor:
    dtype: DType = next(item for item in get_args(DType) if item == argument.dtype)
    return Tensor(shape=argument.shape or (), dtype=dtype, description=argument.description or "")


def _description(definition: Definition) -> str:
    call = ", ".join((*definition.inputs, *definition.outputs))
    lines = [
        definition.description or definition.name,
        "",
        f"Python and Triton: `run({call})` writes into the last {len(definition.outputs)}.",
        "",
        "What it must compute, as plain torch (`run(*inputs)` returns the outputs):",
        "",
        "```python",
        definition.reference.rstrip(),
        "```",
    ]
    if definition.constraints:
        lines += ["", "Always true: " + "; ".join(f"`{item}`" for item in definition.constraints)]
    return "\n".join(lines)


def _reference(definition: Definition, root: Path, device: str) -> str:
    """Return the source of the task's reference module: the generator, and the definition's `run` in its own names."""
    spec = {"inputs": _plain(definition), "device": device, "root": str(root.resolve())}
    arguments = ", ".join(definition.inputs)
    return "\n".join(
        [
            inspect.getsource(synthesis).rstrip(),
            "",
            "",
            f"SPEC = {spec!r}",
            f"OUTPUTS = {list(definition.outputs)!r}",
            f"DEFINITION = {json.dumps(definition.reference)}",
            "_names = {'__name__': 'definition'}",
            "exec(compile(DEFINITION, 'definition.py', 'exec'), _names)",
            "",
            "",
            "def inputs(axes, params, seed):",
            "    return make_inputs(SPEC, axes, params, seed)",
            "",
            "",
            f"def reference({arguments}):",
            f"    answer = _names['run']({arguments})",
            "    if isinstance(answer, dict):",
            "        return answer",
            "    answer = tuple(answer) if isinstance(answer, (tuple, list)) else (answer,)",
            "    return dict(zip(OUTPUTS, answer, strict=True))",
            "",
        ]
    )
