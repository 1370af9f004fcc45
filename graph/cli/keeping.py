"""`prune`: drop what a run's past can do without."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from checkpoints.place import Place
from graph.cli.codes import DONE
from graph.cli.options import AsJson, Debug, HomeFolder
from graph.cli.screen import Screen

if TYPE_CHECKING:
    from checkpoints.pruning import Pruned
    from checkpoints.sql import Connection
    from checkpoints.threads import Thread

ABOVE = "KSEARCH_PRUNE_ABOVE_MB"
"""Environment variable: size of the database above which it is pruned after a run, MB; 0: never."""
ABOVE_MB = 1000.0


def prune(
    thread: Annotated[
        str | None, typer.Argument(help="Name of a run, or the beginning of one [default: all].", metavar="[THREAD]")
    ] = None,
    json: AsJson = False,
    home: HomeFolder = None,
    debug: Debug = False,
) -> int:
    """Keep every round of the runs, and drop what lies between: checkpoints within rounds, and files nobody needs.

    Rounds can be shown, branched from and gone on with as before. Nothing that was paid for is dropped.
    """
    from checkpoints.database import has_runs
    from checkpoints.place import find_place
    from checkpoints.pruning import every_thread
    from checkpoints.pruning import prune as drop
    from evaluators.errors import UsageError

    folder, screen = find_place(home), Screen(json)
    if not has_runs(folder):
        raise UsageError(f"there are no runs in {folder} yet: start one with `ksearch run TASK`")
    pruned = drop(folder, every_thread if thread is None else _named(thread))
    if json:
        screen.data(pruned.model_dump())
    else:
        screen.say(pruned_text(pruned))
    return DONE


def _named(name: str) -> "Callable[[Connection], Iterable[Thread]]":
    from checkpoints.threads import find_thread

    return lambda connection: [find_thread(connection, name)]


def pruned_text(pruned: "Pruned") -> str:
    """Return what was dropped, in one line."""
    from graph.wording import counted

    text = (
        f"dropped {counted(pruned.checkpoints, 'checkpoint')} within rounds and {counted(pruned.blobs, 'file')} "
        "that nothing refers to"
    )
    freed = f", {pruned.freed_bytes / 1e6:.1f} MB" if pruned.freed_bytes > 0 else ""
    return (
        text + freed + ("; runs are at work: prune again when they have ended to free the rest" if pruned.busy else "")
    )


def prune_when_large(screen: Screen, folder: Place) -> None:
    """Prune all runs when the database has become larger than people want it. Raises StoreError, UsageError."""
    import os

    from checkpoints.pruning import database_bytes, every_thread
    from checkpoints.pruning import prune as drop
    from evaluators.errors import UsageError

    given = os.environ.get(ABOVE) or str(ABOVE_MB)
    try:
        limit = float(given)
    except ValueError as error:
        raise UsageError(f"{ABOVE}={given}: is a number of MB, 0 for never") from error
    if limit <= 0 or database_bytes(folder) <= limit * 1e6:
        return
    pruned = drop(folder, every_thread)
    if pruned.checkpoints or pruned.blobs:
        screen.say(pruned_text(pruned))
