"""`evaluate`: judge programs by hand, several of them side by side in one interleaved run."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from checkpoints.place import Place
from graph.cli.codes import DONE, FAILED
from graph.cli.files import read_text
from graph.cli.options import AsJson, Debug, HomeFolder, TaskName
from graph.cli.screen import Screen

if TYPE_CHECKING:
    from evaluators.evaluation import Effort
    from evaluators.solution import Language, Solution
    from evaluators.task import Task
    from graph.config import SearchConfig
    from nodes.by_hand import ByHand

_SUFFIXES: dict[str, tuple["Language", ...]] = {".cpp": ("cpp",), ".py": ("python", "triton"), ".cu": ("cuda",)}
"""File suffix -> languages it may stand for; the first one that the task has a contract for."""
EffortName = Literal["check", "search", "certify"]


def evaluate(  # noqa: PLR0913, PLR0917 - one parameter per option
    task: TaskName,
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Programs, one file each; or solutions as `ksearch export` or flashinfer-bench writes them (.json)."
        ),
    ],
    effort: Annotated[
        EffortName, typer.Option(help="`check`: right or wrong. `search`: and how fast. `certify`: beyond doubt.")
    ] = "search",
    language: Annotated[str | None, typer.Option(help="Language [default: by the file's suffix].")] = None,
    evaluator: Annotated[
        str | None,
        typer.Option(help="Who judges: `local`, or `untimed:sm_90a` [default: `local` where its device is]."),
    ] = None,
    json: AsJson = False,
    home: HomeFolder = None,
    debug: Debug = False,
) -> int:
    """Check and time programs by hand.

    Each is compared with the task's baseline; several ones also with each other, in one interleaved run. What came of
    it is kept beside the runs. A KernelBench problem's programs are compared with torch.compile too; for a folder of
    problems and one of programs (`kernelbench:FOLDER FOLDER`), fast_p is told.
    """
    from graph.cli.kernelbench import compiled_line, fast_p, fast_p_lines, pairs_of, result_of
    from graph.report.comparison import comparison_lines

    screen = Screen(json)
    asked = _Asked(effort, language, evaluator, home)
    pairs = pairs_of(task, files)
    if pairs is None:
        facts, passed = asked.judge(task, files)
        if json:
            screen.data(facts)
            return DONE if passed else FAILED
        note = compiled_line(facts)
        for line in [*comparison_lines(facts), *([] if note is None else [note])]:
            screen.say(line)
        if "note" in facts:
            screen.say(facts["note"])
        screen.say(f"recorded as {facts['record'][:12]}")
        return DONE if passed else FAILED
    results = []
    for reference, file in pairs:
        found = asked.judge(reference, [file])[0] if file.is_file() else None
        results.append(result_of(Path(reference).name, found, f"there is no {file}"))
    shares = fast_p(results)
    if json:
        screen.data(shares)
    for line in [] if json else fast_p_lines(shares):
        screen.say(line)
    return DONE if all(result["status"] == "passed" for result in results) else FAILED


@dataclass(frozen=True)
class _Asked:
    """How programs are to be judged."""

    effort: "Effort"
    language: str | None
    evaluator: str | None
    home: Place | str | None

    def judge(self, reference: str, files: Sequence[Path]) -> tuple[dict[str, Any], bool]:
        """Return what came of the programs, as JSON, and whether all of them passed. Raises KsearchError."""
        from evaluators.resolve import resolve_task
        from evaluators.worker.status import Status
        from graph.cli.kernelbench import COMPILED, with_compiled
        from graph.cli.machine import lacks_gpu, no_gpu
        from graph.presets import resolve
        from graph.report.comparison import comparison

        chosen = resolve_task(reference)
        untimed = self.evaluator is None and not chosen.brings_judge and lacks_gpu(chosen.device)
        options = {"task": reference, "evaluator": self.evaluator or ("untimed" if untimed else "local")}
        config = resolve(None, options | ({} if self.language is None else {"language": self.language}))
        own = [(str(file), load_program(chosen, file, config.language)) for file in files]
        programs = own if untimed or self.effort == "check" else with_compiled(reference, chosen, own)
        judged = asyncio.run(_judge(config, chosen, programs, self.effort, self.home))
        facts = comparison(chosen, [name for name, _ in programs], judged.comparison)
        right = (Status.PASSED, Status.NOT_TIMED)
        passed = all(verdict.status in right for verdict in judged.comparison.evaluations[: len(own)])
        for program in facts["programs"]:
            if program["file"] == COMPILED:
                program["log"] = ""  # the compiler's, of no use to who asks for their own programs
        return {**facts, **({"note": no_gpu(chosen.verdict)} if untimed else {}), "record": judged.record}, passed


def evaluations(
    record: Annotated[str | None, typer.Argument(help="One of them: its record, or the beginning of it.")] = None,
    json: AsJson = False,
    home: HomeFolder = None,
    debug: Debug = False,
) -> int:
    """List what was judged by hand (`ksearch evaluate`), the latest first, or show one of it again."""
    from checkpoints.place import find_place
    from graph.cli.by_hand import find_by_hand, read_by_hand
    from graph.report.comparison import by_hand_line, comparison, comparison_lines

    screen = Screen(json)
    if record is None:
        kept = read_by_hand(find_place(home))
        if json:
            screen.data([item.listed for item in kept])
        elif not kept:
            screen.say("nothing was judged by hand yet: `ksearch evaluate TASK FILE` does")
        for item in [] if json else kept:
            screen.say(by_hand_line(item.listed))
        return DONE
    found = find_by_hand(find_place(home), record)
    facts = {**comparison(found.task, found.judged.files, found.judged.comparison), "record": found.record}
    if json:
        screen.data(facts)
    for line in [] if json else comparison_lines(facts):
        screen.say(line)
    return DONE


async def _judge(
    config: "SearchConfig",
    task: "Task",
    programs: Sequence[tuple[str, "Solution"]],
    effort: "Effort",
    home: Place | str | None,
) -> "ByHand":
    from checkpoints.place import find_place
    from graph.wiring import Backends
    from nodes.by_hand import judge_by_hand

    backends = Backends()
    try:
        return await judge_by_hand(find_place(home), backends.evaluator(config), task, programs, effort)
    finally:
        await backends.close()


def load_program(task: "Task", file: Path, language: "Language | None") -> "Solution":
    """Return the program in `file`. Raises UsageError when it cannot be read or the language is not the task's."""
    from evaluators.errors import UsageError
    from evaluators.task import contract_solution

    text = read_text(file)
    record = _record(file, text) if file.suffix == ".json" else None
    name = record.language if record is not None else language or _language(task, file)
    contract = task.contracts.get(name)
    if contract is None:
        raise UsageError(f"task {task.name} has no contract for {name}; it has {', '.join(task.contracts)}")
    return record or contract_solution(contract, name, {file.name.lstrip("."): text})


def _record(file: Path, text: str) -> "Solution":
    from pydantic import ValidationError

    from evaluators.adapters.flashinfer.solutions import is_solution, read_solution
    from evaluators.errors import UsageError
    from evaluators.invalid import first_problem
    from evaluators.solution import Solution

    if is_solution(text):
        return read_solution(text, str(file))
    try:
        return Solution.model_validate_json(text)
    except ValidationError as error:
        reason = first_problem(error)
        raise UsageError(f"{file}: is not a program as `ksearch export` writes it: {reason}") from error


def _language(task: "Task", file: Path) -> "Language":
    from evaluators.errors import UsageError

    meant = _SUFFIXES.get(file.suffix)
    if meant is None:
        raise UsageError(f"{file}: its language is not told by the suffix; name it with --language")
    for language in meant:
        if language in task.contracts:
            return language
    return meant[0]
