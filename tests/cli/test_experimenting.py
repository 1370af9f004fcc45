"""`ksearch experiment` in real processes: from the file to the searches, killed, stopped, gone on with."""

import math
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from checkpoints.history import read_record, read_snapshot, read_states
from graph.cli.machine import lacks_gpu
from tests.cli.conftest import Call, call

Start = Callable[..., subprocess.Popen[str]]
EQUAL = ("tree", "attempts", "edits", "incumbent", "round", "stop")
FILE = """
seeds = 2
at_a_time = 3
[options]
task = "scripted"
planner = "{source}"
coder = "{source}"
evaluator = "scripted"
max_evaluations = 9
[matrix]
policy = ["priority", "puct"]
"""


def written(folder: Path, source: str, name: str = "trial") -> Path:
    file = folder / f"{name}.toml"
    file.write_text(FILE.replace("{source}", source))
    return file


def evaluations(home: Path) -> int:
    return sum(item.values.get("spend", {}).get("evaluations", 0) for item in read_states(home))


def until(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 200
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.skipif(not lacks_gpu("cuda"), reason="there is a GPU, so searches may begin")
def test_an_experiment_on_a_gpu_that_is_not_there_is_refused_before_it_begins(ksearch: Call, tmp_path: Path) -> None:
    file = written(tmp_path, "scripted")
    text = file.read_text().replace('task = "scripted"', 'task = "trimul"')
    file.write_text(text.replace('evaluator = "scripted"', 'evaluator = "local"'))
    done = ksearch("experiment", "trial.toml")
    assert done.code == 2
    assert 'the task is for a GPU and this machine has none: `evaluator = "deferred"` under `[options]`' in done.err
    assert read_states(tmp_path / ".ksearch") == []


def test_from_the_file_to_the_searches(ksearch: Call, tmp_path: Path) -> None:
    written(tmp_path, "scripted")
    done = ksearch("experiment", "trial.toml", "--json")
    assert done.code == 0, done.err
    assert "trial: 2 cells, 4 searches, 3 at a time" in done.err
    assert [(item["run"], item["status"]) for item in done.json["searches"]] == [
        ("trial-priority-s0", "done"),
        ("trial-puct-s0", "done"),
        ("trial-priority-s1", "done"),
        ("trial-puct-s1", "done"),
    ]
    assert done.json["spent"]["evaluations"] == 36
    assert sorted(item["thread"] for item in ksearch("list", "--json").json) == sorted(
        item["run"] for item in done.json["searches"]
    )
    log = (tmp_path / ".ksearch/logs/trial-puct-s1.jsonl").read_text().splitlines()
    assert len([line for line in log if '"event": "round"' in line]) >= 9


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_ended_in_the_middle_it_goes_on_to_the_same_end(
    ksearch: Call, started: Start, slow_script: Callable[[float], str], tmp_path: Path, number: int
) -> None:
    home = tmp_path / ".ksearch"
    file = written(tmp_path, slow_script(0.5))
    process = started("experiment", file)
    until(lambda: (home / "logs").exists() and evaluations(home) >= 5)
    process.send_signal(number)
    out, _ = process.communicate(timeout=200)
    if number == signal.SIGINT:
        assert process.returncode == 3, out
        assert "go on with: ksearch experiment" in out
    assert 5 <= evaluations(home) < 36
    slow_script(0.0)
    done = ksearch("experiment", file)
    assert done.code == 0, done.err
    assert "searches  4 done" in done.out
    other = tmp_path / "other"
    assert ksearch("experiment", file, "--home", other).code == 0
    for snapshot in read_states(other):
        name = snapshot.thread.name
        again = read_snapshot(home, name).values
        assert {key: again[key] for key in EQUAL} == {key: snapshot.values[key] for key in EQUAL}, name
        calls = [entry.calls for entry in read_record(home, name).entries]
        assert sum(calls) - len(calls) <= (1 if number == signal.SIGKILL else 0), "no more than the call in flight"


def test_what_is_wrong_is_said_before_anything_begins(ksearch: Call, tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text('[matrix]\npolicy = ["puct"]\n[budget]\nevaluation = 3\n')
    done = ksearch("experiment", "wrong.toml")
    words = "error: wrong.toml: key 'budget.evaluation' is unknown; did you mean 'evaluations'?"
    assert (done.code, done.err.strip()) == (2, words)
    (tmp_path / "model.toml").write_text('[options]\ntask = "scripted"\n[matrix]\nplanner = ["opnai:x"]\n')
    done = ksearch("experiment", "model.toml")
    assert (done.code, "did you mean 'openai'" in done.err) == (2, True)
    assert ksearch("experiment", "none.toml").code == ksearch("experiment").code == 2
    assert not (tmp_path / ".ksearch").exists()


@pytest.fixture(scope="session")
def _conducted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("conducted")
    written(folder, "scripted")
    assert call(folder, "experiment", "trial.toml").code == 0
    return folder


@pytest.fixture
def conducted(_conducted: Path, tmp_path: Path) -> Path:
    """The test's folder, in which the experiment `trial` has ended."""
    shutil.copytree(_conducted, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_a_report_of_what_was_found(conducted: Path) -> None:
    done = call(conducted, "experiment", "report", "--json")
    assert done.code == 0, done.err
    facts = done.json
    (task,) = facts["tasks"]
    runs = {item["thread"]: item for item in call(conducted, "list", "--json").json}
    assert (facts["experiment"], facts["finished"], task["unit"]) == ("trial", 4, "x")
    for cell in task["cells"]:
        bests = [runs[item["run"]]["best"]["value"] for item in cell["searches"]]
        whole = next(item for item in cell["at"] if (item["budget"], item["amount"]) == ("evaluations", 9))
        assert whole["mean"] == pytest.approx(math.sqrt(math.prod(bests)))
        assert (whole["reached"], whole["found"], whole["best"]) == (2, 2, max(bests))
        for item in cell["searches"]:
            spent = call(conducted, "show", item["run"], "--json").json["spend"]
            last = item["curve"][-1]
            assert (last["evaluations"], last["tokens"]) == (9, spent["input_tokens"] + spent["output_tokens"])
            assert 0 < item["distinct_replies"] <= item["replies"]
    (comparison,) = task["comparisons"]
    assert (comparison["first"], comparison["second"], comparison["pairs"]) == ("priority", "puct", 2)
    assert not comparison["supported"]
    assert "too few searches" in facts["power"]
    text = call(conducted, "experiment", "report", "trial.toml", "--at", "evaluations=4", "--at", "tokens=900").out
    assert "AT 4 EVALUATIONS" in text
    assert "AT 900 TOKENS" in text
    assert "compared at 4 evaluations" in text
    assert "not supported by the data:" in text
    assert "Holm's rule for 1 comparison;" in text


def test_a_report_as_a_page_and_an_image(conducted: Path) -> None:
    done = call(conducted, "experiment", "report", "trial", "--html", "trial.html", "--png", "trial.png")
    assert done.code == 0, done.err
    page = (conducted / "trial.html").read_text()
    assert (conducted / "trial.png").read_bytes().startswith(b"\x89PNG")
    for needed in ("<svg", "puct", "policy = puct", "Compared at 9 evaluations", "Holm&#39;s rule"):
        assert needed in page
    outside = re.findall(r"""(?:src|href)=["'](?!#)([^"']*)|url\((?!#)([^)]*)|<script|@import""", page)
    assert outside == [], "the page needs nothing but itself"
    again = call(conducted, "experiment", "report", "trial", "--html", "again.html")
    assert (again.code, (conducted / "again.html").read_text()) == (0, page)


def test_reports_that_cannot_be_given(conducted: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    for arguments, words in (
        (("other",), "there is no experiment 'other'; there are trial"),
        (("--at", "rounds=3"), "--at 'rounds=3': write evaluations=N, tokens=N or usd=N"),
        (("none.toml",), "none.toml: cannot be read"),
    ):
        done = call(conducted, "experiment", "report", *arguments)
        assert (done.code, words in done.err) == (2, True), done.err
    assert call(tmp_path_factory.mktemp("empty"), "experiment", "report").code == 2
