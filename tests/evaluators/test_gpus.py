"""Names of GPUs, which need none; and what is said where there is none."""

from pathlib import Path

import pytest

from evaluators.errors import InfrastructureError
from evaluators.isolation import Isolation
from evaluators.protocols import tie_margin
from evaluators.worker import gpus, nvml
from tests.cli.conftest import call

TASK = """
schema = 1
name = "tiny-gpu"
description = "Row softmax."
device = "cuda"
axes = ["rows", "cols"]
timeout_s = 20.0
inputs = { x = { shape = ["rows", "cols"], dtype = "float32" } }
outputs = { y = { shape = ["rows", "cols"], dtype = "float32" } }
tolerance = { rtol = 1e-4, atol = 1e-6 }
contracts = { python = { entry_point = "run", binding = "value" } }

[[workloads]]
name = "small"
axes = { rows = 8, cols = 32 }
"""
REFERENCE = """
import torch

def inputs(axes, params, seed):
    return {"x": torch.randn(axes["rows"], axes["cols"], generator=torch.Generator().manual_seed(seed))}

def reference(x):
    return torch.softmax(x, dim=1)
"""
no_gpu = pytest.mark.skipif(
    nvml.identity("0") is not None or Path("/dev/nvidiactl").exists(), reason="this machine has a GPU"
)


def test_a_number_counts_among_the_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    names = ("cuda", "gpu", "cuda:1", "gpu:1", "1", "GPU-5a1c-0")
    assert [gpus.visible(name) for name in names] == ["0", "0", "1", "1", "1", "GPU-5a1c-0"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-77")
    assert [gpus.visible(name) for name in names] == ["3", "3", "GPU-77", "GPU-77", "GPU-77", "GPU-5a1c-0"]
    with pytest.raises(ValueError, match="shows 2; count from 0"):
        gpus.visible("cuda:2")
    with pytest.raises(ValueError, match="names no GPU"):
        gpus.visible("tpu")


def test_the_tie_margin_is_the_protocols() -> None:
    of = (("cpu", "harness"), ("cuda", "harness"), ("cuda", "gpumode"), ("cuda", "user"))
    assert [tie_margin(*task) for task in of] == [0.03, 0.01, 0.01, 0]


@no_gpu
def test_isolated_runs_that_need_a_gpu_say_that_there_is_none() -> None:
    server = Isolation(gpu="0")
    try:
        with pytest.raises(InfrastructureError, match="no GPU 0 was found"):
            server.run("def main(request):\n    return 1\n", {})
    finally:
        server.close()


@no_gpu
def test_evaluate_falls_back_to_the_untimed_tier_and_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "task.toml").write_text(TASK)
    (folder / "reference.py").write_text(REFERENCE)
    (tmp_path / "kernel.py").write_text("import torch\n\ndef run(x):\n    return torch.softmax(x, 1)\n")
    done = call(tmp_path, "evaluate", "./tiny", "kernel.py")
    assert done.code == 0, done.err
    assert "kernel.py: not_timed" in done.out
    assert "this machine has no GPU" in done.out
    refused = call(tmp_path, "evaluate", "./tiny", "kernel.py", "--evaluator", "local")
    assert refused.code == 1
    assert "no GPU was found" in refused.err
