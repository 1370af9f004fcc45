"""A file system that is soon full."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """Mount one of `size`, as tmpfs takes it, at a new folder; the test is skipped where that is not possible."""
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", place], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"this system does not let us mount: {mounted.stderr.decode()}")
    yield place
    subprocess.run(["umount", place], check=True)
