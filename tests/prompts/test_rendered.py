"""What models are asked: golden texts, and what must hold for every variant.

The golden files are written anew with KSEARCH_WRITE_GOLDEN=1; read the difference before it is committed.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from evaluators.errors import UsageError
from evaluators.objective import Objective
from evaluators.resolve import resolve_task
from evaluators.scripted_tasks import scripted_task
from evaluators.solution import Language
from evaluators.task import Contract, Scalar, Task, Tensor, Workload
from evaluators.worker.status import Status
from graph.config import SearchConfig
from graph.presets import resolve
from nodes.models.chat import ChatRequest
from nodes.planner_reply import PlannerReply, validate
from nodes.prompting.asked import asked
from nodes.prompting.coder_prompt import KINDS, Failure
from nodes.prompting.signature import signature
from nodes.prompting.specification import shown_reference, system_prompt
from nodes.replies.edits import edited_program
from nodes.replies.json_reply import find_json
from nodes.replies.program import read_program
from prompts.library import load_variant, variants

GOLDEN = Path(__file__).parents[1] / "data/prompts"
VARIANTS = [variant.name for variant in variants()]
Role = Literal["planner", "coder"]
PROMPTS: list[tuple[Role, str]] = [("planner", "first"), ("planner", "revise"), *[("coder", kind) for kind in KINDS]]
TASK = scripted_task(2, 2)


def config(variant: str, **options: object) -> SearchConfig:
    return resolve("default", {"task": "scripted", "prompt_variant": variant, **options})


def ask(variant: str, role: Role, kind: str, task: Task = TASK, **options: object) -> ChatRequest:
    return asked(task, config(variant, **options), role, kind)


def tokens(text: str) -> int:
    """About what a tokenizer makes of it: words and single marks."""
    return len(re.findall(r"\w+|[^\w\s]", text))


def check_golden(name: str, text: str) -> None:
    file = GOLDEN / name
    if "KSEARCH_WRITE_GOLDEN" in os.environ:
        file.write_text(f"{text}\n")
    assert f"{text}\n" == file.read_text(), f"{file} differs: see the docstring of this module"


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("role", "kind"), PROMPTS)
def test_prompts_are_as_reviewed(variant: str, role: Role, kind: str) -> None:
    check_golden(f"{variant}-{role}-{kind}.md", ask(variant, role, kind).prompt)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("role", ["planner", "coder"])
def test_prefixes_are_as_reviewed(variant: str, role: Role) -> None:
    check_golden(f"{variant}-{role}-system.md", ask(variant, role, "first").system)


def test_there_is_no_golden_file_too_many() -> None:
    wanted = {f"{variant}-{role}-{kind}.md" for variant in VARIANTS for role, kind in PROMPTS}
    wanted |= {f"{variant}-{role}-system.md" for variant in VARIANTS for role in ("planner", "coder")}
    assert {file.name for file in GOLDEN.iterdir()} == wanted


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_prefix_of_a_role_is_the_same_in_every_prompt(variant: str) -> None:
    systems: dict[Role, set[str]] = {"planner": set(), "coder": set()}
    for role, kind in PROMPTS:
        systems[role].add(ask(variant, role, kind).system)
    assert [len(found) for found in systems.values()] == [1, 1]


@pytest.mark.parametrize("variant", VARIANTS)
def test_rendering_twice_gives_the_same_request(variant: str) -> None:
    for role, kind in PROMPTS:
        assert ask(variant, role, kind).digest == ask(variant, role, kind).digest


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["softmax", "rmsnorm_linear", "trimul_small"])
def test_the_whole_specification_is_in_the_prefix(variant: str, name: str) -> None:
    task = resolve_task(name)
    for role in ("planner", "coder"):
        text = ask(variant, role, "first", task).system
        assert task.description.strip() in text
        assert signature(task, "cpp", task.contracts["cpp"]) in text
        assert shown_reference(task.reference) in text
        for workload in task.split("search"):
            assert workload.name in text
        for axis in (*task.inputs, *task.outputs, *task.axes, *task.constants):
            assert axis in text
        assert f"{task.tolerance.rtol:g}" in text
        assert "Vector registers" in text or variant == "terse"


@pytest.mark.parametrize("variant", VARIANTS)
def test_held_out_workloads_and_how_inputs_are_drawn_are_not_told(variant: str) -> None:
    hidden = Workload(name="unmistakable", split="held_out", axes={"n": 987654})
    task = TASK.model_copy(update={"workloads": (*TASK.split("search"), hidden)})
    for role, kind in PROMPTS:
        request = ask(variant, role, kind, task)
        text = request.system + request.prompt
        assert not any(word in text for word in ("unmistakable", "987654", "manual_seed", "def inputs"))


def test_the_terse_variant_takes_about_half_of_the_tokens() -> None:
    task = resolve_task("rmsnorm_linear")
    for role in ("planner", "coder"):
        shares = tokens(ask("terse", role, "first", task).system) / tokens(ask("default", role, "first", task).system)
        assert 0.35 < shares < 0.6


def test_the_paper_variant_asks_for_nothing_beyond_the_paper() -> None:
    for kind in ("first", "revise"):
        request = ask("paper", "planner", kind)
        assert not re.search("predict|confidence|difficulty|calibrat|reopen|re-open", request.system + request.prompt)
        assert not re.search("predicted|confidence|difficulty|reopen", str(request.reply_schema))
    assert "predicted_gain" in str(ask("default", "planner", "first").reply_schema)
    assert "reopen" in str(ask("terse", "planner", "first").reply_schema)


def test_calibration_is_shown_when_it_is_on() -> None:
    assert "predict" in ask("default", "planner", "revise").prompt
    assert "How well you predict" in ask("default", "planner", "revise").prompt
    assert "How well you predict" not in ask("default", "planner", "revise", calibration=False).prompt


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_planners_example_is_a_reply_that_would_be_read(variant: str) -> None:
    found = validate(find_json(ask(variant, "planner", "first").system), load_variant(variant).beyond_paper)
    assert isinstance(found, PlannerReply)
    kinds = {edit.kind for edit in found.edits}
    assert kinds == {"insert", "update", "prune"} | ({"reopen"} if variant != "paper" else set())


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_coders_example_is_a_reply_that_would_be_read(variant: str) -> None:
    contract = TASK.contracts["cpp"]
    assert contract.seed is not None
    text = ask(variant, "coder", "first").system.partition("# Reply" if variant == "terse" else "# Your reply")[2]
    program = contract.seed["seed.cpp"]
    assert read_program(text.replace("(the whole file)", program.strip()), contract, "cpp") == {"seed.cpp": program}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_coders_example_of_an_edit_is_a_reply_that_would_be_read(variant: str) -> None:
    contract = TASK.contracts["cpp"]
    assert contract.seed is not None
    system = ask(variant, "coder", "first", edit_format="search_replace").system
    lines = system.partition("# Reply" if variant == "terse" else "# Your reply")[2].split("\n")
    old = next(number for number, line in enumerate(lines) if "SEARCH" in line)
    new = next(number for number, line in enumerate(lines) if line == "=======")
    lines[old + 1], lines[new + 1] = "#include <cstdint>", "#include <stdint.h>"
    found = edited_program("\n".join(lines), contract.seed, "seed.cpp")
    assert found["seed.cpp"] == contract.seed["seed.cpp"].replace("<cstdint>", "<stdint.h>")


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("status", list(Status))
def test_every_status_has_words(variant: str, status: Status) -> None:
    rule = "threads" if status is Status.INTEGRITY else None
    failure = Failure(status.value, rule, "what was found", "printed ``` by it", ())
    text = load_variant(variant).render("failure.md", failure=failure)
    assert status.value in text
    assert "what was found" in text
    assert "````\nprinted ``` by it\n````" in text
    assert rule is None or rule in text


def languages() -> Iterator[tuple[Language, Task]]:
    cuda = {"cuda": Contract(entry_point="f", binding="plain_c"), "triton": Contract(entry_point="f", binding="dps")}
    scalars = {"x": Tensor(shape=("n",), dtype="bfloat16"), "a": Scalar(scalar="float32", description="A factor.")}
    yield "cpp", TASK
    yield "python", TASK
    gpu: tuple[Language, ...] = ("cuda", "triton")
    for language in gpu:
        task = Task.model_validate(
            {**dict(TASK), "device": "cuda", "contracts": cuda, "inputs": scalars, "arguments": ()}
        )
        yield language, task


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("language", "task"), list(languages()))
@pytest.mark.parametrize("hardware", [None, "h100", "b200"])
def test_every_language_and_sheet_can_be_rendered(
    variant: str, language: Language, task: Task, hardware: str | None
) -> None:
    for role, kind in PROMPTS:
        request = ask(variant, role, kind, task, language=language, hardware=hardware, samples=2)
        assert request.system
        assert "\n\n\n\n" not in request.system + request.prompt
    assert ("joined" in request.system) == (task.device == "cuda")


def test_a_language_without_a_contract_is_an_error() -> None:
    with pytest.raises(UsageError, match="task scripted has no contract for cuda; it has cpp, python"):
        ask("default", "coder", "first", language="cuda")


def test_an_unknown_sheet_is_an_error() -> None:
    with pytest.raises(UsageError, match="hardware sheet 'h201' is unknown; did you mean 'h200'"):
        ask("default", "coder", "first", hardware="h201")


def test_a_kind_that_a_role_does_not_have_is_an_error() -> None:
    with pytest.raises(UsageError, match="a planner has no prompt 'improve'; choose one of first, revise"):
        ask("default", "planner", "improve")


def test_without_a_seed_the_first_program_is_written_from_scratch() -> None:
    request = ask("default", "coder", "first", use_seed=False)
    assert "from scratch, with whole files" in request.prompt
    assert "there is no seed program" in ask("default", "planner", "first", use_seed=False).system
    assert "There is no program yet." in ask("default", "planner", "first", use_seed=False).prompt


def test_minimised_objectives_are_told() -> None:
    task = scripted_task(2, 2, objective=Objective(name="latency", goal="min", unit="ms"))
    assert "lower is better" in ask("default", "planner", "first", task).system


def test_options_that_bind_the_planner_are_told() -> None:
    system = ask("default", "planner", "first", flat=True, difficulty_ceiling=3, policy="puct").system
    assert '`parent` is "root".' in system
    assert "Above 3 an intent is never selected." in system
    assert "weighs V against what was measured" in system


@pytest.mark.parametrize(
    ("language", "binding", "wanted"),
    [
        ("cpp", "plain_c", 'extern "C" void f(\n    const uint16_t* x /* [n] bfloat16 bits */,\n    float a,\n'
                           "    float* y /* [n] */,\n    int64_t n);"),
        ("cuda", "plain_c", 'extern "C" void f(\n    const __nv_bfloat16* x /* [n] */,\n    float a,\n'
                            "    float* y /* [n] */,\n    int64_t n,\n    cudaStream_t stream);"),
        ("cuda", "torch", "void f(torch::Tensor x, float a, torch::Tensor y);\n"
                          'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("f", &f); }'),
        ("triton", "dps", "def f(x: torch.Tensor, a: float, y: torch.Tensor) -> None: ..."),
        ("python", "value", "def f(x: torch.Tensor, a: float) -> torch.Tensor: ..."),
        ("python", "custom_kernel", "def f(data) -> torch.Tensor:\n    x, a = data"),
        ("python", "model_new", "class f(torch.nn.Module):\n"
                                "    def forward(self, x: torch.Tensor, a: float) -> torch.Tensor: ..."),
    ],
)  # fmt: skip
def test_signatures(language: Language, binding: str, wanted: str) -> None:
    contract = Contract.model_validate({"entry_point": "f", "binding": binding})
    inputs = {"x": Tensor(shape=("n",), dtype="bfloat16"), "a": Scalar(scalar="float32")}
    task = Task.model_validate({**dict(TASK), "contracts": {language: contract}, "inputs": inputs, "arguments": ()})
    assert signature(task, language, contract) == wanted


def test_a_reference_is_shown_without_what_makes_inputs() -> None:
    source = (
        "import torch\n\n\n@torch.no_grad()\ndef inputs(axes):\n    return 1\n\n\ndef reference(x):\n    return x\n"
    )
    assert shown_reference(source) == "import torch\n\n\ndef reference(x):\n    return x"
    assert shown_reference("not python (") == "not python ("


def test_the_prefix_holds_no_measurement() -> None:
    variant = load_variant("default")
    system = system_prompt(variant, "planner_system.md", TASK, "cpp", config("default"))
    assert system == ask("default", "planner", "revise").system
