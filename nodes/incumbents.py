"""The incumbent's record, made of its certification."""

from evaluators.evaluation import Evaluation
from evaluators.objective import Value
from graph.state import Incumbent


def incumbent_of(solution: str, evaluation: str, verdict: Evaluation, node: str, round_: int) -> Incumbent | None:
    """Return a program as the incumbent; None when its certification gave no figure.

    Args:
        solution: Blob of the program.
        evaluation: Blob of `verdict`.
        verdict: Its certification.
        node: Node that found it.
        round_: When.
    """
    if verdict.objective is None:
        return None
    made = Incumbent(
        solution=solution, evaluation=evaluation, objective=_plain(verdict.objective), node=node, round=round_
    )
    return made if verdict.provisional is None else {**made, "searched": _plain(verdict.provisional)}


def _plain(value: Value) -> dict[str, float]:
    return value.model_dump()
