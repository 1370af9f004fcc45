"""`ksearch`: the program. Commands import what they need when they are called, so that looking at a run is quick."""

import importlib.metadata
import io
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from evaluators.errors import KsearchError, UsageError
from graph.cli import (
    answering,
    branching,
    checking,
    delivering,
    evaluating,
    experimenting,
    exporting,
    keeping,
    looking,
    prompting,
    running,
    showing_tasks,
    steering,
    telling,
)
from graph.cli.codes import DONE, FAILED, INTERRUPTED, USAGE
from graph.cli.env_file import load_env
from graph.cli.options import Invocation
from graph.cli.screen import complain

app = typer.Typer(
    name="ksearch",
    help="Search for fast compute kernels: a plan you can read, an evaluator that decides.",
    epilog="Example: ksearch run softmax",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("run", epilog="Example: ksearch run softmax --evaluations 60 --set policy=puct")(running.run)
app.command("resume", epilog="Example: ksearch resume softmax-1 --set max_evaluations=80")(running.resume)
app.command("answer", epilog="Example: ksearch answer rmsnorm_linear-1 --write questions")(answering.answer)
app.command("deliver", epilog="Example: ksearch deliver softmax-1 softmax-1-4f2a91d0c3b2.result.json")(
    delivering.deliver
)
app.command("branch", epilog="Example: ksearch branch softmax-1 --at 12 --set policy=puct --name softmax-puct")(
    branching.branch
)
app.command("list", epilog="Example: ksearch list")(looking.list_runs)
app.command("show", epilog="Example: ksearch show softmax-1 --json")(looking.show)
app.command("tree", epilog="Example: ksearch tree softmax-1")(looking.tree)
app.command("pause", epilog="Example: ksearch pause softmax-1")(steering.pause)
app.command("edit", epilog='Example: ksearch edit softmax-1 --insert "Use AVX-512" --under n3 --priority 0.9')(
    steering.edit
)
app.command("revert", epilog="Example: ksearch revert softmax-1 4")(steering.revert)
app.command("prune", epilog="Example: ksearch prune softmax-1")(keeping.prune)
app.command("log", epilog="Example: ksearch log softmax-1 --only edits")(telling.log)
app.command("diff", epilog="Example: ksearch diff softmax-1 softmax-puct")(telling.diff)
app.command("export", epilog="Example: ksearch export softmax-1 --to best")(exporting.export)
app.command("evaluate", epilog="Example: ksearch evaluate softmax mine.cpp theirs.cpp --effort certify")(
    evaluating.evaluate
)
app.command("evaluations", epilog="Example: ksearch evaluations 4f2a91")(evaluating.evaluations)
app.add_typer(experimenting.app, name="experiment")
app.add_typer(showing_tasks.app, name="tasks")
app.add_typer(prompting.prompts_app, name="prompts")
app.command("doctor", epilog="Example: ksearch doctor")(checking.doctor)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", is_eager=True, help="Show the version and end.")] = False,
) -> int:
    if version:
        typer.echo(f"ksearch {importlib.metadata.version('kernel-search')}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
        return USAGE
    return DONE


def main() -> NoReturn:
    """Run the program and exit: 0 done, 1 the search or evaluation failed, 2 usage, 3 paused, 130 interrupted."""
    _open_standard_files()
    invocation = Invocation()
    sys.excepthook = _reporter(invocation)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character must not end a search.
            stream.reconfigure(errors="replace")
    sys.exit(_call(invocation))


def _open_standard_files() -> None:
    """Give what was closed (`>&-`) nowhere to write to: else the next file that is opened would be standard output."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8", closefd=False)
            setattr(sys, name, nowhere)


def _call(invocation: Invocation) -> int:
    try:
        load_env(Path(".env"))
        result = typer.main.get_command(app)(prog_name="ksearch", standalone_mode=False, obj=invocation)
    except TyperException as error:
        words = " ".join(error.format_message().split()).rstrip(".")
        complain(f"error: {words}; `{_command()} --help` shows what there is")
        return USAGE
    except KsearchError as error:
        if invocation.debug:
            traceback.print_exception(error)
        complain("; it held ".join([f"error: {' '.join(str(error).split())}", *_lost(error)]))
        return USAGE if isinstance(error, UsageError) else FAILED
    except KeyboardInterrupt:  # before typer, which makes it an exit code, took over
        result = INTERRUPTED
    if result == INTERRUPTED:
        complain("interrupted")
    return result if isinstance(result, int) else DONE


def _lost(error: KsearchError) -> list[str]:
    """Return what is lost with a blob, run by run; nothing for other errors."""
    from checkpoints.blobs import BlobError
    from graph.report.lost import held

    if not isinstance(error, BlobError):
        return []
    try:
        return held(error.home, error.digest)
    except KsearchError as other:
        return [f"what cannot be told: {' '.join(str(other).split())}"]


def _command() -> str:
    """Return the command that was called, as far as it exists."""
    named = [command.name for command in app.registered_commands] + [group.name for group in app.registered_groups]
    return f"ksearch {sys.argv[1]}" if len(sys.argv) > 1 and sys.argv[1] in named else "ksearch"


def _reporter(
    invocation: Invocation,
) -> Callable[[type[BaseException], BaseException, TracebackType | None], None]:
    """Return the hook for errors that nobody expected: one line, unless the traceback is asked for."""

    def report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if invocation.debug:
            traceback.print_exception(kind, error, trace)
            return
        words = " ".join(f"{kind.__name__}: {error}".split())
        complain(f"error: unexpected {words[:300]}; run again with --debug to see where")

    return report
