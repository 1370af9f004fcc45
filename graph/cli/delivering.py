"""`deliver`: what another machine found goes to the run that waits for it."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from checkpoints.place import Place
from graph.cli.codes import DONE
from graph.cli.options import AsJson, Debug, HomeFolder, RecordFile, ThreadName
from graph.cli.screen import Screen

if TYPE_CHECKING:
    from checkpoints.history import Snapshot


def deliver(
    thread: ThreadName = "latest",
    result: Annotated[
        Path | None, typer.Argument(help="The result that the worker wrote; left out: write the bundle.")
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option("--write", help="Where the bundle goes [default: `bundles` beside the runs].", metavar="FOLDER"),
    ] = None,
    record: RecordFile = None,
    json: AsJson = False,
    home: HomeFolder = None,
    debug: Debug = False,
) -> int:
    """Bring the result of a bundle to the run that waits for it (evaluator `deferred`), and go on.

    Without a result, write the bundle of everything that the run waits for. Programs that the other machine could not
    judge go on waiting.
    """
    from checkpoints.history import read_snapshot
    from checkpoints.place import find_place
    from evaluators.errors import UsageError

    folder, screen = find_place(home), Screen(json)
    snapshot = read_snapshot(folder, thread)
    if result is None:
        return _write(screen, folder, snapshot, write)
    if write is not None:
        raise UsageError("--write writes a bundle: leave the result out")
    if snapshot.thread.status == "running":
        raise UsageError(f"{snapshot.thread.name} is running: deliver when it has paused")
    from graph.wording import counted
    from nodes.delivering import deliver as bring

    delivered = asyncio.run(bring(folder, snapshot.thread, result))
    screen.say(f"delivered to {snapshot.thread.name}: {counted(delivered.evaluations, 'evaluation')}")
    for reason in delivered.failed:
        screen.say(f"one program could not be judged there and goes on waiting: {' '.join(reason.split())[:300]}")
    # LangGraph takes a second to load: after the result has been checked.
    from graph.cli.session import Session

    return Session(json=json, home=home, require=None, record=record).resume(snapshot.thread.uuid, {})


def _write(screen: Screen, home: Place, snapshot: "Snapshot", folder: Path | None) -> int:
    from graph.cli.bundled import bundled_facts, bundled_lines
    from nodes.bundling import write_bundle

    name = snapshot.thread.name
    bundle = asyncio.run(write_bundle(home, snapshot, folder))
    if screen.json:
        screen.data(None if bundle is None else bundled_facts(bundle))
    elif bundle is None:
        screen.say(f"{name} waits for no evaluation ({snapshot.thread.status})")
    else:
        for line in bundled_lines(bundle, name, ""):
            screen.say(line)
    return DONE
