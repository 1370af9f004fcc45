"""One trip: every program of a bundle judged, and the winners certified, before anyone has to come back."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evaluators.worker.bundle import Bundle, BundledJob, Request
from evaluators.worker.crew import Crew
from evaluators.worker.failure import HarnessFault, TaskFault
from evaluators.worker.fingerprint import fingerprint
from evaluators.worker.job import Job, encode
from evaluators.worker.results import Outcome, write_result
from evaluators.worker.winners import Turns, challengers

Tell = Callable[[str], None]


class Trip:
    """A bundle on its way. What is known is written after every evaluation, so a trip that is cut short can go on."""

    def __init__(self, bundle: Bundle, crew: Crew, result: Path, known: Sequence[Outcome], tell: Tell) -> None:
        """`known`: what an earlier trip brought; `tell` gets a line for people after each evaluation."""
        self._bundle, self._job, self._crew, self._result, self._tell = bundle, bundle.job, crew, result, tell
        self._outcomes = {outcome.request: outcome for outcome in known if outcome.answer is not None}
        self._started = time.monotonic()

    def run(self) -> tuple[Outcome, ...]:
        """Judge what is not known yet and return everything. Raises TaskFault, HarnessFault when nothing can start."""
        moved = self._moved()
        self._judge([request for request in self._job.requests if moved or not request.moved_only])
        self._certify(moved)
        self._write()
        return tuple(self._outcomes.values())

    def _moved(self) -> bool:
        """Return whether figures that the search has were taken in another environment."""
        answer = self._crew.ask({"op": "environment"})
        if "error" in answer:
            raise HarnessFault(answer["error"]["message"])
        here = fingerprint(answer["environment"])
        return bool(self._job.environment) and here != self._job.environment

    def _judge(self, requests: Sequence[Request]) -> None:
        wanted = [request for request in requests if request not in self._outcomes]

        def answered(number: int, answer: dict[str, Any]) -> None:
            self._keep(wanted[number], answer)

        self._crew.ask_all([self._ask(request) for request in wanted], answered)

    def _certify(self, moved: bool) -> None:
        """Certify what beats the incumbent, best first, as the search itself does: until one is accepted for good."""
        rival = None if self._job.incumbent is None else self._job.incumbent.solution
        standing = self._standing(moved)
        if rival is not None and standing is None:
            return  # What the incumbent is worth here is not known: the search asks again.
        drawn = [request for request in self._job.requests if request.role == "evaluator"]
        measured = [(request, self._objective(request)) for request in drawn]
        turns = Turns(self._job.task.goal, self._job.margin, rival, standing)
        for request in challengers(measured, standing, self._job.task.goal, self._job.margin):
            value, doubted = self._objective(request), self._is_doubted(request)
            if value is None or not turns.has(value, doubted=doubted):
                continue
            certification = dataclasses.replace(request, role="certification", effort="certify", rival=turns.rival)
            self._judge([certification])
            outcome = self._outcomes[certification]
            if outcome.answer is None:
                return
            turns.certified(request.solution, outcome.answer, doubted=doubted)

    def _standing(self, moved: bool) -> float | None:
        """Return the incumbent's objective in this environment, None when there is none."""
        incumbent = self._job.incumbent
        if incumbent is None or not moved:
            return None if incumbent is None else incumbent.value
        again = [
            request
            for request in self._job.requests
            if request.moved_only and request.effort == "certify" and request.solution == incumbent.solution
        ]
        return self._objective(again[0]) if again else None

    def _objective(self, request: Request) -> float | None:
        outcome = self._outcomes.get(request)
        if outcome is None or outcome.answer is None:
            return None
        figure = outcome.answer["verdict"]["programs"][0]["objective"]
        return None if figure is None else float(figure["value"])

    def _is_doubted(self, request: Request) -> bool:
        """Return whether a figure is not believed before it is certified."""
        outcome = self._outcomes.get(request)
        return (
            outcome is not None
            and outcome.answer is not None
            and outcome.answer["verdict"]["programs"][0]["doubt"] != ""
        )

    def _ask(self, request: Request) -> dict[str, Any]:
        return {"op": "run", "job": job_of(self._job, request)}

    def _keep(self, request: Request, answer: dict[str, Any]) -> None:
        error = answer.get("error")
        if error is not None and error["kind"] == "task":
            raise TaskFault(error["message"])
        outcome = Outcome(request, answer) if error is None else Outcome(request, None, error["message"])
        self._outcomes[request] = outcome
        self._write()
        self._tell(_line(outcome))

    def _write(self) -> None:
        write_result(self._result, self._bundle.digest, self._outcomes.values(), time.monotonic() - self._started)


def job_of(job: BundledJob, request: Request) -> dict[str, Any]:
    """Return the supervisor's job for a request, as plain data."""
    programs = [job.programs[request.solution]]
    if request.rival is not None:
        programs.append(job.programs[request.rival])
    return encode(Job(job.task, tuple(programs), request.effort))


def _line(outcome: Outcome) -> str:
    request = outcome.request
    place = f"round {request.round}" + (f" cycle {request.cycle} sample {request.sample}" if request.cycle else "")
    what = f"{request.solution[:12]} ({request.role}, {place})"
    if outcome.answer is None:
        return f"{what}: not judged, this machine failed: {outcome.failed}"
    program = outcome.answer["verdict"]["programs"][0]
    figure = program["objective"]
    objective = "" if figure is None else f" {figure['value']:.4g} ({figure['low']:.4g} to {figure['high']:.4g})"
    return f"{what}: {program['status']}{objective}" + (f": {program['message']}" if program["message"] else "")
