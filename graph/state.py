"""The state that LangGraph checkpoints: plain JSON and references only, so that a resumed run sees what it left.

Everything large (programs, evaluations, replies, the tree, the configuration) is a blob; the state holds digests.
"""

from typing import Annotated, Any, NotRequired, TypedDict


class Log(TypedDict):
    """Entries in order, kept in blobs (checkpoints/logs.py reads and writes it)."""

    count: int
    head: str


SCHEMA_VERSION = 2
"""Goes up with every change of the state that an earlier version's checkpoints lack; see graph/migrating.py."""


def collect(old: list[dict[str, Any]], new: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Reducer of the fan-out: gather in Send order; None empties."""
    return [] if new is None else [*old, *new]


class TaskRef(TypedDict):
    """Which task is being solved."""

    name: str
    digest: str
    """Identity of the task."""
    blob: str
    """Blob of the whole task."""


class TreeRef(TypedDict):
    """Which revision of the world model holds."""

    blob: str
    revision: int


class Incumbent(TypedDict):
    """The best certified program."""

    solution: str
    evaluation: str
    objective: dict[str, float]
    """value, low, high in the objective's unit."""
    searched: NotRequired[dict[str, float]]
    """The same by the search's protocol; left out where certification has no other one."""
    node: str
    """Node that found it; `root` for the seed."""
    round: int


def searched(incumbent: Incumbent) -> dict[str, float]:
    """Return the incumbent's figure by the protocol by which the search's figures are taken."""
    return incumbent.get("searched", incumbent["objective"])


class Spend(TypedDict):
    """What has been spent. Unknown prices are counted, never taken as 0."""

    evaluations: int
    """What counts for the budget."""
    repairs: int
    """Evaluations of programs that a repair turn mended; these and certifications are free, but shown."""
    certifications: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    usd: float
    unpriced_calls: int
    """Model calls whose price is unknown: `usd` is then a lower bound."""
    device_s: float
    wall_s: float
    by: dict[str, dict[str, float]]
    """`role model` -> calls, tokens, usd."""


class Stop(TypedDict):
    """Why the search ended."""

    reason: str
    """requested, target, budget, stalled, nothing_to_start_from, exhausted."""
    detail: str


class Opening(TypedDict):
    """What a search begins with."""

    config: str
    """Blob of the configuration in force."""
    task: TaskRef


class SearchState(Opening):
    """One search."""

    schema_version: int
    round: int
    idle_rounds: int
    """Rounds in a row that brought no evaluation."""
    tree: TreeRef
    frontier: list[dict[str, Any]]
    """Short digest of the frontier, for people who look at the state."""
    cycles: list[dict[str, Any]]
    """Active cycles, as graph.cycles.Cycle, oldest first."""
    next_cycle: int
    results: Annotated[list[dict[str, Any]], collect]
    """This round's results, as graph.cycles.Result."""
    incumbent: Incumbent | None
    baseline: dict[str, Any] | None
    """What the seed's or the first measurement said of the baseline: per workload milliseconds, and the protocol."""
    environment: str
    """Fingerprint of the evaluator's environment: scores of different ones are never compared."""
    spend: Spend
    attempts: Log
    """Every sample ever drawn, numbered from 1."""
    edits: Log
    """Every edit batch ever proposed, committed or not, numbered from 1."""
    draws: list[list[int]]
    """What the next fan-out draws: [cycle, number of the sample] each."""
    stop: Stop | None
    stop_request: str
    """Set from outside to end the search at the next boundary; empty otherwise."""
    steered: int
    """Up to which of people's requests (checkpoints/steering.py, counted from 1) the plan has been brought."""


class Sample(TypedDict):
    """What a Send to instantiate_program carries."""

    config: str
    task: TaskRef
    tree: TreeRef
    round: int
    cycle: dict[str, Any]
    sample: int
    attempts: Log
    spend: Spend
    """What was spent before the round; `by` is left out."""


class Candidate(TypedDict):
    """What a Send to evaluate carries: one draft, whether or not a program came of it."""

    config: str
    task: TaskRef
    round: int
    cycle: int
    sample: int
    solution: str | None
    key: str | None
    """Novelty key of the program."""
    outcome: str
    message: str
    repeats: dict[str, Any] | None
    """The earlier result, as graph.cycles.Result, of an equal program."""
    final: bool
    repair: bool
    """The coder was asked for nothing but mending a program that did not compile."""
    calls: list[dict[str, Any]]
    """Spend of the coder's calls."""
