"""What this machine is."""

import platform
from pathlib import Path


def processor() -> str:
    """Return the processor's name."""
    try:
        for line in Path("/proc/cpuinfo").read_text().split("\n"):
            if line.lower().startswith(("model name", "hardware", "cpu model")):
                return line.partition(":")[2].strip()
    except FileNotFoundError:
        pass
    return platform.processor() or platform.machine()
