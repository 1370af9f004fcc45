"""tasks and doctor."""

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from evaluators.worker import descendants
from graph.cli.codes import INTERRUPTED
from graph.cli.machine import key_place
from tests.cli.conftest import Call, wait_for

STATES = {"works", "missing", "problem"}
BUILT_IN = {"softmax", "rmsnorm_linear", "trimul_small"}


def test_tasks(ksearch: Call) -> None:
    entries = {entry["name"]: entry for entry in ksearch("tasks", "--json").json}
    assert set(entries) >= BUILT_IN
    assert entries["softmax"]["languages"][0] == "cpp"
    assert "cpp" in entries["softmax"]["seeds"]
    text = ksearch("tasks").out
    assert all(f"{name} " in text for name in BUILT_IN)


def test_one_task(ksearch: Call) -> None:
    shown = ksearch("tasks", "show", "softmax", "--json").json
    assert shown["name"] == "softmax"
    assert {workload["split"] for workload in shown["workloads"]} == {"search", "held_out"}
    assert set(shown["floors"]) == {workload["name"] for workload in shown["workloads"]}
    assert shown["floors"]["256x1024"] == {"bytes": 8 * 256 * 1024, "operations": 5 * 256 * 1024}
    text = ksearch("tasks", "show", "softmax").out
    assert "256x1024: rows 256, cols 1024; floor 2.1 MB, 1.31 Mop\n" in text
    assert "one_column: rows 33, cols 1; floor 264 B, 165 op (held out)\n" in text
    assert "rtol" in text


def write_slow_task(folder: Path) -> None:
    """A task, mine.py, whose baseline sleeps."""
    functions = (
        "def inputs(n=64):\n    return torch.randn(n)\n\n\ndef reference(x):\n    return x.double().exp().float()\n"
    )
    waiting = "import time\n\n\ndef baseline(x):\n    time.sleep(600)\n"
    (folder / "mine.py").write_text(f"import torch\n\n{functions}\n\n{waiting}")


def test_findings_of_a_check_are_printed_as_they_are_made(
    tmp_path: Path, started: Callable[..., subprocess.Popen[str]]
) -> None:
    write_slow_task(tmp_path)
    process = started("tasks", "check", "mine.py")
    lines = wait_for(process, "half precision")
    assert process.poll() is None, "the baseline sleeps"
    assert len(lines) == 8
    assert lines[0].startswith("ok  the reference runs: 1 of 1 workloads")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, err, out) == (INTERRUPTED, "interrupted\n", "")


def test_a_killed_check_leaves_no_process(tmp_path: Path, started: Callable[..., subprocess.Popen[str]]) -> None:
    write_slow_task(tmp_path)
    process = started("tasks", "check", "mine.py")
    wait_for(process, "half precision")
    below = descendants.below(process.pid)
    assert below, "the reference runs in processes of its own"
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 60  # Of the 600 s that the baseline sleeps.
    while left := [pid for pid in below if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_what_could_not_be_checked_is_said_with_the_reason(ksearch: Call) -> None:
    done = ksearch("tasks", "check", "trimul_official")
    assert done.code == 0
    assert "--  the evaluator judges the seed program: not checked: there is no seed program" in done.out
    assert "--  reference, inputs and tolerance: not checked: they are the evaluator's own" in done.out
    assert done.out.endswith("nothing was checked but that the task's files can be read\n")


@pytest.mark.parametrize("command", ["run", "evaluate", "tasks show", "tasks check", "prompts render"])
def test_the_help_tells_every_way_to_name_a_task(ksearch: Call, command: str) -> None:
    words = " ".join(ksearch(*command.split(), "--help").out.split())
    assert "flashinfer:ROOT#DEFINITION, kernelbench:FILE or gpumode:FOLDER; see docs/own-task.md" in words


def test_constants_stand_once_and_parameters_with_their_workload(ksearch: Call) -> None:
    text = ksearch("tasks", "show", "trimul").out
    assert text.count("hidden 128") == 1
    assert ": batch 1, n 1024, dim 768, distribution normal, mask ones; floor " in text


def test_a_task_is_shown_though_its_floor_cannot_be_told(ksearch: Call, tmp_path: Path) -> None:
    functions = "def inputs(n=8):\n    return torch.ones(n)\n\n\ndef reference(x):\n    return x + 1\n\n\n"
    (tmp_path / "mine.py").write_text(
        f"import torch\n\n\n{functions}def floor(n):\n    return {{'bytes': 1 // (n - 8)}}\n"
    )
    done = ksearch("tasks", "show", "mine.py")
    assert done.code == 0
    assert "floors     cannot be told: floor() of default failed: ZeroDivisionError" in done.out
    shown = ksearch("tasks", "show", "mine.py", "--json").json
    assert shown["floors"] == {}
    assert shown["floors_problem"].startswith("floor() of default failed")


def test_doctor(ksearch: Call, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_API_KEY=a-secret\n")
    done = ksearch("doctor", "--json", GOOGLE_API_KEY="another-secret")
    checks = {check["name"]: check for check in done.json["checks"]}
    assert {"processor", "compiler", "torch", "evaluator", "sandbox", "load", "folder of the runs", "disk"} <= set(
        checks
    )
    assert {"GPU", "triton", "OPENAI_API_KEY", "GOOGLE_API_KEY", "LangGraph server"} <= set(checks)
    assert all(check["state"] in STATES for check in checks.values())
    assert all(bool(check["advice"]) == (check["state"] != "works") for check in checks.values())
    assert done.json["ok"] is (not any(check["state"] == "problem" for check in checks.values()))
    assert done.code == (0 if done.json["ok"] else 1)
    assert checks["OPENAI_API_KEY"]["found"] == "set (.env)"
    assert checks["GOOGLE_API_KEY"]["found"] == "set (environment)"
    assert "limits" in done.json["sandbox"]
    assert "secret" not in done.out + done.err
    assert not (tmp_path / ".ksearch").exists(), "doctor makes nothing"


def test_doctor_without_a_compiler_fails_and_says_what_to_do(ksearch: Call) -> None:
    done = ksearch("doctor", PATH="/nowhere")
    assert done.code == 1
    assert "!!  compiler: g++ was not found" in done.out
    assert "apt install g++" in done.out


def test_keys_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    for text, place in [
        ("OTHER_KEY_OF_OURS=1\n", ""),
        ("# KEY_OF_OURS=1\n", ""),
        ("KEY_OF_OURS=\n", ""),
        ("KEY_OF_OURS= # none\n", ""),
        ("A=1\nexport KEY_OF_OURS = 1\n", ".env"),
    ]:
        file.write_text(text)
        assert key_place("KEY_OF_OURS", file) == place, text
    assert key_place("KEY_OF_OURS", tmp_path / "missing") == ""
