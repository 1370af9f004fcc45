"""Ctrl-C, kill and resume: real signals to real processes."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.cli.conftest import SCRIPTED, Call, environment, wait_for
from tests.cli.talking import held_coder, planner, release

Start = Callable[..., subprocess.Popen[str]]
MARKS = [f"objective = 1.{number}" for number in range(1, 10)]


def run(folder: Path, held: int) -> tuple[str, ...]:
    """A search of three samples for each of three intents, whose coder keeps its replies from number `held` on."""
    options = ("--evaluator", "scripted", "--set", "stagnation=3", "--set", "sample_cap=3", "--evaluations", "9")
    return ("run", "scripted", "--planner", planner(folder), "--coder", held_coder(folder, held, *MARKS), *options)


def results(lines: Sequence[str]) -> list[str]:
    return [line.strip() for line in lines if " sample " in line and "certified" not in line]


def test_ctrl_c_pauses_at_the_next_boundary_and_resume_repeats_nothing(
    ksearch: Call, started: Start, tmp_path: Path
) -> None:
    process = started(*run(tmp_path, 2))
    lines = wait_for(process, "cycle 1 sample 2: passed")
    process.send_signal(signal.SIGINT)
    lines += wait_for(process, "stopping after this step; press again to stop now")
    release(tmp_path)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 3, err
    assert "paused. Go on with: ksearch resume scripted-1" in out
    assert err == ""
    shown = ksearch("show", "--json").json
    assert shown["status"] == "paused"

    done = ksearch("resume", "scripted-1")
    assert done.code == 0
    told = results([*lines, *out.splitlines(), *done.out.splitlines()])
    assert len([line for line in told if "passed" in line]) == 9
    assert len(set(told)) == len(told), "a sample was evaluated twice"
    after = ksearch("show", "--json").json
    assert after["status"] == "finished"
    assert after["spend"]["evaluations"] == 9
    assert after["spend"]["unknown_calls"] == 0


def test_a_second_ctrl_c_stops_at_once(ksearch: Call, started: Start, tmp_path: Path) -> None:
    process = started(*run(tmp_path, 1))
    wait_for(process, "cycle 1 sample 1: passed")
    process.send_signal(signal.SIGINT)
    wait_for(process, "stopping after this step")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 3, err
    assert "paused. Go on with: ksearch resume scripted-1" in out
    assert "Traceback" not in err
    release(tmp_path)
    done = ksearch("resume", "--json")
    assert done.code == 0
    assert done.json["spend"]["evaluations"] == 9
    assert done.json["best"]["ratio"] == 1.9


def test_a_killed_run_is_seen_as_interrupted_and_can_be_resumed(ksearch: Call, started: Start, tmp_path: Path) -> None:
    process = started(*run(tmp_path, 2))
    wait_for(process, "cycle 1 sample 2: passed")
    running = ksearch("list", "--json").json
    process.kill()
    process.communicate(timeout=200)
    assert [entry["status"] for entry in running] == ["running"]
    assert [entry["status"] for entry in ksearch("list", "--json").json] == ["interrupted"]
    assert "interrupted" in ksearch("show").out

    release(tmp_path)
    done = ksearch("resume", "--json")
    assert done.code == 0
    assert done.json["status"] == "finished"
    assert done.json["spend"]["evaluations"] == 9
    assert done.json["best"]["ratio"] == 1.9


def test_a_run_at_work_cannot_be_resumed(ksearch: Call, started: Start, tmp_path: Path) -> None:
    process = started(*run(tmp_path, 0))
    wait_for(process, "seed program")
    assert re.fullmatch(r"scripted-1 +running .* now", ksearch("list").out.splitlines()[1])
    done = ksearch("resume", "scripted-1")
    assert done.code == 2
    assert f"kill {process.pid}" in done.err
    assert len(done.err.splitlines()) == 1


def test_a_full_disk_keeps_what_was_done(ksearch: Call, tmp_path: Path) -> None:
    limited = (
        "import resource, runpy, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
        "sys.argv = ['ksearch', *sys.argv[1:]]\n"
        "runpy.run_module('graph.cli', run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited, "run", "scripted", *SCRIPTED, "--evaluations", "40"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 1, done.stdout
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
    assert "ksearch resume scripted-1" in done.stdout
    kept = ksearch("show", "--json").json
    assert kept["status"] in ("failed", "interrupted")
    resumed = ksearch("resume", "--json")
    assert resumed.code == 0
    assert resumed.json["spend"]["evaluations"] == 40
