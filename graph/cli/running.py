"""`run` and `resume`: a search from its options to its summary."""

from pathlib import Path
from typing import Annotated

import typer

from graph.cli.options import TASK_HELP, AsJson, Debug, HomeFolder, RecordFile, SetOption, ThreadName

Require = Annotated[
    float | None,
    typer.Option(
        "--require", help="Exit with 1 when the best certified ratio stays below this, and say why.", metavar="RATIO"
    ),
]


def run(  # noqa: PLR0913, PLR0917 - one parameter per option
    task: Annotated[
        str | None,
        typer.Argument(help=f"{TASK_HELP} [default: softmax]"),
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Options to start from: `default` or `paper`.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file of options.", metavar="FILE")] = None,
    options: SetOption = None,
    planner: Annotated[str | None, typer.Option(help="Who plans, such as `offline`.")] = None,
    coder: Annotated[str | None, typer.Option(help="Who writes programs, such as `offline`.")] = None,
    evaluator: Annotated[str | None, typer.Option(help="Who judges programs, such as `local`.")] = None,
    evaluations: Annotated[int | None, typer.Option(help="Budget of evaluations.")] = None,
    width: Annotated[int | None, typer.Option(help="Intents at work at the same time.")] = None,
    samples: Annotated[int | None, typer.Option(help="Programs per intent and round.")] = None,
    policy: Annotated[str | None, typer.Option(help="Who is next: `priority`, `puct` or `random`.")] = None,
    language: Annotated[str | None, typer.Option(help="Language of the programs.")] = None,
    target: Annotated[float | None, typer.Option(help="Stop when the best reaches this figure.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the search's random choices.")] = None,
    no_seed_program: Annotated[bool, typer.Option("--no-seed-program", help="Start from nothing.")] = False,
    review: Annotated[
        bool, typer.Option("--review", help="Pause before the planner's edits are committed, for your approval.")
    ] = False,
    quote: Annotated[
        bool, typer.Option("--quote", help="Estimate calls, tokens and price, and end without asking a model.")
    ] = False,
    require: Require = None,
    record: RecordFile = None,
    json: AsJson = False,
    home: HomeFolder = None,
    debug: Debug = False,
) -> int:
    """Search for a faster program.

    Options come from the preset, then the file, then --set, then the flags; the last one holds.
    """
    from evaluators.resolve import resolve_task
    from graph.config_file import load_options, parse_options
    from graph.presets import resolve

    given = {
        "task": task,
        "planner": planner,
        "coder": coder,
        "evaluator": evaluator,
        "max_evaluations": evaluations,
        "width": width,
        "samples": samples,
        "policy": policy,
        "language": language,
        "target": target,
        "seed": seed,
        "use_seed": False if no_seed_program else None,
        "review": True if review else None,
    }
    flags = {name: value for name, value in given.items() if value is not None}
    everything = {**({} if config is None else load_options(config)), **parse_options(options), **flags}
    chosen = resolve(preset, everything)
    problem = resolve_task(chosen.task)
    if quote:
        from graph.cli.quoting import show_quote
        from graph.cli.screen import Screen
        from graph.wiring import Backends

        Backends().check(chosen)
        return show_quote(Screen(json), chosen, problem)
    # LangGraph takes a second to load: after what is most often typed wrong has been checked.
    from graph.cli.session import Session

    return Session(json=json, home=home, require=require, record=record).start(chosen, problem)


def resume(  # noqa: PLR0913, PLR0917 - one parameter per option
    thread: ThreadName = "latest",
    options: SetOption = None,
    evaluations: Annotated[int | None, typer.Option(help="Budget of evaluations, in all.")] = None,
    review: Annotated[
        bool | None,
        typer.Option("--review/--no-review", help="Pause before the planner's edits are made, or not."),
    ] = None,
    require: Require = None,
    record: RecordFile = None,
    json: AsJson = False,
    home: HomeFolder = None,
    debug: Debug = False,
) -> int:
    """Go on with a run where it was left, however it ended."""
    from graph.config_file import parse_options

    changes = parse_options(options)
    if evaluations is not None:
        changes["max_evaluations"] = evaluations
    if review is not None:
        changes["review"] = review
    from graph.cli.session import Session

    return Session(json=json, home=home, require=require, record=record).resume(thread, changes)
