"""What the search reads off a program's text."""

from evaluators.errors import UsageError
from evaluators.knobs import settings
from evaluators.solution import Solution


def settings_of(solution: Solution) -> dict[str, str]:
    """Return the knob values of a program; none when its declarations are malformed.

    A program may come from a model: a malformed knob line is only a comment that says nothing.
    """
    try:
        return settings(solution.files[solution.main_file])
    except UsageError:
        return {}
