"""Blobs in any storage that fsspec reaches: object stores, remote file systems. Needs that storage's fsspec package."""

import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import fsspec

from checkpoints.blobs import LEVEL, BlobError, BlobStore, Stored, blob_name, unpacked_blob
from checkpoints.place import Place
from evaluators.digest import digest_bytes
from evaluators.errors import StoreError, UsageError


class BlobBucket(BlobStore):
    """See `checkpoints.blobs.BlobStore`. Compressed objects `ab/cdef...` below a URL that many processes may share.

    Every put writes, which renews the object's time, so that a prune under way sees that it is needed again.
    """

    def __init__(self, url: str, home: Place) -> None:
        self._home = home
        self.url = url.rstrip("/")
        try:
            self._files, self._root = fsspec.url_to_fs(self.url)
        except (ImportError, ValueError) as error:
            raise UsageError(f"{self.url} cannot be used for blobs: {' '.join(str(error).split())}") from error

    def put(self, data: bytes) -> str:
        """See `BlobStore.put`."""
        digest = digest_bytes(data)
        path = self._path(digest)
        with self._errors():
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(path, zlib.compress(data, LEVEL))
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
        with self._errors():
            found = self._files.find(self._root, detail=True) if self._files.exists(self._root) else {}
        for path, facts in found.items():
            digest = "".join(path.rsplit("/", 2)[1:])
            if len(digest) == 64:
                yield Stored(digest, int(facts["size"]), _modified(facts))

    def drop(self, digest: str) -> None:
        """See `BlobStore.drop`."""
        with self._errors():
            self._files.rm_file(self._path(digest))

    def _read(self, digest: str) -> bytes | None:
        with self._errors():
            try:
                data: bytes = self._files.cat_file(self._path(digest))
            except FileNotFoundError:
                return None
            return data

    def _path(self, digest: str) -> str:
        return f"{self._root}/{blob_name(digest)}"

    @contextmanager
    def _errors(self) -> Iterator[None]:
        # fsspec's implementations promise OSError and its kinds for what their storage reports.
        try:
            yield
        except OSError as error:
            text = " ".join(str(error).split())
            raise StoreError(f"{self.url} failed ({text}): repair it, then resume the run") from error


def _modified(facts: dict[str, Any]) -> float:
    """Return when an object was written, Unix time; now where the storage does not tell, so that it is kept."""
    for name in ("mtime", "LastModified", "last_modified", "created", "updated"):
        value = facts.get(name)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, int | float):
            return float(value)
    return time.time()
