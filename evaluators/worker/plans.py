"""How each case is timed: windows, calls in a window, and the secret examples that these take."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evaluators.worker.bench import Effort, Limits

_SLOW_NS = 300_000_000
_NAMED = 3


@dataclass(frozen=True)
class CasePlan:
    """How one case is timed."""

    windows: int
    """Per program and estimate."""
    calls: int
    """Of a program, in a window."""
    warm: bool
    """Whether a window that does not count comes first, for all that are not slow."""
    slow: frozenset[int] = frozenset()
    """Entrants whose calls are long: they are not warmed up, and a program makes one call once.

    What a program takes in the check is its own doing, and no reason to time others differently.
    """
    baseline_calls: int | None = None
    """Of the baseline, in a window; None: as many as of a program."""

    def calls_of(self, place: int) -> int:
        """Return the calls of an entrant's window; the first entrant is the baseline."""
        if place:
            return 1 if place in self.slow else self.calls
        return self.calls if self.baseline_calls is None else self.baseline_calls

    def windows_of(self, place: int) -> int:
        """Return how many windows of an entrant there are."""
        return 1 if place and place in self.slow else self.windows

    def warm_of(self, place: int) -> bool:
        """Return whether an entrant's window that does not count comes first."""
        return place not in self.slow


def plan_case(call_ns: Sequence[int], stride: int, cases: int, limits: Limits, effort: Effort) -> CasePlan:
    """Return how to time one of so many `cases` within the effort's time.

    Args:
        call_ns: About what a call takes, nanoseconds, per entrant; the first is the baseline.
        stride: Bytes of a slot.
        cases: How many are timed.
        limits: The device's.
        effort: How long to measure.
    """
    share_ns = effort.seconds * 1e9 / (effort.estimates * cases)
    took = [max(1, ns) for ns in call_ns]
    most = min(limits.most_calls, limits.arena_bytes // (len(took) * cases) // stride)
    slow = frozenset(place for place, ns in enumerate(took) if ns > _SLOW_NS)
    programs = [ns for place, ns in enumerate(took) if place and place not in slow]
    # The same for all programs: what a window costs to start weighs on every program's calls alike.
    own = [*took[:1], *programs] if limits.alike else programs or took[1:] or took
    calls = _calls(own, most, limits)
    baseline_calls = None if limits.alike else _calls(took[:1], most, limits)
    plan = CasePlan(1, calls, bool(programs), slow, baseline_calls)
    if not plan.warm:
        return plan
    round_ns = sum(
        plan.calls_of(place) * (ns + stride * limits.handling_ns_per_byte) + limits.handling_ns
        for place, ns in enumerate(took)
        if not place or place not in slow
    )
    return replace(plan, windows=max(limits.least_windows, min(effort.windows, int(share_ns / round_ns) // 2 * 2)))


def _calls(took: Sequence[int], most: int, limits: Limits) -> int:
    return max(1, min(most, round(limits.window_ns / min(took))))


def without_repeats(plan: CasePlan, examples: int, least_windows: int) -> CasePlan:
    """Return the plan with so few calls and windows that no program meets an example twice, where enough were made.

    What a program has been given before it can answer from memory, whatever the address.
    """
    if not plan.warm:
        return _with_calls(plan, max(1, min(plan.calls, examples)))
    calls = max(1, min(plan.calls, examples // (least_windows + 1)))
    windows = max(least_windows, (examples // calls - 1) // 2 * 2)
    return replace(_with_calls(plan, calls), windows=min(plan.windows, windows))


def _with_calls(plan: CasePlan, calls: int) -> CasePlan:
    """Return the plan with so many calls of a program, and where these are fewer, with no more of the baseline.

    The first call of a window takes longer than those that are made while the device is at work on it.
    """
    baseline = plan.baseline_calls
    if baseline is not None and calls < plan.calls:
        baseline = min(baseline, calls)
    return replace(plan, calls=calls, baseline_calls=baseline)


def shortened(names: Sequence[str], wanted: Sequence[CasePlan], taken: Sequence[CasePlan]) -> list[str]:
    """Return a note on the cases by `names` whose windows have fewer calls than `wanted`, or none.

    The fewer there are, the more of the first one's launch is in a figure.
    """
    few = [
        f"{name} {some.calls} of {most.calls}"
        for name, most, some in zip(names, wanted, taken, strict=True)
        if some.calls < most.calls
    ]
    more = f" and {len(few) - _NAMED} more" if len(few) > _NAMED else ""
    words = "calls a window, few as inputs take long to make or much memory"
    return [f"{words}: {', '.join(few[:_NAMED])}{more}"] if few else []


def examples_wanted(plan: CasePlan) -> int:
    """Return how many examples let a program take an estimate without meeting one twice (the baseline may)."""
    return plan.calls * (plan.windows + (1 if plan.warm else 0))


def shares(plans: Sequence[CasePlan], strides: Sequence[int], pool_bytes: int, least_windows: int) -> list[int]:
    """Return how many examples of each case to make: what the plans want, or all alike less where memory is short.

    At least so many that one call a window can be taken, even if they need more memory than `pool_bytes`.
    """
    wanted = [examples_wanted(plan) for plan in plans]
    part = min(1.0, pool_bytes / max(1, sum(count * stride for count, stride in zip(wanted, strides, strict=True))))
    return [max(min(count, least_windows + 1), int(count * part)) for count in wanted]
