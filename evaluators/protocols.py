"""Timing protocols: names, and the margin within which two programs are tied (standard library only)."""

from collections.abc import Mapping

CPU_ABBA = "cpu-abba-1"
"""One thread; baseline and programs in sibling processes, taken in turn; ratio of minimum processor times; at least
five fresh-process estimates. Described in docs/adr/0003-baseline-in-a-sibling-process.md."""

CUDA_STRICT = "cuda-strict-1"
"""On a GPU: windows of calls on cold slots that no call has seen, by the supervisor's wall clock, median of windows.
Described in docs/gpu-evaluation.md."""

PROTOCOLS: Mapping[str, str] = {"cpu": CPU_ABBA, "cuda": CUDA_STRICT}
"""Device of a task -> protocol by which its programs are timed."""

TIE_MARGIN = 0.03
"""Two programs whose ratio is within this share of 1 are tied: the spread of single estimates under load."""

USER_VERDICT = "user-verdict-1"
"""The task's own evaluator decides, in a fresh confined process each time; its figures are taken at its word."""

TIE_MARGINS: Mapping[str, float] = {CPU_ABBA: TIE_MARGIN, USER_VERDICT: 0.0, CUDA_STRICT: 0.01}
"""Protocol -> tie margin."""


def tie_margin(device: str, verdict: str) -> float:
    """Return the tie margin of a task's protocol, by its fields `device` and `verdict`, whoever judges it where."""
    return TIE_MARGINS[PROTOCOLS[device] if verdict == "harness" else USER_VERDICT]
