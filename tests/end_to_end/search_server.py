"""Runs scripted searches in processes of their own, forked from one that has imported everything.

Reads one JSON request a line from stdin: {"home", "folder", "options", "kill"}; answers one line with how the process
ended. `kill` = {"node", "point", "nth", "signal", "times"}: when that point is reached in that node for the nth time,
the process sends itself that signal (SIGKILL) that often (once). The folder's journal gets a line for every paid call
that was really made, and one for every point passed.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from langgraph.config import get_config

from checkpoints.blobs import BlobFolder
from checkpoints.home import Home, open_home
from checkpoints.ledger import Entry, Ledger, LedgerKey
from evaluators.digest import canonical_json
from graph import runs
from graph.presets import resolve


class Trap:
    """Counts the points that are passed in each node, and kills this process at one of them."""

    def __init__(self, kill: dict[str, Any] | None, journal: Path) -> None:
        self._kill = kill
        self._journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._passed: Counter[tuple[str, str]] = Counter()

    def point(self, name: str, node: str | None = None) -> None:
        node = _node() if node is None else node
        self._passed[node, name] += 1
        here = {"node": node, "point": name, "nth": self._passed[node, name]}
        if self._kill is not None and here.items() <= self._kill.items():
            number = self._kill.get("signal", signal.SIGKILL)
            self.write({"fell": number})
            for _ in range(self._kill.get("times", 1)):
                os.kill(os.getpid(), number)
                time.sleep(0.02)  # two that are pending at once are one
        self.write({"node": node, "point": name})

    def write(self, entry: dict[str, Any]) -> None:
        os.write(self._journal, json.dumps(entry).encode() + b"\n")


def _node() -> str:
    try:
        return str(get_config()["metadata"]["langgraph_node"])
    except (RuntimeError, KeyError):
        return "between"


class TrappedBlobs(BlobFolder):
    trap: Trap

    def put(self, data: bytes) -> str:
        self.trap.point("before blob")
        digest = super().put(data)
        self.trap.point("after blob")
        return digest


class TrappedLedger(Ledger):
    trap: Trap

    async def claim(self, key: LedgerKey) -> Entry | None:
        known = await super().claim(key)
        if known is None:
            self.trap.point("after intent")
        return known

    async def keep(self, key: LedgerKey, blobs: Any, data: bytes, spend: dict[str, Any]) -> None:
        self.trap.write({"paid": list(key.row[1:])})
        self.trap.point("before ledger")
        await super().keep(key, blobs, data, spend)
        self.trap.point("after ledger")


def trapped(home: Home, trap: Trap) -> Home:
    """The same stores, with points before and after each of their writes."""
    home.ledger.__class__ = TrappedLedger
    home.blobs.__class__ = TrappedBlobs
    home.ledger.trap = trap  # type: ignore[attr-defined]
    home.blobs.trap = trap  # type: ignore[attr-defined]

    class TrappedSaver(type(home.saver)):  # type: ignore[misc]
        async def aput(self, *args: Any) -> Any:
            trap.point("before checkpoint", "between")
            config = await super().aput(*args)
            trap.point("after checkpoint", "between")
            return config

        async def aput_writes(self, *args: Any, **named: Any) -> None:
            trap.point("before writes", "between")
            await super().aput_writes(*args, **named)
            trap.point("after writes", "between")

    home.saver.__class__ = TrappedSaver
    return home


async def search(request: dict[str, Any]) -> None:
    """Start the home's only search, or go on with it."""
    async with open_home(request["home"]) as home:
        trapped(home, Trap(request.get("kill"), Path("journal")))
        async with runs.opened_services(home) as means:
            if await home.threads.all():
                ended = await runs.resume(means, "latest", {}, lambda event: None)
            else:
                ended = await runs.start(means, resolve("default", request["options"]), lambda event: None)
    facts = {key: ended.state[key] for key in ("tree", "attempts", "edits", "incumbent", "round", "stop")}
    Path("ended.json").write_bytes(canonical_json({"status": ended.status, **facts}))


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os.set_inheritable(1, False)
            request = json.loads(line)
            os.chdir(request["folder"])
            os.environ["KSEARCH_BLOBS"] = "blobs"
            try:
                asyncio.run(search(request))
            except (asyncio.CancelledError, KeyboardInterrupt):
                os._exit(3)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        print(json.dumps({"signal": killed, "exit": os.waitstatus_to_exitcode(status)}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
