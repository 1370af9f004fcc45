"""`pause`, `edit` and `revert`: people steer a run."""

import asyncio
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from checkpoints.place import Place
from graph.cli.codes import DONE, PAUSED
from graph.cli.files import read_text, write_text
from graph.cli.options import AsJson, Debug, HomeFolder, SetOption, ThreadName, where
from graph.cli.screen import Screen

if TYPE_CHECKING:
    from graph.edits import Edit, EditBatch
    from graph.report.summary import Run


def pause(
    thread: ThreadName = "latest",
    wait: Annotated[float, typer.Option(help="Seconds to wait until it has paused.", min=0)] = 600.0,
    json: AsJson = False,
    home: HomeFolder = None,
    debug: Debug = False,
) -> int:
    """Pause a run that another process is at work on, after the step that is under way."""
    from checkpoints.place import find_place
    from graph import steering

    screen = Screen(json)
    found = asyncio.run(steering.pause(find_place(home), thread, wait))
    if json:
        screen.data({"thread": found.name, "status": found.status})
    elif found.status == "running":
        screen.say(f"{found.name} is asked to pause, and still at its step; `ksearch list` shows when it has paused")
    elif found.status == "finished":
        screen.say(f"{found.name} is finished: there is nothing to pause")
    else:
        screen.say(f"{found.name} is {found.status}; go on with: ksearch resume {found.name}{where(home)}")
    return PAUSED if found.status == "running" else DONE


def edit(  # noqa: PLR0913, PLR0917 - one parameter per option
    thread: ThreadName = "latest",
    insert: Annotated[str | None, typer.Option(help="Insert an intent with this title.", metavar="TITLE")] = None,
    under: Annotated[str, typer.Option(help="Where to insert it.", metavar="NODE")] = "root",
    update: Annotated[str | None, typer.Option(help="Change an open node.", metavar="NODE")] = None,
    reopen: Annotated[str | None, typer.Option(help="Put a failed or pruned node back.", metavar="NODE")] = None,
    prune: Annotated[list[str] | None, typer.Option(help="Take a node out. Repeatable.", metavar="NODE")] = None,
    pin: Annotated[
        list[str] | None, typer.Option(help="Work on it first, whatever the planner says. Repeatable.", metavar="NODE")
    ] = None,
    unpin: Annotated[list[str] | None, typer.Option(help="The contrary. Repeatable.", metavar="NODE")] = None,
    attach: Annotated[
        Path | None, typer.Option(help="A program of yours for the node to begin with.", metavar="FILE")
    ] = None,
    to: Annotated[str | None, typer.Option(help="The open node that --attach is for.", metavar="NODE")] = None,
    title: Annotated[str | None, typer.Option(help="New title, with --update.")] = None,
    description: Annotated[str | None, typer.Option(help="What to do, for the coder.")] = None,
    rationale: Annotated[str | None, typer.Option(help="Why it should help.")] = None,
    priority: Annotated[float | None, typer.Option(help="V, 0 to 1 [default for an insert: 1].")] = None,
    difficulty: Annotated[int | None, typer.Option(help="1 to 5.")] = None,
    gain: Annotated[float | None, typer.Option(help="Predicted gain: 1.2 is 20 % better.")] = None,
    knob: Annotated[
        list[str] | None, typer.Option(help="A knob that the intent turns, with --insert. Repeatable.", metavar="K=V")
    ] = None,
    reason: Annotated[str, typer.Option(help="Why, for the log.")] = "",
    options: SetOption = None,
    write: Annotated[
        Path | None, typer.Option("--write", help="Write the plan as text, and end; - for stdout.", metavar="FILE")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--from", help="Take the plan from what --write wrote; - for stdin.", metavar="FILE"),
    ] = None,
    json: AsJson = False,
    home: HomeFolder = None,
    debug: Debug = False,
) -> int:
    """Edit the plan of a run, its budgets and its models, while it is paused or while it runs.

    Without flags the plan opens in $EDITOR. Edits are checked now, and made when the search looks at its plan again.
    """
    from graph.config_file import parse_options
    from graph.plan_text import plan_text
    from graph.report.loading import load_run

    screen, run = Screen(json), load_run(home, thread)
    if write is not None:
        text = plan_text(run.model, run.name, run.plan_base)
        if str(write) == "-":
            sys.stdout.write(text)
        else:
            write_text(write, text)
        return DONE
    changes = parse_options(options)
    said = {
        "title": title,
        "description": description,
        "rationale": rationale,
        "priority": priority,
        "difficulty": difficulty,
        "predicted_gain": gain,
    }
    fields = {name: value for name, value in said.items() if value is not None}
    flags = any(given is not None for given in (insert, update, reopen, attach)) or any((prune, pin, unpin, knob))
    if file is not None:
        batch: EditBatch | None = _read(home, file, run)
    elif flags or fields:
        program = None if attach is None else _program(home, run, attach)
        settings = {name: str(value) for name, value in parse_options(knob).items()}
        place = _Place(insert, under, update, reopen, to, program, settings)
        edits = [*_one(place, fields, reason), *_many(prune, pin, unpin, reason)]
        batch = _batch(edits, reason)
    elif changes:
        batch = None
    else:
        run, batch = _in_editor(home, run)
    if batch is not None and not batch.edits and batch.summary is None:
        batch = None
    return _ask(screen, home, run, batch, changes)


@dataclass(frozen=True)
class _Place:
    """What one insert, update, re-opening or attachment is about."""

    insert: str | None
    """Title of the new intent."""
    under: str
    update: str | None
    reopen: str | None
    to: str | None
    """The open node that the program is attached to."""
    program: str | None
    """Blob of the attached program."""
    settings: dict[str, str]
    """Knob values of the new intent."""


def _one(place: _Place, fields: dict[str, Any], reason: str) -> list["Edit"]:
    """Return the edits that take fields: at most one of insert, update and re-open, and what is attached."""
    from pydantic import ValidationError

    from evaluators.errors import UsageError
    from evaluators.invalid import first_problem
    from graph.edits import Attach, Insert, Reopen, Update
    from graph.world_model import Intent

    _check_fields(place, fields)
    edits: list[Edit] = []
    try:
        if place.insert is not None:
            whole = {"priority": 1.0, **fields, "title": place.insert, "settings": place.settings}
            program = place.program if place.to is None else None
            edits.append(Insert(parent=place.under, intent=Intent.model_validate(whole), program=program))
        elif place.update is not None:
            edits.append(Update.model_validate({"node": place.update, **fields}))
        elif place.reopen is not None:
            edits.append(Reopen(node=place.reopen, description=fields.get("description", ""), reason=reason))
    except ValidationError as error:
        raise UsageError(first_problem(error)) from error
    if place.program is not None and place.to is not None:
        edits.append(Attach(node=place.to, program=place.program))
    elif place.program is not None and place.insert is None:
        raise UsageError("--attach FILE is for a node: name an open one with --to, or add one with --insert")
    return edits


def _check_fields(place: _Place, fields: dict[str, Any]) -> None:
    """Raise UsageError for flags that do not go together."""
    from evaluators.errors import UsageError

    named = [item for item in (place.insert, place.update, place.reopen) if item is not None]
    if len(named) > 1:
        raise UsageError("--insert, --update and --reopen are edits of one node each: make one of them at a time")
    if fields and not named:
        raise UsageError(f"--{next(iter(fields))} says something of a node: name it with --insert or --update")
    if place.settings and place.insert is None:
        raise UsageError("--knob says something of a new node: add one with --insert")
    if place.reopen is not None and not fields.get("description"):
        raise UsageError("--reopen needs --description: what is to be done otherwise this time")


def _many(
    prune: Sequence[str] | None, pin: Sequence[str] | None, unpin: Sequence[str] | None, reason: str
) -> list["Edit"]:
    from graph.edits import Pin, Prune

    pins = [(name, True) for name in pin or []] + [(name, False) for name in unpin or []]
    return [
        *(Prune(node=name, reason=reason or "pruned by hand") for name in prune or []),
        *(Pin(node=name, pinned=pinned) for name, pinned in pins),
    ]


def _batch(edits: Sequence["Edit"], reason: str) -> "EditBatch":
    from graph.edits import EditBatch

    return EditBatch(origin="human", reason=reason, edits=tuple(edits))


def _program(home: Place | str | None, run: "Run", file: Path) -> str:
    from checkpoints.place import find_place
    from evaluators.errors import UsageError
    from graph.cli.evaluating import load_program
    from graph.steering import keep_program

    if run.task is None:
        raise UsageError(f"{run.name} has not begun: resume it first")
    return keep_program(find_place(home), load_program(run.task, file, run.language))


def _read(home: Place | str | None, file: Path, run: "Run") -> "EditBatch":
    """Return what a person has changed in a text, whatever the search has changed since it was written."""
    from graph.plan_text import base_of, needed, read_plan
    from graph.report.loading import load_placed, load_plan

    text = read_text(file)
    base = base_of(text)
    model, promises = load_plan(home, run, base) if base else (run.model, run.promises)
    recorded = promises.named(read_plan(text, model), model.next_node)
    return needed(load_placed(home, run, recorded), run.model)


def _in_editor(home: Place | str | None, run: "Run") -> tuple["Run", "EditBatch"]:
    """Let a person edit the plan, and return the run as it is afterwards with what is changed.

    What cannot be used stays in a file, and the message says in which.
    """
    import tempfile

    from evaluators.errors import UsageError
    from graph.plan_text import plan_text
    from graph.report.loading import load_run
    from graph.steering import check_batch

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise UsageError("set EDITOR to edit the plan as text, or name an edit by flags: `ksearch edit --help`")
    handle, name = tempfile.mkstemp(prefix=f"{run.name}-plan-", suffix=".toml")
    os.close(handle)
    file = Path(name)
    write_text(file, plan_text(run.model, run.name, run.plan_base))
    try:
        failed = subprocess.run([*shlex.split(editor), name], check=False).returncode != 0
    except (OSError, ValueError) as error:
        file.unlink()
        raise UsageError(f"EDITOR={editor} cannot be started ({error}): set it to an editor of this machine") from error
    if failed:
        raise UsageError(f"{editor} failed and nothing is changed; the plan's text is {file}")
    run = load_run(home, run.snapshot.thread.uuid)  # it may have gone on
    try:
        batch = _read(home, file, run)
        check_batch(run.model, batch)
    except UsageError as error:
        raise UsageError(f"{error}; your text is kept: correct {file} and run ksearch edit --from {file}") from error
    file.unlink()
    return run, batch


def _ask(
    screen: Screen, home: Place | str | None, run: "Run", batch: "EditBatch | None", changes: dict[str, Any]
) -> int:
    """Check what a person wants and record it."""
    from checkpoints.place import find_place
    from graph.presets import changed
    from graph.steering import Change, ask, check_batch
    from graph.wording import edit_words

    config = changed(run.config, changes) if changes else None
    if config is not None:
        from graph.wiring import Backends

        Backends().check(config)
    if batch is None and config is None:
        screen.say("nothing is changed")
        return DONE
    after = run.model if batch is None else check_batch(run.model, batch)
    recorded = None if batch is None else run.promises.named(batch, run.model.next_node)
    asyncio.run(ask(find_place(home), run.snapshot.thread.uuid, Change(batch=recorded, config=config)))
    if screen.json:
        made = None if batch is None else batch.model_dump(mode="json")
        new = [node.id for node in after.nodes[len(run.model.nodes) :]]
        screen.data({"thread": run.name, "batch": made, "inserted": new, "options": changes})
        return DONE
    for line in [] if batch is None else edit_words(batch, run.model.next_node):
        screen.say(line)
    if len(after.nodes) > len(run.model.nodes) and run.model.counts()["active"]:
        screen.say("a new node may get another number when it is made; what you ask of it until then goes to it")
    for key, value in changes.items():
        screen.say(f"option {key}: {value}")
    if run.snapshot.thread.status != "running":
        screen.say(f"go on with: ksearch resume {run.name}{where(home)}")
    return DONE


def revert(
    thread: Annotated[str, typer.Argument(help="Name of a run, or the beginning of one.")],
    number: Annotated[int, typer.Argument(help="Number of an edit, as `ksearch log` tells it.", metavar="EDIT")],
    json: AsJson = False,
    home: HomeFolder = None,
    debug: Debug = False,
) -> int:
    """Undo one edit batch by a new one, as far as the plan has not been worked on there since."""
    from evaluators.errors import UsageError
    from graph.edits import EditBatch
    from graph.report.loading import load_material
    from graph.reverting import undo

    screen = Screen(json)
    run, material = load_material(home, thread)
    accepted = {
        entry["number"]: EditBatch.model_validate(material.batches[entry["batch"]])
        for entry in material.edits
        if entry["accepted"]
    }
    last = max((entry["number"] for entry in material.edits), default=0)
    accepted |= dict(enumerate(run.waiting, start=last + 1))
    if number not in accepted:
        known = f"edit {number} was rejected" if 0 < number <= last else f"{run.name} has no edit {number}"
        raise UsageError(f"{known}: there is nothing to undo; `ksearch log {run.name} --only edits` tells them")
    undoing = undo(run.model, accepted, number)
    if not undoing.batch.edits and undoing.batch.summary is None:
        raise UsageError(f"edit {number} cannot be undone: {'; '.join(undoing.notes) or 'it changed nothing'}")
    for note in undoing.notes:
        screen.say(f"left as it is: {note}")
    batch = undoing.batch
    if number > last:  # its number may be another one when both are made
        batch = batch.model_copy(update={"reason": "undoes what was asked for before"})
    return _ask(screen, home, run, batch, {})
