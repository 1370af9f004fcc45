"""A home in a fresh folder, child processes, and disks that are full or read-only."""

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from checkpoints.home import Home, open_home
from tests.small_disk import small_disk as small_disk_at

ROOT = Path(__file__).parents[2]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test of a home on each kind of home, but for those that look into SQLite's file."""
    if "home" in metafunc.fixturenames:
        alone = metafunc.definition.get_closest_marker("folder_only")
        metafunc.parametrize("home", ["folder"] if alone else ["folder", "server"], indirect=True)


@pytest.fixture
async def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Home]:
    place = str(tmp_path / "home")
    if request.param == "server":
        place = request.getfixturevalue("postgres").home()
        monkeypatch.setenv("KSEARCH_BLOBS", str(tmp_path / "blobs"))
        monkeypatch.chdir(tmp_path)
    async with open_home(place, busy_timeout_s=2.0) as opened:
        yield opened


@pytest.fixture
def child() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `python -c CODE ARGUMENTS`; whatever still runs at the end of the test is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str, *arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    with small_disk_at(tmp_path / "small", "1m") as place:
        yield place
