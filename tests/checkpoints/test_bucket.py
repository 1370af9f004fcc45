"""Blobs on real FTP and SFTP servers: a connection for each thread, and a new one when the server has closed it."""

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from checkpoints.bucket import BlobBucket
from evaluators.errors import StoreError
from tests.ports import keep_port, number

FTP = """
import sys
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import FTPServer
FTPHandler.authorizer = DummyAuthorizer()
FTPHandler.authorizer.add_anonymous(sys.argv[1], perm="elradfmwMT")
exec(sys.argv[3])
FTPServer(("127.0.0.1", int(sys.argv[2])), FTPHandler).serve_forever()
"""


class Server:
    """Serves a folder, on one port however often it is started."""

    def __init__(self, folder: Path, log: Path, program: Sequence[object], *more: object) -> None:
        self.folder = folder
        self._log = log
        self._program, self._more = program, more
        self._kept = keep_port()
        self.port = number(self._kept)
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            arguments = [sys.executable, "-W", "ignore", *self._program, self.folder, self.port, *self._more]
            self._process = subprocess.Popen([*map(str, arguments)], stdout=log, stderr=log)
        while self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        pytest.fail(f"the server did not start: {self._log.read_text()}")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def remove(self) -> None:
        self.stop()
        self._kept.close()


@pytest.fixture(params=[""], ids=["plain"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """Serve a folder by FTP; a test may have the server changed by code of its own."""
    (tmp_path / "served").mkdir()
    server = Server(tmp_path / "served", tmp_path / "log", ("-c", FTP), request.param)
    yield server
    server.remove()


@pytest.fixture
def store(server: Server, tmp_path: Path) -> BlobBucket:
    return BlobBucket(f"ftp://127.0.0.1:{server.port}/blobs", tmp_path / "home")


@pytest.fixture
def sftp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve a folder by SFTP; give its URL."""
    pytest.importorskip("paramiko", reason="paramiko is not installed: make install")
    monkeypatch.setenv("HOME", str(tmp_path))
    key = tmp_path / ".ssh" / "id_ecdsa"
    key.parent.mkdir()
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", key], check=True)
    (tmp_path / "served").mkdir()
    server = Server(tmp_path / "served", tmp_path / "log", [Path(__file__).with_name("sftp_server.py")], key)
    yield f"sftp://127.0.0.1:{server.port}/blobs"
    server.remove()


def test_sftp_holds_blobs(sftp: str, tmp_path: Path) -> None:
    store, other = BlobBucket(sftp, tmp_path / "home"), BlobBucket(sftp, tmp_path / "home")
    with ThreadPoolExecutor(4) as executor:
        digests = list(executor.map(lambda at: store.put_json([at]), range(8)))
        assert list(executor.map(other.get_json, digests)) == [[at] for at in range(8)]
    assert {stored.digest for stored in store.stored()} == set(digests)
    other.drop(digests[0])
    assert {stored.digest for stored in store.stored()} == set(digests[1:])
    assert store.glance(digests[0]) == b""


def test_who_has_no_key_for_sftp_is_told(sftp: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    with pytest.raises(StoreError, match=r"^sftp://127.0.0.1:\d+/blobs failed \(.*\): repair it, then resume the run$"):
        BlobBucket(sftp, tmp_path / "home")


def test_many_threads_use_it_at_once(store: BlobBucket) -> None:
    with ThreadPoolExecutor(8) as executor:
        digests = list(executor.map(lambda at: store.put_json([at]), range(64)))
        assert list(executor.map(store.get_json, digests)) == [[at] for at in range(64)]
    assert {stored.digest for stored in store.stored()} == set(digests)


def test_what_others_write_is_seen_and_how_old_it_is(store: BlobBucket, server: Server, tmp_path: Path) -> None:
    first = store.put_json("first")
    assert [stored.digest for stored in store.stored()] == [first]
    other = BlobBucket(store.url, tmp_path / "home")
    second = other.put_json("second")
    assert store.get_json(second) == "second"
    for file in server.folder.glob("blobs/??/*"):
        os.utime(file, (1e9, 1e9))
    assert {(stored.digest, stored.modified) for stored in store.stored()} == {(first, 1e9), (second, 1e9)}
    other.drop(first)
    assert (store.glance(first), [stored.digest for stored in store.stored()]) == (b"", [second])


def test_a_connection_that_was_closed_is_made_anew(store: BlobBucket, server: Server) -> None:
    digest = store.put_json("kept")
    server.stop()
    with pytest.raises(StoreError, match=r"^ftp://127.0.0.1:\d+/blobs failed \(.*\): repair it, then resume the run$"):
        store.get(digest)
    server.start()
    assert store.get_json(digest) == "kept"
    server.stop()
    server.start()
    assert store.put_json("more") != digest


@pytest.mark.parametrize("server", ["del FTPHandler.proto_cmds['MLSD']"], ids=["without MLSD"], indirect=True)
def test_a_server_that_does_not_say_how_old_files_are_lists_them_as_new(store: BlobBucket, server: Server) -> None:
    digest = store.put_json("kept")
    for file in server.folder.glob("blobs/??/*"):
        os.utime(file, (1e9, 1e9))
    begun = time.time()
    assert [(stored.digest, stored.modified >= begun) for stored in store.stored()] == [(digest, True)]


SLOW = """
def read(self, read=FTPHandler.dtp_handler.handle_read_event):
    time.sleep(0.02)
    read(self)
import time
FTPHandler.dtp_handler.ac_in_buffer_size = 1000
FTPHandler.dtp_handler.handle_read_event = read
"""
UNNAMED = "FTPHandler.authorizer.user_table['anonymous']['perm'] = 'elradmwMT'"
IDLE = """
def retrieve(self, path, retrieve=FTPHandler.ftp_RETR, told=[]):
    if told:
        return retrieve(self, path)
    told.append(True)
    self.respond("421 Control connection timed out.")
    self.close_when_done()
FTPHandler.ftp_RETR = retrieve
"""
LOST = """
def delete(self, path, delete=FTPHandler.ftp_DELE):
    if os.path.exists(path):
        os.unlink(path)
        self.close()
    else:
        delete(self, path)
import os
FTPHandler.ftp_DELE = delete
"""


@pytest.mark.parametrize("server", [SLOW], ids=["slow"], indirect=True)
def test_a_blob_can_be_read_while_it_is_put_again(store: BlobBucket, server: Server, tmp_path: Path) -> None:
    data = random.Random(1).randbytes(25_000)
    digest = store.put(data)
    other = BlobBucket(store.url, tmp_path / "home")
    with ThreadPoolExecutor(1) as executor:
        again = executor.submit(store.put, data)
        reads = [other.get(digest)]
        while not again.done():
            reads.append(other.get(digest))
    assert again.result() == digest
    assert set(reads) == {data}
    assert [path.name for path in server.folder.glob("blobs/??/*")] == [digest[2:]]


@pytest.mark.parametrize("server", [UNNAMED], ids=["nothing may be renamed"], indirect=True)
def test_blobs_are_put_where_nothing_may_be_renamed(store: BlobBucket, server: Server) -> None:
    assert [store.get_json(store.put_json("kept")) for _ in range(2)] == ["kept", "kept"]
    assert len([*server.folder.glob("blobs/??/*")]) == 1


@pytest.mark.parametrize("server", [IDLE], ids=["idle connections are closed"], indirect=True)
def test_a_blob_is_not_missing_when_a_connection_was_idle_for_too_long(store: BlobBucket) -> None:
    digest = store.put_json("kept")
    assert store.get_json(digest) == "kept"
    assert store.glance("0" * 64) == b""


@pytest.mark.parametrize("server", [LOST], ids=["replies get lost"], indirect=True)
def test_a_blob_that_is_removed_while_the_connection_breaks_is_removed(store: BlobBucket) -> None:
    digest = store.put_json("dropped")
    store.drop(digest)
    assert store.glance(digest) == b""
