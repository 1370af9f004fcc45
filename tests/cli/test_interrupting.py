"""Ctrl-C, kill and resume: real signals to real processes."""

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.cli.conftest import SCRIPTED, Call, environment

Start = Callable[..., subprocess.Popen[str]]


def run(source: str) -> tuple[str, ...]:
    options = ("--evaluator", "scripted", "--set", "stagnation=3", "--set", "sample_cap=3")
    return ("run", "scripted", "--planner", source, "--coder", source, *options)


def wait_for(process: subprocess.Popen[str], words: str) -> list[str]:
    """Read lines up to the first that holds `words`."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError(f"{words!r} never came: {lines}")


def results(lines: Sequence[str]) -> list[str]:
    return [line.strip() for line in lines if " sample " in line and "certified" not in line]


def test_ctrl_c_pauses_at_the_next_boundary_and_resume_repeats_nothing(
    ksearch: Call, started: Start, slow_script: Callable[[float], str]
) -> None:
    process = started(*run(slow_script(0.3)))
    lines = wait_for(process, "cycle 1 sample 2: passed")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    assert "stopping after this step; press again to stop now" in out
    assert "paused. Go on with: ksearch resume scripted-1" in out
    assert err == ""
    shown = ksearch("show", "--json").json
    assert shown["status"] == "paused"

    slow_script(0.0)
    done = ksearch("resume", "scripted-1")
    assert done.code == 0
    told = results([*lines, *out.splitlines(), *done.out.splitlines()])
    assert len([line for line in told if "passed" in line]) == 9
    assert len(set(told)) == len(told), "a sample was evaluated twice"
    after = ksearch("show", "--json").json
    assert after["status"] == "finished"
    assert after["spend"]["evaluations"] == 9
    assert after["spend"]["unknown_calls"] == 0


def test_a_second_ctrl_c_stops_at_once(ksearch: Call, started: Start, slow_script: Callable[[float], str]) -> None:
    process = started(*run(slow_script(0.5)))
    wait_for(process, "cycle 1 sample 1: passed")
    slow_script(0.0)
    process.send_signal(signal.SIGINT)
    wait_for(process, "stopping after this step")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    assert "paused. Go on with: ksearch resume scripted-1" in out
    assert "Traceback" not in err
    done = ksearch("resume", "--json")
    assert done.code == 0
    assert done.json["spend"]["evaluations"] == 9
    assert done.json["best"]["ratio"] == 1.7


def test_a_killed_run_is_seen_as_interrupted_and_can_be_resumed(
    ksearch: Call, started: Start, slow_script: Callable[[float], str]
) -> None:
    process = started(*run(slow_script(0.2)))
    wait_for(process, "cycle 1 sample 2: passed")
    running = ksearch("list", "--json").json
    process.kill()
    process.communicate(timeout=60)
    assert [entry["status"] for entry in running] == ["running"]
    assert [entry["status"] for entry in ksearch("list", "--json").json] == ["interrupted"]
    assert "interrupted" in ksearch("show").out

    slow_script(0.0)
    done = ksearch("resume", "--json")
    assert done.code == 0
    assert done.json["status"] == "finished"
    assert done.json["spend"]["evaluations"] == 9
    assert done.json["best"]["ratio"] == 1.7


def test_a_run_at_work_cannot_be_resumed(ksearch: Call, started: Start, slow_script: Callable[[float], str]) -> None:
    process = started(*run(slow_script(0.5)))
    wait_for(process, "seed program")
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
        timeout=200,
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
