"""Opening the folder of the runs, and whatever may be wrong with it: one line that says what to do, nothing lost."""

import os
import sqlite3
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from checkpoints.database import make_home
from checkpoints.home import Home, open_home
from checkpoints.place import find_place
from checkpoints.schema import APPLICATION_ID, VERSION
from evaluators.errors import KsearchError, StoreError, UsageError

Child = Callable[..., subprocess.Popen[str]]


async def refusal(folder: Path, kind: type[KsearchError]) -> str:
    with pytest.raises(kind) as failure:
        async with open_home(folder, busy_timeout_s=0.2):
            pass
    message = str(failure.value)
    assert "\n" not in message
    assert str(folder) in message
    return message


def change(folder: Path, *statements: str) -> None:
    folder.mkdir(exist_ok=True)
    connection = sqlite3.connect(folder / "ksearch.sqlite", isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.folder_only
async def test_everything_is_there_and_marked_as_ours(home: Home) -> None:
    assert (home.folder / ".gitignore").read_text() == "*\n"
    assert (home.folder / "blobs").is_dir()
    with sqlite3.connect(home.folder / "ksearch.sqlite") as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


async def test_what_was_stored_is_there_when_opened_again(tmp_path: Path) -> None:
    async with open_home(tmp_path / "home", power_safe=True) as home:
        digest = home.blobs.put(b"program")
        thread = await home.threads.create("softmax", "c")
    async with open_home(tmp_path / "home") as home:
        assert home.blobs.get(digest) == b"program"
        assert await home.threads.find("latest") == thread


def test_several_may_make_one_home_at_the_same_time(tmp_path: Path) -> None:
    together = Barrier(4)

    def make(home: Path) -> None:
        together.wait(30)
        make_home(home)

    with ThreadPoolExecutor(4) as executor:
        for at in range(200):
            list(executor.map(make, [tmp_path / str(at)] * 4))
    assert {file.read_text() for file in tmp_path.glob("*/.gitignore")} == {"*\n"}
    assert len(list(tmp_path.glob("*/.gitignore"))) == 200


def test_the_folder_is_named_or_from_the_environment_or_hidden_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KSEARCH_HOME", raising=False)
    assert find_place() == Path(".ksearch")
    monkeypatch.setenv("KSEARCH_HOME", "/elsewhere")
    assert find_place() == Path("/elsewhere")
    assert find_place(Path("named")) == Path("named")
    monkeypatch.setenv("KSEARCH_HOME", "")
    assert find_place() == Path(".ksearch")


async def test_a_newer_schema_is_left_alone(tmp_path: Path) -> None:
    change(tmp_path / "home", f"PRAGMA application_id = {APPLICATION_ID}", f"PRAGMA user_version = {VERSION + 1}")
    before = (tmp_path / "home/ksearch.sqlite").read_bytes()
    assert "written by a newer ksearch" in await refusal(tmp_path / "home", UsageError)
    assert (tmp_path / "home/ksearch.sqlite").read_bytes() == before


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE bookmarks (url TEXT)"],
        ["PRAGMA application_id = 42"],
        ["PRAGMA user_version = 3"],
        ["CREATE TABLE checkpoints (thread_id TEXT)"],
    ],
)
async def test_a_foreign_database_is_left_alone(tmp_path: Path, statements: list[str]) -> None:
    change(tmp_path / "home", *statements)
    before = (tmp_path / "home/ksearch.sqlite").read_bytes()
    assert "belongs to another program" in await refusal(tmp_path / "home", UsageError)
    assert (tmp_path / "home/ksearch.sqlite").read_bytes() == before


async def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/ksearch.sqlite").write_text("notes about kernels, by hand\n" * 100)
    assert "is no database of ksearch" in await refusal(tmp_path / "home", StoreError)
    assert (tmp_path / "home/ksearch.sqlite").read_text() == "notes about kernels, by hand\n" * 100


async def test_a_damaged_database_is_told(tmp_path: Path) -> None:
    async with open_home(tmp_path / "home") as home:
        for _ in range(200):
            await home.threads.create("softmax" * 20, "c" * 64)
    file = tmp_path / "home/ksearch.sqlite"
    content = file.read_bytes()
    file.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    with pytest.raises(StoreError, match="is damaged: restore it from a copy"):
        async with open_home(tmp_path / "home") as home:
            await home.threads.all()


async def test_a_home_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("in the way")
    assert "home is a file: name the folder of the runs" in await refusal(tmp_path / "home", UsageError)


async def test_a_file_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "blobs").write_text("in the way")
    message = await refusal(tmp_path / "home", StoreError)
    assert "a file is in its way: choose another folder" in message


LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA locking_mode = EXCLUSIVE")
connection.execute("BEGIN EXCLUSIVE")
connection.execute("CREATE TABLE IF NOT EXISTS held (x)") if sys.argv[2] == "new" else None
print("locked", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("state", ["new", "used"])
async def test_a_locked_database_is_told(tmp_path: Path, child: Child, state: str) -> None:
    (tmp_path / "home").mkdir()
    if state == "used":
        async with open_home(tmp_path / "home"):
            pass
    locker = child(LOCK, tmp_path / "home/ksearch.sqlite", state)
    assert locker.stdout is not None
    assert locker.stdout.readline() == "locked\n"
    assert "another process keeps" in await refusal(tmp_path / "home", StoreError)
    locker.kill()
    locker.wait()
    async with open_home(tmp_path / "home") as home:
        assert await home.threads.all() == []


@pytest.mark.folder_only
async def test_a_lock_taken_later_is_told_and_passes(home: Home, child: Child) -> None:
    connection = sqlite3.connect(home.folder / "ksearch.sqlite", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="another process keeps"):
        await home.threads.create("softmax", "c")
    connection.execute("ROLLBACK")
    connection.close()
    assert (await home.threads.create("softmax", "c")).name == "softmax-1"


async def test_a_full_disk_is_told_and_nothing_recorded_is_lost(small_disk: Path) -> None:
    async with open_home(small_disk / "home") as home:
        thread = await home.threads.create("softmax", "c")
        (small_disk / "ballast").write_bytes(b"x" * 650_000)
        kept = 0
        with pytest.raises(StoreError, match=r"no space is left for .*: free some, then resume"):  # noqa: PT012
            while True:
                await home.threads.add_event(thread.uuid, "note", "x" * 5000)
                kept += 1
        assert len(await home.threads.events(thread.uuid)) == kept > 0
        (small_disk / "ballast").unlink()
        assert await home.threads.add_event(thread.uuid, "note", "after") == kept + 1
    async with open_home(small_disk / "home") as home:
        assert len(await home.threads.events(thread.uuid)) == kept + 1


async def test_a_disk_full_from_the_start_is_told(small_disk: Path) -> None:
    (small_disk / "home").mkdir()
    with pytest.raises(OSError, match="No space"):
        (small_disk / "ballast").write_bytes(b"x" * 2_000_000)
    assert "no space is left for" in await refusal(small_disk / "home", StoreError)


async def test_a_read_only_disk_is_told(small_disk: Path) -> None:
    async with open_home(small_disk / "home") as home:
        await home.threads.create("softmax", "c")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    assert "cannot be opened: make it and its folder readable, and writable" in await refusal(
        small_disk / "home", StoreError
    )
    assert "cannot be written: make it and its folder writable" in await refusal(small_disk / "other", StoreError)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
async def test_a_folder_of_another_person_is_told(tmp_path: Path) -> None:
    async with open_home(tmp_path / "home"):
        pass
    (tmp_path / "home/ksearch.sqlite").chmod(0o444)
    (tmp_path / "home").chmod(0o555)
    try:
        assert "writable" in await refusal(tmp_path / "home", StoreError)
    finally:
        (tmp_path / "home").chmod(0o755)


FIRST = """
import asyncio, sys
from pathlib import Path
from checkpoints.home import open_home
async def main():
    sys.stdin.readline()
    async with open_home(sys.argv[1]) as home:
        await home.threads.add_event("t", "note", None)
asyncio.run(main())
"""


async def test_processes_may_make_the_same_home_at_once(tmp_path: Path, child: Child) -> None:
    processes = [child(FIRST, tmp_path / "home") for _ in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        _, error = process.communicate(timeout=200)
        assert process.returncode == 0, error
    async with open_home(tmp_path / "home") as home:
        assert [event.seq for event in await home.threads.events("t")] == [1, 2, 3, 4]
