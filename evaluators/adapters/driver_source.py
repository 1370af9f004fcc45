"""The text of a driver: our part of a confined run, handed over beside the code that nobody vouches for."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

_DRIVERS, _WORKER = Path(__file__).parent / "drivers", Path(__file__).parents[1] / "worker"


@cache
def driver_source(name: str) -> str:
    """Return the source of the module `drivers/NAME.py`."""
    return (_DRIVERS / f"{name}.py").read_text()


def driver_files(drivers: Sequence[str] = (), worker: Sequence[str] = ()) -> dict[str, str]:
    """Return what a driver imports beside it: other drivers, and modules of the worker (file name -> text)."""
    texts = {f"{name}.py": driver_source(name) for name in drivers}
    return texts | {f"{name}.py": (_WORKER / f"{name}.py").read_text() for name in worker}
