"""Reading a flashinfer-trace folder. Nothing in it is run, and nothing outside of it is read."""

import json
import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pydantic import ValidationError

from evaluators.adapters.flashinfer.records import Definition, Format, Workload, WorkloadLine
from evaluators.errors import TaskError
from evaluators.invalid import first_problem

MAX_JSON_BYTES = 4 << 20
"""Largest definition, or line of workloads, that is read."""
MAX_WORKLOADS = 10_000
R = TypeVar("R", bound=Format)


class DataFolder:
    """A flashinfer-trace folder. Raises TaskError, one line that names the file, the field and the reason."""

    def __init__(self, root: Path) -> None:
        """Take the folder at `root`."""
        self.root = root
        if not root.is_dir():
            raise TaskError(f"{root}: no such folder")
        if not (root / "definitions").is_dir():
            raise TaskError(f"{root}: is no flashinfer-trace folder: it has no folder definitions")

    def definition(self, name: str) -> tuple[Definition, Path]:
        """Return a definition and the file that it is in."""
        found = sorted((self.root / "definitions").glob("**/*.json"))
        paths = {path.stem: path for path in found}
        if name not in paths:
            close = get_close_matches(name, list(paths), n=1, cutoff=0.0)
            nearest = f"; did you mean {close[0]!r}?" if close else ""
            raise TaskError(f"{self.root / 'definitions'}: there is no {name}.json{nearest}")
        path = self.inside(_only([path for path in found if path.stem == name]))
        definition = read_record(Definition, _json(_text(path), str(path)), str(path))
        if definition.name != name:
            raise TaskError(f"{path}: name: is {definition.name!r}, the file is called {name!r}")
        return definition, path

    def workloads(self, definition: Definition) -> list[tuple[Workload, str]]:
        """Return a definition's workloads, each with `file:line` for messages."""
        found_files = sorted((self.root / "workloads").glob("**/*.jsonl"))
        paths = [path for path in found_files if path.stem == definition.name]
        if not paths:
            raise TaskError(f"{self.root / 'workloads'}: there is no {definition.name}.jsonl")
        path = self.inside(_only(paths))
        found: list[tuple[Workload, str]] = []
        known = set[str]()
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_JSON_BYTES + 1), b""), start=1):
                place = f"{path}:{number}"
                if len(line) > MAX_JSON_BYTES or len(found) >= MAX_WORKLOADS:
                    raise TaskError(f"{place}: more than {MAX_JSON_BYTES} bytes or {MAX_WORKLOADS} workloads")
                if line.strip():
                    workload = _workload(line, place, definition)
                    if workload.uuid in known:
                        raise TaskError(f"{place}: workload.uuid: {workload.uuid!r} is used twice")
                    known.add(workload.uuid)
                    found.append((workload, place))
        if not found:
            raise TaskError(f"{path}: holds no workload")
        return found

    def inside(self, path: Path, place: str = "") -> Path:
        """Return `path` when what it leads to lies in the folder; `place` names the field that asks for it."""
        said = f"{place}: {path}" if place else str(path)
        try:
            inside = path.resolve().is_relative_to(self.root.resolve())
        except (OSError, RuntimeError, ValueError) as error:
            raise TaskError(_printable(f"{said}: cannot be read: {error}")) from error
        if not inside:
            raise TaskError(f"{said}: leads out of {self.root}")
        return path

    def blob(self, relative: str, place: str) -> Path:
        """Return where a workload's file is (it may be missing); `place` names the field that asks for it."""
        pure = PurePosixPath(relative)
        if pure.is_absolute() or ".." in pure.parts or "\\" in relative or not relative.isprintable():
            raise TaskError(f"{place}: {relative!r} is not a path within {self.root}")
        path = self.inside(self.root / pure, place)
        try:
            if path.exists() and not path.is_file():
                raise TaskError(f"{place}: {path} is not a plain file")
        except OSError as error:
            raise TaskError(f"{place}: {relative[:200]!r} cannot be read: {error.strerror}") from error
        return path


def _only(paths: Sequence[Path]) -> Path:
    """Return the only one of `paths`, a plain file."""
    path, *others = paths
    if others:
        raise TaskError(f"{path}: is there twice: {others[0]}")
    if not path.is_file():
        raise TaskError(f"{path}: is not a plain file")
    return path


def read_record(model: type[R], data: Any, place: str) -> R:
    """Return `data`, from JSON, as a record. Raises TaskError that names `place` and the field."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise TaskError(_printable(f"{place}: {first_problem(error, data)}")) from error


def _workload(line: bytes, place: str, definition: Definition) -> Workload:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TaskError(f"{place}: is not UTF-8 text (byte {error.start})") from error
    read = read_record(WorkloadLine, _json(text, place), place)
    if read.definition != definition.name:
        raise TaskError(_printable(f"{place}: definition: is {read.definition!r}, the file is for {definition.name!r}"))
    return read.workload


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_JSON_BYTES + 1)
        if len(data) > MAX_JSON_BYTES:
            raise TaskError(f"{path}: is larger than {MAX_JSON_BYTES} bytes")
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TaskError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise TaskError(f"{path}: cannot be read: {error}") from error


def _json(text: str, place: str) -> Any:
    if re.match(r"version https://git-lfs", text):
        raise TaskError(f"{place}: is a pointer of Git LFS; fetch the file with: git lfs pull")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TaskError(f"{place}: is not JSON: {str(error) or 'nested too deeply'}") from error


def _printable(text: str) -> str:
    """Return `text` without what could steer a terminal: the file's author is not known."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
