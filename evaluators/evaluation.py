"""What an evaluator says of a program: one status, and figures only where they were measured."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from evaluators.objective import Record, Value
from evaluators.worker.fingerprint import fingerprint
from evaluators.worker.status import Status

Effort = Literal["check", "search", "certify"]
"""`check`: correctness only. `search`: correctness and time on the search split, provisional. `certify`: fresh
processes, new seeds, shuffled order, held-out correctness, hygiene, floors, interleaved with the rival."""
Tier = Literal["none", "built", "checked", "timed", "certified"]
TIER_OF: Mapping[Effort, Tier] = {"check": "checked", "search": "timed", "certify": "certified"}
"""Effort -> how far a program comes that passes."""


class Measurement(Record):
    """Times of one workload: candidate against baseline, alternating in one visit."""

    baseline_ms: float = Field(gt=0)
    """Median over the fresh-process estimates of the minimum CPU time of one call, milliseconds."""
    candidate_ms: float = Field(gt=0)
    ratio: Value
    """Baseline time / candidate time, with its interval over the fresh-process estimates."""
    estimates: int = Field(ge=1)
    """Fresh-process estimates behind the interval."""
    repeats: int = Field(ge=1)
    """Timed pairs per estimate."""


class WorkloadResult(Record):
    """What happened on one workload."""

    workload: str
    status: Status
    message: str = ""
    worst_error: float | None = None
    """Largest error as a share of what the task's tolerance allows; at most 1 passes (when every element must
    match)."""
    measurement: Measurement | None = None


class Environment(Record):
    """What the figures depend on. Scores of different fingerprints are never compared."""

    device: str
    """Name of the processor or GPU."""
    torch: str
    compiler: str = ""
    driver: str = ""
    triton: str = ""
    threads: int = 1
    results: str = ""
    """How returned values reach the supervisor on a CPU: `read` from a program's memory, or `copied` by the program."""
    sandbox: tuple[str, ...] = ()
    """Sandbox layers that were active (not part of the fingerprint)."""

    @property
    def fingerprint(self) -> str:
        """What must agree for two figures to be comparable."""
        return fingerprint(self.model_dump())


class Evaluation(Record):
    """The verdict on one program. A passed evaluation above tier `checked` has an objective; others have none."""

    status: Status
    tier: Tier
    """How far the program came."""
    solution: str
    """Digest of the program."""
    task: str
    """Digest of the task."""
    effort: Effort
    protocol: str
    """Name and version of the timing protocol, such as `cpu-abba-1`."""
    message: str = ""
    """One line, for a person or a coder: what failed, where, by how much."""
    log: str = ""
    """Excerpt of compiler or program output, bounded."""
    rule: str | None = None
    """The integrity rule that fired; set exactly when status is `integrity`."""
    objective: Value | None = None
    """None unless every search workload passed and was timed."""
    provisional: Value | None = None
    """Of a certification by another protocol than the search's: the objective by the search's, measured beside it.
    Figures of two protocols are never compared."""
    doubt: str = ""
    """Why the objective is not to be believed before it is certified: it is below the task's practical floor. Empty: no
    doubt."""
    workloads: tuple[WorkloadResult, ...] = ()
    versus_rival: Value | None = None
    """Rival time / candidate time from one interleaved run: above 1, the candidate is faster."""
    environment: Environment | None = None
    notes: tuple[str, ...] = ()
    """Facts worth keeping: a layer that was missing, an all-core figure not measured, a floor note."""
    reused_from: str | None = None
    """The run (uuid) that paid for this evaluation; None: it was measured for the run that has it on record."""
    build_s: float = 0.0
    device_s: float = 0.0
    """Seconds for which the device was held."""
    wall_s: float = 0.0

    @model_validator(mode="after")
    def _legal(self) -> "Evaluation":
        timed = self.tier in ("timed", "certified")
        if (self.status is Status.PASSED and timed) != (self.objective is not None):
            raise ValueError("an objective exists exactly when the program passed and was timed")
        if self.doubt and self.tier != "timed":
            raise ValueError("only a figure that is not certified is doubted")
        if self.provisional is not None and self.tier != "certified":
            raise ValueError("only what is certified has a provisional figure beside its objective")
        if (self.status is Status.INTEGRITY) != (self.rule is not None):
            raise ValueError("status integrity names the rule that fired, and only it does")
        return self

    @property
    def searched(self) -> Value | None:
        """The objective by the protocol of effort `search`: what figures of a search may be compared with."""
        return self.objective if self.provisional is None else self.provisional

    @property
    def passed(self) -> bool:
        """Whether the program was right wherever it was checked."""
        return self.status is Status.PASSED


class Pair(Record):
    """How two programs compare: time of `b` / time of `a`, above 1: `a` is faster."""

    a: str
    b: str
    ratio: Value


class Comparison(Record):
    """Several programs timed in one interleaved run."""

    task: str
    protocol: str
    evaluations: tuple[Evaluation, ...]
    """One per program, in the order given."""
    pairs: tuple[Pair, ...]
    """Every pair of passing programs, in the order given."""
    environment: Environment | None = None
