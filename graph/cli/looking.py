"""`list`, `show` and `tree`: looking at runs. They read the database and never import LangGraph."""

import time
from typing import Any

from rich.text import Text

from graph.cli.options import AsJson, Debug, HomeFolder, ThreadName
from graph.cli.screen import Screen

_STYLES = {"open": "cyan", "active": "yellow", "closed": "green", "failed": "red", "pruned": "dim", None: "bold"}


def list_runs(json: AsJson = False, home: HomeFolder = None, debug: Debug = False) -> int:
    """List the runs, the one worked on last first.

    Example: ksearch list
    """
    from graph.cli.loading import load_all
    from graph.report.listing import listing, listing_lines

    screen = Screen(json)
    runs = [listing(snapshot, config) for snapshot, config in load_all(home)]
    if json:
        screen.data(runs)
    elif not runs:
        screen.say("no runs yet: start one with `ksearch run`")
    for line in [] if json else listing_lines(runs, time.time()):
        screen.say(line)
    return 0


def show(thread: ThreadName = "latest", json: AsJson = False, home: HomeFolder = None, debug: Debug = False) -> int:
    """Show how a run stands: status, best program, budget, spend, frontier.

    Example: ksearch show softmax-1
    """
    from graph.cli.loading import load_run
    from graph.report.summary import summary, summary_lines

    screen = Screen(json)
    run = load_run(home, thread)
    if json:
        screen.data(summary(run))
    else:
        screen.facts(list(summary_lines(run)))
    return 0


def tree(thread: ThreadName = "latest", json: AsJson = False, home: HomeFolder = None, debug: Debug = False) -> int:
    """Draw the plan: every intent with its status, priority V, figure, gain over its parent and reason.

    A star marks the node of the best program.

    Example: ksearch tree softmax-1
    """
    from graph.cli.loading import load_run
    from graph.report.tree import Row, tree_json, tree_rows

    screen = Screen(json)
    run = load_run(home, thread)
    incumbent = None if run.incumbent is None else run.incumbent["node"]
    if json:
        screen.data({"thread": run.name, "task": run.snapshot.thread.task, **tree_json(run.model, incumbent)})
        return 0
    rows: list[Row] = list(tree_rows(run.model, incumbent, run.unit))
    if not screen.live:
        screen.say("\n".join(row.text for row in rows))
        return 0
    screen.console.print(Text("\n").join(_styled(row, incumbent) for row in rows), soft_wrap=False, no_wrap=True)
    return 0


def _styled(row: Any, incumbent: str | None) -> Text:
    style = _STYLES[row.status]
    parts = [
        (row.mark, f"bold {style}" if row.mark.endswith("*") else style),
        (row.status or "", style),
        (row.facts, "bold" if row.mark.endswith("*") else ""),
        (row.title, "dim" if row.status == "pruned" else ""),
        (f"[{row.reason}]" if row.reason else "", "dim"),
    ]
    text = Text(row.guides, style="dim", end="")
    for at, (part, style) in enumerate((part, style) for part, style in parts if part):
        text.append(("  " if at else "") + part, style=style)
    return text
