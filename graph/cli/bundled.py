"""What is said of a bundle."""

import shlex
from typing import Any

from nodes.bundling import Bundled


def bundled_facts(bundle: Bundled) -> dict[str, Any]:
    """Return a bundle as plain JSON."""
    return {
        "bundle": str(bundle.file),
        "digest": bundle.digest,
        "evaluations": bundle.evaluations,
        "result": bundle.result,
    }


def bundled_lines(bundle: Bundled, run: str, where: str) -> list[str]:
    """Return what to do with it. `where`: what commands need to find the run, such as " --home runs"."""
    waits = "1 evaluation waits" if bundle.evaluations == 1 else f"{bundle.evaluations} evaluations wait"
    return [
        f"{waits} for another machine: {bundle.file}",
        f"there: python {shlex.quote(bundle.file.name)}",
        f"then here: ksearch deliver {run} {shlex.quote(bundle.result)}{where}",
    ]
