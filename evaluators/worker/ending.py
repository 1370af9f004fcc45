"""How a server of work ends when whoever started it is gone."""

import os
import select
import threading
from pathlib import Path

from evaluators.worker.forge import Forge
from evaluators.worker.removal import remove


def end_with_stdin(folder: Path) -> list[Forge]:
    """From now on, end this process at once when standard input closes, even in the middle of a job.

    With it end the zygotes in the list that is returned, which the caller fills, and all that they forked; `folder` is
    removed.
    """
    running: list[Forge] = []
    threading.Thread(target=_wait, args=(folder, running), daemon=True).start()
    return running


def _wait(folder: Path, running: list[Forge]) -> None:
    poll = select.poll()
    poll.register(0, 0)
    poll.poll()
    try:
        for forge in running:
            forge.abandon()
        remove(folder)
    finally:
        os._exit(1)
