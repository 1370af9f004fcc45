"""Reading a task folder: `task.toml`, `reference.py` and the seed programs. Nothing in it is run while it is read."""

import math
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from evaluators.errors import TaskError, UsageError
from evaluators.invalid import problem_in
from evaluators.knobs import declared_knobs
from evaluators.objective import Objective, Record
from evaluators.solution import Language
from evaluators.task import Contract, DType, Scalar, Task, Tensor, Tolerance, Workload
from evaluators.task_source import check_function, check_reference
from evaluators.worker.layout import ITEM_BYTES

SCHEMA = 1
TASKS = Path(__file__).resolve().parent / "tasks"
MAX_FILE_BYTES = 1 << 20
"""Largest task.toml, reference.py or seed file that is read."""
MAX_WORKLOAD_BYTES = 1 << 38
"""Largest sum of a workload's tensors: 256 GiB, more than any one device holds."""
_BUILT_IN = "built-in"
_OWN_KEYS = {"schema"}
_NOT_IN_FILE = {"reference", "origin", "reference_at", "workloads_at", "notes", "verdict", "files"}

R = TypeVar("R", bound=Record)
Table = dict[str, Any]


def builtin_tasks() -> dict[str, Path]:
    """Return the folder of every built-in task by its name, sorted."""
    return {folder.name: folder for folder in sorted(TASKS.iterdir()) if (folder / "task.toml").is_file()}


def load_task_folder(path: str | Path, baseline: str = "") -> Task:
    """Return the task that the folder at `path` describes.

    With `baseline`, programs are compared with that of the folder's file baseline_NAME.py. Raises TaskError,
    one line that names the file, the key and the reason, for a folder that describes none.
    """
    folder = Path(path)
    try:
        table = _toml(read_text(folder, "task.toml"))
        reference = read_text(folder, "reference.py") + (_baseline(folder, baseline) if baseline else "")
        task = _task(table, reference, lambda name: read_text(folder, name), _origin(folder))
        check_sizes(task)
        check_reference(reference, tuple(task.inputs))
    except UsageError as error:
        raise TaskError(one_line(_placed(folder, str(error)))) from error
    return task


def _placed(folder: Path, reason: str) -> str:
    """Return the reason behind the file that it is about."""
    if reason.startswith((str(folder), "task.toml:")):  # "." is in front of no file's name
        return reason
    return f"{folder / reason}" if reason.startswith("reference.py:") else f"{folder / 'task.toml'}: {reason}"


def one_line(text: str) -> str:
    """Return `text` without line ends, and without what could steer a terminal: the file's author is not known."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))


def _baseline(folder: Path, name: str) -> str:
    """Return the text of one of the folder's baselines, which becomes the end of its reference's."""
    known = sorted(path.stem.removeprefix("baseline_") for path in folder.glob("baseline_*.py"))
    if name not in known:
        has = f"it has {', '.join(known)}" if known else "there is none besides its reference's"
        raise TaskError(f"{folder}: there is no baseline {name!r}; {has}")
    return "\n\n" + read_text(folder, f"baseline_{name}.py")


def _origin(folder: Path) -> str:
    return _BUILT_IN if folder.resolve().parent == TASKS else str(folder)


def read_text(folder: Path, name: str) -> str:
    """Return the text of a file that lies in `folder` itself; raises TaskError that names it."""
    path = folder / name
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            raise TaskError(f"{path}: is a link to a file outside of the task's folder")
        if not path.is_file():
            raise TaskError(f"{path}: {'is not a plain file' if path.exists() else 'no such file'}")
        data = path.read_bytes() if path.stat().st_size <= MAX_FILE_BYTES else None
        if data is None:
            raise TaskError(f"{path}: is larger than {MAX_FILE_BYTES} bytes")
        return data.decode("utf-8")
    except TaskError:
        raise
    except UnicodeDecodeError as error:
        raise TaskError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    except (OSError, RuntimeError, ValueError) as error:
        raise TaskError(f"{path}: cannot be read: {error}") from error


def _toml(text: str) -> Table:
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise TaskError(f"not valid TOML: {str(error) or 'nested too deeply'}") from error
    _check_plain(table, "")
    return table


def _check_plain(value: Any, key: str) -> None:
    """Refuse what TOML can say and JSON cannot: dates, times, infinities."""
    if isinstance(value, dict):
        for name, item in value.items():
            _check_plain(item, f"{key}.{name}" if key else name)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _check_plain(item, f"{key}[{number}]")
    elif not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
        raise TaskError(f"{key}: {value} is neither a text, a finite number, true or false")


def _task(table: Table, reference: str, read: Callable[[str], str], origin: str) -> Task:
    _check_keys(table, (set(Task.model_fields) | _OWN_KEYS) - _NOT_IN_FILE, "")
    if table.get("schema") != SCHEMA or isinstance(table["schema"], bool):
        raise TaskError(f"schema: must be {SCHEMA}, the format that this version reads")
    content: Table = {key: value for key, value in table.items() if key not in _OWN_KEYS}
    content["inputs"] = {name: _argument(value, f"inputs.{name}") for name, value in _items(table, "inputs")}
    content["outputs"] = {name: _tensor(value, f"outputs.{name}") for name, value in _items(table, "outputs")}
    content["tolerance"] = _section(Tolerance, _required(table, "tolerance"), "tolerance")
    content["objective"] = _section(Objective, table.get("objective", {}), "objective")
    content["contracts"] = _contracts(_items(table, "contracts"), read)
    content["workloads"] = [_workload(value, number) for number, value in enumerate(_list(table, "workloads"))]
    places = {"reference_at": "reference.py", "workloads_at": "task.toml"}
    if origin != _BUILT_IN:
        content |= {field: str(Path(origin) / name) for field, name in places.items()}
    return _section(Task, {**content, "reference": reference, "origin": origin}, "")


def _required(table: Table, key: str) -> Any:
    if key not in table:
        raise TaskError(f"{key}: missing")
    return table[key]


def _items(table: Table, key: str) -> list[tuple[str, Any]]:
    value = _required(table, key)
    if not isinstance(value, dict) or not value:
        raise TaskError(f"{key}: must be a table with at least one entry, such as [{key}.NAME]")
    return list(value.items())


def _list(table: Table, key: str) -> list[Any]:
    value = _required(table, key)
    if not isinstance(value, list) or not value:
        raise TaskError(f"{key}: must be a list with at least one entry, such as [[{key}]]")
    return value


def _argument(value: Any, key: str) -> Tensor | Scalar:
    return _section(Scalar, value, key) if isinstance(value, dict) and "scalar" in value else _tensor(value, key)


def _tensor(value: Any, key: str) -> Tensor:
    if isinstance(value, dict) and isinstance(value.get("dtype"), str):
        _check_known(value["dtype"], get_args(DType), f"{key}.dtype", "dtype")
    return _section(Tensor, value, key)


def _workload(value: Any, number: int) -> Workload:
    key = f"workloads[{number}]"
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        key = f"workloads[{number}] ({value['name']!r})"
    return _section(Workload, value, key)


def _contracts(items: list[tuple[str, Any]], read: Callable[[str], str]) -> dict[str, Contract]:
    contracts = {}
    for language, value in items:
        key = f"contracts.{language}"
        _check_known(language, get_args(Language), "contracts", "language")
        names = value.get("seed", []) if isinstance(value, dict) else []
        files = {name: read(name) for name in _file_names(names, f"{key}.seed")}
        contract = _section(Contract, {**value, "seed": files or None} if isinstance(value, dict) else value, key)
        check_seed(contract, language, files, key)
        contracts[language] = contract
    return contracts


def _file_names(value: Any, key: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise TaskError(f'{key}: must be a list of file names, such as ["seed.cpp"]')
    for name in value:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name):
            raise TaskError(f"{key}: {name!r} is not the name of a file in the task's folder")
    return value


def check_seed(contract: Contract, language: str, files: Mapping[str, str], key: str) -> None:
    """Check that a seed program declares its knobs well and defines the entry point; raises TaskError."""
    if not files:
        return
    name, text = contract.main_file, files[contract.main_file]
    try:
        declared_knobs(text)
    except UsageError as error:
        raise TaskError(f"{key}.seed: {name}: {error}") from error
    if language in ("python", "triton"):
        try:
            check_function(text, name, contract.entry_point)
        except TaskError as error:
            raise TaskError(f"{key}.seed: {error}") from error
    elif not re.search(rf"\b{contract.entry_point}\s*\(", text):
        raise TaskError(f"{key}.entry_point: {name} defines no function {contract.entry_point!r}")


def _section(model: type[R], value: Any, key: str) -> R:
    """Return `value` as a record, to the letter: no text is taken for a number."""
    if not isinstance(value, dict):
        raise TaskError(f"{key}: must be a table")
    _check_keys(value, set(model.model_fields), key)
    given = {name: _tuples(item) for name, item in value.items()}
    try:
        return model.model_validate(given, strict=True)
    except ValidationError as error:
        raise TaskError(_reason(error, given, key)) from error


def _tuples(value: Any) -> Any:
    """Return `value` with TOML's lists as the tuples that the records hold."""
    if isinstance(value, dict):
        return {name: _tuples(item) for name, item in value.items()}
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _reason(error: ValidationError, given: Table, key: str) -> str:
    problem = problem_in(error, given)
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in problem.keys]
    where = (key + "".join(steps)).lstrip(".")
    return f"{where}: {problem.reason}" if where else problem.reason


def _check_keys(table: Table, allowed: Collection[str], key: str) -> None:
    for name in table:
        if name not in allowed:
            raise TaskError(f"{f'{key}.' if key else ''}{name}: unknown key{_nearest(name, allowed)}")


def _check_known(name: str, allowed: Collection[str], key: str, noun: str) -> None:
    if name not in allowed:
        raise TaskError(f"{key}: unknown {noun} {name!r}{_nearest(name, allowed)}")


def _nearest(name: str, allowed: Collection[str]) -> str:
    close = get_close_matches(name, sorted(allowed), 1)
    return f"; did you mean {close[0]!r}?" if close else f"; it may be one of {', '.join(sorted(allowed))}"


def check_sizes(task: Task) -> None:
    """Raise TaskError when a workload's tensors are larger than any device."""
    for workload in task.workloads:
        problem = size_problem(task, workload)
        if problem:
            raise TaskError(f"workloads ({workload.name!r}).axes: {problem}")


def size_problem(task: Task, workload: Workload) -> str:
    """Return that a workload's tensors are larger than any device, empty when they are not."""
    tensors = [tensor for tensor in [*task.inputs.values(), *task.outputs.values()] if isinstance(tensor, Tensor)]
    sizes = task.sizes(workload)
    total = sum(ITEM_BYTES[tensor.dtype] * math.prod(sizes[axis] for axis in tensor.shape) for tensor in tensors)
    if total <= MAX_WORKLOAD_BYTES:
        return ""
    return f"the tensors take {total / 2**30:.0f} GiB, more than {MAX_WORKLOAD_BYTES >> 30} GiB"
