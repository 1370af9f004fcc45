"""`doctor`."""

from graph.cli.options import AsJson, Debug, HomeFolder


def doctor(json: AsJson = False, home: HomeFolder = None, debug: Debug = False) -> int:
    """Say what works on this machine, and what to do about the rest."""
    return 0
