"""One visit to a run: hold it, show it, log it, and say at the end what came of it and how to go on."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from checkpoints.history import read_state
from checkpoints.home import open_home
from checkpoints.place import Place, find_place, local_folder
from evaluators.errors import KsearchError
from evaluators.task import Task
from graph.cli import machine
from graph.cli.bundled import bundled_facts, bundled_lines
from graph.cli.codes import DONE, FAILED, INTERRUPTED, PAUSED
from graph.cli.display import Display, LiveDisplay, PlainDisplay
from graph.cli.keeping import prune_when_large
from graph.cli.options import where
from graph.cli.recording import check_record
from graph.cli.run_log import RunLog
from graph.cli.screen import Screen
from graph.config import SearchConfig
from graph.draining import Listen
from graph.presets import changed
from graph.report.causes import Machine, causes, shortfall
from graph.report.ending import ended_lines, still_stopped, went_wrong
from graph.report.loading import load_run
from graph.report.progress import Progress
from graph.report.questions import count_text
from graph.report.summary import Run, best, summary
from graph.runs import opened_services, resume, start
from graph.wiring import Backends, require_models
from graph.wording import counted
from nodes.bundling import write_bundle
from nodes.cassette import export_cassette
from nodes.services import Services

Visit = Callable[[Services, Listen], Any]


@dataclass
class Session:
    """One call of `run` or `resume`."""

    json: bool
    home: Place | str | None
    require: float | None
    """Ratio to the baseline that the best program must reach."""
    record: Path | None = None
    """File for a cassette of the run, written at the end of the visit, however it ends."""
    _screen: Screen = field(init=False)
    _machine: Machine = field(default_factory=machine.look)
    """Looked at before the search puts load on it."""
    _uuid: str = ""
    _name: str = ""

    def __post_init__(self) -> None:
        self._screen = Screen(self.json)
        if self.record is not None:
            check_record(self.record)

    def start(self, config: SearchConfig, task: Task) -> int:
        """Begin a run of `task` and return the exit code. Raises KsearchError."""
        Backends().check(config)
        require_models(config)
        machine.require_gpu(config, task.device, "`--evaluator deferred`")
        progress = Progress(task=task.name, unit=task.objective.unit, budget=config.max_evaluations, began=0)
        return self._visit(lambda means, listen: start(means, config, listen), progress)

    def resume(self, name: str, changes: Mapping[str, Any], answers: Mapping[str, str] | None = None) -> int:
        """Go on with a run and return the exit code; `answers` is as in graph.runs.resume. Raises KsearchError."""
        before = load_run(self.home, name)
        config = changed(before.config, changes)
        require_models(config)
        if before.task is not None:
            machine.require_gpu(config, before.task.device, "`--set evaluator=deferred`")
        progress = Progress(
            task=before.snapshot.thread.task, unit=before.unit, budget=config.max_evaluations, thread=before.name
        )
        uuid = before.snapshot.thread.uuid
        answered = dict(answers or {})
        return self._visit(lambda means, listen: resume(means, uuid, dict(changes), listen, answered), progress, before)

    def _visit(self, visit: Visit, progress: Progress, before: Run | None = None) -> int:
        folder = find_place(self.home)
        with self._recording(folder), ExitStack() as stack:
            log = RunLog(local_folder(folder))
            stack.callback(log.close)
            display = stack.enter_context(self._display(progress, folder))
            try:
                asyncio.run(self._hold(visit, log, display))
            except (asyncio.CancelledError, KeyboardInterrupt):
                if not self._uuid:
                    return INTERRUPTED
            except KsearchError:
                stack.close()
                if self._uuid:
                    self._screen.say(f"what was done is kept; once repaired: ksearch resume {self._name}{self._where}")
                raise
        prune_when_large(self._screen, folder)
        return self._conclude(load_run(self.home, self._uuid), before)

    @contextmanager
    def _recording(self, folder: Place) -> Iterator[None]:
        """Write the cassette at the end, also when the visit fails; that failure is the one to report then."""
        try:
            yield
        except BaseException:  # raised again: the recording is written whatever ended the visit, Ctrl-C too
            try:
                self._record(folder)
            except KsearchError as error:
                self._screen.say(f"not recorded: {error}")
            raise
        self._record(folder)

    def _record(self, folder: Place) -> None:
        if self.record is not None and self._uuid:
            count = export_cassette(folder, self._uuid, self.record)
            self._screen.say(f"recorded in {self.record}: {counted(count, 'call')}")

    async def _hold(self, visit: Visit, log: RunLog, display: Display) -> None:
        def listen(event: Mapping[str, Any]) -> None:
            if event["event"] == "thread":
                self._uuid, self._name = event["uuid"], event["thread"]
            log.add(event)
            display.add(event)

        async with open_home(self.home) as home, opened_services(home) as means:
            await visit(means, listen)

    def _display(self, progress: Progress, folder: Place) -> Display:
        if not self._screen.live:
            return PlainDisplay(self._screen, progress.unit, progress.budget)
        return LiveDisplay(self._screen, progress, lambda uuid: read_state(folder, uuid))

    @property
    def _where(self) -> str:
        """What the commands that we suggest need to find the runs."""
        return where(self.home)

    def _conclude(self, run: Run, before: Run | None) -> int:
        """Tell what came of the visit and return the exit code."""
        self._screen.facts(list(ended_lines(run, self._where)))
        for line in [] if before is None else still_stopped(before, run, self._where):
            self._screen.say(line)
        paused = run.snapshot.thread.status == "paused"
        bundle = asyncio.run(write_bundle(find_place(self.home), run.snapshot)) if paused else None
        if bundle is not None:
            self._screen.say("paused.")
            for line in bundled_lines(bundle, run.name, self._where):
                self._screen.say(line)
        if paused and run.questions:
            self._screen.say(f"paused. {count_text(len(run.questions))}: ksearch answer {run.name}{self._where}")
        elif paused and bundle is None:
            self._screen.say(f"paused. Go on with: ksearch resume {run.name}{self._where}")
        short = [] if paused else self._shortfall(run)
        for line in short:
            self._screen.say(line)
        if self.json:
            facts = None if bundle is None else bundled_facts(bundle)
            self._screen.data({**summary(run), "shortfall": short, "waits_for": facts})
        if paused:
            return PAUSED
        return FAILED if short or went_wrong(run) else DONE

    def _shortfall(self, run: Run) -> list[str]:
        """Return why the run is a failure by what was required of it, line by line; none when it is not."""
        found = causes(self._machine, run.language)
        facts = best(run)
        ratio = None if facts is None or not facts["certified"] else facts["ratio"]
        if self.require is not None and (ratio is None or ratio < self.require):
            return shortfall(self.require, ratio, found)
        if not went_wrong(run):
            return []
        # What makes programs slow explains no search that found none.
        blocking = replace(self._machine, load=0.0, avx2=True)
        return [f"cause: {cause}" for cause in causes(blocking, run.language)]
