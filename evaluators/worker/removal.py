"""Removing what programs may have written."""

import os
import shutil
import subprocess
from pathlib import Path


def remove(*paths: Path | str) -> None:
    """Remove files and folders as far as we may; programs can nest folders deeper than Python's own removal goes."""
    tool = shutil.which("rm", path=os.defpath)
    if tool is not None and paths:
        subprocess.run([tool, "-rf", "--", *map(str, paths)], stderr=subprocess.DEVNULL, check=False)
        return
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
