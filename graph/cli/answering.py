"""`answer`: the questions of a run that people answer, and their replies."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graph.cli.codes import DONE
from graph.cli.files import read_text
from graph.cli.options import AsJson, Debug, HomeFolder, RecordFile, ThreadName
from graph.cli.screen import Screen

if TYPE_CHECKING:
    from checkpoints.history import Snapshot
    from graph.report.questions import Pending

PROMPT, REPLY = ".prompt.md", ".reply.md"


def answer(  # noqa: PLR0913, PLR0917 - one parameter per option
    thread: ThreadName = "latest",
    write: Annotated[
        Path | None,
        typer.Option("--write", help="Write each prompt to FOLDER/ID.prompt.md.", metavar="FOLDER"),
    ] = None,
    replies: Annotated[
        Path | None,
        typer.Option("--from", help="Take replies from FOLDER/ID.reply.md, as far as there are.", metavar="FOLDER"),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--id", help="The question that --file answers, or the beginning of its id.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="The reply to one question; - for standard input.", metavar="FILE")
    ] = None,
    accept: Annotated[bool, typer.Option("--accept", help="Approve the edits that wait for a review.")] = False,
    reject: Annotated[
        str | None, typer.Option("--reject", help="Reject the edits that wait for a review.", metavar="REASON")
    ] = None,
    record: RecordFile = None,
    json: AsJson = False,
    home: HomeFolder = None,
    debug: Debug = False,
) -> int:
    """List the questions of a run that wait for a person (models called `manual`, reviews), or answer and go on.

    Questions without a reply go on waiting. With --from and --write together, the prompts are written afterwards.
    """
    from checkpoints.history import read_snapshot
    from checkpoints.place import find_place
    from evaluators.errors import UsageError
    from graph.report.questions import pending

    if name is not None and file is None:
        raise UsageError("--id names a question: give its reply with --file FILE, or --file - for standard input")
    if replies is not None and file is not None:
        raise UsageError("replies come from --from or from --file, not from both")
    folder = find_place(home)
    screen = Screen(json)
    snapshot = read_snapshot(folder, thread)
    questions = pending(snapshot.interrupts)
    verdict = _verdict(accept, reject)
    if replies is None and file is None and verdict is None:
        if write is not None:
            _write(screen, write, questions)
        _list(screen, snapshot.thread.name, questions, written=write is not None)
        return DONE
    _check(snapshot, questions)
    if verdict is not None:
        given = _reviewed(snapshot.thread.name, verdict, questions)
    elif replies:
        given = _from_folder(screen, replies, questions)
    else:
        given = _from_file(file or Path("-"), name, questions)
    # LangGraph takes a second to load: after what is most often typed wrong has been checked.
    from graph.cli.session import Session

    code = Session(json=json, home=home, require=None, record=record).resume(snapshot.thread.uuid, {}, given)
    if write is not None:
        _write(screen, write, pending(read_snapshot(folder, snapshot.thread.uuid).interrupts))
    return code


def _verdict(accept: bool, reject: str | None) -> str | None:
    """Return the answer that --accept and --reject stand for, None without them."""
    from evaluators.errors import UsageError

    if accept and reject is not None:
        raise UsageError("edits are accepted or rejected, not both")
    return "accept" if accept else None if reject is None else f"reject: {reject}"


def _reviewed(name: str, verdict: str, questions: Sequence["Pending"]) -> dict[str, str]:
    from evaluators.errors import UsageError

    found = {item.interrupt: verdict for item in questions if item.asked.kind == "review"}
    if not found:
        raise UsageError(f"{name} has no edits that wait for a review: `ksearch answer {name}` lists what it waits for")
    return found


def _check(snapshot: "Snapshot", questions: Sequence["Pending"]) -> None:
    """Raise UsageError when answers cannot be taken now."""
    from evaluators.errors import UsageError

    name, status = snapshot.thread.name, snapshot.thread.status
    if status in ("interrupted", "failed"):
        # An answer that was given just before may be waiting for the node that asked.
        raise UsageError(f"{name} is {status}: go on with `ksearch resume {name}`, which says what it waits for")
    if not questions:
        raise UsageError(f"{name} waits for no answer ({status})")


def _list(screen: Screen, name: str, questions: Sequence["Pending"], *, written: bool) -> None:
    from graph.report.questions import count_text, listed, place_text

    if screen.json:
        screen.data([{**item.asked.model_dump(mode="json"), **listed(item)} for item in questions])
        return
    if not questions:
        screen.say(f"{name} waits for no answer")
        return
    screen.say(f"{name}: {count_text(len(questions))}")
    screen.facts([(item.id, place_text(item)) for item in questions])
    if not written:
        screen.say(f"write the prompts to files: ksearch answer {name} --write FOLDER")


def _write(screen: Screen, folder: Path, questions: Sequence["Pending"]) -> None:
    """Write every prompt into a file. Raises StoreError."""
    from checkpoints.faults import storage_errors
    from nodes.models.command import as_text

    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for item in questions:
            path = folder / f"{item.id}{PROMPT}"
            path.write_bytes(as_text(item.asked).encode("utf-8", "replace"))
            screen.say(f"wrote {path}; its reply goes to {item.id}{REPLY}")


def _from_folder(screen: Screen, folder: Path, questions: Sequence["Pending"]) -> dict[str, str]:
    """Return interrupt -> reply of the questions that have one in `folder`. Raises UsageError when none has."""
    from evaluators.errors import UsageError

    if not folder.is_dir():
        raise UsageError(f"--from {folder}: there is no such folder")
    found: dict[str, str] = {}
    for item in questions:
        path = folder / f"{item.id}{REPLY}"
        text = read_text(path) if path.exists() else None
        if text is not None and not text.strip():
            screen.say(f"{path} is empty: {item.id} goes on waiting")
        elif text is not None:
            found[item.interrupt] = text
    if not found:
        raise UsageError(f"{folder} holds no reply to a question that waits, such as {questions[0].id}{REPLY}")
    return found


def _from_file(file: Path, name: str | None, questions: Sequence["Pending"]) -> dict[str, str]:
    """Return interrupt -> reply of one question. Raises UsageError when it is not clear which, or cannot be read."""
    from evaluators.errors import UsageError

    ids = [item.id for item in questions]
    fitting = [item for item in questions if name is None or item.id.startswith(name)]
    if len(fitting) != 1:
        known = f"{len(ids)} wait: {', '.join(ids)}"
        raise UsageError(f"name the question with --id; {known}" if name is None else f"--id {name}: {known}")
    return {fitting[0].interrupt: read_text(file)}
