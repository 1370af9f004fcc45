"""`pause`, `edit` and `revert` in real processes."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Call, call, command, environment, insert, wait_for
from tests.cli.talking import held_coder, planner, release

Start = Callable[..., subprocess.Popen[str]]


def paused(ksearch: Call, tmp_path: Path) -> None:
    """A run of three intents that has worked on the first one."""
    script = {
        "proposals": [{"edits": [insert("Unroll", 0.9), insert("Fuse", 0.5), insert("Block", 0.3)]}],
        "cycles": [[1.5], [1.6], [1.7], [1.8]],
    }
    (tmp_path / "script.json").write_text(json.dumps(script))
    source = ("--planner", "script:script.json", "--coder", "script:script.json", "--evaluator", "scripted")
    assert ksearch("run", "scripted", *source, "--set", "sample_cap=1", "--evaluations", 1).code == 0


def test_edits_by_flags_are_made_shown_and_undone(ksearch: Call, tmp_path: Path) -> None:
    paused(ksearch, tmp_path)
    done = ksearch("edit", "--insert", "Mine", "--under", "n1", "--description", "Do it.", "--reason", "a hunch")
    assert done.code == 0, done.err
    assert done.out.splitlines() == [
        "inserts n4 under n1, V 1.00, 'Mine'",
        "go on with: ksearch resume scripted-1",
    ]
    done = ksearch("edit", "--prune", "n2", "--pin", "n3", "--set", "max_evaluations=3", "--json")
    assert [edit["kind"] for edit in done.json["batch"]["edits"]] == ["prune", "pin"]
    assert "n2  pruned" in ksearch("tree").out
    assert "2 edits by people, made when the search looks at its plan again" in ksearch("show").out
    edits = [item for item in ksearch("log", "--json").json["events"] if item["event"] == "edit"]
    mine = [(item["batch"], item["kind"], item["node"]) for item in edits if item["origin"] == "human"]
    first = mine[0][0]
    assert mine == [(first, "insert", "n4"), (first + 1, "prune", "n2"), (first + 1, "pin", "n3")]
    assert ksearch("revert", "scripted-1", first + 1).out.splitlines()[:2] == ["unpins n3", "re-opens n2"]
    undoing = ksearch("log", "--only", "edits", "--last", 2).out
    assert "undoes what was asked for before" in undoing, "the planner may take the numbers of edits that wait"
    resumed = ksearch("resume", "--json")
    assert resumed.code == 0, resumed.err
    assert resumed.json["budget"]["evaluations"] == 3
    nodes = {node["id"]: node for node in ksearch("tree", "--json").json["nodes"]}
    assert [(nodes[name]["status"], nodes[name]["pinned"]) for name in ("n2", "n3", "n4")] == [
        ("closed", False),
        ("open", False),
        ("closed", False),
    ]
    assert ksearch("pause").out == "scripted-1 is finished: there is nothing to pause\n"
    done = ksearch("revert", "scripted-1", first)
    assert (done.code, done.err) == (2, f"error: edit {first} cannot be undone: n4 is closed: it has been worked on\n")


def halfway(ksearch: Call, tmp_path: Path) -> None:
    """A run where the planner will insert a node of its own first, as it is at work on round 1's intent."""
    proposals = [{"edits": [insert("Unroll", 0.9)]}, {"edits": [insert("Fuse", 0.5)]}]
    (tmp_path / "script.json").write_text(json.dumps({"proposals": proposals, "cycles": [[1.5, 1.6], [1.7]]}))
    source = ("--planner", "script:script.json", "--coder", "script:script.json", "--evaluator", "scripted")
    options = ("--set", "stagnation=2", "--set", "sample_cap=2", "--evaluations", 3)
    assert ksearch("run", "scripted", *source, *options).code == 0
    assert ksearch("branch", "--at", 1, "--name", "half").code == 0


def half(ksearch: Call) -> list[tuple[str, str, bool]]:
    """Return what the planner and the person inserted."""
    nodes = ksearch("tree", "half", "--json").json["nodes"]
    return [(node["id"], node["intent"]["title"], node["pinned"]) for node in nodes if node["id"] in {"n2", "n3"}]


def test_a_new_node_may_get_another_number(ksearch: Call, tmp_path: Path) -> None:
    halfway(ksearch, tmp_path)
    assert ksearch("edit", "half", "--insert", "Mine").out.splitlines() == [
        "inserts n2 under the root, V 1.00, 'Mine'",
        "a new node may get another number when it is made; what you ask of it until then goes to it",
        "go on with: ksearch resume half",
    ]
    assert ksearch("edit", "half", "--pin", "n2").out.startswith("pins n2\n")
    assert ksearch("resume", "half").code == 0
    assert half(ksearch) == [("n2", "Fuse", False), ("n3", "Mine", True)]


def test_what_was_edited_while_the_node_got_its_number_goes_to_it(ksearch: Call, tmp_path: Path) -> None:
    halfway(ksearch, tmp_path)
    assert ksearch("edit", "half", "--insert", "Mine", "--priority", 0.1).code == 0
    assert ksearch("edit", "half", "--write", "plan.toml").code == 0
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import pathlib, subprocess, sys\n"
        f"subprocess.run({command('resume', 'half')!r}, check=True, stdout=subprocess.DEVNULL)\n"
        "file = pathlib.Path(sys.argv[1])\n"
        "file.write_text(file.read_text().replace('\"Mine\"', '\"Ours\"'))\n"
    )
    done = call(tmp_path, "edit", "half", EDITOR=f"{sys.executable} {editor}")
    assert done.out.splitlines() == ["updates n3, title Ours", "go on with: ksearch resume half"], done.err
    plan = tmp_path / "plan.toml"
    plan.write_text(plan.read_text().replace("priority = 0.1", "priority = 0.2"))
    assert ksearch("edit", "half", "--from", "plan.toml").out.startswith("updates n3, priority 0.2\n")
    assert ksearch("resume", "half", "--evaluations", 4).code == 0
    assert half(ksearch) == [("n2", "Fuse", False), ("n3", "Ours", False)]


def test_flags_that_name_a_node_which_gets_its_number_meanwhile(ksearch: Call, started: Start, tmp_path: Path) -> None:
    halfway(ksearch, tmp_path)
    assert ksearch("edit", "half", "--insert", "Mine", "--priority", 0.1).code == 0
    os.mkfifo(tmp_path / "mine.cpp")
    editing = started("edit", "half", "--pin", "n2", "--to", "n2", "--attach", "mine.cpp")
    with (tmp_path / "mine.cpp").open("w") as program:  # opens when the plan has been read
        assert ksearch("resume", "half").code == 0
        program.write("int x;\n")
    assert editing.wait(200) == 0
    assert ksearch("resume", "half", "--evaluations", 4).code == 0
    assert half(ksearch) == [("n2", "Fuse", False), ("n3", "Mine", True)]


def test_a_text_does_not_take_back_what_the_search_has_done_since(ksearch: Call, tmp_path: Path) -> None:
    paused(ksearch, tmp_path)
    assert ksearch("edit", "--insert", "Mine", "--priority", 0.1).code == 0
    assert ksearch("edit", "--write", "plan.toml").code == 0
    plan = tmp_path / "plan.toml"
    assert '\nstatus = "open"\n' in plan.read_text().split("[n2]")[1].split("[n3]")[0]
    plan.write_text(plan.read_text().replace('"Block"', '"Block it"').replace('"Mine"', '"Ours"'))
    assert ksearch("resume", "--evaluations", 2).code == 0
    assert "n2*  closed" in ksearch("tree").out
    done = ksearch("edit", "--from", "plan.toml")
    assert done.out.splitlines() == [
        "updates n3, title Block it",
        "updates n4, title Ours",
        "go on with: ksearch resume scripted-1",
    ], done.err
    assert ksearch("edit", "--from", "plan.toml").out == "nothing is changed\n"
    plan.write_text(re.sub('base = "[^ ]*', 'base = "1f0', plan.read_text()))
    assert (
        "a plan that scripted-1 does not have, or not any more: write it again"
        in ksearch("edit", "--from", "plan.toml").err
    )


def test_the_plan_is_edited_as_text(finished: Path) -> None:
    editor = finished / "editor.py"
    editor.write_text(
        "import pathlib, sys\n"
        "file = pathlib.Path(sys.argv[1])\n"
        'file.write_text(file.read_text() + \'\\n[new]\\nparent = "n4"\\ntitle = "By hand"\\n\')\n'
    )
    done = call(finished, "edit", EDITOR=f"{sys.executable} {editor}")
    assert done.code == 0, done.err
    assert done.out.startswith("inserts n5 under n4, V 1.00, 'By hand'")
    editor.write_text("import pathlib, sys\npathlib.Path(sys.argv[1]).write_text('[n9]\\n')\n")
    done = call(finished, "edit", EDITOR=f"{sys.executable} {editor}")
    assert done.code == 2
    assert "[n9]: there is no such node" in done.err
    kept = Path(done.err.split("--from ")[1].strip())
    assert kept.read_text() == "[n9]\n"
    kept.unlink()
    text = call(finished, "edit", "--write", "-").out
    (finished / "plan.toml").write_text(text.replace('title = "By hand"', 'title = "By head"'))
    assert call(finished, "edit", "--from", "plan.toml").out.startswith("updates n5, title By head")
    assert call(finished, "edit", "--from", "plan.toml").out == "nothing is changed\n"
    text = call(finished, "edit", "--write", "-").out.replace('title = "By head"', 'title = "By pipe"')
    piped = subprocess.run(
        command("edit", "--from", "-"), cwd=finished, env=environment(), input=text, capture_output=True, text=True
    )
    assert piped.stdout.startswith("updates n5, title By pipe"), piped.stderr


def test_what_cannot_be_edited_is_told(finished: Path) -> None:
    (finished / "mine.cpp").write_text("int x;\n")
    for arguments, words in (
        (("--update", "n1", "--priority", 0.5), "node n1 is closed; only open nodes can be updated"),
        (("--insert", "x", "--priority", 3), "priority: must be less than or equal to 1"),
        (("--attach", "mine.cpp"), "name an open one with --to, or add one with --insert"),
        (("--set", "evaluator=nobody"), "evaluator 'nobody' is unknown"),
        ((), "set EDITOR to edit the plan as text"),
    ):
        done = call(finished, "edit", *arguments, EDITOR="", VISUAL="")
        assert (done.code, len(done.err.splitlines())) == (2, 1), done
        assert words in done.err


def test_a_running_search_is_paused(ksearch: Call, started: Start, tmp_path: Path) -> None:
    models = ("--planner", planner(tmp_path), "--coder", held_coder(tmp_path, 1, "objective = 1.2", "objective = 1.4"))
    running = started("run", "scripted", *models, "--evaluator", "scripted")
    wait_for(running, "round 1:")
    pausing = started("pause", "--home", ".ksearch")
    wait_for(running, "asked to pause: stopping after this step")
    release(tmp_path)
    out, err = pausing.communicate(timeout=200)
    words = "scripted-1 is paused; go on with: ksearch resume scripted-1 --home .ksearch\n"
    assert (pausing.returncode, out) == (0, words), err
    running.communicate(timeout=200)
    assert running.returncode == 3
    assert ksearch("resume", "--evaluations", 3, "--json").json["status"] == "finished"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--insert", ""), "title: must have at least 1 character"),
        (("--knob", "UNROLL=2"), "--knob says something of a new node: add one with --insert"),
        (("--reopen", "n2"), "--reopen needs --description"),
        ((), "EDITOR=no-such-editor cannot be started"),
    ],
)
def test_edits_that_are_incomplete(finished: Path, flags: tuple[str, ...], words: str) -> None:
    done = call(finished, "edit", *flags, EDITOR="no-such-editor", VISUAL="")
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert words in done.err
