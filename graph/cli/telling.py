"""`log` and `diff`: what happened in a run, and where two runs part. They never import LangGraph."""

from typing import Annotated, Literal

import typer

from graph.cli.codes import DONE
from graph.cli.options import AsJson, At, Debug, HomeFolder, ThreadName
from graph.cli.screen import Screen


def log(
    thread: ThreadName = "latest",
    only: Annotated[Literal["edits", "attempts"] | None, typer.Option(help="Leave out the rest.")] = None,
    last: Annotated[int | None, typer.Option(help="Only the last so many.", min=1)] = None,
    at: At = "now",
    json: AsJson = False,
    home: HomeFolder = None,
    debug: Debug = False,
) -> int:
    """Tell what happened: every edit of the plan with its reason and evidence, every attempt with what it cost."""
    from graph.report.chronicle import chronicle, chronicle_lines
    from graph.report.loading import load_material

    screen = Screen(json)
    run, material = load_material(home, thread, at)
    told = [item for item in chronicle(material) if only is None or only == f"{item['event']}s"]
    told = told if last is None else told[-last:]
    if json:
        screen.data({"thread": run.name, "unit": run.unit, "events": told})
    elif not told:
        screen.say(f"nothing has happened in {run.name} yet")
    else:
        screen.page(chronicle_lines(told, run.unit))
    return DONE


def diff(
    one: Annotated[str, typer.Argument(help="Name of a run, or the beginning of one.", metavar="A")],
    two: Annotated[str, typer.Argument(help="Another one.", metavar="B")],
    json: AsJson = False,
    home: HomeFolder = None,
    debug: Debug = False,
) -> int:
    """Tell where two runs part, what each found, and how their plans and best programs differ."""
    from graph.report.loading import load_material, load_solution
    from graph.report.parting import Side, parting, parting_lines

    screen = Screen(json)
    loaded = [load_material(home, name) for name in (one, two)]
    sides = [Side(run, material, load_solution(home, run)) for run, material in loaded]
    facts = parting(sides[0], sides[1])
    if json:
        screen.data(facts)
        return DONE
    screen.page(parting_lines(facts, screen.console.width if screen.console.is_terminal else None))
    return DONE
