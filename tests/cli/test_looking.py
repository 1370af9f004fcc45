"""list, show and tree: what they say, in which form, and what they do without."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import SCRIPTED, Call, call, environment

SHOW_KEYS = {
    "thread", "uuid", "task", "language", "status", "reason", "stop", "round", "budget", "best", "baseline", "nodes",
    "spend", "frontier", "cycles", "questions", "lineage", "environment", "created_at", "updated_at", "config",
    "checkpoint", "waiting_edits",
}  # fmt: skip
BEST_KEYS = {
    "objective", "objective_low", "objective_high", "unit", "ratio", "ratio_low", "ratio_high", "solution", "node",
    "round", "certified", "verdict",
}  # fmt: skip
SPEND_KEYS = {
    "evaluations", "certifications", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "usd",
    "unpriced_calls", "device_s", "wall_s", "by", "unknown_calls", "cached_share", "by_cycle", "by_node",
    "repairs",
}  # fmt: skip


def test_show_as_json(finished: Path) -> None:
    shown = call(finished, "show", "scripted-1", "--json").json
    assert set(shown) == SHOW_KEYS
    assert set(shown["best"]) == BEST_KEYS
    assert set(shown["spend"]) == SPEND_KEYS
    assert (shown["thread"], shown["task"], shown["status"]) == ("scripted-1", "scripted", "finished")
    assert shown["stop"] == {"reason": "budget", "detail": "4 of 4 evaluations are spent"}
    assert shown["budget"] == {"evaluations": 4, "tokens": None, "usd": None, "wall_s": None}
    assert shown["nodes"] == {"open": 0, "active": 0, "closed": 2, "failed": 1, "pruned": 1}
    best = shown["best"]
    assert (best["ratio"], best["unit"], best["node"], best["certified"]) == (2.0, "x", "n4", True)
    assert best["ratio_low"] < best["ratio"] < best["ratio_high"]
    assert shown["lineage"] == []
    assert shown["baseline"]["workloads_ms"] == {"small": 10.0, "large": 10.0}


def test_show_for_people(finished: Path) -> None:
    text = call(finished, "show").out
    assert "finished (budget: 4 of 4 evaluations are spent)" in text
    assert "2.00x faster than the baseline (1.99 to 2.01), certified, n4 in round " in text
    assert "0 open, 0 active, 2 closed, 1 failed, 1 pruned" in text


def test_list(finished: Path) -> None:
    entries = call(finished, "list", "--json").json
    assert [(entry["thread"], entry["status"], entry["evaluations"]) for entry in entries] == [
        ("scripted-1", "finished", 4)
    ]
    lines = call(finished, "list").out.splitlines()
    assert lines[0].split() == ["RUN", "STATUS", "ROUND", "EVALUATIONS", "BEST", "WORKED", "ON"]
    assert lines[1].startswith("scripted-1  finished")
    assert "2.00 (1.99 to 2.01)" in lines[1]


def test_tree_as_text(finished: Path) -> None:
    lines = call(finished, "tree").out.splitlines()
    assert lines == [
        "root  1.00x  seed program",
        "├╴n1  closed  1.50x (1.50x its parent)  Unroll",
        "│ └╴n4*  closed  2.00x (1.33x its parent)  Unroll more",
        "├╴n2  failed  Fuse  [no program passed (1 wrong_values); last: scripted to end as wrong_values]",
        "└╴n3  pruned  Block  [no]",
    ]


def test_tree_as_json(finished: Path) -> None:
    tree = call(finished, "tree", "--json").json
    assert (tree["thread"], tree["incumbent"], tree["frontier"]) == ("scripted-1", "n4", [])
    nodes = {node["id"]: node for node in tree["nodes"]}
    assert nodes["n4"]["parent"] == "n1"
    assert nodes["n4"]["objective"]["value"] == 2.0
    assert nodes["n4"]["gain"] == pytest.approx(4 / 3)
    assert nodes["n2"]["objective"] is None
    assert nodes["n3"]["reason"] == "no"


def test_without_any_run(ksearch: Call, tmp_path: Path) -> None:
    assert ksearch("list", "--json").json == []
    assert ksearch("list").out == "no runs in .ksearch yet: start one with `ksearch run`\n"
    done = ksearch("show")
    assert done.code == 2
    assert "there are no runs in .ksearch yet" in done.err
    assert list(tmp_path.iterdir()) == [], "looking makes nothing"


def test_a_home_that_cannot_be_written_can_be_looked_at(read_only: Path) -> None:
    assert call(read_only, "show", "--json").json["best"]["ratio"] == 2.0
    assert len(call(read_only, "tree").out.splitlines()) == 5
    assert call(read_only, "export", "--to", "/proc/nowhere").code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["show"],
        ["list"],
        ["list", "--tree"],
        ["branch", "--at", "1"],
        ["log"],
        ["diff", "scripted-1", "scripted-1"],
        ["show", "--at", "1"],
        ["answer"],
        ["tree"],
        ["tree", "--json"],
        ["tasks"],
        ["--help"],
        ["run", "--help"],
    ],
)
def test_looking_loads_neither_langgraph_nor_torch(finished: Path, arguments: list[str]) -> None:
    code = (
        "import json, sys\n"
        "from graph.cli.app import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        "sys.stderr.write(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=finished, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stderr))
    assert not loaded & {"langgraph", "langchain", "langchain_core", "torch", "numpy", "structlog", "aiosqlite"}


def test_help_has_an_example_for_every_command(ksearch: Call) -> None:
    commands = (
        "run", "resume", "branch", "pause", "edit", "revert", "answer", "list", "show", "tree", "log", "diff", "export",
        "evaluate", "prune", "tasks", "prompts", "doctor",
    )  # fmt: skip
    general = ksearch("--help")
    assert all(f"\n  {name} " in general.out for name in commands)
    for name in commands:
        text = ksearch(name, "--help").out
        assert f"Example: ksearch {name}" in text
        assert all(option in text for option in ("--json", "--home", "--debug"))


def test_output_that_is_cut_off_is_no_error(finished: Path) -> None:
    reading = subprocess.Popen(
        f"{sys.executable} -m graph.cli tree --json | head -c 10",
        shell=True,
        cwd=finished,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, err = reading.communicate(timeout=200)
    assert len(out) == 10
    assert err == ""


def test_a_run_of_many_rounds_is_shown_whole(ksearch: Call) -> None:
    done = ksearch("run", "scripted", *SCRIPTED, "--evaluations", 120, "--width", 4, "--json")
    assert done.code == 0
    lines = ksearch("tree").out.splitlines()
    assert len(lines) == 1 + sum(done.json["nodes"].values())
    assert sum("*" in line for line in lines) == 1
