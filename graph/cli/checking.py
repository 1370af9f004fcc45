"""`doctor`: what works here, and what to do about the rest."""

import asyncio

from graph.cli.codes import DONE, FAILED
from graph.cli.options import AsJson, Debug, HomeFolder
from graph.cli.screen import Screen

_MARKS = {"works": ("ok", "green"), "missing": ("--", "yellow"), "problem": ("!!", "red")}


def doctor(json: AsJson = False, home: HomeFolder = None, debug: Debug = False) -> int:
    """Check this machine, and say what is missing."""
    from checkpoints.place import find_place
    from graph.cli.machine import examine
    from graph.report.diagnosis import checks, diagnosis

    screen = Screen(json)
    facts = asyncio.run(examine(find_place(home)))
    found = diagnosis(facts)
    if json:
        screen.data(found)
    for check in [] if json else checks(facts):
        mark, style = _MARKS[check.state]
        screen.say(f"{mark}  {check.name}: {check.found}", style)
        if check.advice:
            screen.say(f"      {check.advice}")
    return DONE if found["ok"] else FAILED
