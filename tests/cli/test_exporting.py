"""export: the best program and the evidence for it."""

import json
from pathlib import Path

from evaluators.evaluation import Evaluation
from evaluators.solution import Solution
from tests.cli.conftest import SCRIPTED, Call, call


def test_a_folder_with_program_and_evidence(finished: Path) -> None:
    done = call(finished, "export", "--json")
    folder = finished / "scripted-1"
    assert done.json["folder"] == "scripted-1"
    assert sorted(done.json["files"]) == sorted(path.name for path in folder.iterdir())
    solution = Solution.model_validate_json((folder / "solution.json").read_text())
    assert (folder / solution.main_file).read_text() == solution.files[solution.main_file]
    shown = call(finished, "show", "--json").json
    assert solution.digest == shown["best"]["solution"]
    evaluation = Evaluation.model_validate_json((folder / "evaluation.json").read_text())
    assert (evaluation.solution, evaluation.tier) == (solution.digest, "certified")
    assert json.loads((folder / "run.json").read_text())["thread"] == "scripted-1"
    page = (folder / "README.md").read_text()
    assert "2.00x faster than the baseline" in page
    steps = [line for line in page.splitlines() if line[:3] in ("1. ", "2. ", "3. ", "4. ")]
    assert steps == ["1. seed program: 1.00x", "2. n1 Unroll: 1.50x", "3. n4 Unroll more: 2.00x"]


def test_the_exported_program_evaluates_as_it_did(finished: Path) -> None:
    call(finished, "export", "--to", "best")
    name = json.loads((finished / "best" / "solution.json").read_text())["main_file"]
    files = (f"best/{name}", "best/solution.json")
    done = call(finished, "evaluate", "scripted", *files, "--evaluator", "scripted", "--json")
    digest = call(finished, "show", "--json").json["best"]["solution"]
    assert [(facts["ratio"], facts["solution"]) for facts in done.json["programs"]] == [(2.0, digest)] * 2


def test_a_folder_that_is_not_empty_is_left_alone(finished: Path) -> None:
    (finished / "mine").mkdir()
    (finished / "mine" / "README.md").write_text("mine")
    done = call(finished, "export", "--to", "mine")
    assert done.code == 2
    assert "--force" in done.err
    assert (finished / "mine" / "README.md").read_text() == "mine"
    assert call(finished, "export", "--to", "mine", "--force").code == 0
    assert (finished / "mine" / "README.md").read_text() != "mine"


def test_one_json_on_stdout_or_in_a_file(finished: Path) -> None:
    tree = call(finished, "export", "--format", "tree").json
    assert tree["incumbent"] == "n4"
    solution = Solution.model_validate(call(finished, "export", "--format", "solution").json)
    everything = call(finished, "export", "--format", "json").json
    assert everything["solution"] == solution.model_dump(mode="json")
    assert everything["run"] == call(finished, "show", "--json").json
    done = call(finished, "export", "--format", "solution", "--to", "there/best.json")
    assert done.code == 0
    assert Solution.model_validate_json((finished / "there" / "best.json").read_text()) == solution


def test_nothing_to_export(ksearch: Call) -> None:
    ksearch("run", "scripted", *SCRIPTED, "--no-seed-program", "--coder", "offline")
    done = ksearch("export")
    assert done.code == 1
    assert "no program that passed" in done.err
    assert ksearch("export", "--format", "tree").json["nodes"] == []


def test_a_program_that_flashinfer_bench_cannot_call_is_not_written_for_it(finished: Path) -> None:
    done = call(finished, "export", "--format", "flashinfer", "--to", "trace")
    assert done.code == 2
    assert "a program with binding plain_c cannot be written for flashinfer-bench" in done.err
    assert not (finished / "trace").exists()
