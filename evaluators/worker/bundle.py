"""A bundle: programs that wait to be judged, all that judging them takes, and what it is identified by.

A zip file, or the folder it was unpacked to:

    __main__.py                 python BUNDLE.zip
    evaluators/worker/*.py      the code that judges, the whole of it
    job.json                    `Job`
    manifest.json               {"format", "run", "name", "files": {path: sha256}}

Its digest is the sha256 of manifest.json, so it covers every file.
"""

import hashlib
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluators.worker.job import Program, TaskSpec, decode

FORMAT = "ksearch-bundle-1"
MANIFEST, JOB = "manifest.json", "job.json"
CODE = "evaluators/worker/"


class BundleFault(Exception):
    """What was given is no bundle, or is not as it was written: says what to do."""


@dataclass(frozen=True)
class Request:
    """One evaluation that is wanted; where in the search it is wanted tells it from others of the same program."""

    role: str
    round: int
    cycle: int
    sample: int
    turn: int
    effort: str
    solution: str
    """Digest of the program."""
    rival: str | None
    moved_only: bool = False
    """Wanted only where the environment is not that of the figures that the search has."""


@dataclass(frozen=True)
class Incumbent:
    """The best certified program of the search."""

    solution: str
    value: float
    """Its objective, in the environment of `BundledJob.environment`."""


@dataclass(frozen=True)
class BundledJob:
    """What is to be done."""

    task: TaskSpec
    programs: dict[str, Program]
    """By digest; the incumbent's is one of them."""
    requests: tuple[Request, ...]
    incumbent: Incumbent | None
    environment: str
    """Fingerprint of the figures that the search has; empty: none yet."""
    margin: float
    """Share within which two programs are tied."""
    memory_bytes: int
    """What a program may allocate."""
    device: str
    """What it is judged on: `cpu`, `cuda`."""


@dataclass(frozen=True)
class Bundle:
    """A bundle that is as it was written."""

    digest: str
    name: str
    """Name of the run that waits for it."""
    job: BundledJob
    modules: dict[str, bytes]
    """The code that judges: file name -> content."""


def read_bundle(path: Path) -> Bundle:
    """Return the bundle at `path`, a zip file or a folder, every file checked. Raises BundleFault."""
    files = _folder_files(path) if path.is_dir() else _zip_files(path)
    if MANIFEST not in files:
        raise BundleFault(f"{path} is not a bundle of ksearch: it holds no {MANIFEST}")
    manifest = _json(path, MANIFEST, files[MANIFEST])
    if manifest.get("format") != FORMAT:
        raise BundleFault(f"{path}: its format is {manifest.get('format')!r}, this worker reads {FORMAT!r}")
    for name, digest in manifest["files"].items():
        if sha256(files.get(name, b"")) != digest:
            what = "was changed" if name in files else "is missing"
            raise BundleFault(f"{path}: {name} {what} since the bundle was written: copy the bundle again")
    modules = {
        name.removeprefix(CODE): files[name] for name in manifest["files"] if name.startswith(CODE) and "/" not in
        name.removeprefix(CODE)
    }  # fmt: skip
    job = decode(BundledJob, _json(path, JOB, files[JOB]))
    return Bundle(sha256(files[MANIFEST]), str(manifest["name"]), job, modules)


def sha256(data: bytes) -> str:
    """Return the digest of `data` as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def _zip_files(path: Path) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except FileNotFoundError:
        raise BundleFault(f"there is no file {path}") from None
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        raise BundleFault(f"{path} is not a whole zip file ({error}): copy the bundle again") from error


def _folder_files(path: Path) -> dict[str, bytes]:
    names = [MANIFEST, JOB, "__main__.py", "evaluators/__init__.py"]
    names += [f"{CODE}{file.name}" for file in (path / CODE).glob("*.py")]
    return {name: (path / name).read_bytes() for name in names if (path / name).is_file()}


def _json(path: Path, name: str, data: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(data))
    except ValueError as error:
        raise BundleFault(f"{path}: {name} is not JSON: copy the bundle again") from error
