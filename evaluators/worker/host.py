"""What this machine is."""

import os
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


def others_can_read(*paths: str) -> bool:
    """Return whether another user could read every one of these folders."""
    return all(
        os.stat(Path(path).resolve()).st_mode & 0o004 and others_can_pass(Path(path).resolve()) for path in paths
    )


def others_can_pass(folder: Path) -> bool:
    """Return whether another user could reach what lies in `folder`."""
    return all(os.stat(part).st_mode & 0o001 for part in [folder, *folder.parents])
