"""Conducting an experiment: its searches, a bounded number at a time, each a thread that can be gone on with.

All share this process' models, rate limits and evaluators. Whatever ends the process, the next visit finds the threads
by the experiment's name: finished ones are left alone, the others go on, missing ones are begun.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from checkpoints.experiments import Member
from checkpoints.history import Snapshot, read_snapshot
from checkpoints.threads import Thread
from evaluators.errors import KsearchError, StoreError, UsageError
from graph.branches import make_branch
from graph.config import SearchConfig
from graph.draining import Drain, draining
from graph.experiments.accounts import NOTHING, Spent, in_all, spent_of, used_up
from graph.experiments.plan import BUDGETS, MAY_CHANGE, Job, Options, Plan, differing, jobs
from graph.runs import go_on
from nodes.opening import open_search
from nodes.records import read_config
from nodes.services import Services

Tell = Callable[[str, dict[str, Any]], None]
"""Receives every event with the name of its run; "" for those of the whole experiment."""
Check = Callable[[Sequence[SearchConfig]], None]
"""Raises UsageError when searches with one of these options cannot be done here."""
Status = Literal["done", "paused", "failed", "left"]


@dataclass(frozen=True)
class Outcome:
    """What became of one search in this visit."""

    run: str
    status: Status
    """`left`: not begun, or not gone on with."""
    reason: str = ""


@dataclass(frozen=True)
class Conducted:
    """How a visit to an experiment ended."""

    outcomes: tuple[Outcome, ...]
    stopped: str
    """What ended it before all searches had: a budget or a signal; empty when nothing did."""
    spent: Spent
    wall_s: float
    """How long the experiment has been worked on in all its visits, seconds."""


@dataclass
class _Place:
    """A search, and how far it was when this visit began."""

    job: Job
    thread: Thread | None = None
    changes: Options = field(default_factory=dict)
    done: bool = False
    before: Spent = NOTHING
    """What its ancestor had spent."""
    spent: Spent = NOTHING


async def conduct(means: Services, plan: Plan, tell: Tell, check: Check) -> Conducted:
    """Run whatever searches of the plan have not ended, and return what became of each.

    A search that fails does not end the others. Before any begins, `check` is given the options of the cells of which a
    search has not ended, unless they are another run's.

    Raises:
        StoreError: the database or the disk failed; what was done until then is kept.
        UsageError: a search of the experiment was begun with other options, or the plan names what does not exist, or
            `check` says so.
    """
    places = await _places(means, plan)
    if plan.matched is None:
        waiting = {place.job.cell.name: place.job.cell.config for place in places if not place.done}
        check(tuple(waiting.values()))
    digest = await means.save(plan.model_dump(mode="json"))
    visit = _Visit(means, plan, tell, places, await means.home.experiments.begin(plan.name, digest))
    with draining(visit.drain, lambda event: tell("", event)):
        return await visit.run()


class _Visit:
    """One visit to an experiment."""

    def __init__(self, means: Services, plan: Plan, tell: Tell, places: Sequence[_Place], before_s: float) -> None:
        self.drain = Drain()
        self._means = means
        self._plan = plan
        self._tell = tell
        self._places = places
        self._before_s = before_s
        self._began = time.monotonic()
        self._waiting = deque(place for place in places if not place.done)
        self._outcomes = {place.job.run: Outcome(place.job.run, "done") for place in places if place.done}

    async def run(self) -> Conducted:
        """Run what waits, `at_a_time` searches at a time."""
        self._look()
        workers = [asyncio.create_task(self._work()) for _ in range(self._plan.at_a_time)]
        clock = asyncio.create_task(self._clock())
        try:
            await asyncio.gather(*workers)
        finally:
            for task in (*workers, clock):
                task.cancel()
            await asyncio.wait([*workers, clock])
        left = {place.job.run: Outcome(place.job.run, "left") for place in self._places}
        outcomes = tuple({**left, **self._outcomes}.values())
        stopped = self.drain.reason if any(item.status in ("left", "paused") for item in outcomes) else ""
        return Conducted(outcomes, stopped, in_all(place.spent for place in self._places), self._wall_s())

    def _wall_s(self) -> float:
        return self._before_s + time.monotonic() - self._began

    def _look(self) -> None:
        """Ask all searches to end when a budget of the whole is used up."""
        reason = used_up(self._plan.limits, in_all(place.spent for place in self._places), self._wall_s())
        if reason:
            self.drain.request(reason)

    async def _clock(self) -> None:
        limit = self._plan.limits.wall_s
        if limit is not None:
            await asyncio.sleep(max(limit - self._wall_s(), 0.0))
            self._look()

    async def _work(self) -> None:
        while self._waiting and not self.drain.reason:
            place = self._waiting.popleft()
            self._outcomes[place.job.run] = outcome = await self._search(place)
            self._tell(place.job.run, {"event": "ended", "status": outcome.status, "reason": outcome.reason})
            self._look()

    async def _search(self, place: _Place) -> Outcome:
        run = place.job.run

        def listen(event: dict[str, Any]) -> None:
            if event["event"] == "round":
                place.spent = Spent(event["evaluations"], event["tokens"], event["usd"]) - place.before
                self._look()
            self._tell(run, event)

        try:
            thread = place.thread or await _begin(self._means, self._plan, place)
            ended = await go_on(self._means, thread.uuid, place.changes, listen, self.drain)
        except StoreError:
            raise
        except KsearchError as error:
            return Outcome(run, "failed", str(error))
        place.spent = spent_of(ended.state) - place.before
        stop = ended.state.get("stop")
        reason = "" if stop is None else f"{stop['reason']}: {stop['detail']}"
        return Outcome(run, "done" if ended.status == "finished" else "paused", reason)


async def _places(means: Services, plan: Plan) -> list[_Place]:
    """Return every search of the plan as it stands. Raises UsageError."""
    members = {thread.name: (member, thread) for member, thread in await means.home.experiments.members(plan.name)}
    places = []
    for job in jobs(plan):
        place = _Place(job)
        if job.run in members:
            await _find(means, plan, place, *members[job.run])
        places.append(place)
    return places


async def _find(means: Services, plan: Plan, place: _Place, member: Member, thread: Thread) -> None:
    """Fill in how far a search is that exists already."""
    place.thread = thread
    place.before = _before(member)
    snapshot = await asyncio.to_thread(read_snapshot, means.home.folder, thread.uuid)
    # A branch that has not run yet has spent what its ancestor had.
    place.spent = spent_of(snapshot.values) - place.before if "spend" in snapshot.values else NOTHING
    config = await asyncio.to_thread(read_config, means.home.blobs, thread.config)
    place.changes = differing(config, config.with_options(_options(plan, place.job, place.before)))
    if fixed := sorted(place.changes.keys() - MAY_CHANGE):
        was, now = config.model_dump()[fixed[0]], place.changes[fixed[0]]
        raise UsageError(
            f"{thread.name} was begun with {fixed[0]} = {was}, not {now}: put it back, or name the experiment otherwise"
        )
    place.done = thread.status == "finished" and not place.changes.keys() & BUDGETS


def _options(plan: Plan, job: Job, before: Spent) -> Options:
    """Return the options of a search, or in matched mode those that are set on what the other run has."""
    config = job.config.model_dump(exclude={"preset"})
    if plan.matched is None:
        return config
    given = {key: config[key] for key in (*job.cell.given, "seed")}
    return {**given, "max_evaluations": before.evaluations + plan.matched.evaluations}


async def _begin(means: Services, plan: Plan, place: _Place) -> Thread:
    """Make the thread of a search. Raises KsearchError."""
    job = place.job
    member = Member(experiment=plan.name, cell=job.cell.name, unit=job.unit)
    if plan.matched is None or job.at is None:
        opening = await open_search(means, job.config)
        data = member.model_dump()
        return await means.home.threads.create(opening["task"]["name"], opening["config"], name=job.run, member=data)
    state = await asyncio.to_thread(read_snapshot, means.home.folder, plan.matched.run, job.at)
    member = _with_past(member, state)
    place.before = place.spent = _before(member)
    options = _options(plan, job, place.before)
    at = state.checkpoint or job.at
    made = await make_branch(means.home.folder, state.thread.uuid, at, options, job.run, member.model_dump())
    place.spent = NOTHING
    return made.thread


def _with_past(member: Member, state: Snapshot) -> Member:
    spent = spent_of(state.values)
    past = {"evaluations": spent.evaluations, "tokens": spent.tokens, "usd": spent.usd}
    return member.model_copy(update={**past, "attempts": state.values.get("attempts", {}).get("count", 0)})


def _before(member: Member) -> Spent:
    return Spent(member.evaluations, member.tokens, member.usd)
