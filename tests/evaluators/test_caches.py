"""What compilers keep for a program: each of its processes begins with the same."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from evaluators.worker import caches
from evaluators.worker.build import Built
from evaluators.worker.failure import CandidateFailure
from evaluators.worker.removal import remove
from evaluators.worker.status import Status


def content(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes() for path in folder.rglob("*")}


@pytest.fixture
def built(tmp_path: Path) -> Built:
    cache = tmp_path / "cache"
    (cache / "triton" / "empty").mkdir(parents=True)
    (cache / "triton" / "kernel.cubin").write_bytes(b"code")
    return Built("", "", "run", "dps", 0.0, cache=str(cache))


def test_what_a_process_leaves_is_gone_for_the_next(built: Built, tmp_path: Path) -> None:
    cache = Path(built.cache)
    before, kept = content(cache), caches.kept(built)
    (cache / "triton" / "kernel.cubin").write_bytes(b"answers")
    (cache / "bank").mkdir()
    (cache / "bank" / "1").write_bytes(b"answer")
    (cache / "away").symlink_to(tmp_path)
    os.mkfifo(cache / "pipe")
    caches.restore(kept)
    assert content(cache) == before
    assert caches.kept(replace(built, cache="")).kept_cache == ""


def test_times_are_kept_and_what_is_no_file_is_not(built: Built, tmp_path: Path) -> None:
    cache = Path(built.cache)
    os.utime(cache / "triton" / "kernel.cubin", ns=(10**18, 10**18))
    (cache / "away").symlink_to(tmp_path)
    os.mkfifo(cache / "pipe")
    caches.restore(caches.kept(built))
    assert (cache / "triton" / "kernel.cubin").stat().st_mtime_ns == 10**18
    assert sorted(content(cache)) == ["triton", "triton/empty", "triton/kernel.cubin"]


def test_until_it_is_kept_a_cache_stays(built: Built) -> None:
    before = content(Path(built.cache))
    caches.restore(built)
    assert content(Path(built.cache)) == before


def large(cache: Path) -> None:
    with (cache / "large").open("wb") as file:
        file.truncate(3 << 30)


def many(cache: Path) -> None:
    for number in range(10_001):
        (cache / str(number)).mkdir()


def deep(cache: Path) -> None:
    here = os.open(cache, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


@pytest.mark.parametrize("leave", [large, many, deep])
def test_too_much_is_refused(built: Built, leave: Callable[[Path], None]) -> None:
    leave(Path(built.cache))
    with pytest.raises(CandidateFailure, match="more than 512 MiB, 10000 entries or 32 folders") as refused:
        caches.kept(built)
    assert refused.value.status is Status.OUTPUT_LIMIT
    remove(built.cache)


@pytest.mark.parametrize("leave", [large, many, deep])
def test_what_a_process_leaves_costs_the_next_nothing(built: Built, leave: Callable[[Path], None]) -> None:
    before, kept = content(Path(built.cache)), caches.kept(built)
    leave(Path(built.cache))
    caches.restore(kept)
    assert content(Path(built.cache)) == before
    remove(*Path(built.cache).parent.glob("cache-used-*"))


def test_the_folder_itself_is_a_new_one(built: Built) -> None:
    kept = caches.kept(built)
    Path(built.cache).chmod(0o1757)
    before = os.stat(built.cache).st_ino
    caches.restore(kept)
    found = os.stat(built.cache)
    assert (found.st_ino != before, found.st_mode & 0o7002) == (True, 0)


def test_folders_of_any_depth_are_removed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").write_text("")
    deep(tmp_path / "a")
    remove(tmp_path / "a", tmp_path / "b", tmp_path / "none")
    assert list(tmp_path.iterdir()) == []
