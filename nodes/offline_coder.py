"""The coder that needs no model: it sets an intent's knobs in the parent program."""

from evaluators.errors import UsageError
from evaluators.knobs import turn_solution
from nodes.coder import CodeRequest, Draft
from nodes.paid import PaidCalls


class OfflineCoder:
    """Renders the parent's program with the intent's settings; there is one such program, so every draft is final."""

    async def write(self, request: CodeRequest, calls: PaidCalls) -> Draft:
        """Return the parent's program with the intent's knobs turned, or why that cannot be done. Costs nothing."""
        return turned(request)


def turned(request: CodeRequest) -> Draft:
    """Return the one program that the intent's settings make of the parent's."""
    parent, settings = request.parent, request.node.intent.settings
    if request.sample > 1:
        return _none("the settings make one program, which is the cycle's first sample")
    if parent is None:
        return _none("there is no parent program whose knobs could be turned")
    if not settings:
        return _none("the intent names no knob settings, and without a model nothing else can be written")
    try:
        solution = turn_solution(parent, settings)
    except UsageError as error:
        return _none(str(error))
    if solution == parent:
        return _none("the parent program has these settings already")
    return Draft(solution, final=True)


def _none(message: str) -> Draft:
    return Draft(None, message, final=True)
