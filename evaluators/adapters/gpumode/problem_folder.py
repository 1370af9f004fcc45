"""Reading a problem folder: `task.yml` and the files it names. Nothing in it is run, and nothing else is read."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

import yaml

from evaluators.errors import TaskError
from evaluators.task_file import one_line, read_text

SUBMISSION = "@SUBMISSION@"
Ranking = Literal["last", "mean", "geom"]
_MOST_CASES = 1000
_LARGEST, _LARGEST_SIZE = 2**63, 2**40
"""Of seeds, and of all other numbers of a case."""
_KEYS = (
    *("lang", "multi_gpu", "files", "config", "seed", "description", "ranking_by", "tests", "benchmarks"),
    *("test_timeout", "benchmark_timeout", "ranked_timeout"),
)
"""What is read of a task.yml."""
_UP = 2
"""How many folders above its own a problem's files may lie: the set shares eval.py and utils.py."""
_TIMEOUT_S = 180
_DEEPEST = 20

Case = Mapping[str, int | str | bool]


@dataclass(frozen=True)
class ProblemFolder:
    """What a task.yml says, checked."""

    path: Path
    files: Mapping[str, str]
    """Name -> text, without the submission."""
    submission: str
    """What the file of the submission is called."""
    main: str
    """The script that is run."""
    tests: tuple[Case, ...]
    benchmarks: tuple[Case, ...]
    ranking: Ranking
    timeouts_s: Mapping[str, int]
    """Of `test`, `benchmark` and `leaderboard`, seconds."""
    seed: int | None
    description: str

    def refuse(self, field: str, reason: str) -> NoReturn:
        """Raise TaskError that names the file and the field."""
        _refuse(self.path, field, reason)


def _refuse(path: Path, field: str, reason: str) -> NoReturn:
    raise TaskError(one_line(f"{path / 'task.yml'}: {field}: {reason}"))


def _plain_yaml(text: str) -> Any:
    """Return YAML without anchors, a few lines of which can stand for more than any memory, and not nested deeply."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise yaml.YAMLError(f"line {event.start_mark.line + 1}: nested too deeply")
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError(f"line {event.start_mark.line + 1}: anchors and aliases are not allowed")
    return yaml.safe_load(text)


@dataclass(frozen=True)
class _Reader:
    """Takes a task.yml apart; every method raises TaskError that names the file and the field."""

    path: Path
    table: Mapping[str, Any]

    def refuse(self, field: str, reason: str) -> NoReturn:
        _refuse(self.path, field, reason)

    def check_keys(self) -> None:
        """Refuse a key that is almost one that is read; others are for other readers of the format."""
        for key in map(str, self.table):
            meant = difflib.get_close_matches(key, _KEYS, n=1, cutoff=0.8)
            if meant and key not in _KEYS:
                self.refuse(key, f"is unknown; did you mean {meant[0]!r}?")

    def word(self, field: str, allowed: Sequence[str], default: str) -> str:
        value = self.table.get(field, default)
        if value not in allowed:
            self.refuse(field, f"{value!r} must be one of {', '.join(allowed)}")
        return str(value)

    def timeout(self, field: str) -> int:
        value = self.table.get(field, _TIMEOUT_S)
        if type(value) is not int or not 0 < value <= 24 * 3600:
            self.refuse(field, f"{value!r} must be a whole number of seconds")
        return value

    def cases(self, field: str) -> tuple[Case, ...]:
        value = self.table.get(field, [])
        if not isinstance(value, list) or not value or len(value) > _MOST_CASES:
            self.refuse(field, f"must be a list of 1 to {_MOST_CASES} cases")
        for number, case in enumerate(value):
            self._check_case(f"{field}[{number}]", case)
        return tuple(value)

    def _check_case(self, field: str, case: Any) -> None:
        if not isinstance(case, dict) or not case:
            self.refuse(field, "must be a mapping of arguments of generate_input")
        for name, value in case.items():
            if not isinstance(name, str) or not name.isidentifier():
                self.refuse(field, f"{name!r} cannot be an argument's name")
            if isinstance(value, int):
                if abs(value) >= (_LARGEST if name == "seed" else _LARGEST_SIZE):
                    self.refuse(f"{field}.{name}", f"{value} is larger than any size")
                continue
            if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_.+-]+", value):
                self.refuse(f"{field}.{name}", f"{value!r} must be a whole number or a word")

    def files(self) -> tuple[dict[str, str], str]:
        """Return the files' texts and the name of the submission's."""
        value = self.table.get("files", [])
        if not isinstance(value, list) or not value:
            self.refuse("files", "must be a list of {name, source}")
        texts: dict[str, str] = {}
        submission = ""
        for number, entry in enumerate(value):
            field = f"files[{number}]"
            if not isinstance(entry, dict) or set(entry) != {"name", "source"}:
                self.refuse(field, "must have a name and a source, nothing else")
            name, source = entry["name"], entry["source"]
            if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name):
                self.refuse(f"{field}.name", f"{name!r} is not a plain file name")
            if name in texts or name == submission:
                self.refuse(f"{field}.name", f"{name!r} is used twice")
            if source == SUBMISSION:
                if submission:
                    self.refuse(f"{field}.source", f"two files are the program: {submission} and {name}")
                submission = name
            else:
                texts[name] = self._text(f"{field}.source", source)
        if not submission:
            self.refuse("files", f"none has the source {SUBMISSION}, the program's")
        return texts, submission

    def _text(self, field: str, source: Any) -> str:
        if not isinstance(source, str) or not source or Path(source).is_absolute() or "\\" in source:
            self.refuse(field, f"{source!r} must be a path relative to the folder")
        *steps, name = Path(source).parts
        ups = [step for step in steps if step == ".."]
        if name == ".." or len(ups) > _UP or steps[: len(ups)] != ups or (ups and len(steps) > len(ups)):
            self.refuse(field, f"{source!r} leaves the set of problems: at most {_UP} folders up, and files there only")
        try:
            return read_text(self.path.resolve().joinpath(*steps), name)
        except TaskError as error:
            self.refuse(field, str(error))


def read_folder(path: Path) -> ProblemFolder:
    """Return what the problem folder at `path` holds. Raises TaskError, one line that names file and field."""
    text = read_text(path, "task.yml")
    try:
        table = _plain_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise TaskError(one_line(f"{path / 'task.yml'}: not valid YAML: {error}")) from error
    if not isinstance(table, dict):
        raise TaskError(f"{path / 'task.yml'}: must be a mapping of keys to values")
    reader = _Reader(path, table)
    reader.check_keys()
    reader.word("lang", ("py",), "py")
    if table.get("multi_gpu"):
        reader.refuse("multi_gpu", "problems for several GPUs are not supported")
    files, submission = reader.files()
    config = table.get("config", {})
    main = config.get("main", "eval.py") if isinstance(config, dict) else None
    if not isinstance(main, str) or main not in files:
        reader.refuse("config.main", f"{main!r} is none of the files")
    seed = table.get("seed")
    if seed is not None and type(seed) is not int:
        reader.refuse("seed", f"{seed!r} must be a whole number")
    ranking = next(word for word in get_args(Ranking) if word == reader.word("ranking_by", get_args(Ranking), "last"))
    return ProblemFolder(
        path=path,
        files=files,
        submission=submission,
        main=main,
        tests=reader.cases("tests"),
        benchmarks=reader.cases("benchmarks"),
        ranking=ranking,
        timeouts_s={
            "test": reader.timeout("test_timeout"),
            "benchmark": reader.timeout("benchmark_timeout"),
            "leaderboard": reader.timeout("ranked_timeout"),
        },
        seed=seed,
        description=str(table.get("description", "")),
    )
