"""evaluate: programs judged by hand."""

import json
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from evaluators.worker.timing_lock import held
from tests.cli.conftest import ROOT, Call

PROGRAM_KEYS = {
    "ratios",
    "file", "solution", "status", "tier", "effort", "message", "rule", "log", "doubt", "objective", "objective_low",
    "objective_high", "unit", "ratio", "ratio_low", "ratio_high", "workloads", "notes",
}  # fmt: skip
WORKLOAD_KEYS = {
    "workload", "status", "message", "worst_error", "baseline_ms", "candidate_ms", "ratio", "ratio_low", "ratio_high",
}  # fmt: skip
SEED = ROOT / "evaluators" / "tasks" / "softmax" / "seed.cpp"


def program(folder: Path, name: str, **markers: str) -> str:
    lines = [f"// scripted: {key} = {value}\n" for key, value in markers.items()]
    (folder / name).write_text("".join(lines) + f"// {name}\n")
    return name


def test_one_program(ksearch: Call, tmp_path: Path) -> None:
    file = program(tmp_path, "a.cpp", objective="1.5")
    done = ksearch("evaluate", "scripted", file, "--evaluator", "scripted", "--json")
    assert done.code == 0
    assert set(done.json) == {"task", "protocol", "verdict", "programs", "pairs", "environment", "record"}
    (facts,) = done.json["programs"]
    assert set(facts) == PROGRAM_KEYS
    assert (facts["file"], facts["status"], facts["effort"], facts["ratio"]) == ("a.cpp", "passed", "search", 1.5)
    assert [set(workload) for workload in facts["workloads"]] == [WORKLOAD_KEYS] * 2
    assert done.json["pairs"] == []


def test_several_programs_in_one_run(ksearch: Call, tmp_path: Path) -> None:
    files = [
        program(tmp_path, "a.cpp", objective="1.5"),
        program(tmp_path, "b.cpp", status="wrong_values"),
        program(tmp_path, "c.cpp", objective="3"),
        program(tmp_path, "d.cpp", objective="1.5"),
    ]
    done = ksearch("evaluate", "scripted", *files, "--evaluator", "scripted", "--json")
    assert done.code == 1, "one of them did not pass"
    assert [facts["status"] for facts in done.json["programs"]] == ["passed", "wrong_values", "passed", "passed"]
    pairs = {(pair["a"], pair["b"]): pair["ratio"] for pair in done.json["pairs"]}
    assert pairs == {("a.cpp", "c.cpp"): 0.5, ("a.cpp", "d.cpp"): 1.0, ("c.cpp", "d.cpp"): 2.0}
    text = ksearch("evaluate", "scripted", *files, "--evaluator", "scripted").out
    assert "a.cpp against c.cpp: 0.50x (0.50 to 0.50), c.cpp is faster" in text
    assert "a.cpp against d.cpp: 1.00x (0.99 to 1.00), no clear difference" in text


def test_what_was_judged_is_kept_and_found_again(ksearch: Call, tmp_path: Path) -> None:
    assert ksearch("evaluations", "--json").json == []
    files = [program(tmp_path, "a.cpp", objective="1.5"), program(tmp_path, "b.cpp", objective="3")]
    several = ksearch("evaluate", "scripted", *files, "--evaluator", "scripted", "--json").json
    again = [ksearch("evaluate", "scripted", "a.cpp", "--evaluator", "scripted", "--json").json for _ in range(2)]
    listed = ksearch("evaluations", "--json").json
    assert [item["record"] for item in listed] == [again[1]["record"], again[0]["record"], several["record"]]
    assert listed[2]["programs"] == [
        {"file": "a.cpp", "status": "passed", "effort": "search", "ratio": 1.5},
        {"file": "b.cpp", "status": "passed", "effort": "search", "ratio": 3.0},
    ]
    (tmp_path / "a.cpp").unlink()
    assert ksearch("evaluations", several["record"][:12], "--json").json == several
    assert f"{several['record'][:12]}  " in ksearch("evaluations").out
    assert "a.cpp against b.cpp: 0.50x" in ksearch("evaluations", several["record"]).out
    done = ksearch("evaluations", "")
    assert (done.code, "3 records begin with ''" in done.err) == (2, True)
    assert "no records begin with 'xyz'" in ksearch("evaluations", "xyz").err
    with sqlite3.connect(tmp_path / ".ksearch" / "ksearch.sqlite") as database:
        entries = database.execute("SELECT role, calls, result IS NOT NULL FROM ledger").fetchall()
    assert entries == [("comparison", 1, 1)] * 3


def test_effort_check_measures_nothing(ksearch: Call, tmp_path: Path) -> None:
    files = [program(tmp_path, "a.cpp", objective="1.5"), program(tmp_path, "b.cpp", objective="2")]
    done = ksearch("evaluate", "scripted", *files, "--evaluator", "scripted", "--effort", "check", "--json")
    assert done.code == 0
    assert [facts["ratio"] for facts in done.json["programs"]] == [None, None]
    assert done.json["pairs"] == []


def test_a_wait_for_another_process_is_told_once(
    started: Callable[..., subprocess.Popen[str]],
) -> None:
    with held(alone=True):
        process = started("evaluate", "softmax", SEED, "--effort", "check")
        assert process.stderr is not None
        told = process.stderr.readline()
    out, rest = process.communicate()
    assert (told, rest) == ("waiting: another ksearch process is at work on this machine\n", "")
    assert (process.returncode, "passed" in out) == (0, True)


def test_what_a_judge_of_ones_own_counts_is_better_not_faster(ksearch: Call, tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text(
        'METRIC = "found"\nENTRY_POINT = "search"\n\n\n'
        "def evaluator(candidate):\n    return {'found': float(len(candidate))}\n"
    )
    for name, text in (("short.py", "a"), ("long.py", "a" * 20)):
        (tmp_path / name).write_text(f"def search():\n    return '{text}'\n")
    done = ksearch("evaluate", "judge.py", "short.py", "long.py")
    assert done.code == 0, done.err
    assert ", long.py is better" in done.out
    assert "faster" not in done.out
    for form in ("whole", "search_replace"):
        options = ("--role", "coder", "--kind", "improve", "--set", f"edit_format={form}")
        asked = ksearch("prompts", "render", "judge.py", *options)
        assert asked.code == 0, asked.err
        assert "that is better than the best one" in asked.out
        assert "why it should be better" in asked.out
        assert "faster" not in asked.out


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("a.txt", (), "--language"),
        ("a.cu", (), "no contract for cuda; it has cpp, python"),
        ("a.cpp", ("--language", "triton"), "no contract for triton"),
        ("a.cpp", ("--language", "c++"), "language: 'c++' is not allowed"),
        ("a.cpp", ("--effort", "hard"), "--effort"),
    ],
)
def test_wrong_calls(ksearch: Call, tmp_path: Path, name: str, options: tuple[str, ...], words: str) -> None:
    done = ksearch("evaluate", "scripted", program(tmp_path, name, objective="2"), *options)
    assert done.code == 2
    assert words in done.err
    assert len(done.err.splitlines()) == 1


def test_a_text_that_is_none(ksearch: Call, tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_bytes(b"\xff\xfe")
    done = ksearch("evaluate", "scripted", "a.cpp")
    assert done.code == 2
    assert "UTF-8" in done.err


def test_a_json_that_is_no_program(ksearch: Call, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"files": {}}')
    done = ksearch("evaluate", "scripted", "a.json")
    assert done.code == 2
    assert "a.json: is not a program" in done.err
    assert len(done.err.splitlines()) == 1


def test_real_programs_on_this_machine(ksearch: Call, tmp_path: Path) -> None:
    (tmp_path / "wrong.cpp").write_text(SEED.read_text() + "\n#error this one does not compile\n")
    done = ksearch("evaluate", "softmax", str(SEED), "wrong.cpp", "--effort", "check", "--json")
    assert done.code == 1
    right, wrong = done.json["programs"]
    assert (right["status"], right["tier"]) == ("passed", "checked")
    assert all(workload["worst_error"] is not None for workload in right["workloads"])
    assert wrong["status"] == "build_error"
    assert "this one does not compile" in json.dumps(wrong)
    assert done.json["environment"]["compiler"].startswith("g++")
