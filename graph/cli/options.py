"""Options that every command has."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from checkpoints.place import Place


class Invocation:
    """One call of the program: what `main` must know to report an error."""

    debug: bool = False
    """Show tracebacks."""


def _debug(context: typer.Context, value: bool) -> bool:
    invocation = context.find_root().obj
    if value and isinstance(invocation, Invocation):
        invocation.debug = True
    return value


AsJson = Annotated[bool, typer.Option("--json", help="Write JSON to stdout, and everything else to stderr.")]
HomeFolder = Annotated[
    str | None,
    typer.Option(
        "--home",
        help="Folder of the runs, or postgresql://SERVER/DATABASE [default: KSEARCH_HOME, else .ksearch here].",
        metavar="FOLDER|URL",
    ),
]
Debug = Annotated[bool, typer.Option("--debug", callback=_debug, is_eager=True, help="Show the traceback of an error.")]
TASK_HELP = (
    "A built-in task, a folder with task.toml, a file of yours, flashinfer:ROOT#DEFINITION, kernelbench:FILE or"
    " gpumode:FOLDER; see docs/own-task.md."
)
TaskName = Annotated[str, typer.Argument(metavar="TASK", help=TASK_HELP)]
ThreadName = Annotated[
    str, typer.Argument(metavar="[THREAD]", help="Name of a run, or the beginning of one.", show_default=True)
]
RecordFile = Annotated[
    Path | None,
    typer.Option("--record", help="Record the whole run in a cassette, however this ends.", metavar="FILE"),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Set any option: key=value. Repeatable.", metavar="KEY=VALUE"),
]
At = Annotated[
    str,
    typer.Option("--at", help="A round, or a checkpoint's id or its beginning.", metavar="ROUND|CHECKPOINT"),
]


def where(home: Place | str | None) -> str:
    """Return what the commands that we suggest need to find the runs, such as " --home runs"."""
    return "" if home is None else f" --home {shlex.quote(str(home))}"
