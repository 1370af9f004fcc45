"""`ksearch answer`: what waits for a person, where the prompts go, and what becomes of the replies."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import SCRIPTED, Call, call, command, environment
from tests.replies import plan, program

MANUAL = ("--planner", "manual", "--coder", "manual", "--evaluator", "scripted")
RUN = ("run", "scripted", *MANUAL, "--set", "stagnation=1")


@pytest.fixture(scope="session")
def _asked_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asked")
    done = call(folder, *RUN, "--evaluations", 2, "--width", 2)
    assert done.code == 3, done.err
    (folder / "plan.json").write_text(plan("Tile", "Unroll", "Fuse"))
    done = call(folder, "answer", "--file", "plan.json")
    assert done.code == 3, done.err
    return folder


@pytest.fixture
def asked(_asked_home: Path, ksearch: Call, tmp_path: Path) -> Call:
    """The command line, in a folder with the run `scripted-1`: two cycles at a time, whose coders wait."""
    shutil.copytree(_asked_home, tmp_path, dirs_exist_ok=True)
    return ksearch


def ids(ksearch: Call) -> list[str]:
    return [item["id"] for item in ksearch("answer", "--json").json]


def test_a_run_pauses_at_questions_and_says_so(ksearch: Call) -> None:
    done = ksearch(*RUN, "--home", "my runs")
    assert done.code == 3
    assert (
        done.out.splitlines()[-1]
        == "paused. 1 question waits for an answer: ksearch answer scripted-1 --home 'my runs'"
    )
    assert ksearch("tree", "--home", "my runs").out == "root  no plan yet\n"
    (question,) = ksearch("show", "--json", "--home", "my runs").json["questions"]
    assert question.pop("id").startswith("planner-r0-")
    assert question == {"role": "planner", "round": 0, "cycle": 0, "sample": 0, "turn": 0}
    assert "1 question waits for an answer" in ksearch("show", "--home", "my runs").out
    again = ksearch("resume", "--home", "my runs", "--json")
    assert again.code == 3, "resuming without an answer asks again"
    assert len(again.json["questions"]) == 1
    assert again.json["spend"]["unknown_calls"] == 0


def test_questions_are_listed_and_written(asked: Call, tmp_path: Path) -> None:
    lines = asked("answer").out.splitlines()
    assert lines[0] == "scripted-1: 2 questions wait for answers"
    assert [line.split("  ", 1)[1] for line in lines[1:3]] == [
        "coder, round 1, cycle 1, sample 1",
        "coder, round 1, cycle 2, sample 1",
    ]
    listed = asked("answer", "--json").json
    assert [(item["role"], item["round"], item["cycle"], item["sample"], item["turn"]) for item in listed] == [
        ("coder", 1, 1, 1, 0),
        ("coder", 1, 2, 1, 0),
    ]
    assert asked("answer", "--write", "questions").code == 0
    for item in listed:
        text = (tmp_path / "questions" / f"{item['id']}.prompt.md").read_text()
        assert text == f"{item['system']}\n\n{item['prompt']}"
    assert "Unroll" in listed[1]["prompt"]


def test_replies_come_from_a_folder_and_the_rest_goes_on_waiting(asked: Call, tmp_path: Path) -> None:
    first, second = ids(asked)
    folder = tmp_path / "questions"
    folder.mkdir()
    (folder / f"{second}.reply.md").write_text(program("objective = 1.5", 2))
    (folder / f"{first}.reply.md").write_text("  \n")
    (folder / "planner-r0-000000.reply.md").write_text("to a question that nobody asked")
    done = asked("answer", "--from", "questions")
    assert done.code == 3
    assert f"{first} goes on waiting" in done.out
    assert done.out.splitlines()[-1] == "paused. 1 question waits for an answer: ksearch answer scripted-1"
    assert ids(asked) == [first], "the question is the same"
    (folder / f"{first}.reply.md").write_text(program("objective = 2.5", 1))
    done = asked("answer", "--from", "questions", "--json")
    assert done.code == 0
    assert done.json["status"] == "finished"
    assert done.json["questions"] == []
    assert done.json["spend"]["evaluations"] == 2
    assert done.json["best"]["ratio"] == 2.5
    assert (done.json["spend"]["by"]["coder manual"]["calls"], done.json["spend"]["usd"]) == (2, 0)


def test_a_reply_from_standard_input_and_an_id_by_its_beginning(asked: Call, tmp_path: Path) -> None:
    answer = ("answer", "--id", "coder-r1-c2", "--file", "-")
    done = subprocess.run(
        command(*answer), cwd=tmp_path, env=environment(), input=program("objective = 1.5", 2).encode(),
        capture_output=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    (left,) = ids(asked)
    assert left.startswith("coder-r1-c1-s1-")


def test_a_useless_reply_is_asked_about_under_another_id(asked: Call, tmp_path: Path) -> None:
    """So that a reply that lies in a folder is never taken for the answer to what was wrong with it."""
    first, second = ids(asked)
    folder = tmp_path / "questions"
    folder.mkdir()
    (folder / f"{first}.reply.md").write_text("I would rather not.")
    (folder / f"{second}.reply.md").write_text(program("status = timeout", 2))
    done = asked("answer", "--from", "questions", "--write", "questions")
    assert done.code == 3
    (corrected,) = ids(asked)
    assert corrected.startswith("coder-r1-c1-s1-t1-")
    text = (folder / f"{corrected}.prompt.md").read_text()
    assert "I would rather not." in text
    assert "## What was wrong with it" in text
    done = asked("answer", "--from", "questions")
    assert done.code == 2
    assert f"such as {corrected}.reply.md" in done.err
    assert ids(asked) == [corrected]


def test_whole_searches_can_be_answered_from_one_folder(ksearch: Call, tmp_path: Path) -> None:
    folder = tmp_path / "questions"
    code = ksearch(*RUN, "--evaluations", 3).code
    assert ksearch("answer", "--write", "questions").code == 0
    number = 0
    while code == 3:
        (prompt,) = [path for path in folder.glob("*.prompt.md") if not _reply(path).exists()]
        text = plan(f"Tile {number}", f"Unroll {number}", f"Fuse {number}")
        _reply(prompt).write_text(
            text if prompt.name.startswith("planner") else program(f"objective = {1.2 + number / 10}", number)
        )
        number += 1
        assert number < 20
        done = ksearch("answer", "--from", "questions", "--write", "questions", "--record", "run.jsonl")
        code = done.code
    assert code == 0
    shown = ksearch("show", "--json").json
    assert shown["spend"]["evaluations"] == 3
    assert len(list(folder.glob("*.reply.md"))) == number
    replies = [line for line in (tmp_path / "run.jsonl").read_text().splitlines() if '"kind": "reply"' in line]
    assert len(replies) == number


def _reply(prompt: Path) -> Path:
    return prompt.with_name(prompt.name.replace(".prompt.", ".reply."))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--id", "coder"), "--file"),
        (("--file", "reply.md"), "name the question with --id; 2 wait: coder-r1-c1-s1-"),
        (("--id", "coder-r1", "--file", "reply.md"), "--id coder-r1: 2 wait"),
        (("--id", "coder-r7", "--file", "reply.md"), "--id coder-r7: 2 wait"),
        (("--id", "coder-r1-c1", "--file", "none.md"), "none.md: cannot be read"),
        (("--id", "coder-r1-c1", "--file", "latin.md"), "latin.md: is not a text in UTF-8"),
        (("--from", "none"), "there is no such folder"),
        (("--from", "empty"), "empty holds no reply to a question that waits"),
        (("--from", "empty", "--file", "reply.md"), "not from both"),
    ],
)
def test_what_cannot_be_taken_says_why_and_leaves_the_questions(
    asked: Call, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "reply.md").write_text("text")
    (tmp_path / "latin.md").write_bytes(b"\xe9t\xe9")
    done = asked("answer", "scripted-1", *arguments)
    assert done.code == 2
    assert says in done.err
    assert len(done.err.splitlines()) == 1
    assert len(ids(asked)) == 2


def test_a_run_that_waits_for_nothing(ksearch: Call, tmp_path: Path) -> None:
    assert ksearch("run", "scripted", *SCRIPTED, "--evaluations", 1).code == 0
    done = ksearch("answer")
    assert (done.code, done.out) == (0, "scripted-1 waits for no answer\n")
    assert ksearch("answer", "--json").json == []
    (tmp_path / "reply.md").write_text("text")
    done = ksearch("answer", "--file", "reply.md")
    assert done.code == 2
    assert "scripted-1 waits for no answer (finished)" in done.err
