"""What must agree for two figures to be comparable (standard library only: the worker uses it too)."""

from collections.abc import Mapping
from typing import Any


def fingerprint(environment: Mapping[str, Any]) -> str:
    """Return the fingerprint of an environment's fields; a field that is left out is empty, `threads` 1."""
    fields = [environment.get(name, "") for name in ("device", "driver", "torch", "triton", "compiler")]
    # Programs that copy what they return look slower than where it is read.
    copied = ["copied"] if environment.get("results") == "copied" else []
    return "|".join([*map(str, fields), str(environment.get("threads", 1)), *copied])
