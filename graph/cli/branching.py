"""`branch`: a new run with another one's past."""

from typing import Annotated

import typer

from graph.cli.codes import DONE
from graph.cli.options import AsJson, At, Debug, HomeFolder, SetOption, ThreadName, where
from graph.cli.screen import Screen


def branch(
    thread: ThreadName = "latest",
    at: At = "now",
    options: SetOption = None,
    name: Annotated[str | None, typer.Option(help="What to call it [default: the task's name and a number].")] = None,
    json: AsJson = False,
    home: HomeFolder = None,
    debug: Debug = False,
) -> int:
    """Make a new run that shares a run's past up to a round, and goes on by itself from there.

    It has the plan, the best program, the log and the spend of that round, and options that --set changes. The other
    run is not touched, and may be running. Go on with `ksearch resume`.
    """
    import asyncio

    from checkpoints.place import find_place
    from graph.branches import make_branch
    from graph.config_file import parse_options

    made = asyncio.run(make_branch(find_place(home), thread, at, parse_options(options), name))
    screen, origin = Screen(json), made.origin
    if json:
        screen.data(
            {
                "thread": made.thread.name,
                "uuid": made.thread.uuid,
                "status": made.thread.status,
                "parent": origin.thread.name,
                "checkpoint": origin.point.mark.checkpoint,
                "round": origin.point.round,
            }
        )
        return DONE
    screen.say(f"{made.thread.name}: branch of {origin.thread.name} at round {origin.point.round}")
    screen.say(f"go on with it: ksearch resume {made.thread.name}{where(home)}")
    return DONE
