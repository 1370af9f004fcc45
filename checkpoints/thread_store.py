"""The threads as a search uses them: made, found, held, told of."""

from functools import partial
from typing import Any

from checkpoints.database import Database
from checkpoints.events import MEMBER, Event, add_event, read_events
from checkpoints.holding import acquire, beat, release
from checkpoints.lineage import Lineage, read_ancestors
from checkpoints.sql import Connection
from checkpoints.threads import Status, Thread, configure, create_thread, find_thread, known_thread, read_threads


class Threads:
    """The threads in the database. Every method raises StoreError when the database or the disk fails."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self, task: str, config: str, uuid: str | None = None, *, name: str | None = None, member: Any = None
    ) -> Thread:
        """Add a thread, paused and held by nobody.

        Args:
            task: name of the task.
            config: digest of the configuration.
            uuid: the thread id, where another system (the LangGraph server) has given it one.
            name: what people call it; left out: the task's name and a number.
            member: its place in an experiment (checkpoints/experiments.py), recorded in the same step.

        Raises:
            UsageError: the uuid or the name is taken, or the name cannot be one.
        """

        def work(connection: Connection) -> Thread:
            thread = create_thread(connection, task=task, config=config, uuid=uuid, name=name)
            if member is not None:
                add_event(connection, thread.uuid, MEMBER, member)
            return thread

        return await self._database.run(work)

    async def find(self, name: str) -> Thread:
        """Return the thread with this name or uuid, the only one that it begins, or the `latest`.

        Raises:
            UsageError: none or several fit; the message names the nearest.
        """
        return await self._database.run(partial(find_thread, name=name), alone=False)

    async def known(self, uuid: str) -> Thread | None:
        """Return the thread with exactly this uuid, None when there is none."""
        return await self._database.run(partial(known_thread, uuid=uuid))

    async def all(self) -> list[Thread]:
        """Return all threads, the one worked on last first."""
        return await self._database.run(read_threads, alone=False)

    async def acquire(self, uuid: str, *, take_over: bool = False) -> Thread:
        """Hold the thread for this process, with status running, and return it as it was before.

        Args:
            uuid: the thread.
            take_over: take it from a holder that cannot be seen from here: on another machine, in another container.

        Raises:
            UsageError: a live process holds it, or there is no such thread.
        """
        before = await self._database.run(partial(acquire, uuid=uuid, take_over=take_over))
        self._database.held.add(uuid)
        return before

    async def release(self, uuid: str, status: Status, reason: str = "") -> None:
        """Let the thread go with this status.

        Raises:
            StoreError: this process does not hold it (another has taken it over).
        """
        self._database.held.discard(uuid)
        await self._database.run(partial(release, uuid=uuid, status=status, reason=reason))

    async def beat(self) -> None:
        """Say that this process still holds the threads that it holds: once in HEARTBEAT_S."""
        if self._database.held:
            await self._database.run(beat, alone=False)

    async def configure(self, uuid: str, config: str) -> None:
        """Set the digest of the configuration in force; a change is recorded as the event `config`."""
        await self._database.run(partial(configure, uuid=uuid, config=config))

    async def add_event(self, uuid: str, kind: str, data: Any) -> int:
        """Record an event of the thread with its JSON data and return its number."""
        return await self._database.run(partial(add_event, uuid=uuid, kind=kind, data=data))

    async def events(self, uuid: str) -> list[Event]:
        """Return the thread's events, oldest first."""
        return await self._database.run(partial(read_events, uuid=uuid), alone=False)

    async def ancestors(self, uuid: str) -> list[Lineage]:
        """Return where the thread branched off, where its parent did, and so on."""
        return await self._database.run(partial(read_ancestors, uuid=uuid), alone=False)
