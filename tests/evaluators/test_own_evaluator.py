"""Users' own evaluators: what they may return, that they are confined, and that their word is marked as theirs."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from evaluators.errors import TaskError
from evaluators.evaluation import Effort, Environment
from evaluators.resolve import resolve_task
from evaluators.solution import Solution
from evaluators.task import Task, contract_solution
from evaluators.user_verdict import NOTE, UserVerdicts
from evaluators.worker.status import Status
from graph.presets import resolve
from nodes.prompting.asked import asked
from tests.cli.conftest import call

PROGRAM = "VALUE = 4.0\n\n\ndef search():\n    return VALUE\n"
BY_PATH = '''"""Find a large number."""
import importlib.util
import helper

SEED = "seed.py"
FILES = ["helper.py"]
GOAL = "max"
TIMEOUT_S = 5

def evaluate(program_path):
    spec = importlib.util.spec_from_file_location("program", program_path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return {"combined_score": helper.double(program.search()), "size": 1, "note": "well done"}
'''
BY_TEXT = '''"""Find a short text."""
GOAL = "min"
UNIT = "letters"
ENTRY_POINT = "search"

def evaluator(candidate):
    return float(len(candidate)), {"advice": "shorter", "seen": candidate[:5]}
'''


async def known() -> Environment:
    return Environment(device="test", torch="0")


@pytest.fixture
async def judge() -> AsyncIterator[UserVerdicts]:
    judge = UserVerdicts(known)
    yield judge
    await judge.close()


def made(folder: Path, text: str) -> Task:
    (folder / "own.py").write_text(text)
    (folder / "seed.py").write_text(PROGRAM)
    (folder / "helper.py").write_text("def double(x):\n    return 2 * x\n")
    task = resolve_task(str(folder / "own.py"))
    for file in folder.glob("*.py"):
        file.unlink()
    return task


def program(task: Task, text: str) -> Solution:
    return contract_solution(task.contracts["python"], "python", {"program.py": text})


async def test_a_path_and_metrics(tmp_path: Path, judge: UserVerdicts) -> None:
    task = made(tmp_path, BY_PATH)
    seed = task.seed("python")
    assert seed is not None
    assert (task.verdict, seed.entry_point, seed.binding) == ("user", "search", "file")
    better = program(task, PROGRAM.replace("4.0", "5.0"))
    verdict = await judge.evaluate(task, better, "certify", seed)
    assert (verdict.status, verdict.tier, verdict.notes) == (Status.PASSED, "certified", (NOTE,))
    assert verdict.protocol == "user-verdict-1"
    assert verdict.objective is not None
    assert (verdict.objective.value, verdict.objective.low, verdict.objective.high) == pytest.approx((10, 10, 10))
    assert verdict.versus_rival is not None
    assert verdict.versus_rival.value == pytest.approx(1.25)
    assert "well done" in verdict.log

    both = await judge.compare(task, [seed, program(task, "def search():\n    return -1.0\n"), better], "search")
    assert [one.status.value for one in both.evaluations] == ["passed", "wrong_values", "passed"]
    assert "combined_score is -2, not above 0" in both.evaluations[1].message
    assert [pair.ratio.value for pair in both.pairs] == [pytest.approx(0.8)]

    for text, status, message in (
        ("raise RuntimeError('broken')\n", "runtime_error", "broken"),
        ("import os\nos._exit(0)\n", "crashed", "exited with code 0"),
        ("def search():\n    while True:\n        pass\n", "timeout", "no end within 5 s"),
        ("import socket\nsocket.socket()\n", "runtime_error", "not permitted"),
        ("def search():\n    return float('nan')\n", "wrong_values", "nan"),
    ):
        failed = await judge.evaluate(task, program(task, text), "check")
        assert (failed.status.value, failed.objective) == (status, None), text
        assert message in failed.message, text


FORGED: dict[str, tuple[dict[str, Any], str, str]] = {
    "a second figure": ({"metrics": {"combined_score": 2}, "searched": {"combined_score": 2}}, "passed", ""),
    "such figures that are none": ({"metrics": {"combined_score": 2}, "searched": [1]}, "passed", ""),
    "a status of ours": (
        {"failed": {"status": "integrity", "message": "", "log": ""}}, "runtime_error", "no usable answer",
    ),
    "no status": ({"failed": {"status": "lost", "message": "", "log": ""}}, "runtime_error", "no usable answer"),
    "half a failure": ({"failed": {}}, "runtime_error", "no usable answer"),
    "a number without end": ({"metrics": {"combined_score": 10**400}}, "wrong_values", "is inf"),
    "half a character": ({"metrics": {"combined_score": 2}, "feedback": "\ud800"}, "runtime_error", "is not JSON"),
}  # fmt: skip


async def test_whatever_a_program_answers_in_its_evaluators_place_is_a_verdict_on_it(
    tmp_path: Path, judge: UserVerdicts
) -> None:
    task = made(tmp_path, BY_PATH)
    for what, (answer, status, message) in FORGED.items():
        forging = f"import json\njson.JSONEncoder.encode = lambda *_: {json.dumps(answer)!r}\n"
        efforts: tuple[Effort, ...] = ("search", "certify")
        for effort in efforts:
            verdict = await judge.evaluate(task, program(task, PROGRAM + forging), effort)
            assert (verdict.status.value, verdict.provisional) == (status, None), what
            assert message in verdict.message, what
            assert json.loads(verdict.model_dump_json())["status"] == status


async def test_a_cancelled_verdict_ends_its_process(tmp_path: Path, judge: UserVerdicts) -> None:
    task = made(tmp_path, BY_PATH.replace("TIMEOUT_S = 5", "TIMEOUT_S = 600"))
    assert (await judge.evaluate(task, program(task, PROGRAM), "search")).passed
    endless = program(task, "def search():\n    while True:\n        pass\n")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(judge.evaluate(task, endless, "search"), 1)
    async with asyncio.timeout(200):  # Far below the limit of the endless one, which would be waited for.
        assert (await judge.evaluate(task, program(task, PROGRAM), "search")).passed


async def test_a_text_and_a_pair(tmp_path: Path, judge: UserVerdicts) -> None:
    task = made(tmp_path, BY_TEXT)
    verdict = await judge.evaluate(task, program(task, PROGRAM), "search", program(task, PROGRAM + "# longer\n"))
    assert verdict.objective is not None
    assert verdict.objective.value == len(PROGRAM)
    assert verdict.versus_rival is not None
    assert verdict.versus_rival.value > 1
    assert json.loads(verdict.log) == {"advice": "shorter", "seen": "VALUE"}
    assert (task.objective.goal, task.objective.unit) == ("min", "letters")


REFUSED = {
    "an entry point": (BY_TEXT.replace('ENTRY_POINT = "search"', ""), "ENTRY_POINT: must name"),
    "a file elsewhere": (BY_PATH.replace('["helper.py"]', '["../helper.py"]'), "FILES: '../helper.py' is not the name"),
    "a seed elsewhere": (BY_PATH.replace('"seed.py"', '"/etc/hosts"'), "SEED: '/etc/hosts' is not the name"),
    "a missing file": (BY_PATH.replace('"helper.py"', '"other.py"'), "FILES: {folder}/other.py: no such file"),
    "a missing seed": (BY_PATH.replace('"seed.py"', '"none.py"'), "SEED: {folder}/none.py: no such file"),
    "a goal": (BY_PATH.replace('"max"', '"most"'), "GOAL: must be 'max' or 'min'"),
    "a metric": (BY_PATH + "METRIC = 5\n", "METRIC: must be a text"),
    "a limit": (BY_PATH + "TIMEOUT_S = 1e999\n", "TIMEOUT_S: must be less than"),
    "a true limit": (BY_PATH + "TIMEOUT_S = True\n", "TIMEOUT_S: must be a number"),
    "a constant": (BY_PATH.replace("TIMEOUT_S", "TIMEOUT_MS"), "did you mean 'TIMEOUT_S'"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what: str, tmp_path: Path) -> None:
    text, reason = REFUSED[what]
    with pytest.raises(TaskError) as caught:
        made(tmp_path, text)
    assert reason.replace("{folder}", str(tmp_path)) in str(caught.value)


def test_a_coder_reads_the_evaluator(tmp_path: Path) -> None:
    task = made(tmp_path, BY_PATH)
    for variant in ("default", "terse", "paper"):
        prompt = asked(task, resolve(None, {"prompt_variant": variant}), "coder", "first").system
        assert "combined_score" in prompt
        assert "def evaluate(program_path)" in prompt
        assert "defines `search`" in prompt


def test_a_search_with_an_evaluator_says_whose_verdict_it_is(tmp_path: Path) -> None:
    for name, text in (("own.py", BY_PATH), ("seed.py", PROGRAM), ("helper.py", "def double(x):\n    return 2 * x\n")):
        (tmp_path / name).write_text(text)
    turned = PROGRAM.replace(
        "VALUE = 4.0", "# ksearch: knob VALUE = 4.0 | 6.0 | 5.0 ; Return a larger number\nVALUE = 4.0"
    )
    (tmp_path / "seed.py").write_text(turned)
    done = call(tmp_path, "run", "own.py", "--evaluations", 2, "--json")
    assert done.code == 0, done.err
    assert (done.json["best"]["objective"], done.json["best"]["verdict"]) == (12.0, "user")
    shown = call(tmp_path, "show", "own-1")
    assert "the user's own verdict" in shown.out


ANSWERS = {
    "async def evaluate(path):\n    return 2.0\n": "",
    "class Result:\n    __slots__ = ('metrics', 'artifacts')\n\n\ndef evaluate(path):\n    result = Result()\n"
    "    result.metrics, result.artifacts = {'score': 2}, {'note': 1}\n    return result\n": '{\n "note": 1\n}',
    "def evaluate(path):\n    return {'score': 2, 'huge': 10**400}\n": '{\n "huge": 1' + "0" * 400 + "\n}",
    "def evaluate(path):\n    return 2, {(1, 2): 3}\n": "{(1, 2): 3}",
    "def evaluate(path):\n    seen = []\n    seen.append(seen)\n    return 2, seen\n": "[[...]]",
    "def evaluate(path):\n    return 2, 'half \\ud800'\n": "half ?",
}


@pytest.mark.parametrize("text", ANSWERS)
async def test_odd_answers_are_understood(text: str, tmp_path: Path, judge: UserVerdicts) -> None:
    task = made(tmp_path, f"ENTRY_POINT = 'search'\n{text}")
    verdict = await judge.evaluate(task, program(task, PROGRAM), "search")
    assert verdict.objective is not None, verdict
    assert (verdict.objective.value, verdict.log) == (2.0, ANSWERS[text])
