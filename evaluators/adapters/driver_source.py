"""The text of a driver: our part of a confined run, handed over beside the code that nobody vouches for."""

from functools import cache
from pathlib import Path


@cache
def driver_source(name: str) -> str:
    """Return the source of the module `drivers/NAME.py`."""
    return (Path(__file__).parent / "drivers" / f"{name}.py").read_text()
