"""Writing a bundle: what evaluators/worker/bundle.py reads, as one zip file whose bytes depend on its content only."""

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evaluators.digest import canonical_json, digest_bytes
from evaluators.jobs import job_data
from evaluators.solution import Solution
from evaluators.task import Task
from evaluators.worker.bundle import CODE, FORMAT, JOB, MANIFEST, BundledJob, Incumbent, Request
from evaluators.worker.job import Program, TaskSpec, decode, encode
from evaluators.worker.launch import own_modules

_MAIN = '''"""Judges the programs of this bundle: python BUNDLE.zip [--out FILE] [--jobs N]"""

import sys

if sys.version_info < (3, 11):
    sys.exit("this bundle needs Python 3.11 or newer; this is " + sys.version.split()[0])

from evaluators.worker.__main__ import main

sys.exit(main([sys.path[0], *sys.argv[1:]]))
'''
_INIT = '"""The worker\'s part of ksearch."""\n'


@dataclass(frozen=True)
class Packed:
    """A bundle, ready to be written."""

    digest: str
    content: bytes
    """Of the zip file."""


def bundled_job(
    task: Task,
    solutions: Mapping[str, Solution],
    requests: Sequence[Request],
    incumbent: Incumbent | None,
    environment: str,
    margin: float,
    memory_bytes: int,
) -> BundledJob:
    """Return what a bundle asks for. `solutions`: by digest. The rest is as in `BundledJob`."""
    data = job_data(task, list(solutions.values()), "search", ())
    programs = [decode(Program, program) for program in data["programs"]]
    return BundledJob(
        # By its name alone: where its reference stands is of no use elsewhere.
        task=replace(decode(TaskSpec, data["task"]), name=task.name),
        programs=dict(zip(solutions, programs, strict=True)),
        requests=tuple(requests),
        incumbent=incumbent,
        environment=environment,
        margin=margin,
        memory_bytes=memory_bytes,
        device=task.device,
    )


def pack(run: str, name: str, job: BundledJob) -> Packed:
    """Return the bundle of the run with uuid `run`, called `name`."""
    files = {
        "__main__.py": _MAIN.encode(),
        "evaluators/__init__.py": _INIT.encode(),
        **{f"{CODE}{module}": content for module, content in own_modules().items()},
        JOB: canonical_json(encode(job)),
    }
    digests = {path: digest_bytes(content) for path, content in files.items()}
    manifest = json.dumps({"format": FORMAT, "run": run, "name": name, "files": digests}, indent=1).encode()
    return Packed(digest_bytes(manifest), _zipped({**files, MANIFEST: manifest}))


def _zipped(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            # A date of its own would give equal bundles different bytes.
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return buffer.getvalue()
