"""When a program is right: FlashInfer-Bench's rule, the one for few-bit numbers, and the contest's for experts."""

from collections.abc import Mapping

from evaluators.errors import TaskError
from evaluators.task import Tolerance

TOLERANCES: Mapping[str, Tolerance] = {
    "fib": Tolerance(rule="either", rtol=1e-2, atol=1e-2),
    "low-bit": Tolerance(rule="either", rtol=1e-2, atol=1e-2, matched=0.95),
    "contest-moe": Tolerance(rule="either", rtol=0.3, atol=1.0, matched=0.9),
}
"""Name -> tolerance. `fib` is the format's default, `low-bit` its default for definitions with 8-bit experts (which
accepts no 8-bit inner products, and so none of the published kernels), `contest-moe` that of the MLSys 2026 contest."""
_LOW_BIT = "moe_fp8_block_scale"


def tolerance(definition: str, name: str | None, reference: str) -> Tolerance:
    """Return the tolerance called `name`, or the format's default for `definition`.

    Raises TaskError that names `reference`, which asks for it.
    """
    if name is None:
        return TOLERANCES["low-bit" if _LOW_BIT in definition else "fib"]
    if name not in TOLERANCES:
        raise TaskError(f"{reference}: tolerance: {name!r} is unknown; it may be one of {', '.join(TOLERANCES)}")
    return TOLERANCES[name]
