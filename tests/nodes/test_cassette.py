"""Recording a run and replaying it: the same tree from the file alone, and loud misses when the course is left."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkpoints.home import open_home
from checkpoints.logs import read
from evaluators.cassette import CassetteEvaluator
from evaluators.errors import UsageError
from evaluators.evaluation import Evaluation
from evaluators.recording import CassetteEntry, CassetteMiss, Header, Place, evaluation_digest, load_cassette
from evaluators.scripted import ScriptedEvaluator
from evaluators.scripted_tasks import SCRIPTED_TASKS
from graph import runs
from graph.config import SearchConfig
from graph.presets import resolve
from nodes.cassette import export_cassette
from nodes.llm_coder import LlmCoder
from nodes.llm_planner import LlmPlanner
from nodes.models.cassette import CassetteChat
from nodes.models.chat import ChatRequest
from nodes.models.scripted import ScriptedChat
from nodes.services import Services
from prompts.library import load_variant
from tests.replies import plan, program

TASK = SCRIPTED_TASKS["scripted"]
OPTIONS: dict[str, Any] = {"task": "scripted", "evaluator": "scripted", "max_evaluations": 6, "stagnation": 2}


PLANS = [plan("Tile", "Unroll", "Fuse"), "no idea", plan("Pack", parent="n1"), plan("Skip"), plan("Last")]
MARKS = [
    "objective = 1.5",
    "status = timeout",
    "objective = 1.4",
    "objective = 1.9",
    "status = crashed",
    "objective = 2",
]
PROGRAMS = ["a refusal", *(program(mark, number) for number, mark in enumerate(MARKS))]


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Services]:
    async with open_home(folder) as home, runs.opened_services(home) as means:
        yield means


async def outcome(means: Services, ended: runs.Ended) -> tuple[Any, list[Any], dict[str, Any]]:
    """What must not differ between a run and its replay: tree, attempts, spend without what the clock says."""
    attempts = [entry["result"] for entry in read(means.home.blobs, ended.state["attempts"])]
    spend = {key: value for key, value in ended.state["spend"].items() if key not in ("wall_s", "by")}
    return ended.state["tree"], attempts, spend


@pytest.fixture
async def recorded(tmp_path: Path) -> tuple[Path, Any]:
    """A search with models and noisy figures, recorded."""
    folder, file = tmp_path / "first", tmp_path / "run.jsonl"
    planner, coder = ScriptedChat(PLANS), ScriptedChat(PROGRAMS)
    async with opened(folder) as means:
        noisy = ScriptedEvaluator(noise=0.1)
        played = replace(
            means,
            make_planner=lambda config: LlmPlanner(planner, load_variant(config.prompt_variant)),
            make_coder=lambda config: LlmCoder(coder, load_variant(config.prompt_variant)),
            make_evaluator=lambda config: noisy,
        )
        config = resolve("paper", {**OPTIONS, "planner": "scripted", "coder": "scripted"})
        ended = await runs.start(played, config, lambda event: None)
        count = export_cassette(folder, ended.thread.name, file)
        assert count == len(await means.home.ledger.entries(ended.thread.uuid))
        return file, await outcome(means, ended)


def replaying(file: Path, **options: Any) -> SearchConfig:
    source = f"cassette:{file}"
    return resolve("paper", {**OPTIONS, "planner": source, "coder": source, "evaluator": source, **options})


async def test_a_replay_needs_nothing_but_the_file(recorded: tuple[Path, Any], tmp_path: Path) -> None:
    file, wanted = recorded
    async with opened(tmp_path / "second") as means:
        ended = await runs.start(means, replaying(file), lambda event: None)
        assert ended.status == "finished"
        assert await outcome(means, ended) == wanted
        again = tmp_path / "again.jsonl"
        export_cassette(tmp_path / "second", ended.thread.name, again)
    first, second = (file.read_text().splitlines()[1:] for file in (file, again))
    assert [_timeless(line) for line in first] == [_timeless(line) for line in second]


def _timeless(line: str) -> Any:
    entry = json.loads(line)
    entry["result"].pop("latency_s", None)
    return entry


async def test_another_course_is_a_miss_that_names_the_request(recorded: tuple[Path, Any], tmp_path: Path) -> None:
    file, _ = recorded
    async with opened(tmp_path / "second") as means:
        with pytest.raises(
            CassetteMiss, match=r"run.jsonl holds no reply for planner, round 0, .*there it has [0-9a-f]{12}"
        ):
            await runs.start(means, replaying(file, prompt_variant="terse"), lambda event: None)
        with pytest.raises(CassetteMiss, match=r"holds no reply for coder, round \d+, cycle 1, sample 4, turn 0"):
            await runs.start(means, replaying(file, stagnation=3), lambda event: None)


async def test_prompts_are_kept_on_request(recorded: tuple[Path, Any], tmp_path: Path) -> None:
    full = tmp_path / "full.jsonl"
    file, _ = recorded
    export_cassette(tmp_path / "first", "latest", full, prompts=True)
    assert full.stat().st_size > 3 * file.stat().st_size
    asked = [entry.asked for entry in load_cassette(full).entries if entry.kind == "reply"]
    assert all("extern" in item["system"] or "JSON" in item["system"] for item in asked)
    assert len(load_cassette(full).entries) == len(load_cassette(file).entries)


PLACE = Place(role="evaluator", round=3, cycle=1, sample=2)
SEED = TASK.seed("cpp")


def entry(place: Place, value: float) -> CassetteEntry:
    assert SEED is not None
    result = Evaluation.model_validate(
        {
            "status": "passed", "tier": "timed", "solution": SEED.digest, "task": TASK.digest, "effort": "search",
            "protocol": "p", "objective": {"value": value, "low": value, "high": value},
            "environment": {"device": "d", "torch": "t"},
        }
    )  # fmt: skip
    digest = evaluation_digest(TASK, SEED, "search", None)
    return CassetteEntry(kind="evaluation", place=place, digest=digest, result=result.model_dump(mode="json"))


def written(file: Path, *entries: CassetteEntry, header: Any = None) -> Path:
    lines = [header or Header(task=TASK.name, config={}).model_dump(), *(one.model_dump() for one in entries)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


async def test_a_program_measured_twice_has_the_figure_of_the_place(tmp_path: Path) -> None:
    assert SEED is not None
    later = PLACE.model_copy(update={"round": 4})
    evaluator = CassetteEvaluator.load(written(tmp_path / "c", entry(PLACE, 1.5), entry(later, 1.7)))
    figures = []
    for one in (
        evaluator.at(later),
        evaluator.at(PLACE),
        evaluator,
        evaluator.at(Place(role="x", round=9, cycle=0, sample=0)),
    ):
        verdict = await one.evaluate(TASK, SEED, "search")
        figures.append(verdict.objective.value if verdict.objective else None)
    assert figures == [1.7, 1.5, 1.5, 1.5]
    assert (await evaluator.environment()).device == "d"


async def test_what_was_not_measured_is_a_miss(tmp_path: Path) -> None:
    assert SEED is not None
    evaluator = CassetteEvaluator.load(written(tmp_path / "c", entry(PLACE, 1.5)))
    with pytest.raises(CassetteMiss, match=rf"no evaluation of program {SEED.digest[:12]} .* with effort certify"):
        await evaluator.evaluate(TASK, SEED, "certify")
    with pytest.raises(CassetteMiss, match=f"against {SEED.digest[:12]}"):
        await evaluator.evaluate(TASK, SEED, "search", SEED)
    with pytest.raises(CassetteMiss, match="holds no comparisons"):
        await evaluator.compare(TASK, [SEED], "search")
    with pytest.raises(CassetteMiss, match="holds no evaluation"):
        await CassetteEvaluator.load(written(tmp_path / "empty")).environment()
    await evaluator.close()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "record 1 is no part of a cassette"),
        ("{}\n", "record 1 is no part"),
        ('{"cassette": 99, "task": "t", "config": {}}\n', "version 99; this ksearch reads 1"),
        ('{"task": "t", "config": {}}\n{"kind": "poem"}\n', "record 2 is no part"),
        ('{"task": "t", "config": {}}\nnot json\n', "record 2 is no part"),
        ("\ud800", "cannot be read as a cassette"),
    ],
)
async def test_files_that_are_no_cassettes(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "c.jsonl"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(UsageError, match=rf"c.jsonl: .*{says}"):
        await CassetteChat(file).ask(ChatRequest(role="coder", prompt="", identity={}))


async def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read as a cassette"):
        await CassetteChat(tmp_path / "none").ask(ChatRequest(role="coder", prompt="", identity={}))
