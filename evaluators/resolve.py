"""One resolver: from what a person types to a task."""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from evaluators.adapters.registry import ADAPTERS, load_adapted
from evaluators.errors import TaskError
from evaluators.output_class import OUTPUT, takes_output, with_output
from evaluators.scripted_tasks import SCRIPTED_TASKS
from evaluators.task import Task
from evaluators.task_file import TASKS, builtin_tasks, load_task_folder, one_line

FORMS = ("NAME", "FOLDER", *(form for _, form in ADAPTERS.values()))
"""How references to tasks look, for people."""
_LONGEST = 4000


def resolve_task(reference: str) -> Task:
    """Return the task that `reference` names: see `FORMS`; NAME is built in, FOLDER has a task.toml.

    Behind NAME and FOLDER, `?protocol=fib` has FlashInfer-Bench's protocol judge instead of ours, and `?output=float16`
    wants narrower results, which are ranked apart.
    Raises TaskError when there is none (names the nearest) or when its files are wrong (names file, key, reason).
    """
    if len(reference) > _LONGEST or not reference.isprintable():
        raise TaskError(f"{one_line(reference[:80])}...: is no reference to a task: too long, or not printable")
    prefix, colon, rest = reference.partition(":")
    if colon and re.fullmatch(r"[a-z_]+", prefix):
        if prefix in ADAPTERS:
            return load_adapted(prefix, rest)
        raise TaskError(f"{reference}: there are no tasks of the kind {prefix!r}; a task is {', '.join(FORMS)}")
    if reference.endswith(".py"):
        return load_adapted("file", reference)
    plain, mark, query = reference.partition("?")
    if mark and not _is(Path(reference).is_dir):
        return _as_wanted(resolve_task(plain), query, reference)
    if _is_path(reference):
        folder, _, baseline = reference.partition("@") if not _is(Path(reference).is_dir) else (reference, "", "")
        return load_task_folder(Path(folder), baseline)
    return resolve_builtin(reference)


def resolve_builtin(reference: str) -> Task:
    """Return a built-in task; nothing outside the package is read. Raises TaskError when there is none.

    `NAME@BASELINE` compares programs with another baseline than the task's own, one that its folder has; behind either,
    `?protocol=fib` or `?output=float16`.
    """
    plain, mark, query = reference.partition("?")
    if mark:
        return _as_wanted(resolve_builtin(plain), query, reference)
    folders = builtin_names()
    name, _, baseline = reference.partition("@")
    if name in folders and (folders[name] / "task.toml").is_file():
        return load_task_folder(folders[name], baseline)
    if reference in folders:
        return _official(folders[reference])
    if reference in SCRIPTED_TASKS:
        return SCRIPTED_TASKS[reference]
    near = _near(name, folders)
    meant = f"; did you mean {' or '.join(map(repr, near))}?" if near else ";"
    raise TaskError(
        f"there is no task {reference!r}{meant} `ksearch tasks` lists the built-in ones; yours are ./FOLDER,"
        f" {', '.join(FORMS[2:])}"
    )


def _as_wanted(task: Task, query: str, reference: str) -> Task:
    """Return a task as the options behind its reference's question mark want it. Raises TaskError."""
    name, _, value = query.partition("=")
    if name == OUTPUT:
        return with_output(task, value, reference)
    from evaluators.adapters.flashinfer.protocol import OPTIONS, takes_protocol, under_protocol

    taken = [*(OPTIONS if takes_protocol(task) else ()), *([OUTPUT] if takes_output(task) else [])]
    if name not in OPTIONS:
        words = f"may be one of {', '.join(taken)}" if taken else "has none"
        raise TaskError(f"{reference}: unknown option {name!r}; it {words}")
    return under_protocol(task, query, reference)


def _near(name: str, known: Iterable[str]) -> list[str]:
    """Return at most three names that may be meant: those that hold what was typed, else one that is spelt alike."""
    word = name.lower()
    holding = [other for other in known if len(word) > 2 and word in other.lower()]
    return holding[:3] or difflib.get_close_matches(word, list(known), n=1)


def builtin_names() -> Mapping[str, Path]:
    """Return the built-in tasks that people may want to optimise: name -> folder."""
    official = {folder.name: folder for folder in TASKS.iterdir() if (folder / "task.yml").is_file()}
    return dict(sorted({**builtin_tasks(), **official}.items()))


def _official(folder: Path) -> Task:
    """Return a built-in problem in GPU MODE's format, under that format's protocol."""
    return load_adapted("gpumode", f"{folder}#official#cuda").model_copy(
        update={"name": folder.name, "origin": "built-in"}
    )


def _is_path(reference: str) -> bool:
    return "/" in reference or reference in (".", "..") or _is(Path(reference, "task.toml").is_file)


def _is(asked: Callable[[], bool]) -> bool:
    """Return the answer about a path; there is nothing at one that is too long."""
    try:
        return asked()
    except OSError:
        return False
