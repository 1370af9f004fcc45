"""The contract of blob stores, and what the folder of blobs promises beyond it."""

import hashlib
import subprocess
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from checkpoints.blobs import BlobFolder, BlobStore
from evaluators.errors import StoreError

Child = Callable[..., subprocess.Popen[str]]


class BlobStoreContract:
    """What every blob store keeps; a subclass provides the fixture `store`."""

    @pytest.mark.parametrize("data", [b"", b"x", b"void kernel() {}\n" * 1000, bytes(range(256)) * 100])
    def test_what_is_put_is_got(self, store: BlobStore, data: bytes) -> None:
        digest = store.put(data)
        assert digest == hashlib.sha256(data).hexdigest()
        assert store.get(digest) == data

    def test_putting_again_changes_nothing(self, store: BlobStore) -> None:
        assert store.put(b"same") == store.put(b"same")
        assert store.get(store.put(b"same")) == b"same"

    @pytest.mark.parametrize("value", [None, [], {"b": 1, "a": [1.5, "ü", None, True]}, "half a pair \ud83d"])
    def test_json_comes_back(self, store: BlobStore, value: Any) -> None:
        assert store.get_json(store.put_json(value)) == value

    def test_equal_json_is_one_blob(self, store: BlobStore) -> None:
        assert store.put_json({"a": 1, "b": 2}) == store.put_json({"b": 2, "a": 1})

    def test_what_is_no_json_is_refused(self, store: BlobStore) -> None:
        with pytest.raises(ValueError, match="JSON compliant"):
            store.put_json(float("nan"))
        with pytest.raises(StoreError, match="holds no JSON"):
            store.get_json(store.put(b"\xff not json"))

    def test_a_missing_blob_is_named(self, store: BlobStore) -> None:
        digest = hashlib.sha256(b"never stored").hexdigest()
        with pytest.raises(StoreError, match=f"{digest} is missing"):
            store.get(digest)

    @pytest.mark.parametrize("name", ["", "../../etc/passwd", "ab", "A" * 64, "g" * 64])
    def test_what_is_no_digest_is_refused(self, store: BlobStore, name: str) -> None:
        with pytest.raises(StoreError, match="64 hex digits"):
            store.get(name)

    def test_many_threads_may_put_at_once(self, store: BlobStore) -> None:
        with ThreadPoolExecutor(8) as pool:
            digests = list(pool.map(lambda index: store.put(b"%d" % (index % 10)), range(200)))
        assert len(set(digests)) == 10
        assert {store.get(digest) for digest in digests} == {b"%d" % index for index in range(10)}

    def test_sync_may_be_called_any_time(self, store: BlobStore) -> None:
        store.sync()
        digest = store.put(b"x")
        store.sync()
        store.sync()
        assert store.get(digest) == b"x"


class TestBlobFolder(BlobStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> BlobFolder:
        return BlobFolder(tmp_path / "blobs")


class TestPowerSafeBlobFolder(BlobStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> BlobFolder:
        return BlobFolder(tmp_path / "blobs", power_safe=True)


def file_of(store: BlobFolder, digest: str) -> Path:
    return store.folder / digest[:2] / digest[2:]


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(file.read_bytes()[:-3]),
        lambda file: file.write_bytes(b"no zlib at all"),
        lambda file: file.write_bytes(zlib.compress(b"another content")),
    ],
    ids=["empty", "cut", "garbage", "swapped"],
)
def test_a_damaged_blob_is_named_and_putting_it_again_repairs_it(tmp_path: Path, damage: Callable[[Path], Any]) -> None:
    store = BlobFolder(tmp_path / "blobs")
    digest = store.put(b"precious" * 100)
    damage(file_of(store, digest))
    with pytest.raises(StoreError, match=f"{digest} is damaged") as failure:
        store.get(digest)
    assert "\n" not in str(failure.value)
    assert store.put(b"precious" * 100) == digest
    assert store.get(digest) == b"precious" * 100


def test_a_failed_sync_is_told_and_made_up_for(tmp_path: Path) -> None:
    store = BlobFolder(tmp_path / "blobs", power_safe=True)
    file = file_of(store, store.put(b"x"))
    packed = file.read_bytes()
    file.unlink()
    with pytest.raises(StoreError):
        store.sync()
    with pytest.raises(StoreError):
        store.sync()  # still owed
    file.write_bytes(packed)
    store.sync()


LIMITED = """
import os, resource, sys
from pathlib import Path
from checkpoints.blobs import BlobFolder
from evaluators.errors import StoreError
store = BlobFolder(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
kept = store.put(b"small")
try:
    store.put(os.urandom(200_000))
except StoreError as error:
    print(error)
print(store.get(kept))
"""


def test_a_file_size_limit_is_told_and_leaves_nothing_half_written(tmp_path: Path, child: Child) -> None:
    out, error = child(LIMITED, tmp_path / "blobs").communicate(timeout=200)
    first, second = out.splitlines()
    assert "may not grow any further: raise the limit on file sizes" in first
    assert second == "b'small'"
    assert error == ""
    assert len([path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]) == 1


def test_a_full_disk_is_told_and_leaves_nothing_half_written(small_disk: Path) -> None:
    store = BlobFolder(small_disk / "blobs")
    kept = store.put(b"small")
    (small_disk / "ballast").write_bytes(b"x" * 900_000)
    with pytest.raises(StoreError, match=r"no space is left for .*: free some"):
        store.put(b"".join(hashlib.sha256(b"%d" % index).digest() for index in range(20_000)))
    assert store.get(kept) == b"small"
    assert list((store.folder / "partial").iterdir()) == []
    (small_disk / "ballast").unlink()
    assert store.get(store.put(b"fits again")) == b"fits again"


WRITER = """
import sys
from pathlib import Path
from checkpoints.blobs import BlobFolder
store = BlobFolder(Path(sys.argv[1]))
index = 0
while True:
    print(store.put(b"%d" % index + b"line of a program\\n" * 20_000), flush=True)
    index += 1
"""


def test_a_writer_killed_at_any_moment_leaves_only_whole_blobs(tmp_path: Path, child: Child) -> None:
    process = child(WRITER, tmp_path / "blobs")
    assert process.stdout is not None
    told = [process.stdout.readline().strip() for _ in range(20)]
    process.kill()
    store = BlobFolder(tmp_path / "blobs")
    stored = [path.parent.name + path.name for path in store.folder.glob("??/*")]
    assert set(told) <= set(stored)
    for digest in stored:
        store.get(digest)
