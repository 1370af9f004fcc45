"""Hardware sheets: what a device has and at which rates, as data (prompts/hardware/*.toml)."""

import difflib
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from evaluators.errors import UsageError
from evaluators.invalid import first_problem
from evaluators.objective import Record

SHEETS = Path(__file__).resolve().parent / "hardware"


class Sheet(Record):
    """One device. Public figures; None where they depend on the model, or do not apply."""

    title: str
    kind: Literal["gpu", "cpu"]
    compute_capability: str = ""
    """Of an NVIDIA GPU, such as 9.0."""
    multiprocessors: int | None = Field(default=None, gt=0)
    boost_mhz: int | None = Field(default=None, gt=0)
    memory_gb: float | None = Field(default=None, gt=0)
    """Device memory, 10^9 bytes."""
    memory_kind: str = ""
    bandwidth_gb_s: float | None = Field(default=None, gt=0)
    """Peak device memory bandwidth, 10^9 bytes per second."""
    l2_mb: float | None = Field(default=None, gt=0)
    """L2 cache, MiB."""
    shared_kb: int | None = Field(default=None, gt=0)
    """Shared memory per multiprocessor, KiB."""
    shared_block_kb: int | None = Field(default=None, gt=0)
    """Most shared memory of one thread block, KiB."""
    registers_kb: int | None = Field(default=None, gt=0)
    """Register file per multiprocessor, KiB."""
    threads: int | None = Field(default=None, gt=0)
    """Most resident threads per multiprocessor."""
    peaks: dict[str, float] = {}
    """Data type (and unit) -> dense peak, 10^12 operations per second."""
    offers: tuple[str, ...] = ()
    """What the architecture offers to whoever writes programs for it, one sentence each."""
    source: str = ""
    """Where the figures are published."""


def sheets() -> tuple[str, ...]:
    """Return the names of all sheets, sorted."""
    return tuple(sorted(file.stem for file in SHEETS.glob("*.toml")))


@lru_cache(maxsize=64)
def load_sheet(name: str) -> Sheet:
    """Return a sheet by its name. Raises UsageError for an unknown one (names the nearest) or a wrong file."""
    if name not in sheets():
        close = difflib.get_close_matches(name, sheets(), n=1, cutoff=0.0)
        raise UsageError(f"hardware sheet {name!r} is unknown; did you mean {close[0]!r}?")
    file = SHEETS / f"{name}.toml"
    try:
        return Sheet.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise UsageError(f"{file}: {first_problem(error)}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{file}: {' '.join(str(error).split())}") from error
