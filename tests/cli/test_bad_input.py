"""Whatever is typed or found wrong: one line that says what to do, the right exit code, nothing lost."""

import shlex
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from checkpoints.schema import APPLICATION_ID
from graph.cli.machine import lacks_gpu
from tests.cli.conftest import ROOT, SCRIPTED, Call, Done, call, command, environment

TASK = ROOT / "evaluators" / "tasks" / "softmax"


def one_line(done: Done, code: int) -> str:
    assert done.code == code, done.err
    lines = done.err.splitlines()
    assert len(lines) == 1, done.err
    assert lines[0].startswith("error: ")
    assert "Traceback" not in done.err
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "sofmax"], "did you mean 'softmax'"),
        (["run", "--widht", "2"], "--width"),
        (["run", "--width", "two"], "--width"),
        (["run", "--set", "widht=2"], "did you mean 'width'"),
        (["run", "--set", "width=0"], "width: 0 is not allowed"),
        (["run", "--set", "width"], "write it as key=value"),
        (["run", "--preset", "papper"], "choose one of default, paper"),
        (["run", "--policy", "puctt"], "policy: 'puctt' is not allowed"),
        (["run", "--evaluator", "locale"], "choose one of local"),
        (["run", "--config", "missing.toml"], "missing.toml: cannot be read"),
        (["rnu"], "Did you mean 'run'"),
        (["evaluate", "softmax", "missing.cpp"], "missing.cpp: cannot be read"),
        (["evaluate", "softmax"], "files"),
        (["tasks", "show", "sofmax"], "did you mean 'softmax'"),
        (["tasks", "show", "mla"], "'mla_paged_decode_h16_ckv512_kpe64_ps1' or 'mla_paged_prefill_causal_h16"),
        (["tasks", "show", "nosuch"], "no task 'nosuch'; `ksearch tasks` lists the built-in ones; yours are ./FOLDER"),
        (["run", "./nowhere"], "nowhere"),
        (["run", "--planner", "exec:no-such-agent", "--coder", "scripted"], "exec:no-such-agent: there is no such"),
        (["run", "--coder", "openai:a@ftp://b/v1"], "must be http://HOST[:PORT][/PATH]"),
        (["list", "--home", "mysql://b/runs"], "runs live in a folder, or at postgresql://SERVER/DATABASE"),
        (["list", "--home", "h" * 300], "File name too long: name the folder of the runs"),
        (["list", "--home", "postgresql://"], "names no server: write postgresql://SERVER/DATABASE"),
        (["export", "--format", "yaml"], "--format"),
    ],
)
def test_what_is_typed_wrong(ksearch: Call, tmp_path: Path, arguments: list[str], words: str) -> None:
    assert words in one_line(ksearch(*arguments), 2)
    assert list(tmp_path.iterdir()) == [], "nothing is made for a call that was wrong"


def test_a_config_file_with_an_unknown_key(ksearch: Call, tmp_path: Path) -> None:
    (tmp_path / "options.toml").write_text("samplse = 2\n")
    assert "did you mean 'samples'" in one_line(ksearch("run", "--config", "options.toml"), 2)


def test_no_command_at_all_shows_the_help(ksearch: Call) -> None:
    done = ksearch()
    assert done.code == 2
    assert "Usage: ksearch" in done.out


def test_an_unknown_run_names_the_nearest(finished: Path) -> None:
    for name in ("show", "tree", "resume", "export"):
        assert "the nearest is 'scripted-1'" in one_line(call(finished, name, "scripted-9"), 2)


def test_a_malformed_task_names_file_key_and_reason(ksearch: Call, tmp_path: Path) -> None:
    shutil.copytree(TASK, tmp_path / "task")
    file = tmp_path / "task" / "task.toml"
    file.write_text(file.read_text().replace("rtol", "rtoll"))
    line = one_line(ksearch("run", "./task"), 2)
    assert "task.toml" in line
    assert "tolerance.rtoll: unknown key" in line
    assert "'rtol'" in line
    file.write_text("name = ")
    assert "task.toml" in one_line(ksearch("tasks", "show", "./task"), 2)


def test_a_database_of_another_program(ksearch: Call, tmp_path: Path) -> None:
    (tmp_path / ".ksearch").mkdir()
    file = tmp_path / ".ksearch" / "ksearch.sqlite"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = file.read_bytes()
    for arguments in (("show",), ("list",), ("run", "scripted", *SCRIPTED)):
        assert "belongs to another program" in one_line(ksearch(*arguments), 2)
    assert file.read_bytes() == before


def test_a_database_of_a_newer_version(finished: Path) -> None:
    with sqlite3.connect(finished / ".ksearch" / "ksearch.sqlite") as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    for arguments in (("show",), ("resume",), ("run", "scripted", *SCRIPTED)):
        assert "upgrade ksearch" in one_line(call(finished, *arguments), 2)


def test_a_locked_database(finished: Path) -> None:
    connection = sqlite3.connect(finished / ".ksearch" / "ksearch.sqlite", isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        done = call(finished, "resume")
    finally:
        connection.close()
    assert done.code == 1
    assert "another process keeps" in done.err
    assert len(done.err.splitlines()) == 1
    assert call(finished, "resume").code == 0


def test_a_home_that_is_a_file(ksearch: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for arguments in (("run", "scripted", *SCRIPTED), ("list",), ("show",), ("prune",)):
        line = one_line(ksearch(*arguments, "--home", "file"), 2)
        assert "file is a file: name the folder of the runs (--home, or KSEARCH_HOME)" in line


def test_a_missing_blob_is_told_and_nothing_is_made_up(finished: Path) -> None:
    shutil.rmtree(finished / ".ksearch" / "blobs")
    line = one_line(call(finished, "show"), 1)
    assert "is missing" in line


def test_debug_shows_the_traceback(ksearch: Call) -> None:
    done = ksearch("show", "--debug")
    assert done.code == 2
    assert "Traceback" in done.err
    assert done.err.splitlines()[-1].startswith("error: there are no runs")


def test_an_error_nobody_expected_is_one_line_too(finished: Path) -> None:
    with sqlite3.connect(finished / ".ksearch" / "ksearch.sqlite") as connection:
        connection.execute("UPDATE threads SET status = 'paused', updated_at = 'never'")
    connection.close()
    done = call(finished, "show")
    assert done.code == 1
    assert "run again with --debug" in one_line(done, 1)
    assert "Traceback" in call(finished, "show", "--debug").err


def test_a_reference_that_raises(ksearch: Call, tmp_path: Path) -> None:
    shutil.copytree(TASK, tmp_path / "task")
    file = tmp_path / "task" / "reference.py"
    file.write_text(file.read_text() + '\n\ndef reference(**inputs):\n    raise RuntimeError("no such formula")\n')
    done = ksearch("run", "./task", "--evaluations", 1)
    assert done.code == 2, done.out + done.err
    assert "no such formula" in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.skipif(not lacks_gpu("cuda"), reason="there is a GPU, so a search may begin")
def test_a_search_on_a_gpu_that_is_not_there_is_refused_before_it_begins(ksearch: Call, tmp_path: Path) -> None:
    done = ksearch("run", "trimul")
    assert done.code == 2
    assert "`--evaluator deferred`" in done.err
    assert "docs/without-gpu.md" in done.err
    assert not (tmp_path / ".ksearch").exists()
    deferred = ("--planner", "scripted", "--coder", "scripted", "--evaluator", "deferred")
    assert ksearch("run", "trimul", *deferred).code == 3
    done = ksearch("resume", "trimul-1", "--set", "evaluator=local")
    assert (done.code, "this machine has none" in done.err) == (2, True)


def test_no_compiler(ksearch: Call) -> None:
    done = ksearch("run", "softmax", "--language", "cpp", "--evaluations", 1, PATH="/nowhere")
    assert done.code == 1
    assert "g++ was not found" in done.out + done.err
    assert len(done.err.splitlines()) <= 1


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("openai:gpt-5.2", "openai:gpt-5.2 needs a key: set OPENAI_API_KEY"),
        ("exec:cat until 3, google_genai:gemini-3-pro-preview", "set GOOGLE_API_KEY or GEMINI_API_KEY"),
        ("cassette:nowhere.jsonl", "nowhere.jsonl: cannot be read as a cassette"),
    ],
)
@pytest.mark.parametrize("role", ["--planner", "--coder"])
def test_a_model_that_cannot_be_asked_is_noticed_before_anything_is_begun(
    ksearch: Call, tmp_path: Path, role: str, model: str, words: str
) -> None:
    others = {"--planner": "scripted", "--coder": "scripted", role: model}
    done = ksearch("run", "scripted", "--evaluator", "scripted", *(part for pair in others.items() for part in pair))
    assert done.code == 2, done.err
    assert words in done.err
    assert "\n" not in done.err.strip()
    assert not (tmp_path / ".ksearch").exists()


@pytest.mark.parametrize("arguments", [("log",), ("list",), ("show", "--json"), ("run", "scripted", *SCRIPTED)])
def test_an_output_that_takes_nothing(finished: Path, arguments: tuple[str, ...]) -> None:
    for mark, code, words in ((">/dev/full", 1, "error: the output cannot be written (No space left"), (">&-", 0, "")):
        line = f"{shlex.join(command(*arguments))} {mark}"
        done = subprocess.run(["sh", "-c", line], cwd=finished, env=environment(), capture_output=True, text=True)
        assert (done.returncode, len(done.stderr.splitlines())) == (code, code), done.stderr
        assert done.stderr.startswith(words)
    assert call(finished, "list").code == 0
