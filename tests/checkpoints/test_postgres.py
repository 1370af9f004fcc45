"""A home on a server: addresses, secrets, other people's databases, servers that are away, and blobs in any storage."""

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from checkpoints.blobs import BlobError, BlobFolder
from checkpoints.bucket import BlobBucket
from checkpoints.database import open_blobs, open_database, open_reader
from checkpoints.history import read_states
from checkpoints.home import open_home
from checkpoints.place import ServerHome, find_place
from checkpoints.postgres import connect
from checkpoints.pruning import every_thread, prune
from checkpoints.schema import VERSION
from evaluators.errors import StoreError, UsageError
from tests.postgres_server import PostgresServer, programs

Child = Callable[..., subprocess.Popen[str]]


def place(postgres: PostgresServer) -> ServerHome:
    found = find_place(postgres.home())
    assert isinstance(found, ServerHome)
    return found


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ada:hush@db/runs",
        "postgres://ada:@db/runs",
        "postgresql://db/runs?password=hush",
        "postgresql://db/runs?sslmode=require&sslpassword=hush",
    ],
)
def test_an_address_with_a_password_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(UsageError, match="PGPASSWORD") as caught:
        find_place(address)
    assert "hush" not in str(caught.value)


def test_addresses() -> None:
    home = find_place("postgresql://ada@db:5433/runs?schema=ours&sslmode=require")
    assert home == ServerHome("postgresql://ada@db:5433/runs?sslmode=require", "ours")
    assert find_place(str(home)) == home
    assert str(find_place("postgresql://db/runs")) == "postgresql://db/runs"
    assert find_place(home) is home
    assert find_place("runs/postgresql") == Path("runs/postgresql")
    with pytest.raises(UsageError, match="schema=A b: is a name of"):
        find_place("postgresql://db/runs?schema=A b")
    with pytest.raises(UsageError, match='invalid URI query parameter: "colour"'):
        connect(ServerHome("postgresql://db/runs?colour=red"))


async def test_where_blobs_go_is_said_once(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    home = place(postgres)
    with pytest.raises(UsageError, match="KSEARCH_BLOBS=FOLDER or a URL"):
        async with open_home(home):
            pass
    monkeypatch.setenv("KSEARCH_BLOBS", "blobs")
    async with open_home(home) as opened:
        digest = opened.blobs.put(b"program")
    monkeypatch.delenv("KSEARCH_BLOBS")
    monkeypatch.chdir("/")
    assert open_blobs(home).get(digest) == b"program"
    monkeypatch.setenv("KSEARCH_BLOBS", str(tmp_path / "elsewhere"))  # this machine says otherwise
    with pytest.raises(BlobError, match=r"is missing in .*elsewhere") as caught:
        open_blobs(home).get(digest)
    assert caught.value.home == home
    monkeypatch.setenv("KSEARCH_BLOBS", "s3://key:hush@bucket/runs")
    with pytest.raises(UsageError, match="KSEARCH_BLOBS holds credentials") as refused:
        open_blobs(home)
    assert "hush" not in str(refused.value)


async def test_other_programs_and_newer_versions_are_left_alone(postgres: PostgresServer) -> None:
    home = place(postgres)
    connection = connect(home)
    connection.execute("UPDATE ksearch_schema SET version = ?", (VERSION + 1,))
    with pytest.raises(UsageError, match="written by a newer ksearch"):
        connect(home)
    connection.execute("DROP TABLE ksearch_schema")
    with pytest.raises(UsageError, match="belongs to another program: choose another schema"):
        connect(home)
    connection.close()


async def test_an_earlier_version_is_brought_up_to_date(postgres: PostgresServer) -> None:
    home = place(postgres)
    connection = connect(home)
    for statement in (
        "DROP TABLE settings",
        "ALTER TABLE threads DROP COLUMN beat_at",
        "UPDATE ksearch_schema SET version = 2",
    ):
        connection.execute(statement)
    connection.close()
    assert read_states(home) == []
    reader = open_reader(home)
    assert reader.execute("SELECT version FROM ksearch_schema").fetchone() == (VERSION,)
    reader.close()


async def test_processes_may_make_the_same_home_at_once(postgres: PostgresServer, tmp_path: Path, child: Child) -> None:
    code = """
import asyncio, sys
from checkpoints.home import open_home
async def main():
    sys.stdin.readline()
    async with open_home(sys.argv[1]) as home:
        await home.threads.create("softmax", "c")
asyncio.run(main())
"""
    os.environ["KSEARCH_BLOBS"] = str(tmp_path)
    try:
        address = postgres.home()
        makers = [child(code, address) for _ in range(4)]
        for maker in makers:
            _, error = maker.communicate("\n", timeout=120)
            assert maker.returncode == 0, error
    finally:
        del os.environ["KSEARCH_BLOBS"]
    assert sorted(item.thread.name for item in read_states(find_place(address))) == [
        f"softmax-{n}" for n in (1, 2, 3, 4)
    ]


async def test_a_server_that_goes_away_is_told_and_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: PostgresServer
) -> None:
    folder = programs()
    assert folder is not None
    server = PostgresServer(folder)  # its own: others use the shared one
    monkeypatch.setenv("KSEARCH_BLOBS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    try:
        address = server.home()
        async with open_home(address) as home:
            thread = await home.threads.create("softmax", "c")
            server.stop()
            with pytest.raises(StoreError, match=r"postgresql://.* cannot be reached .*: start it again"):
                await home.threads.find(thread.uuid)
            with pytest.raises(StoreError, match="cannot be reached"):
                await home.saver.aget_tuple({"configurable": {"thread_id": thread.uuid}})
            with pytest.raises(StoreError, match="cannot be reached"):
                read_states(find_place(address))
            server.start()
            assert await home.threads.find(thread.uuid) == thread
            assert await home.saver.aget_tuple({"configurable": {"thread_id": thread.uuid}}) is None
    finally:
        server.remove()


async def test_someone_elses_transaction_is_waited_for_and_then_told(postgres: PostgresServer) -> None:
    home = place(postgres)
    other = connect(home)
    other.begin()
    async with open_database(home, busy_timeout_s=0.2) as database:
        with pytest.raises(StoreError, match=r"another process keeps .* locked"):
            await database.run(lambda connection: None)
        assert await database.run(lambda connection: 1, alone=False) == 1
        other.rollback()
        assert await database.run(lambda connection: 2) == 2
    other.close()


async def test_work_is_whole_or_not_at_all(postgres: PostgresServer) -> None:
    async with open_database(place(postgres)) as database:
        with pytest.raises(StoreError, match="duplicate key"):
            await database.run(
                lambda connection: [connection.execute("INSERT INTO pauses VALUES ('t', 1)") for _ in "ab"]
            )
        rows = await database.run(lambda connection: connection.execute("SELECT count(*) FROM pauses").fetchone())
        assert rows == (0,)


async def test_blobs_in_any_storage(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for store in (BlobBucket(f"memory://{uuid4()}", home), BlobBucket(f"file://{tmp_path}/bucket", home)):
        digest = store.put_json({"x": 1})
        assert (store.put_json({"x": 1}), store.get_json(digest)) == (digest, {"x": 1})
        ((stored, size, modified),) = store.stored()
        assert (stored, size > 0, modified > 1e9) == (digest, True, True)
        assert store.glance(digest) == b'{"x":1}'
        store.drop(digest)
        assert (list(store.stored()), store.glance(digest)) == ([], b"")
        with pytest.raises(BlobError, match="is missing in"):
            store.get(digest)
    # The folder's own layout, so that one can be copied to the other.
    digest = BlobFolder(tmp_path / "bucket").put(b"same")
    assert BlobBucket(f"file://{tmp_path}/bucket", home).get(digest) == b"same"
    (tmp_path / "bucket" / digest[:2] / digest[2:]).write_bytes(b"torn")
    with pytest.raises(BlobError, match="is damaged in"):
        BlobBucket(f"file://{tmp_path}/bucket", home).get(digest)
    with pytest.raises(UsageError, match="cannot be used for blobs"):
        BlobBucket("nosuch://bucket", home)


async def test_pruning_drops_blobs_that_nothing_refers_to(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSEARCH_BLOBS", str(tmp_path / "blobs"))
    monkeypatch.chdir(tmp_path)
    place = find_place(postgres.home())
    async with open_home(place) as home:
        needed, orphan = home.blobs.put_json({"options": 1}), home.blobs.put_json({"orphan": 1})
        await home.threads.create("softmax", needed)
    pruned = await asyncio.to_thread(prune, place, every_thread, -1.0)
    assert (pruned.blobs, pruned.busy) == (1, False)
    assert (open_blobs(place).glance(needed), open_blobs(place).glance(orphan)) == (b'{"options":1}', b"")
