"""Content-addressed blobs: programs, logs, prompts, replies, trees. The digest of the content is the reference."""

import json
import os
import secrets
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from checkpoints.faults import storage_errors
from checkpoints.place import Place
from evaluators.digest import canonical_json, digest_bytes
from evaluators.errors import StoreError

LEVEL = 1
"""zlib level: the higher ones take several times as long and save a few percent of program text."""


def blob_name(digest: str) -> str:
    """Return where a blob lies in its store: `ab/cdef...`. Raises StoreError when `digest` cannot be one."""
    if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise StoreError(f"{digest!r} names no blob: a digest has 64 hex digits")
    return f"{digest[:2]}/{digest[2:]}"


class BlobError(StoreError):
    """A blob that is needed is missing or damaged."""

    def __init__(self, home: Place, folder: Path | str, digest: str, state: str) -> None:
        file = blob_name(digest)
        super().__init__(f"blob {digest} is {state} in {folder}: restore {file} from a copy of the folder, then go on")
        self.home = home
        self.digest = digest


class Stored(NamedTuple):
    """A blob as it lies in its store."""

    digest: str
    size: int
    """Packed, bytes."""
    modified: float
    """When it was put last, Unix time, seconds."""


class BlobStore(Protocol):
    """Where blobs live. All methods block and may be called from any thread: use `asyncio.to_thread` in nodes."""

    def put(self, data: bytes) -> str:
        """Store `data` and return its sha256 (64 hex digits); storing it again changes nothing.

        Raises:
            StoreError: the disk is full, read-only or broken; nothing half-written is ever visible.
        """
        ...

    def get(self, digest: str) -> bytes:
        """Return the bytes stored under `digest`.

        Raises:
            StoreError: they are missing, or are not what was stored; the message names the digest.
        """
        ...

    def sync(self) -> None:
        """Make everything stored so far survive a power failure, if the store promises that.

        Raises:
            StoreError: the disk failed.
        """
        ...

    def glance(self, digest: str) -> bytes:
        """Return what is stored under `digest` without checking it; nothing when it is missing or damaged."""
        ...

    def stored(self) -> Iterator[Stored]:
        """Yield every blob that there is."""
        ...

    def drop(self, digest: str) -> None:
        """Remove a blob."""
        ...

    def put_json(self, value: Any) -> str:
        """Store the canonical JSON of `value` and return its digest.

        Raises:
            StoreError: as `put`.
            TypeError, ValueError: `value` is no JSON.
        """
        return self.put(canonical_json(value))

    def get_json(self, digest: str) -> Any:
        """Return the JSON value stored under `digest`.

        Raises:
            StoreError: as `get`, or the bytes are no JSON.
        """
        try:
            return json.loads(self.get(digest))
        except ValueError as error:
            raise StoreError(f"blob {digest} holds no JSON: another kind of content was meant") from error


class BlobFolder(BlobStore):
    """Blobs as compressed files `ab/cdef...` below a folder that many processes may share."""

    def __init__(self, folder: Path, *, power_safe: bool = False, home: Place | None = None) -> None:
        self.folder = folder
        self._home = folder.parent if home is None else home
        self._power_safe = power_safe
        self._unsynced: set[Path] = set()
        self._lock = threading.Lock()
        with storage_errors(folder):
            (folder / "partial").mkdir(parents=True, exist_ok=True)

    def put(self, data: bytes) -> str:
        """See `BlobStore.put`. A damaged file of the same content is replaced."""
        digest = digest_bytes(data)
        file = self._file(digest)
        with storage_errors(self.folder):
            if _read(file, digest) is None:
                self._write(file, zlib.compress(data, LEVEL))
            else:
                os.utime(file)  # a prune that is under way must see that it is needed again
        if self._power_safe:
            with self._lock:
                self._unsynced.add(file)
        return digest

    def get(self, digest: str) -> bytes:
        """See `BlobStore.get`."""
        file = self._file(digest)
        with storage_errors(self.folder):
            data = _read(file, digest)
            state = "damaged" if data is None and file.exists() else "missing"
        if data is None:
            raise BlobError(self._home, self.folder, digest, state)
        return data

    def sync(self) -> None:
        """See `BlobStore.sync`. One pass over the files written since the last one; nothing unless power-safe."""
        with self._lock:
            files, self._unsynced = self._unsynced, set()
        folders = {file.parent for file in files}
        with storage_errors(self.folder):
            try:
                for path in (*files, *folders, *([self.folder] if folders else [])):
                    _sync(path)
            except OSError:
                with self._lock:
                    self._unsynced |= files
                raise

    def glance(self, digest: str) -> bytes:
        """See `BlobStore.glance`."""
        try:
            with open(f"{self.folder}/{digest[:2]}/{digest[2:]}", "rb") as file:
                return zlib.decompress(file.read())
        except (FileNotFoundError, zlib.error):
            return b""

    def stored(self) -> Iterator[Stored]:
        """See `BlobStore.stored`."""
        for folder in os.scandir(self.folder):
            if len(folder.name) == 2 and folder.is_dir():
                for entry in os.scandir(folder.path):
                    if len(entry.name) == 62:
                        facts = entry.stat()
                        yield Stored(folder.name + entry.name, facts.st_size, facts.st_mtime)

    def drop(self, digest: str) -> None:
        """See `BlobStore.drop`."""
        with storage_errors(self.folder):
            self._file(digest).unlink()

    def _file(self, digest: str) -> Path:
        return self.folder / blob_name(digest)

    def _write(self, file: Path, packed: bytes) -> None:
        partial = self.folder / "partial" / f"{os.getpid()}-{secrets.token_hex(8)}"
        try:
            partial.write_bytes(packed)
            try:
                partial.replace(file)
            except FileNotFoundError:
                file.parent.mkdir(exist_ok=True)
                partial.replace(file)
        except OSError:
            partial.unlink(missing_ok=True)
            raise


def _read(file: Path, digest: str) -> bytes | None:
    """Return the content of `file`, None when it is missing or is not what the digest says."""
    try:
        return unpacked_blob(file.read_bytes(), digest)
    except FileNotFoundError:
        return None


def unpacked_blob(packed: bytes, digest: str) -> bytes | None:
    """Return the content of a packed blob, None when it is not what the digest says."""
    try:
        data = zlib.decompress(packed)
    except zlib.error:
        return None
    return data if digest_bytes(data) == digest else None


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
