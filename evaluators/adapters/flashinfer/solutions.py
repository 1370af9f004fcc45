"""Solutions of flashinfer-bench as ours."""

import json

from evaluators.adapters.flashinfer.folder import read_record
from evaluators.adapters.flashinfer.records import FibSolution
from evaluators.errors import TaskError
from evaluators.solution import Language, Solution

_LANGUAGES: tuple[Language, ...] = ("python", "triton", "cpp", "cuda")


def is_solution(text: str) -> bool:
    """Return whether a JSON text has the form of a solution of flashinfer-bench."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(data, dict) and "spec" in data and "sources" in data


def read_solution(text: str, place: str) -> Solution:
    """Return the solution in a JSON text. Raises TaskError that names `place` and the field."""
    return import_solution(read_record(FibSolution, json.loads(text), place), place)


def import_solution(read: FibSolution, place: str) -> Solution:
    """Return a solution of the format as ours. Raises TaskError that names `place` and the field."""
    language: Language | None = next((item for item in _LANGUAGES if item == read.spec.language), None)
    if language is None:
        raise TaskError(f"{place}: spec.language: {read.spec.language!r} is not one of {', '.join(_LANGUAGES)}")
    file, mark, symbol = read.spec.entry_point.partition("::")
    files = {source.path: source.content for source in read.sources}
    if not mark or "::" in symbol or file not in files:
        raise TaskError(f"{place}: spec.entry_point: must be FILE::SYMBOL with FILE among the sources")
    for number, path in enumerate(files):
        if not path or path.startswith(".") or "/" in path or "\\" in path or "\0" in path:
            raise TaskError(f"{place}: sources.{number}.path: {path!r} is not a plain file name")
    if language in ("cpp", "cuda") and read.spec.binding != "torch":
        raise TaskError(f"{place}: spec.binding: {read.spec.binding or 'tvm-ffi'} is not supported, only torch is")
    binding = "value" if not read.spec.destination_passing_style else "torch" if read.spec.binding == "torch" else "dps"
    return Solution(files=files, main_file=file, language=language, entry_point=symbol, binding=binding)
