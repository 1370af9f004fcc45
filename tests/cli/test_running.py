"""run and resume: what they print, what they leave, how they end."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import SCRIPTED, Call, call, command, environment

RUN = ("run", "scripted", *SCRIPTED)


def test_plain_lines_tell_the_search_and_the_end_tells_how_to_go_on(ksearch: Call) -> None:
    done = ksearch(*RUN, "--evaluations", 3)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "scripted-1: task scripted, 3 evaluations in all"
    assert lines[1] == "seed program: passed 1.00x (0.99 to 1.00)"
    assert [line.split(":")[0] for line in lines if line.startswith("round")] == ["round 1", "round 2", "round 3"]
    assert "stopped  budget: 3 of 3 evaluations are spent" in lines
    assert any(line.startswith("best  ") and "the baseline" in line and "certified" in line for line in lines)
    assert "ksearch export scripted-1" in done.out
    assert "ksearch tree scripted-1" in done.out
    assert done.err == ""
    assert "\x1b" not in done.out


def test_json_on_stdout_only(ksearch: Call) -> None:
    done = ksearch(*RUN, "--evaluations", 2, "--json")
    assert done.json["thread"] == "scripted-1"
    assert done.json["status"] == "finished"
    assert done.json["spend"]["evaluations"] == 2
    assert "round 1" in done.err


def test_a_terminal_gets_a_live_display(tmp_path: Path) -> None:
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    arguments = command(*RUN, "--evaluations", 4)
    with subprocess.Popen(
        arguments, cwd=tmp_path, env=environment(TERM="xterm"), stdout=there, stderr=there
    ) as process:
        os.close(there)
        text = read_all(here)
    os.close(here)
    assert process.returncode == 0
    assert "scripted-1  round 4" in text
    assert "4 of 4 evaluations" in text
    assert "frontier: n" in text
    assert "cycle 1 sample 1: " in text
    assert "\x1b[?25h" in text, "the cursor is shown again"
    assert text.index("\x1b[?25h") < text.index("budget: 4 of 4 evaluations are spent")


def read_all(terminal: int) -> str:
    data = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            part = b""
        if not part:
            return data.decode()
        data += part


def test_wide_searches_tell_each_cycle_apart(ksearch: Call) -> None:
    done = ksearch(*RUN, "--evaluations", 6, "--width", 3)
    assert done.code == 0
    assert {line.split()[1] for line in done.out.splitlines() if " sample 1: " in line} == {"1", "2", "3"}


def test_options_come_from_preset_file_set_and_flags_and_the_last_one_holds(ksearch: Call, tmp_path: Path) -> None:
    (tmp_path / "options.toml").write_text('max_evaluations = 9\nwidth = 2\nseed = 3\ntask = "scripted"\n')
    options = ("--config", "options.toml", "--set", "width=3", "--set", "seed=4", "--seed", 5, "--evaluations", 1)
    done = ksearch("run", *SCRIPTED, "--preset", "paper", *options, "--language", "python", "--json")
    config = done.json["config"]
    assert config["preset"] == "paper"
    assert config["novelty"] is False
    assert (config["max_evaluations"], config["width"], config["seed"]) == (1, 3, 5)
    assert done.json["language"] == "python"


def test_every_event_is_logged(ksearch: Call, tmp_path: Path) -> None:
    secret = "not-to-be-written-down"
    done = ksearch(*RUN, "--evaluations", 2, OPENAI_API_KEY=secret)
    assert done.code == 0
    text = (tmp_path / ".ksearch" / "logs" / "scripted-1.jsonl").read_text()
    entries = [json.loads(line) for line in text.splitlines()]
    assert [entry["event"] for entry in entries][:4] == ["thread", "seed", "edits", "selected"]
    assert sum(entry["event"] == "result" for entry in entries) >= 2
    assert all({"timestamp", "level"} <= set(entry) for entry in entries)
    assert secret not in text + done.out + done.err


def test_a_failing_seed_program_is_a_failed_search(ksearch: Call, tmp_path: Path) -> None:
    done = ksearch(*RUN, "--no-seed-program", "--coder", "offline")
    assert done.code == 1
    assert "nothing_to_start_from" in done.out
    assert "no program has passed yet" in done.out
    assert "name models with --planner and --coder" in done.out
    assert "cause: " not in done.out + done.err


def test_programs_that_pass_and_are_not_certified_are_not_passed_over(ksearch: Call, tmp_path: Path) -> None:
    intent = {"kind": "insert", "parent": "root", "intent": {"title": "Unroll", "priority": 0.9}}
    script = {
        "proposals": [{"edits": [intent]}],
        "cycles": [[{"objective": 2.0, "markers": {"held_out": "wrong_values"}}]],
    }
    (tmp_path / "script.json").write_text(json.dumps(script))
    source = "script:script.json"
    done = ksearch(
        *("run", "scripted", "--planner", source, "--coder", source, "--evaluator", "scripted"),
        *("--no-seed-program", "--evaluations", 1),
    )
    assert done.code == 1
    assert "round 1: 1 of 1 evaluations, programs have passed, but none is certified yet" in done.out
    assert "best     programs have passed, but none is certified yet" in done.out
    assert "no program has passed" not in done.out


def test_a_required_ratio_that_is_reached(finished: Path) -> None:
    done = call(finished, "resume", "--require", 1.8)
    assert done.code == 0


def test_a_required_ratio_that_is_missed_fails_and_names_causes(finished: Path) -> None:
    done = call(finished, "resume", "--require", 2.5, "--json")
    assert done.code == 1
    assert done.json["shortfall"][0] == "required 2.50x, reached 2.00x"
    assert len(done.json["shortfall"]) > 1
    assert "required 2.50x, reached 2.00x" in done.err


def test_resuming_what_is_finished_says_why_and_how_to_go_further(finished: Path) -> None:
    done = call(finished, "resume")
    assert done.code == 0
    assert "scripted-1 had finished, and its reason to stop still holds" in done.out
    assert "ksearch resume scripted-1 --set max_evaluations=8" in done.out
    assert "ksearch resume scripted-1 --set max_evaluations=8" in call(finished, "resume", "--evaluations", 1).out


def test_resuming_with_a_larger_budget_goes_on(finished: Path) -> None:
    done = call(finished, "resume", "scripted-1", "--evaluations", 5, "--json")
    assert done.code == 0
    assert done.json["stop"]["reason"] == "exhausted"
    assert done.json["config"]["max_evaluations"] == 5
    assert done.json["best"]["ratio"] == 2.0


@pytest.mark.parametrize("option", ["preset=paper", "task=softmax", "language=python"])
def test_what_a_run_is_cannot_be_changed(finished: Path, option: str) -> None:
    done = call(finished, "resume", "--set", option)
    assert done.code == 2
    assert done.err.startswith("error: ")
    assert "fixed" in done.err


def test_commands_that_are_suggested_name_the_home(ksearch: Call, slow_script: Callable[[float], str]) -> None:
    source = slow_script(0.0)
    run = ("run", "scripted", "--planner", source, "--coder", source, "--evaluator", "scripted")
    done = ksearch(*run, "--evaluations", 1, "--home", "my runs")
    assert "ksearch export scripted-1 --home 'my runs'" in done.out
    assert ksearch("show", "scripted-1", KSEARCH_HOME="my runs").code == 0


def test_the_advice_names_the_budget_that_is_used_up(finished: Path) -> None:
    spent = call(finished, "show", "--json").json["spend"]
    limit = spent["input_tokens"] + spent["output_tokens"] - 1
    done = call(finished, "resume", "--evaluations", 9, "--set", f"max_tokens={limit}")
    assert f"ksearch resume scripted-1 --set max_tokens={2 * limit}" in done.out
