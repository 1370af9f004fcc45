"""Blobs on a real FTP server: one connection for each thread, and a new one when the server has closed it."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from checkpoints.bucket import BlobBucket
from evaluators.errors import StoreError

SERVER = """
import sys
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import FTPServer
FTPHandler.authorizer = DummyAuthorizer()
FTPHandler.authorizer.add_anonymous(sys.argv[1], perm="elradfmwMT")
FTPServer(("127.0.0.1", int(sys.argv[2])), FTPHandler).serve_forever()
"""


class FtpServer:
    """Serves a folder, on one port however often it is started."""

    def __init__(self, folder: Path, log: Path) -> None:
        self.folder = folder
        self._log = log
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            arguments = [sys.executable, "-W", "ignore", "-c", SERVER, str(self.folder), str(self.port)]
            self._process = subprocess.Popen(arguments, stdout=log, stderr=log)
        while self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        pytest.fail(f"the server did not start: {self._log.read_text()}")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FtpServer]:
    (tmp_path / "served").mkdir()
    server = FtpServer(tmp_path / "served", tmp_path / "log")
    yield server
    server.stop()


@pytest.fixture
def store(server: FtpServer, tmp_path: Path) -> BlobBucket:
    return BlobBucket(f"ftp://127.0.0.1:{server.port}/blobs", tmp_path / "home")


def test_many_threads_use_it_at_once(store: BlobBucket) -> None:
    with ThreadPoolExecutor(8) as executor:
        digests = list(executor.map(lambda at: store.put_json([at]), range(64)))
        assert list(executor.map(store.get_json, digests)) == [[at] for at in range(64)]
    assert {stored.digest for stored in store.stored()} == set(digests)


def test_what_others_write_is_seen_and_how_old_it_is(store: BlobBucket, server: FtpServer, tmp_path: Path) -> None:
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


def test_a_connection_that_was_closed_is_made_anew(store: BlobBucket, server: FtpServer) -> None:
    digest = store.put_json("kept")
    server.stop()
    with pytest.raises(StoreError, match=r"^ftp://127.0.0.1:\d+/blobs failed \(.*\): repair it, then resume the run$"):
        store.get(digest)
    server.start()
    assert store.get_json(digest) == "kept"
    server.stop()
    server.start()
    assert store.put_json("more") != digest
