"""A user's own task: a file with a function `inputs` and a function `reference`, on torch tensors."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from evaluators.adapters.probing import probed
from evaluators.adapters.source_file import SourceFile
from evaluators.errors import TaskError
from evaluators.invalid import first_problem
from evaluators.solution import SUFFIX, Binding, Language
from evaluators.task import LONGEST_NAME, Contract, Task, Tensor, Tolerance, Workload, repeated
from evaluators.task_file import check_seed, one_line, size_problem
from evaluators.task_source import DECLARATIONS, check_reference

TOLERANCES: Mapping[str, Tolerance] = {
    "float64": Tolerance(rtol=1e-9, atol=1e-11),
    "float32": Tolerance(rtol=1e-4, atol=1e-5),
    "float16": Tolerance(rtol=1e-2, atol=1e-3),
    "bfloat16": Tolerance(rtol=2e-2, atol=1e-2),
    "float8_e4m3fn": Tolerance(rtol=0.13, atol=1e-2),
    "float8_e5m2": Tolerance(rtol=0.26, atol=1e-2),
}
"""What is right when the file does not say, by the narrowest type of the outputs; integers must be equal."""
LANGUAGES: Mapping[str, tuple[Language, ...]] = {"cpu": ("cpp", "python"), "cuda": ("triton", "cuda", "python")}
_BINDINGS: Mapping[Language, Binding] = {"cpp": "plain_c", "cuda": "plain_c", "python": "value", "triton": "value"}
_INPUTS = '''

# How the evaluator calls the functions above.
def inputs(axes, params, seed, *, _made_by=inputs):
    """Return the inputs by name, drawn from the seed."""
    import random

    import numpy
    import torch

    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    given = {{**axes, **params, "seed": seed}}
    made = _made_by(**{{name: given[name] for name in {parameters} if name in given}})
    if isinstance(made, dict):
        return made
    return dict(zip({arguments}, made if isinstance(made, (tuple, list)) else (made,), strict=True))
'''
_FLOOR = '''

def floor(axes, *, _told_by=floor):
    """Return the least bytes moved and operations done."""
    return _told_by(**{{name: axes[name] for name in {parameters} if name in axes}})
'''


def own_task(source: SourceFile) -> Task:
    """Return the task of a file that defines `inputs` and `reference`. Raises TaskError."""
    if "inputs" not in source.functions:
        source.refuse("defines no function inputs(...), which makes the arguments of reference(...)")
    constants = source.constants(DECLARATIONS)
    workloads = _workloads(source, constants)
    reference = _reference(source, workloads)
    device = constants.get("DEVICE", "cpu")
    if device not in tuple(LANGUAGES):
        source.refuse(f"DEVICE: must be one of {', '.join(LANGUAGES)}")
    timeout_s = constants.get("TIMEOUT_S", 60.0)
    if type(timeout_s) not in (int, float) or not 0 < timeout_s < 3600:
        source.refuse("TIMEOUT_S: must be a number of seconds, more than 0")
    name, tolerance = _name(source, constants), _tolerance(source, constants)
    contracts = _contracts(source, constants, device)
    # Only now is the file run: what can be told without it has been checked.
    signature = probed(source, reference, workloads, timeout_s, fake=device != "cpu")
    try:
        task = Task(
            name=name,
            title=title_of(source),
            description=source.docstring or "Compute what the reference computes.",
            device=device,
            constants=signature.constants,
            axes=signature.axes,
            inputs=signature.inputs,
            outputs=signature.outputs,
            workloads=signature.workloads,
            tolerance=tolerance or default_tolerance(signature.outputs),
            contracts=contracts,
            reference=reference,
            timeout_s=timeout_s,
            origin=str(source.path),
            reference_at=str(source.path),
            workloads_at=str(source.path),
        )
        check_reference(reference, tuple(task.inputs))
    except ValidationError as error:
        source.refuse(first_problem(error))
    except TaskError as error:
        if str(error).startswith(str(source.path)):
            raise
        source.refuse(str(error).removeprefix("reference.py: "))
    for workload in task.workloads:
        problem = size_problem(task, workload)
        if problem:
            constant = "WORKLOADS" if workload.split == "search" else "HELD_OUT"
            source.refuse(f"{constant if constant in constants else 'inputs'}: {workload.name!r}: {problem}")
    return task


def plain_name(path: Path) -> str:
    """Return a file's name as a task's: letters, digits, `_`, `.` and `-`."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", path.stem).lstrip("_.-") or "task"


def entry_point_of(name: str) -> str:
    """Return a task's name as the name of a function."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return plain if not plain[0].isdigit() else f"run_{plain}"


def default_tolerance(outputs: Mapping[str, Tensor]) -> Tolerance:
    """Return the tolerance of a task that declares none."""
    kinds = {tensor.dtype for tensor in outputs.values()}
    for dtype in ("float8_e5m2", "float8_e4m3fn", "bfloat16", "float16", "float32", "float64"):
        if dtype in kinds:
            return TOLERANCES[dtype]
    return Tolerance(rtol=0.0, atol=0.0)


def _name(source: SourceFile, constants: Mapping[str, Any]) -> str:
    name = constants.get("NAME", plain_name(source.path))
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name) or len(name) > LONGEST_NAME:
        source.refuse(f"NAME: must be a word of at most {LONGEST_NAME} letters, digits, _, . and -")
    return name


def title_of(source: SourceFile) -> str:
    """Return the first line of what a file says of itself."""
    return one_line(source.docstring.strip().split("\n")[0]).rstrip(".")[:100]


def _check_floor(source: SourceFile, workloads: Sequence[Workload]) -> None:
    """Check that floor() can be called with what inputs() takes that is a whole number."""
    known = set.intersection(*(set(workload.axes) for workload in workloads))
    needed = [name for name in source.required("floor") if name not in known]
    if needed:
        sizes = ", ".join(name for name in source.parameters("inputs") if name in known)
        source.refuse(f"floor: its parameter {needed[0]!r} is none of the sizes that inputs() takes: {sizes or 'none'}")


def _reference(source: SourceFile, workloads: Sequence[Workload]) -> str:
    """Return the file with what turns its functions into those that the evaluator calls."""
    arguments = source.parameters("reference")
    text = source.text.rstrip() + _INPUTS.format(parameters=source.parameters("inputs"), arguments=arguments)
    if "floor" in source.functions:
        _check_floor(source, workloads)
        text += _FLOOR.format(parameters=source.parameters("floor"))
    return text


def _workloads(source: SourceFile, constants: Mapping[str, Any]) -> list[Workload]:
    search = _listed(source, constants, "WORKLOADS") or [("default", {})]
    held_out = _listed(source, constants, "HELD_OUT")
    twice = repeated(name for name, _ in (*search, *held_out))
    if twice is not None:
        source.refuse(f"WORKLOADS, HELD_OUT: the name {twice!r} is used twice; workloads of equal sizes need names")
    return [_workload(source, name, sizes, "search") for name, sizes in search] + [
        _workload(source, name, sizes, "held_out") for name, sizes in held_out
    ]


def _listed(source: SourceFile, constants: Mapping[str, Any], key: str) -> list[tuple[str, dict[str, Any]]]:
    """Return workloads as names and what `inputs` is given; without names they are told by their values."""
    value = constants.get(key) or []
    if not isinstance(value, list | tuple | dict):
        source.refuse(f"{key}: must be a list of dicts, or a dict of them by name")
    named = list(value.items()) if isinstance(value, dict) else [(None, sizes) for sizes in value]
    found: list[tuple[str, dict[str, Any]]] = []
    for name, sizes in named:
        if not isinstance(sizes, dict) or not all(isinstance(argument, str) for argument in sizes):
            source.refuse(f"{key}: must be a list of dicts of the arguments of inputs(), such as [{{'n': 1024}}]")
        words = ",".join(f"{argument}={item}" for argument, item in sizes.items())
        found.append((str(name) if name is not None else words or "default", sizes))
    return found


def _workload(source: SourceFile, name: str, given: Mapping[str, Any], split: str) -> Workload:
    """Return a workload: whole numbers are axes, other arguments of `inputs` are parameters."""
    parameters = [parameter for parameter in source.parameters("inputs") if parameter != "seed"]
    unknown = [argument for argument in given if argument not in parameters]
    if unknown:
        source.refuse(f"workload {name!r}: inputs() has no argument {unknown[0]!r}; it has {', '.join(parameters)}")
    missing = [parameter for parameter in source.required("inputs") if parameter not in (*given, "seed")]
    if missing:
        source.refuse(f"workload {name!r}: says nothing of the argument {missing[0]!r} of inputs(); see WORKLOADS")
    # A default that is no such value, None say, is left to Python.
    values = {key: value for key, value in source.defaults("inputs").items() if _passed_on(value)} | dict(given)
    odd = [argument for argument in given if not _passed_on(given[argument])]
    if odd:
        source.refuse(
            f"workload {name!r}: {odd[0]}: must be a finite number, a text, True or False, it is {given[odd[0]]!r:.80}"
        )
    parameters = [parameter for parameter in parameters if parameter in values]
    axes = {key: values[key] for key in parameters if type(values[key]) is int}
    params = {key: values[key] for key in parameters if key not in axes}
    workload = {"name": name, "split": split, "axes": axes, "params": params}
    try:
        return Workload.model_validate(workload, strict=True)
    except ValidationError as error:
        source.refuse(f"workload {name!r}: {first_problem(error, workload)}")


def _passed_on(value: Any) -> bool:
    return isinstance(value, int | str) or (isinstance(value, float) and math.isfinite(value))


def _tolerance(source: SourceFile, constants: Mapping[str, Any]) -> Tolerance | None:
    if "TOLERANCE" not in constants:
        return None
    value = constants["TOLERANCE"]
    fields = ", ".join(Tolerance.model_fields)
    if not isinstance(value, dict):
        source.refuse(f"TOLERANCE: must be a dict of some of {fields}")
    for key in value:
        if key not in Tolerance.model_fields:
            source.refuse(f"TOLERANCE: {key!r:.80} is none of {fields}")
    try:
        return Tolerance.model_validate(value, strict=True)
    except ValidationError as error:
        source.refuse(f"TOLERANCE.{first_problem(error)}")


def _contracts(source: SourceFile, constants: Mapping[str, Any], device: str) -> dict[Language, Contract]:
    languages = constants.get("LANGUAGES", LANGUAGES[device])
    known = get_args(Language)
    if not isinstance(languages, list | tuple) or not languages or not all(word in known for word in languages):
        source.refuse(f"LANGUAGES: must be a list of some of {', '.join(known)}")
    seeds = _seeds(source, constants.get("SEED", {}), languages)
    entry_point = entry_point_of(_name(source, constants))
    contracts: dict[Language, Contract] = {}
    for language in languages:
        files = seeds.get(language)
        contracts[language] = Contract(
            entry_point=entry_point, binding=_BINDINGS[language], flags=(), seed=files or None
        )
        check_seed(contracts[language], language, files or {}, "SEED")
    return contracts


def _seeds(source: SourceFile, value: Any, languages: Sequence[Language]) -> dict[Language, dict[str, str]]:
    """Return the seed programs' files by language; SEED is a file's name, or names by language."""
    if isinstance(value, str):
        fitting = [language for language in languages if SUFFIX[language] == Path(value).suffix]
        if not fitting:
            source.refuse(f"SEED: {value!r} is a program in none of {', '.join(languages)}")
        value = {fitting[0]: value}
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value.values()):
        source.refuse("SEED: must be the name of a file beside this one, or names by language: {'cpp': 'seed.cpp'}")
    for language in value:
        if language not in languages:
            source.refuse(f"SEED: {language!r} is none of this task's languages: {', '.join(languages)}")
    return {language: {name: source.beside("SEED", name)} for language, name in value.items()}
