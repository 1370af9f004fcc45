"""The command line in real processes, in a folder of its own for each test."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTED = ("--planner", "scripted", "--coder", "scripted", "--evaluator", "scripted")
KEYS = ("CI", "KSEARCH_HOME", "OPENAI_API_KEY", "GOOGLE_API_KEY")


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in KEYS}
    return {**kept, "PYTHONPATH": str(ROOT), **changes}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "graph.cli", *map(str, arguments)]


def call(folder: Path, *arguments: object, **changes: str) -> Done:
    done = subprocess.run(
        command(*arguments), cwd=folder, env=environment(**changes), capture_output=True, text=True, timeout=500
    )
    return Done(done.returncode, done.stdout, done.stderr)


Call = Callable[..., Done]


@pytest.fixture
def ksearch(tmp_path: Path) -> Call:
    """Run `ksearch ARGUMENTS` in the test's folder; keywords are environment variables."""

    def run(*arguments: object, **changes: str) -> Done:
        return call(tmp_path, *arguments, **changes)

    return run


@pytest.fixture(scope="session")
def _finished_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    script = {
        "proposals": [
            {"edits": [insert("Unroll", 0.9), insert("Fuse", 0.5), insert("Block", 0.3)]},
            {
                "edits": [
                    insert("Unroll more", 0.8, "n1"),
                    {"kind": "prune", "node": "n3", "reason": "no"},
                ]
            },
        ],
        "cycles": [[1.5, 1.4], [2.0], ["wrong_values"]],
    }
    options = ("--set", "stagnation=1", "--set", "sample_cap=2", "--evaluations", 4)
    (folder / "script.json").write_text(json.dumps(script))
    source = "script:script.json"
    done = call(folder, "run", "scripted", "--planner", source, "--coder", source, "--evaluator", "scripted", *options)
    assert done.code == 0, done.err
    return folder


@pytest.fixture
def finished(_finished_home: Path, tmp_path: Path) -> Path:
    """The test's folder, with a finished run `scripted-1` in `.ksearch`: n1 1.5x, n2 failed, n3 pruned, n4 2.0x."""
    shutil.copytree(_finished_home, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def read_only(finished: Path) -> Iterator[Path]:
    """The folder of `finished`, where nothing can be written."""
    if os.geteuid() != 0:
        for path in (finished, finished / ".ksearch"):
            path.chmod(0o500)
        yield finished
        for path in (finished, finished / ".ksearch"):
            path.chmod(0o700)
        return
    # Root writes whatever the modes say, but not to a disk that is mounted read-only.
    mounted = subprocess.run(["mount", "--bind", finished, finished], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"this system does not let us mount: {mounted.stderr}")
    subprocess.run(["mount", "-o", "remount,ro,bind", finished], check=True)
    yield finished
    subprocess.run(["umount", finished], check=True)


def insert(title: str, priority: float, parent: str = "root") -> dict[str, Any]:
    return {"kind": "insert", "parent": parent, "intent": {"title": title, "priority": priority}}


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `ksearch ARGUMENTS` and leave it running; what still runs at the end of the test is killed."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command(*arguments),
            cwd=tmp_path,
            env=environment(PYTHONUNBUFFERED="1"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def wait_for(process: subprocess.Popen[str], words: str) -> list[str]:
    """Read lines of what a command says up to the first that holds `words`."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError(f"{words!r} never came: {lines}")


@pytest.fixture
def slow_script(tmp_path: Path) -> Callable[[float], str]:
    """Return a planner and coder that take `delay_s` for each reply: three intents of three samples."""

    def write(delay_s: float) -> str:
        edits = [insert(f"Intent {number}", 0.9 - number / 10) for number in range(3)]
        cycles = [[1.0 + 0.2 * cycle + 0.1 * sample for sample in range(1, 4)] for cycle in range(3)]
        script = {"delay_s": delay_s, "proposals": [{"edits": edits}], "cycles": cycles}
        (tmp_path / "slow.json").write_text(json.dumps(script))
        return "script:slow.json"

    return write
