"""`prompts`: the variants and their texts, what a model would be asked, how variants differ. No model is called."""

from typing import Annotated, Any, Literal

import typer

from graph.cli.codes import DONE
from graph.cli.options import AsJson, Debug, HomeFolder, TaskName
from graph.cli.screen import Screen

prompts_app = typer.Typer(epilog="Example: ksearch prompts render softmax --role coder", rich_markup_mode=None)

VariantName = Annotated[str, typer.Argument(metavar="VARIANT", help="Name of a variant, such as default.")]
Kind = Literal["first", "revise", "debug", "improve", "repair"]
Setting = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="An option of the search; may be repeated.")
]


@prompts_app.callback(invoke_without_command=True)
def prompts(context: typer.Context, json: AsJson = False, home: HomeFolder = None, debug: Debug = False) -> int:
    """List the prompt variants and the hardware sheets; `render` shows what a model would be asked."""
    return DONE if context.invoked_subcommand is not None else list_variants(json, debug)


@prompts_app.command("list", epilog="Example: ksearch prompts list")
def list_variants(json: AsJson = False, debug: Debug = False) -> int:
    """List the prompt variants and the hardware sheets."""
    from prompts.library import variants
    from prompts.sheets import load_sheet, sheets

    screen = Screen(json)
    if json:
        listed = [
            {"name": it.name, "description": it.description, "chain": list(it.chain), "digest": it.digest}
            for it in variants()
        ]
        screen.data({"variants": listed, "hardware": {name: load_sheet(name).title for name in sheets()}})
        return DONE
    screen.facts([(it.name, it.description) for it in variants()])
    screen.say("")
    screen.facts([(f"hardware={name}", load_sheet(name).title) for name in sheets()])
    return DONE


@prompts_app.command("show", epilog="Example: ksearch prompts show terse integrity.md")
def show(
    name: VariantName,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="One template; left out: which there are.")
    ] = None,
    json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Show a variant's templates and which variant each comes from, or the text of one."""
    from prompts.library import load_variant

    screen = Screen(json)
    variant = load_variant(name)
    if file is not None:
        text = variant.text(file)
        screen.data({"file": file, "origin": variant.origin[file], "text": text}) if json else screen.say(text)
        return DONE
    if json:
        screen.data({"name": variant.name, "description": variant.description, "digest": variant.digest,
                     "chain": list(variant.chain), "files": dict(variant.origin)})  # fmt: skip
        return DONE
    screen.say(f"{variant.name}: {variant.description}")
    screen.facts([(origin, file) for file, origin in sorted(variant.origin.items(), key=lambda item: item[::-1])])
    return DONE


@prompts_app.command("diff", epilog="Example: ksearch prompts diff default terse")
def diff(before: VariantName, after: VariantName, json: AsJson = False, debug: Debug = False) -> int:
    """Show how two variants differ, file by file."""
    from prompts.library import diff_variants, load_variant

    screen = Screen(json)
    diffs = diff_variants(load_variant(before), load_variant(after))
    if json:
        screen.data(diffs)
    else:
        screen.say("\n".join(text.rstrip("\n") for text in diffs.values()) or f"{before} and {after} do not differ")
    return DONE


@prompts_app.command("render", epilog="Example: ksearch prompts render softmax --role coder --kind improve")
def render(
    task: TaskName,
    role: Annotated[Literal["planner", "coder"], typer.Option(help="Whose prompt.")] = "planner",
    kind: Annotated[Kind, typer.Option(help="planner: first, revise; coder: first, debug, improve, repair.")] = "first",
    variant: Annotated[str | None, typer.Option(help="Short for --set prompt_variant=VARIANT.")] = None,
    settings: Setting = None,
    json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Show what a model would be asked about a task. Attempts and figures in it are made up; nothing is measured."""
    from evaluators.resolve import resolve_task
    from graph.config_file import parse_set
    from graph.presets import resolve
    from nodes.prompting.asked import asked
    from prompts.library import prompt_digest

    options: dict[str, Any] = dict(parse_set(text) for text in settings or [])
    options |= {"task": task} | ({} if variant is None else {"prompt_variant": variant})
    request = asked(resolve_task(task), resolve(None, options), role, kind)
    screen = Screen(json)
    if json:
        shown = request.model_dump(mode="json", include={"role", "system", "prompt", "reply_schema", "identity"})
        screen.data({**shown, "digest": prompt_digest(request.system, request.prompt)})
        return DONE
    screen.say(f"{request.system}\n\n{request.prompt}")
    return DONE
