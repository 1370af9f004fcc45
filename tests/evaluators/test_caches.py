"""What compilers keep for a program: each of its processes begins with the same."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from evaluators.worker import caches
from evaluators.worker.build import Built
from evaluators.worker.failure import CandidateFailure
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


def test_too_much_is_refused(built: Built) -> None:
    with (Path(built.cache) / "large").open("wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(CandidateFailure, match="more than 2 GiB") as refused:
        caches.kept(built)
    assert refused.value.status is Status.OUTPUT_LIMIT
