"""KernelBench problems: what is made of them, weights by seed, torch.compile beside, fast_p over a folder."""

from pathlib import Path

import pytest
import torch

from evaluators.adapters import kernelbench
from evaluators.adapters.probing import Unended
from evaluators.errors import TaskError
from evaluators.resolve import resolve_task
from evaluators.task import Scalar
from evaluators.worker.source import load_source
from graph.cli.kernelbench import fast_p, fast_p_lines, result_of
from graph.presets import resolve
from nodes.prompting.asked import asked
from tests.cli.conftest import call

LINEAR = '''"""A linear layer, divided and clipped."""
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, in_features, out_features, divisor):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.divisor = divisor

    def forward(self, x):
        return torch.relu(self.linear(x)) / self.divisor


def get_inputs():
    return [torch.rand(48, 64)]


def get_init_inputs():
    return [64, 32, 2.0]
'''
NEW = """import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n, m, divisor):
        super().__init__()
        self.linear = nn.Linear(n, m)
        self.divisor = divisor

    def forward(self, x):
        return torch.relu_(self.linear(x)).div_(self.divisor)
"""
LOSS = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, predictions, targets):
        return torch.mean((predictions - targets) ** 2)


def get_inputs():
    return [torch.randn(32, 16), torch.randn(32, 16)]


def get_init_inputs():
    return []
"""
PROGRAMS = {
    "mine.py": (NEW, "passed", ""),
    "drawn twice.py": (NEW.replace("self.linear =", "nn.Linear(3, 3); self.linear ="), "wrong_values", "elements are"),
    "half.py": (NEW.replace("linear(x)", "linear(x.bfloat16().float())"), "wrong_values", "elements are wrong"),
    "nothing.py": ("import torch\n", "import_error", "the program defines no ModelNew"),
}  # fmt: skip


def test_a_problem_with_weights(tmp_path: Path) -> None:
    (tmp_path / "linear.py").write_text(LINEAR)
    for name, (text, _, _) in PROGRAMS.items():
        (tmp_path / name).write_text(text)
    task = resolve_task(f"kernelbench:{tmp_path / 'linear.py'}#cpu")
    assert list(task.inputs) == ["x", "weights_seed"]
    assert task.inputs["weights_seed"] == Scalar(scalar="int64")
    assert [(workload.name, workload.split) for workload in task.workloads] == [
        ("as given", "search"),
        ("times 0.25", "held_out"),
        ("times 4", "held_out"),
    ]
    text = asked(task, resolve(None, {"language": "python"}), "coder", "first").system
    assert "def forward(self, x: torch.Tensor)" in text
    assert "torch.manual_seed" in text
    reference = f"kernelbench:{tmp_path / 'linear.py'}#cpu"
    judged = call(tmp_path, "evaluate", reference, *PROGRAMS, "--effort", "check", "--json").json["programs"]
    for program, (name, (_, status, message)) in zip(judged, PROGRAMS.items(), strict=True):
        assert (program["file"], program["status"]) == (name, status), program
        assert message in program["message"]


def test_a_problem_without_weights_whose_result_is_a_number(tmp_path: Path) -> None:
    (tmp_path / "loss.py").write_text(LOSS)
    task = resolve_task(f"kernelbench:{tmp_path / 'loss.py'}#cpu")
    assert list(task.inputs) == ["predictions", "targets"]
    assert task.outputs["y"].shape == ()
    program = LOSS.replace("Model(", "ModelNew(").split("\n\n\ndef get_inputs")[0]
    (tmp_path / "mine.py").write_text(program)
    done = call(tmp_path, "evaluate", "kernelbench:loss.py#cpu", "mine.py", "--effort", "check", "--json")
    assert done.code == 0, done.err
    assert done.json["programs"][0]["status"] == "passed"


REFUSED = {
    "no inputs": (LINEAR.replace("def get_inputs", "def inputs"), "defines no function get_inputs()"),
    "no model": (LINEAR.replace("class Model", "class Net"), "defines no class Model with a method forward"),
    "any inputs": (LINEAR.replace("forward(self, x)", "forward(self, *x)"), "Model.forward: must name its arguments"),
}


DRAWN = {
    "anywhere": ("torch.randn(32, 16)", "cuda"),
    "from a number generator": ("torch.randn(32, 16, generator=torch.default_generator)", "cpu"),
    "with what is there": ("torch.randn(32, 16) + HERE", "cpu"),
    "by way of numpy": ("torch.from_numpy(torch.randn(32, 16).numpy())", "cpu"),
}


@pytest.mark.parametrize("how", DRAWN)
def test_inputs_for_a_gpu_are_drawn_there_where_that_can_be(how: str, tmp_path: Path) -> None:
    drawn, where = DRAWN[how]
    text = LOSS.replace("torch.randn(32, 16), ", f"{drawn}, ") + "\n\nHERE = torch.randn(32, 16)\n"
    (tmp_path / "loss.py").write_text(text)
    names = load_source(resolve_task(f"kernelbench:{tmp_path / 'loss.py'}#cuda").reference)
    first, second, other = (vars(names)["inputs"]({}, {}, seed)["predictions"] for seed in (1, 1, 2))
    assert first.device.type == (where if torch.cuda.is_available() else "cpu")
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_before_anything_runs(what: str, tmp_path: Path) -> None:
    text, reason = REFUSED[what]
    (tmp_path / "problem.py").write_text(text)
    with pytest.raises(TaskError) as caught:
        resolve_task(f"kernelbench:{tmp_path / 'problem.py'}#cpu")
    assert reason in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "problem.py"))


def test_inputs_that_the_model_does_not_take(tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(LINEAR + "\n\ndef get_inputs():\n    return [torch.randn(4, 8)] * 3\n")
    with pytest.raises(TaskError, match=r"problem\.py: inputs\(\) failed: .*gives 3 values, Model.forward takes at mo"):
        resolve_task(f"kernelbench:{tmp_path / 'problem.py'}#cpu")


def test_a_constructor_is_given_what_the_problem_gives(tmp_path: Path) -> None:
    given = "\n\ndef get_init_inputs():\n    return [(3, [float('inf')]), None, {'a': (1,), 2: {}}]\n"
    (tmp_path / "loss.py").write_text(
        LOSS.replace("(nn.Module):", "(nn.Module):\n    def __init__(self, *given):\n        super().__init__()\n")
    )
    with (tmp_path / "loss.py").open("a") as file:
        file.write(given.replace("None", "torch.float32"))
    with pytest.raises(TaskError, match=r"get_init_inputs\(\) gives a dtype, not a number"):
        resolve_task(f"kernelbench:{tmp_path / 'loss.py'}#cpu")
    with (tmp_path / "loss.py").open("a") as file:
        file.write(given)
    names: dict[str, object] = {"_program": None}
    exec(resolve_task(f"kernelbench:{tmp_path / 'loss.py'}#cpu").contracts["python"].wrapper, names)
    assert names["_init"] == [(3, [float("inf")]), None, {"a": (1,), 2: {}}]


def test_a_model_that_never_returns_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernelbench, "PROBE_S", 5.0)
    started = LINEAR.replace("def forward(self, x):\n", "def forward(self, x):\n        while True: pass\n")
    (tmp_path / "problem.py").write_text(started)
    with pytest.raises(Unended, match=r"problem\.py: reference\(\) of inputs\(\): no end within 5 s"):
        resolve_task(f"kernelbench:{tmp_path / 'problem.py'}#cpu")


def facts(ratio: float | None, compiled: float | None, status: str = "passed") -> dict[str, object]:
    pairs = [] if compiled is None else [{"ratio": compiled}]
    return {"programs": [{"status": status, "message": "", "ratio": ratio}], "pairs": pairs}


def test_fast_p() -> None:
    results = [
        result_of("a.py", facts(2.5, 1.2)),
        result_of("b.py", facts(0.9, None)),
        result_of("c.py", facts(None, None, "wrong_values")),
        result_of("d.py", None, "there is no d.py"),
    ]
    shares = fast_p(results)
    assert [(share["p"], share["eager"], share["torch_compile"]) for share in shares["fast"]] == [
        (0.0, 0.5, None),
        (1.0, 0.25, 0.25),
        (2.0, 0.25, 0.0),
    ]
    lines = list(fast_p_lines(shares))
    assert lines[0] == "a.py: passed, 2.50x against eager, 1.20x against torch.compile"
    assert lines[-2:] == [
        "fast_1: 25% of 4 problems (25% against torch.compile)",
        "fast_2: 25% of 4 problems (0% against torch.compile)",
    ]


def test_a_folder_of_problems(tmp_path: Path) -> None:
    for folder, files in {"problems": {"linear.py": LINEAR, "loss.py": LOSS}, "mine": {"linear.py": NEW}}.items():
        (tmp_path / folder).mkdir()
        for name, text in files.items():
            (tmp_path / folder / name).write_text(text)
    done = call(tmp_path, "evaluate", "kernelbench:problems", "mine", "--effort", "check", "--json")
    assert done.code == 1
    assert [(result["problem"], result["status"]) for result in done.json["results"]] == [
        ("linear.py", "passed"),
        ("loss.py", "not judged"),
    ]
    assert done.json["fast"][0]["eager"] == 0.5
    wrong = call(tmp_path, "evaluate", "kernelbench:problems", "mine/linear.py")
    assert (wrong.code, "name one folder of programs" in wrong.err) == (2, True)
