"""`experiment`: many searches by one file, gone on with until all have ended, and what they say about each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from checkpoints.place import Place
from graph.cli.codes import DONE, FAILED, PAUSED
from graph.cli.options import AsJson, Debug, HomeFolder, where
from graph.cli.screen import Screen

if TYPE_CHECKING:
    from graph.cli.run_log import RunLog
    from graph.config import SearchConfig
    from graph.experiments.conducting import Conducted
    from graph.experiments.plan import Plan

_RUN = "run"


class _FileOrCommand(TyperGroup):
    """`ksearch experiment FILE` is `ksearch experiment run FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments of this group."""
        if not args or (args[0] not in self.commands and args[0] not in ("-h", "--help")):
            args = [_RUN, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_FileOrCommand,
    help="Compare ways to search: every cell of a matrix of options, with several seeds each (docs/experiments.md).",
    epilog="Example: ksearch experiment policies.toml",
    rich_markup_mode=None,
)


@app.command(_RUN, epilog="Example: ksearch experiment policies.toml")
def run(
    file: Annotated[Path, typer.Argument(help="TOML file of the experiment.", metavar="FILE")],
    json: AsJson = False,
    home: HomeFolder = None,
    debug: Debug = False,
) -> int:
    """Run an experiment's searches, or go on with those that have not ended.

    The word `run` may be left out.
    """
    from graph.experiments.plan import jobs

    plan = _plan(file)
    from graph.wiring import Backends
    from graph.wording import counted

    backends = Backends()
    for cell in plan.cells:
        backends.check(cell.config)
    import asyncio

    screen = Screen(json)
    show = _Show(screen, len(jobs(plan)), home)
    cells = counted(len(plan.cells), "cell")
    screen.say(f"{plan.name}: {cells}, {show.count} searches, {plan.at_a_time} at a time")
    try:
        conducted = asyncio.run(_conduct(plan, home, show))
    except (asyncio.CancelledError, KeyboardInterrupt):
        screen.say(f"stopped at once; go on with: ksearch experiment {file}{where(home)}")
        return PAUSED
    finally:
        show.close()
    from checkpoints.place import find_place
    from graph.cli.keeping import prune_when_large

    prune_when_large(screen, find_place(home))
    return _conclude(screen, plan, f"{file}{where(home)}", conducted, where(home))


@app.command("report", epilog="Example: ksearch experiment report policies --html policies.html")
def report(
    name: Annotated[
        str, typer.Argument(help="Name of an experiment, or its file.", metavar="[EXPERIMENT]", show_default=True)
    ] = "latest",
    at: Annotated[
        list[str] | None,
        typer.Option(
            "--at",
            help="Budget to look at: evaluations=N, tokens=N or usd=N. Repeatable; cells are compared at the first.",
            metavar="KIND=AMOUNT",
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write it as one HTML file.", metavar="FILE")] = None,
    png: Annotated[Path | None, typer.Option("--png", help="Write the curves as an image.", metavar="FILE")] = None,
    json: AsJson = False,
    home: HomeFolder = None,
    debug: Debug = False,
) -> int:
    """Tell what an experiment says: figures of each cell, and which differences the data support.

    It may be looked at while the experiment runs.
    """
    from checkpoints.place import find_place
    from evaluators.errors import UsageError
    from graph.experiments.curves import Budget, default_budgets
    from graph.experiments.findings import findings
    from graph.experiments.loading import load_experiment
    from graph.experiments.report import facts, report_lines

    given = [Budget.parse(text) for text in at or []]
    budgets = [budget for budget in given if budget is not None]
    if len(budgets) < len(given):
        wrong = (at or [])[given.index(None)]
        raise UsageError(f"--at {wrong!r}: write evaluations=N, tokens=N or usd=N")
    screen = Screen(json)
    plan, searches, objectives = load_experiment(find_place(home), _name(name))
    known = [item for item in searches if item.task in objectives]
    whole = _evaluations(plan)
    found = findings(
        known,
        objectives,
        budgets or default_budgets(known, whole),
        budgets[0] if budgets else Budget("evaluations", whole),
    )
    if png is not None or html is not None:
        from graph.experiments import page, plots

        if png is not None:
            plots.write_png(found, png)
        if html is not None:
            page.write_page(plan, found, html)
    if json:
        screen.data(facts(plan, found))
    else:
        screen.page(report_lines(plan, found))
    return DONE


def _name(given: str) -> str:
    """Return the experiment that a name or a file stands for."""
    return _plan(Path(given)).name if given.endswith(".toml") else given


def _evaluations(plan: "Plan") -> int:
    """Return how far all cells go."""
    if plan.matched is not None:
        return plan.matched.evaluations
    return min(cell.config.max_evaluations for cell in plan.cells)


def _plan(file: Path) -> "Plan":
    from graph.config_file import load_toml
    from graph.experiments.plan import read_plan

    return read_plan(load_toml(file), str(file), file.stem)


def _require_gpu(configs: "Sequence[SearchConfig]") -> None:
    """Raise UsageError when programs are to be judged on a GPU that is not there."""
    from evaluators.errors import KsearchError
    from evaluators.resolve import resolve_task
    from graph.cli.machine import lacks_gpu, require_gpu

    if not lacks_gpu("cuda"):
        return
    # Each task once: to resolve one may mean to run its file.
    for config in {config.task: config for config in configs if config.evaluator == "local"}.values():
        try:
            device = resolve_task(config.task).device
        except KsearchError:
            continue  # each search that needs the task's file tells what is wrong with it; others go on without
        require_gpu(config, device, '`evaluator = "deferred"` under `[options]`')


async def _conduct(plan: "Plan", home: Place | str | None, show: "_Show") -> "Conducted":
    from checkpoints.home import open_home
    from graph.experiments.conducting import conduct
    from graph.runs import opened_services

    async with open_home(home) as opened, opened_services(opened) as means:
        return await conduct(means, plan, show.tell, _require_gpu)


@dataclass
class _Show:
    """What is seen of an experiment while it runs: one line when a search begins, one when it ends."""

    screen: Screen
    count: int
    home: Place | str | None
    _logs: "dict[str, RunLog]" = field(default_factory=dict)
    _best: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)
    _evaluations: dict[str, int] = field(default_factory=dict)
    _begun: int = 0

    def tell(self, run: str, event: Mapping[str, Any]) -> None:
        """Show one event of a search; "" stands for the experiment."""
        match event["event"]:
            case "draining":
                self.screen.say(f"{event['signal']}: ending at the next boundary of each search; once more: at once")
            case "thread":
                self._begun += 1
                self.screen.say(f"{run}: at work ({self._begun} begun in this visit, {self.count} in all)")
            case "round":
                self._best[run], self._evaluations[run] = event["incumbent"], event["evaluations"]
            case "ended":
                self.screen.say(f"{run}: {self._ended(run, event)}")
        if run and event["event"] != "ended":
            self._log(run).add(event)
        elif run in self._logs:
            self._logs.pop(run).close()

    def close(self) -> None:
        """Close the logs."""
        for log in self._logs.values():
            log.close()

    def _ended(self, run: str, event: Mapping[str, Any]) -> str:
        from graph.report.figures import one_line, shown
        from graph.wording import counted

        words = {"done": "finished", "paused": "paused", "failed": "FAILED"}[event["status"]]
        reason = f" ({one_line(event['reason'])})" if event["reason"] else ""
        if event["status"] == "failed" or run not in self._best:
            return f"{words}{reason}"
        best = self._best[run]
        figure = "nothing passed" if best is None else f"best {shown(best['objective'], '')}"
        return f"{words}{reason}, {figure}, {counted(self._evaluations[run], 'evaluation')}"

    def _log(self, run: str) -> "RunLog":
        from checkpoints.place import find_place, local_folder
        from graph.cli.run_log import RunLog

        return self._logs.setdefault(run, RunLog(local_folder(find_place(self.home))))


def _conclude(screen: Screen, plan: "Plan", again: str, conducted: "Conducted", where: str) -> int:
    """Tell how the visit ended and return the exit code."""
    from graph.wording import counted

    by_status: dict[str, list[str]] = {"done": [], "paused": [], "failed": [], "left": []}
    for outcome in conducted.outcomes:
        by_status[outcome.status].append(outcome.run)
    spent = conducted.spent
    facts = [
        ("searches", ", ".join(f"{len(runs)} {status}" for status, runs in by_status.items() if runs)),
        ("spent", f"{counted(spent.evaluations, 'evaluation')}, {spent.tokens} tokens, {spent.usd:.2f} US dollars"),
    ]
    if conducted.stopped:
        facts.append(("stopped", conducted.stopped))
    screen.facts(facts)
    unfinished = by_status["paused"] or by_status["left"]
    if unfinished and not conducted.stopped:
        screen.say(f"some wait for you: `ksearch show {unfinished[0]}{where}` says for what")
    if unfinished or by_status["failed"]:
        screen.say(f"go on with: ksearch experiment {again}")
    screen.say(f"compare the cells: ksearch experiment report {plan.name}{where}")
    if screen.json:
        screen.data(
            {
                "experiment": plan.name,
                "searches": [
                    {"run": item.run, "status": item.status, "reason": item.reason} for item in conducted.outcomes
                ],
                "stopped": conducted.stopped or None,
                "spent": {
                    "evaluations": spent.evaluations,
                    "tokens": spent.tokens,
                    "usd": spent.usd,
                    "wall_s": round(conducted.wall_s, 3),
                },
            }
        )
    if by_status["failed"]:
        return FAILED
    return PAUSED if unfinished else DONE
