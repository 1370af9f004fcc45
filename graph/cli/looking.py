"""`list`, `show` and `tree`: looking at runs. They read the database and never import LangGraph."""

import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from graph.cli.codes import DONE
from graph.cli.options import AsJson, At, Debug, HomeFolder, ThreadName
from graph.cli.screen import Screen

if TYPE_CHECKING:
    from graph.report.tree import Row

_STYLES = {"open": "cyan", "active": "yellow", "closed": "green", "failed": "red", "pruned": "dim", None: "bold"}


def list_runs(
    by_origin: Annotated[bool, typer.Option("--tree", help="Each branch below the run that it came from.")] = False,
    json: AsJson = False,
    home: HomeFolder = None,
    debug: Debug = False,
) -> int:
    """List the runs, the one worked on last first."""
    from checkpoints.place import find_place
    from graph.report.listing import by_descent, listing, listing_lines
    from graph.report.loading import load_all

    screen = Screen(json)
    runs = [listing(snapshot, config, lineage) for snapshot, config, lineage in load_all(home)]
    runs = by_descent(runs) if by_origin else runs
    if json:
        screen.data(runs)
    elif not runs:
        screen.say(f"no runs in {find_place(home)} yet: start one with `ksearch run`")
    for line in [] if json else listing_lines(runs, time.time()):
        screen.say(line)
    return DONE


def show(
    thread: ThreadName = "latest", at: At = "now", json: AsJson = False, home: HomeFolder = None, debug: Debug = False
) -> int:
    """Show how a run stands, or stood at an earlier round, and what it found."""
    from graph.report.loading import load_run
    from graph.report.summary import summary, summary_lines

    screen = Screen(json)
    run = load_run(home, thread, at)
    if json:
        screen.data(summary(run))
    else:
        screen.facts([*summary_lines(run, past=at != "now")])
    return DONE


def tree(
    thread: ThreadName = "latest", at: At = "now", json: AsJson = False, home: HomeFolder = None, debug: Debug = False
) -> int:
    """Draw the plan as a tree.

    One line per intent: status, priority V, figure, gain over its parent, title, reason. A star marks the best.
    """
    from graph.report.loading import load_run
    from graph.report.tree import tree_json, tree_rows

    screen = Screen(json)
    run = load_run(home, thread, at)
    incumbent = None if run.incumbent is None else run.incumbent["node"]
    if json:
        screen.data({"thread": run.name, "task": run.snapshot.thread.task, **tree_json(run.model, incumbent)})
        return DONE
    rows = list(tree_rows(run.model, incumbent, run.unit))
    if not screen.live:
        screen.say("\n".join(row.text for row in rows))
        return DONE
    lines = Text("\n").join(_styled(row) for row in rows)
    screen.console.print(lines, soft_wrap=False, no_wrap=True, overflow="ellipsis")
    return DONE


def _styled(row: "Row") -> Text:
    style, best = _STYLES[row.status], row.mark.endswith("*")
    parts = [
        (row.mark, f"bold {style}" if best else style),
        (row.status or "", style),
        (row.facts, "bold" if best else ""),
        (row.title, "dim" if row.status == "pruned" else ""),
        (f"[{row.reason}]" if row.reason else "", "dim"),
    ]
    text = Text(row.guides, style="dim", end="")
    for at, (part, how) in enumerate((part, how) for part, how in parts if part):
        text.append(("  " if at else "") + part, style=how)
    return text
