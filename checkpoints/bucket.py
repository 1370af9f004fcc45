"""Blobs in any storage that fsspec reaches: object stores, remote file systems. Needs that storage's fsspec package."""

import ftplib
import secrets
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar, cast

import fsspec
from fsspec.spec import AbstractFileSystem

from checkpoints.blobs import LEVEL, BlobError, BlobStore, Stored, blob_name, unpacked_blob
from checkpoints.place import Place
from evaluators.digest import digest_bytes
from evaluators.errors import StoreError, UsageError

T = TypeVar("T")


def _faults() -> tuple[type[Exception], ...]:
    """Return what implementations raise for what their storage reports: OSError and its kinds, but for FTP and SFTP."""
    ssh = sys.modules.get("paramiko")  # fsspec imports it where it is used
    return (OSError, EOFError, ftplib.Error) if ssh is None else (OSError, EOFError, ftplib.Error, ssh.SSHException)


class BlobBucket(BlobStore):
    """See `checkpoints.blobs.BlobStore`. Compressed objects `ab/cdef...` below a URL that many processes may share.

    Every put writes, which renews the object's time, so that a prune under way sees that it is needed again.
    """

    def __init__(self, url: str, home: Place) -> None:
        self._home = home
        self.url = url.rstrip("/")
        self._own = threading.local()
        try:
            with self._errors():
                self._connect()
        except (ImportError, ValueError) as error:
            raise UsageError(f"{self.url} cannot be used for blobs: {' '.join(str(error).split())}") from error

    def put(self, data: bytes) -> str:
        """See `BlobStore.put`."""
        digest = digest_bytes(data)
        path = self._path(digest)
        packed = zlib.compress(data, LEVEL)

        def write(files: AbstractFileSystem) -> None:
            self._make(files, path.rpartition("/")[0])
            if type(files).mv is AbstractFileSystem.mv:  # an object store: it can only copy, and shows whole objects
                files.pipe_file(path, packed)
            else:
                _write_apart(files, path, packed)

        self._do(write)
        return digest

    def get(self, digest: str) -> bytes:
        """See `BlobStore.get`."""
        packed = self._read(digest)
        data = None if packed is None else unpacked_blob(packed, digest)
        if data is None:
            raise BlobError(self._home, self.url, digest, "missing" if packed is None else "damaged")
        return data

    def sync(self) -> None:
        """See `BlobStore.sync`. An object store keeps what it has accepted."""

    def glance(self, digest: str) -> bytes:
        """See `BlobStore.glance`."""
        packed = self._read(digest)
        try:
            return b"" if packed is None else zlib.decompress(packed)
        except zlib.error:
            return b""

    def stored(self) -> Iterator[Stored]:
        """See `BlobStore.stored`."""

        def find(files: AbstractFileSystem) -> dict[str, Any]:
            return cast(dict[str, Any], files.find(self._root, detail=True)) if _is_there(files, self._root) else {}

        for path, facts in self._do(find).items():
            digest = "".join(path.rsplit("/", 2)[1:])
            if len(digest) == 64:
                yield Stored(digest, int(facts["size"]), _modified(facts))

    def drop(self, digest: str) -> None:
        """See `BlobStore.drop`."""

        def remove(files: AbstractFileSystem) -> None:
            try:
                files.rm_file(self._path(digest))
            except _faults():
                if _is_there(files, self._path(digest)):  # unless it was removed, and only the reply got lost
                    raise

        self._do(remove)

    def _read(self, digest: str) -> bytes | None:
        def read(files: AbstractFileSystem) -> bytes | None:
            try:
                return cast(bytes, files.cat_file(self._path(digest)))
            except FileNotFoundError as error:
                said = error.__cause__  # by an FTP server: also that the connection was idle for too long
                if isinstance(said, ftplib.Error) and not str(said).startswith("550"):
                    raise
                return None

        return self._do(read)

    def _path(self, digest: str) -> str:
        return f"{self._root}/{blob_name(digest)}"

    def _make(self, files: AbstractFileSystem, folder: str) -> None:
        for place in (self._root, folder):
            if place in self._own.made:
                continue
            try:
                files.makedirs(place, exist_ok=True)
            except _faults():
                if not _is_there(files, place):  # unless another process has just made it
                    raise
            self._own.made.add(place)

    def _connect(self) -> AbstractFileSystem:
        """Connect this thread to the storage: implementations may have one connection, which threads cannot share."""
        self._own.files, self._root = fsspec.url_to_fs(self.url, skip_instance_cache=True)
        self._own.made = set()
        return self._own.files

    def _do(self, work: Callable[[AbstractFileSystem], T]) -> T:
        """Do what can be done again: once more where a connection was closed meanwhile or another process was first."""
        with self._errors():
            files = self._own.files if "files" in vars(self._own) else self._connect()
            files.invalidate_cache()  # of listings: others write as well
            try:
                return work(files)
            except _faults():
                return work(self._connect())

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except _faults() as error:
            text = " ".join(str(error).split())
            raise StoreError(f"{self.url} failed ({text}): repair it, then resume the run") from error


def _write_apart(files: AbstractFileSystem, path: str, data: bytes) -> None:
    """Write a file and put it into its place whole; at once into its place where nothing may be renamed."""
    partial = f"{path}.{secrets.token_hex(8)}"
    files.pipe_file(partial, data)
    try:
        files.mv(partial, path)
    except _faults():
        files.rm_file(partial)
        files.pipe_file(path, data)


def _is_there(files: AbstractFileSystem, path: str) -> bool:
    files.invalidate_cache()
    try:
        files.info(path)
    except FileNotFoundError:
        return False
    return True


def _modified(facts: dict[str, Any]) -> float:
    """Return when an object was written, Unix time; now where the storage does not tell, so that it is kept."""
    for name in ("mtime", "LastModified", "last_modified", "created", "updated"):
        value = facts.get(name)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, int | float):
            return float(value)
    modify = str(facts.get("modify"))[:14]
    if modify.isdecimal():  # FTP's, in UTC; without MLSD it is a text for people, in the server's own time zone
        return datetime.strptime(f"{modify}+0000", "%Y%m%d%H%M%S%z").timestamp()
    return time.time()
