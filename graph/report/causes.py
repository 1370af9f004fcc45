"""Known reasons for which a search stays below what is expected of it on this machine. Pure."""

from dataclasses import dataclass

from evaluators.solution import Language

BUSY = 0.8
"""A machine counts as busy above this load per core: timings of two threads went wrong from one busy core."""


@dataclass(frozen=True)
class Machine:
    """What bears on the speed of programs, as found before the search."""

    cores: int
    load: float
    """Processes that wanted to run, average over the last minute; measured before the search adds its own."""
    avx2: bool
    """Whether the processor has AVX2 (or, on other architectures, vectors of its own)."""
    compiler: str
    """The C++ compiler's version line; empty when there is none."""


def causes(machine: Machine, language: Language | None) -> tuple[str, ...]:
    """Return what holds the search back here, one line each with what to do; none: nothing that is known."""
    found: list[str] = []
    if language == "cpp" and not machine.compiler:
        found.append("no compiler: g++ was not found; install it (Debian, Ubuntu: apt install g++)")
    if not machine.avx2:
        found.append("no AVX2: this processor has narrower vectors than the figures expect; try another machine")
    if machine.load > machine.cores * BUSY:
        found.append(
            f"a busy machine: {machine.load:.1f} processes wanted its {machine.cores} cores beforehand; "
            "run again when it is idle"
        )
    return tuple(found)


def shortfall(required: float, ratio: float | None, found: tuple[str, ...]) -> list[str]:
    """Return the lines that say by how much a search fell short, and why as far as is known."""
    reached = "nothing that passed" if ratio is None else f"{ratio:.2f}x"
    lines = [f"required {required:.2f}x, reached {reached}"]
    if not found:
        return [*lines, "none of the known causes (no AVX2, no compiler, a busy machine) applies here"]
    return [*lines, *(f"cause: {cause}" for cause in found)]
