"""Logs in blocks: what was appended comes back in order, and the newest entries cost no more than they must."""

from pathlib import Path
from typing import Any

import pytest

from checkpoints.blobs import BlobFolder
from checkpoints.logs import TAIL, Log, append, empty_log, newest, read


class CountedBlobs(BlobFolder):
    """Counts what is read."""

    read = 0

    def get(self, digest: str) -> bytes:
        self.read += 1
        return super().get(digest)


def filled(blobs: BlobFolder, blocks: int, size: int) -> Log:
    log = empty_log()
    for block in range(blocks):
        log = append(blobs, log, [{"number": block * size + at + 1} for at in range(size)])
    return log


@pytest.mark.parametrize("blocks", [0, 1, TAIL, TAIL + 1, 2 * TAIL + 1, 3 * TAIL])
def test_what_was_appended_comes_back_in_order(tmp_path: Path, blocks: int) -> None:
    blobs = BlobFolder(tmp_path)
    log = filled(blobs, blocks, 2)
    everything: list[dict[str, Any]] = [{"number": number} for number in range(1, 2 * blocks + 1)]
    assert list(read(blobs, log)) == everything
    for count in (-1, 0, 1, 2, 3, 2 * TAIL, 2 * TAIL + 3, 2 * blocks, 2 * blocks + 5):
        assert newest(blobs, log, count) == everything[max(len(everything) - max(count, 0), 0) :]


@pytest.mark.parametrize("blocks", [TAIL, TAIL + 1, TAIL + 2, 3 * TAIL + 1])
def test_the_newest_entries_cost_no_more_than_their_blocks(tmp_path: Path, blocks: int) -> None:
    blobs = CountedBlobs(tmp_path)
    log = filled(blobs, blocks, 4)
    blobs.read = 0
    assert len(newest(blobs, log, 12)) == 12
    assert blobs.read <= 3 + 2  # three blocks, the head and at most one segment's list
