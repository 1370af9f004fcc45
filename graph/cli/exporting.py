"""`export`: the best program of a run, with the evidence for it, as files."""

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from graph.cli.codes import DONE
from graph.cli.files import write_text
from graph.cli.options import AsJson, Debug, HomeFolder, ThreadName
from graph.cli.screen import Screen

if TYPE_CHECKING:
    from evaluators.solution import Solution
    from graph.report.summary import Run

Format = Literal["folder", "solution", "tree", "json", "flashinfer"]


def export(
    thread: ThreadName = "latest",
    to: Annotated[
        Path | None,
        typer.Option("--to", help="Where to write [default: a folder named after the run].", metavar="PATH"),
    ] = None,
    kind: Annotated[
        Format,
        typer.Option(
            "--format",
            help="`folder`: all files. `flashinfer`: a folder that flashinfer-bench loads. Others: one JSON, on stdout "
            "or to the file that --to names.",
        ),
    ] = "folder",
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that is not empty.")] = False,
    json: AsJson = False,
    home: HomeFolder = None,
    debug: Debug = False,
) -> int:
    """Write the best program and the evidence for it."""
    from evaluators.errors import KsearchError
    from graph.report.loading import load_run, load_solution

    screen = Screen(json)
    run = load_run(home, thread)
    solution = load_solution(home, run)
    if solution is None and kind in ("folder", "solution", "flashinfer"):
        raise KsearchError(
            f"{run.name} has no program that passed: look at its plan with `ksearch export {run.name} --format tree`"
        )
    if kind in ("folder", "flashinfer") and solution is not None:
        folder = to or Path(run.name)
        write = _write_folder if kind == "folder" else _write_flashinfer
        _check_folder(folder, force)
        written = write(folder, run, solution)
        if json:
            screen.data({"thread": run.name, "folder": str(folder), "files": written})
        else:
            screen.say(f"wrote {', '.join(written)} to {folder}")
        return DONE
    value = _value(kind, run, solution)
    if to is None:
        screen.data(value)
    else:
        write_text(to, json_text.dumps(value, indent=2, ensure_ascii=False) + "\n")
        screen.say(f"wrote {to}")
    return DONE


def _value(kind: Format, run: "Run", solution: "Solution | None") -> Any:
    from graph.report.summary import summary
    from graph.report.tree import tree_json

    tree = tree_json(run.model, None if run.incumbent is None else run.incumbent["node"])
    if kind == "tree":
        return tree
    program = None if solution is None else solution.model_dump(mode="json")
    if kind == "solution":
        return program
    evaluation = None if run.best is None else run.best.model_dump(mode="json")
    return {"run": summary(run), "solution": program, "evaluation": evaluation, "tree": tree}


def _check_folder(folder: Path, force: bool) -> None:
    """Raise UsageError when `folder` is no place to write to."""
    from evaluators.errors import UsageError

    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file: name a folder with --to")
    if not force and folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty: name another folder with --to, or add --force")


def _write_flashinfer(folder: Path, run: "Run", solution: "Solution") -> list[str]:
    """Write the task, the program and its certification as flashinfer-bench has them; return the files' names."""
    from checkpoints.faults import storage_errors
    from evaluators.adapters.flashinfer.exporting import write_all

    if run.task is None or run.best is None:
        return []
    with storage_errors(folder):
        written = write_all(folder, run.task, solution, run.best)
    return [str(path.relative_to(folder)) for path in written]


def _write_folder(folder: Path, run: "Run", solution: "Solution") -> list[str]:
    """Write everything into `folder` and return the names of the files, the program's first."""
    from graph.report.exported import readme

    everything = _value("json", run, solution)
    files = dict(solution.files)
    for name in ("solution", "evaluation", "tree", "run"):
        files[f"{name}.json"] = json_text.dumps(everything[name], indent=2, ensure_ascii=False) + "\n"
    files["README.md"] = readme(run, solution)
    for name, text in files.items():
        write_text(folder / name, text)
    return list(files)
