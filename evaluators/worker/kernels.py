"""What each kernel of a GPU program uses, as ptxas -v tells it."""

import re
from collections.abc import Mapping
from typing import Any

_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)'")
_SPILLS = re.compile(r"(?P<stored>\d+) bytes spill stores, (?P<loaded>\d+) bytes spill loads")
_USED = re.compile(r"Used (?P<registers>\d+) registers(?:.*?(?P<shared>\d+) bytes smem)?")


def kernels_of(log: str) -> list[dict[str, Any]]:
    """Return the kernels that ptxas -v tells of."""
    found: list[dict[str, Any]] = []
    for line in log.split("\n"):
        if match := _ENTRY.search(line):
            found.append({"name": match["name"][:80]})
        elif found and (match := _SPILLS.search(line)):
            found[-1] |= {"spill_store_bytes": int(match["stored"]), "spill_load_bytes": int(match["loaded"])}
        elif found and (match := _USED.search(line)):
            found[-1] |= {"registers": int(match["registers"]), "shared_bytes": int(match["shared"] or 0)}
    return found


def kernel_line(kernel: Mapping[str, Any]) -> str:
    """Return what a kernel uses, in one line for people and coders: registers, spills, shared memory."""
    told = [f"{kernel['registers']} registers"] if "registers" in kernel else []
    told += [f"spills {kernel.get('spill_store_bytes', 0)} bytes stored, {kernel.get('spill_load_bytes', 0)} loaded"]
    told += [f"{kernel.get('shared_bytes', 0)} bytes of shared memory"]
    told += [f"{kernel['warps']} warps"] if "warps" in kernel else []
    return f"{kernel['name']}: {', '.join(told)}"
