"""What the nodes work with: the home, the evaluator, planner and coder, and readers of blobs. Never in the state."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from checkpoints.home import Home
from checkpoints.logs import append, newest
from evaluators.evaluation import Evaluation
from evaluators.evaluator import Evaluator
from evaluators.objective import Record
from evaluators.solution import Language, Solution
from evaluators.task import Task
from graph.config import SearchConfig
from graph.edits import EditBatch
from graph.state import Log, Spend, Stop, TaskRef, TreeRef
from graph.world_model import WorldModel
from nodes.coder import Coder
from nodes.novelty import NoveltyIndex
from nodes.paid import PaidCalls
from nodes.planner import Planner
from nodes.promised import find_inserted
from nodes.purse import Purse
from nodes.records import read_record
from nodes.trees import TreeStore

R = TypeVar("R", bound=Record)
REMEMBERED = 256
"""Records kept in memory: more than a round of a wide search touches."""


class Presence(Protocol):
    """Who is at work on a thread, and what people ask of it meanwhile.

    The command line sees to both around the graph; the server, which does not run the graph itself, from within.
    """

    async def begin(self, thread: str, task: str, config: str) -> None:
        """Add a thread that was begun by the graph itself."""
        ...

    def working(self, thread: str) -> AbstractAsyncContextManager[str | None]:
        """Surround a node's work; gives the blob of the configuration in force, None when that is seen to elsewhere."""
        ...

    async def ended(self, thread: str, stop: Stop) -> None:
        """Take note that the search has ended."""
        ...


class HeldOutside:
    """Presence of a process that holds its threads around the graph: nothing to do within."""

    async def begin(self, thread: str, task: str, config: str) -> None:
        """See `Presence`."""

    def working(self, thread: str) -> AbstractAsyncContextManager[None]:
        """See `Presence`."""
        return nullcontext()

    async def ended(self, thread: str, stop: Stop) -> None:
        """See `Presence`."""


@dataclass
class Services:
    """One process' means of running searches; shared by every thread that runs in it."""

    home: Home
    make_planner: Callable[[SearchConfig], Planner]
    make_coder: Callable[[SearchConfig], Coder]
    make_evaluator: Callable[[SearchConfig], Evaluator]
    resolve_task: Callable[[str], Task]
    """Task reference -> task. Raises UsageError."""
    check: Callable[[SearchConfig], None]
    """Raises UsageError when a configuration names what does not exist or is not allowed here."""
    presence: Presence = field(default_factory=HeldOutside)
    _trees: TreeStore = field(init=False, repr=False)
    _records: dict[str, Record] = field(default_factory=dict, repr=False)
    """Blob -> what it holds, for the records read or written last."""
    _in_force: dict[str, str] = field(default_factory=dict, repr=False)
    _novelty: dict[str, NoveltyIndex] = field(default_factory=dict, repr=False)
    _laps: dict[str, float] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._trees = TreeStore(self.home.blobs)

    def put_in_force(self, thread: str, config: str) -> None:
        """Make `config` (a blob) the configuration of a thread from its next node on."""
        self._in_force[thread] = config

    @asynccontextmanager
    async def working(self, thread: str) -> AsyncIterator[None]:
        """Surround a node's work on a thread, under the configuration in force. Raises what presence does."""
        async with self.presence.working(thread) as config:
            if config is not None:
                self.put_in_force(thread, config)
            yield

    def in_force(self, thread: str, config: str) -> str:
        """Return the blob of the thread's configuration; `config` is what its state says."""
        return self._in_force.get(thread, config)

    async def config(self, thread: str, blob: str) -> SearchConfig:
        """Return the configuration in force; `blob` is what the state says."""
        return await self._record(self.in_force(thread, blob), SearchConfig)

    async def task(self, ref: TaskRef) -> Task:
        """Return a task."""
        return await self._record(ref["blob"], Task)

    async def tree(self, ref: TreeRef) -> WorldModel:
        """Return a revision of a world model."""
        known = self._trees.known(ref)
        return known if known is not None else await asyncio.to_thread(self._trees.load, ref)

    async def save_tree(self, model: WorldModel) -> TreeRef:
        """Store a revision of a world model."""
        return await asyncio.to_thread(self._trees.save, model)

    async def save(self, value: Any) -> str:
        """Store JSON as a blob and return its digest."""
        return await asyncio.to_thread(self.home.blobs.put_json, value)

    async def keep(self, record: Solution | Evaluation) -> str:
        """Store a program or an evaluation as a blob and return its digest."""
        blob = await self.save(record.model_dump(mode="json"))
        self._remember(blob, record)
        return blob

    async def extend(self, log: Log, entries: list[dict[str, Any]]) -> Log:
        """Return the log with `entries` at its end."""
        return await asyncio.to_thread(append, self.home.blobs, log, entries)

    async def read(self, log: Log, numbers: set[int]) -> list[dict[str, Any]]:
        """Return the entries of `log` with these numbers (they count from 1), oldest first."""
        if not numbers:
            return []
        entries = await asyncio.to_thread(newest, self.home.blobs, log, log["count"] - min(numbers) + 1)
        return [entry for entry in entries if entry["number"] in numbers]

    async def inserted(self, log: Log, names: set[str]) -> dict[str, str]:
        """Return the ids of nodes that people's requests have inserted, see `nodes.promised.find_inserted`."""
        return await asyncio.to_thread(find_inserted, self.home.blobs, log, names) if names else {}

    async def repeated(self, thread: str, log: Log, key: str) -> dict[str, Any] | None:
        """Return the first attempt in `log` whose program has the novelty key, None when there is none."""
        index = self._novelty.setdefault(thread, NoveltyIndex())
        return await asyncio.to_thread(index.find, self.home.blobs, log, key)

    async def batch(self, blob: str) -> EditBatch:
        """Return an edit batch."""
        return await self._record(blob, EditBatch)

    async def solution(self, blob: str) -> Solution:
        """Return a program."""
        return await self._record(blob, Solution)

    async def evaluation(self, blob: str) -> Evaluation:
        """Return an evaluation."""
        return await self._record(blob, Evaluation)

    def load_solution(self, blob: str) -> Solution:
        """Return a program; blocks."""
        return self._load(blob, Solution)

    def load_evaluation(self, blob: str) -> Evaluation:
        """Return an evaluation; blocks."""
        return self._load(blob, Evaluation)

    async def _record(self, blob: str, kind: type[R]) -> R:
        """Return a record, without a hop to another thread when this process has just read or written it."""
        known = self._records.get(blob)
        return known if isinstance(known, kind) else await asyncio.to_thread(self._load, blob, kind)

    def _load(self, blob: str, kind: type[R]) -> R:
        known = self._records.get(blob)
        if isinstance(known, kind):
            return known
        record = read_record(self.home.blobs, blob, kind)
        self._remember(blob, record)
        return record

    def _remember(self, blob: str, record: Record) -> None:
        while len(self._records) >= REMEMBERED:
            self._records.pop(next(iter(self._records)), None)
        self._records[blob] = record

    def calls(self, thread: str, round_: int, cycle: int = 0, sample: int = 0) -> PaidCalls:
        """Return the paid calls of one place in a search."""
        return PaidCalls(self.home.ledger, self.home.blobs, thread, round_, cycle, sample)

    def purse(self, config: SearchConfig, before: Spend, thread: str, round_: int, role: str) -> Purse:
        """Return what a role has left to spend in a round; `before` is the state's spend."""
        return Purse(config, before, self.home.ledger, thread, round_, role, lambda: self.elapsed_s(thread))

    def lap(self, thread: str) -> float:
        """Return the seconds since the last lap of this thread in this process: 0 for the first."""
        now = time.monotonic()
        before = self._laps.get(thread, now)
        self._laps[thread] = now
        return now - before

    def elapsed_s(self, thread: str) -> float:
        """Return the seconds since the last lap of this thread, without beginning another."""
        now = time.monotonic()
        return now - self._laps.get(thread, now)


def language_of(config: SearchConfig, task: Task) -> Language:
    """Return the language that programs are written in."""
    return config.language if config.language is not None else next(iter(task.contracts))
