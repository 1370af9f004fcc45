"""Reading an experiment from disk, without LangGraph."""

from collections.abc import Iterable, Mapping
from typing import Any

from checkpoints.blobs import BlobStore
from checkpoints.database import open_blobs
from checkpoints.experiments import Member, read_experiment
from checkpoints.history import read_record, read_rounds
from checkpoints.ledger import Entry
from checkpoints.logs import read
from checkpoints.place import Place
from checkpoints.threads import Thread
from evaluators.digest import digest_json
from evaluators.objective import Objective, better
from evaluators.task import Task
from graph.experiments.accounts import spent_of
from graph.experiments.curves import Point, Replies, Search
from graph.experiments.plan import Plan, jobs
from nodes.records import read_record as read_blob

SPEAKERS = ("planner", "coder")


def load_experiment(folder: Place, name: str) -> tuple[Plan, list[Search], dict[str, Objective]]:
    """Return an experiment's latest plan, its searches as far as they have begun, and what each task is judged by.

    The searches come in the plan's order.

    Raises:
        StoreError: the database or a blob cannot be read.
        UsageError: there is no such experiment.
    """
    blobs = open_blobs(folder)
    _, digest, members = read_experiment(folder, name)
    plan = read_blob(blobs, digest, Plan)
    order = {job.run: at for at, job in enumerate(jobs(plan))}
    objectives: dict[str, Objective] = {}
    searches = []
    for member, thread in sorted(members, key=lambda pair: order.get(pair[1].name, len(order))):
        if thread.name in order:
            loader = _Loader(folder, blobs, plan.matched is not None, member, thread)
            searches.append(loader.search(objectives))
    return plan, searches, objectives


class _Loader:
    """Reads one search."""

    def __init__(self, folder: Place, blobs: BlobStore, matched: bool, member: Member, thread: Thread) -> None:
        self._folder = folder
        self._blobs = blobs
        self._matched = matched
        self._member = member
        self._thread = thread

    def search(self, objectives: dict[str, Objective]) -> Search:
        """Return the search; its task's objective is added to `objectives`."""
        states = list(read_rounds(self._folder, self._thread.uuid))
        last: Mapping[str, Any] = states[-1] if states else {}
        if "task" in last and self._thread.task not in objectives:
            task = Task.model_validate(self._blobs.get_json(last["task"]["blob"]))
            objectives[self._thread.task] = task.objective
        goal = objectives.get(self._thread.task, Objective())
        attempts = self._attempts(last)
        points = [self._point(state, attempts, goal) for state in states if "spend" in state]
        entries = read_record(self._folder, self._thread.uuid).entries
        return Search(
            run=self._thread.name,
            cell=self._member.cell,
            unit=self._member.unit,
            task=self._thread.task,
            finished=self._thread.status == "finished",
            points=tuple(point for point in points if point.evaluations >= 0),
            replies=self._replies(entries, attempts),
        )

    def _attempts(self, last: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return the search's own attempts, not those of its ancestor."""
        if "attempts" not in last:
            return []
        return [item for item in read(self._blobs, last["attempts"]) if item["number"] > self._member.attempts]

    def _point(self, state: Mapping[str, Any], attempts: Iterable[Mapping[str, Any]], objective: Objective) -> Point:
        spent, past = spent_of(state), self._member
        incumbent = state["incumbent"]
        best = None if incumbent is None else incumbent["objective"]["value"]
        if self._matched:
            # All cells begin with the same incumbent: what tells them apart is what they made of the state.
            best = None
            for item in attempts:
                value = item["result"]["objective"]
                known = None if value is None else value["value"]
                if item["number"] <= state["attempts"]["count"] and better(known, best, objective.goal):
                    best = known
        return Point(
            evaluations=spent.evaluations - past.evaluations,
            tokens=spent.tokens - past.tokens,
            usd=spent.usd - past.usd,
            best=best,
        )

    def _replies(self, entries: Iterable[Entry], attempts: Iterable[Mapping[str, Any]]) -> Replies:
        own = [entry for entry in entries if entry.key.role in SPEAKERS and entry.result is not None]
        own = [entry for entry in own if entry.started_at >= self._thread.created_at]
        said = [self._said(entry.result) for entry in own if entry.result is not None]
        drawn = (item["result"]["solution"] for item in attempts)
        programs = [program for program in drawn if program is not None]
        trace = digest_json([said, programs]) if said or programs else None
        return Replies(len(said), len(set(said)), len(programs), len(set(programs)), trace)

    def _said(self, blob: str) -> str:
        """Return what tells a reply from others: a model's text, whatever it cost and however long it took."""
        result = self._blobs.get_json(blob)
        return digest_json(result["reply"]["text"]) if result.get("kind") == "chat" else blob
