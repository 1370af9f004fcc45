"""What this machine is, as far as it bears on a search: cheap to find out, nothing is loaded."""

import os
import platform
import shutil
import subprocess
from pathlib import Path

from graph.report.causes import Machine


def look() -> Machine:
    """Return the facts as they are now."""
    return Machine(cores=os.cpu_count() or 1, load=os.getloadavg()[0], avx2=has_vectors(), compiler=compiler())


def compiler() -> str:
    """Return the C++ compiler's version line, empty when there is none."""
    found = shutil.which("g++")
    if found is None:
        return ""
    done = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[0].strip()


def has_vectors() -> bool:
    """Return whether the processor has AVX2; True on architectures where that is not the question."""
    if platform.machine().lower() not in ("x86_64", "amd64", "i686"):
        return True
    file = Path("/proc/cpuinfo")
    if not file.exists():
        return True
    flags = next((line for line in file.read_text().splitlines() if line.startswith("flags")), "")
    return "avx2" in flags.split()
