"""`ksearch prompts`: looking at what models are asked, without a model."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from evaluators.errors import UsageError
from graph.cli.prompting import prompts_app
from prompts.library import load_variant


def call(*arguments: str) -> str:
    done = CliRunner().invoke(prompts_app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def data(*arguments: str) -> Any:
    return json.loads(call(*arguments, "--json"))


def test_variants_and_sheets_are_listed() -> None:
    listed = data("list")
    assert [variant["name"] for variant in listed["variants"]] == ["default", "paper", "terse"]
    assert listed["variants"][1]["chain"] == ["paper", "default"]
    assert "H200" in listed["hardware"]["h200"]
    assert "terse" in call("list")
    assert call() == call("list")


def test_a_variant_shows_its_templates_and_where_they_come_from() -> None:
    shown = data("show", "paper")
    assert shown["files"]["edits.md"] == "paper"
    assert shown["files"]["task.md"] == "default"
    assert shown["files"]["languages/cpp.md"] == "languages"
    assert shown["digest"] == load_variant("paper").digest
    assert "edits.md" in call("show", "paper")


def test_a_template_is_shown_to_the_letter() -> None:
    text = load_variant("terse").files["integrity.md"]
    assert data("show", "terse", "integrity.md") == {"file": "integrity.md", "origin": "terse", "text": text}
    assert call("show", "terse", "integrity.md") == f"{text}\n"


def test_two_variants_are_compared() -> None:
    diffs = data("diff", "default", "paper")
    assert "edits.md" in diffs
    assert "task.md" not in diffs
    assert "--- default/edits.md" in call("diff", "default", "paper")
    assert call("diff", "terse", "terse") == "terse and terse do not differ\n"


@pytest.mark.parametrize("role", ["planner", "coder"])
def test_a_prompt_is_rendered_without_a_model(role: str) -> None:
    shown = data("render", "softmax", "--role", role, "--variant", "terse", "--set", "language=python")
    assert shown["identity"]["variant"] == "terse"
    assert "Python" in shown["system"]
    assert len(shown["digest"]) == 64
    assert call("render", "softmax", "--role", role) != call("render", "softmax", "--role", role, "--variant", "terse")


def test_options_reach_the_prompt() -> None:
    text = call("render", "softmax", "--role", "coder", "--kind", "improve", "--set", "edit_format=search_replace")
    assert "<<<<<<< SEARCH" in text
    assert "The best program for it so far" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "tersee"), "did you mean 'terse'"),
        (("show", "terse", "integrity"), r"did you mean 'integrity\.md'"),
        (("render", "softmaxx"), "did you mean 'softmax'"),
        (("render", "softmax", "--kind", "debug"), "a planner has no prompt 'debug'"),
        (("render", "softmax", "--set", "hardware=h300"), "hardware sheet 'h300' is unknown"),
        (("render", "softmax", "--set", "hardwear=h200"), "did you mean 'hardware'"),
    ],
)
def test_mistakes_name_what_is_wrong(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call(*arguments)
