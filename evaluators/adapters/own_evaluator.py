"""A user's own evaluator as a task: a file whose function takes a program and returns figures. Its word is taken."""

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from evaluators.adapters.own_task import plain_name, title_of
from evaluators.adapters.source_file import SourceFile
from evaluators.invalid import problem_in
from evaluators.objective import Objective
from evaluators.solution import SUFFIX, Language
from evaluators.task import Contract, Task, Tolerance, Workload
from evaluators.task_source import EVALUATOR_DECLARATIONS

FUNCTIONS = ("evaluate", "evaluator")
"""Names of the function, in the order in which they are looked for."""
COMBINED = "combined_score"
"""The metric that counts when none is named; where it is missing, `score`, or the only one."""
_DEFINITIONS = (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)
_CONSTANTS: Mapping[str, str] = {
    "name": "NAME", "device": "DEVICE", "timeout_s": "TIMEOUT_S", "Contract.entry_point": "ENTRY_POINT",
    "Objective.name": "METRIC", "Objective.goal": "GOAL", "Objective.unit": "UNIT",
}  # fmt: skip
"""Field of a record -> the constant that it is filled from."""
_SECTION = "The program is judged by an evaluator of the user's, whose figure is what counts."


def is_evaluator(source: SourceFile) -> bool:
    """Return whether the file defines an evaluator."""
    return any(name in source.functions for name in FUNCTIONS)


def own_evaluator(source: SourceFile) -> Task:
    """Return the task of a file that defines `evaluate(path)` or `evaluator(candidate)`. Raises TaskError.

    Nothing is run.
    """
    said = source.constants(EVALUATOR_DECLARATIONS)
    if isinstance(said.get("TIMEOUT_S"), bool):
        source.refuse("TIMEOUT_S: must be a number of seconds, more than 0")
    function = next(name for name in FUNCTIONS if name in source.functions)
    language, files = _seed(source, said)
    try:
        return Task(
            name=said.get("NAME", plain_name(source.path)),
            title=title_of(source),
            description=f"{source.docstring or source.path.stem}\n\n{_SECTION}",
            device=said.get("DEVICE", "cpu"),
            axes=(),
            inputs={},
            outputs={},
            workloads=(Workload(name=function, axes={}),),
            tolerance=Tolerance(rtol=0.0, atol=0.0),
            objective=Objective(
                name=said.get("METRIC", COMBINED), goal=said.get("GOAL", "max"), unit=said.get("UNIT", "points")
            ),
            contracts={
                language: Contract(entry_point=_entry_point(source, said, files), binding="file", seed=files or None)
            },
            reference=source.text,
            verdict="user",
            files=_beside(source, said),
            timeout_s=said.get("TIMEOUT_S", 60.0),
            origin=str(source.path),
            reference_at=str(source.path),
        )
    except ValidationError as error:
        problem = problem_in(error)
        field = f"{'' if error.title == 'Task' else f'{error.title}.'}{problem.key}" if problem.keys else ""
        source.refuse(f"{_CONSTANTS.get(field, field)}: {problem.reason}" if field else problem.reason)


def takes_text(source: SourceFile, function: str) -> bool:
    """Return whether the evaluator is handed a program's text (its parameter is `candidate`), not its path."""
    arguments = source.functions[function].args
    return [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)][:1] == ["candidate"]


def _seed(source: SourceFile, said: Mapping[str, Any]) -> tuple[Language, dict[str, str]]:
    name = said.get("SEED")
    if name is not None and not isinstance(name, str):
        source.refuse(f"SEED: {name!r} is not the name of a file beside this one")
    files = {} if name is None else {name: source.beside("SEED", name)}
    suffix = ".py" if name is None else Path(name).suffix
    languages: tuple[Language, ...] = get_args(Language)
    fitting = [language for language in ("python", *languages) if SUFFIX[language] == suffix]
    language = said.get("LANGUAGE") or next(iter(fitting), None)
    if language not in languages:
        source.refuse(f"LANGUAGE: must be one of {', '.join(languages)}")
    return language, files


def _entry_point(source: SourceFile, said: Mapping[str, Any], files: Mapping[str, str]) -> str:
    """Return the function that programs must define: as said, else the seed's last one."""
    if "ENTRY_POINT" in said:
        return str(said["ENTRY_POINT"])
    for name, text in files.items():
        if name.endswith(".py"):
            body = SourceFile(source.path.parent / name, text).tree.body
            defined = [node.name for node in body if isinstance(node, _DEFINITIONS)]
            if defined:
                return defined[-1]
    source.refuse("ENTRY_POINT: must name the function or class that the evaluator looks for in a program")


def _beside(source: SourceFile, said: Mapping[str, Any]) -> dict[str, str]:
    names = said.get("FILES", [])
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        source.refuse("FILES: must be a list of names of files beside this one")
    return {name: source.beside("FILES", name) for name in names}
