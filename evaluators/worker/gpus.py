"""GPUs by name, as people write them: `cuda`, `cuda:1`, `gpu:1`, `1`, or an identity such as `GPU-5a1c...`."""

import os
import re
from pathlib import Path

_NUMBERED = re.compile(r"(?:cuda|gpu)(?::(\d+))?|(\d+)")
_IDENTITY = re.compile(r"(?:GPU|MIG)-[0-9a-zA-Z/-]+")


def present() -> bool:
    """Return whether this machine runs the driver of an NVIDIA GPU."""
    return Path("/dev/nvidiactl").exists()


def is_gpu(name: str) -> bool:
    """Return whether `name` has the form of a GPU's."""
    return _NUMBERED.fullmatch(name) is not None or _IDENTITY.fullmatch(name) is not None


def visible(name: str = "cuda") -> str:
    """Return how CUDA_VISIBLE_DEVICES names a GPU. A number counts among those that this process may see; none: 0.

    Raises ValueError, with what to do, when `name` names none.
    """
    numbered = _NUMBERED.fullmatch(name)
    if numbered is None:
        if _IDENTITY.fullmatch(name) is None:
            raise ValueError(f"{name!r} names no GPU; write cuda, cuda:1, gpu:1, or an identity such as GPU-5a1c...")
        return name
    number = numbered[1] or numbered[2] or "0"
    seen = [one.strip() for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one.strip()]
    if not seen:
        return str(int(number))
    if int(number) >= len(seen):
        raise ValueError(f"{name}: CUDA_VISIBLE_DEVICES shows {len(seen)}; count from 0")
    return seen[int(number)]
