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

GPUMODE_BENCHMARK = "gpumode-benchmark-1"
"""A GPU MODE problem's own eval.py in benchmark mode: the same data in every repeat."""

GPUMODE_LEADERBOARD = "gpumode-leaderboard-1"
"""The same in leaderboard mode: fresh data in every repeat, each result checked, a secret seed."""

FIB = "fib-1"
"""FlashInfer-Bench's rule and way of timing, in the program's own process. Described in docs/flashinfer.md."""

TIE_MARGINS: Mapping[str, float] = {
    CPU_ABBA: TIE_MARGIN,
    CUDA_STRICT: 0.01,
    USER_VERDICT: 0.0,
    GPUMODE_BENCHMARK: 0.01,
    GPUMODE_LEADERBOARD: 0.01,
    FIB: 0.02,
}
"""Protocol -> tie margin. GPU MODE's is that of our own protocol on a GPU: its eval.py stops at a standard error of
0.1 %, but fresh processes differ by more. Of FlashInfer-Bench's, figures 0.8 % to either side are on record for one
program."""


BROUGHT: Mapping[str, tuple[str, str]] = {
    "user": (USER_VERDICT, USER_VERDICT),
    "gpumode": (GPUMODE_BENCHMARK, GPUMODE_LEADERBOARD),
    "fib": (FIB, FIB),
}
"""Field `verdict` of a task that ksearch does not judge by itself -> protocols of a search and of a certification."""


def is_brought(verdict: str, protocol: str) -> bool:
    """Return whether this protocol is that of the task's own judge or format: an evaluator may have another one."""
    return protocol in BROUGHT.get(verdict, ())


def protocol_of(device: str, verdict: str, effort: str) -> str:
    """Return the protocol of a task's figures, by its fields `device` and `verdict` and the effort of an evaluation."""
    if verdict == "harness":
        return PROTOCOLS[device]
    searched, certified = BROUGHT[verdict]
    return certified if effort == "certify" else searched


def tie_margin(device: str, verdict: str) -> float:
    """Return the tie margin of a task's search, by its fields `device` and `verdict`, whoever judges it where."""
    return TIE_MARGINS[protocol_of(device, verdict, "search")]
