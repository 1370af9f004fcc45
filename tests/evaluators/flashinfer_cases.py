"""The FlashInfer-Bench tasks at sizes that a processor works through in moments."""

from functools import cache
from types import ModuleType
from typing import Any

import torch

from benchmarks.flashinfer_errors import GQA, MLA, MOE, PREFILL, load_reference
from evaluators.task import Task
from evaluators.task_file import builtin_tasks, load_task_folder
from evaluators.worker.tolerance import Finding, Rule, compare

Values = dict[str, Any]
_DECODE = [
    {"batch_size": 1, "num_pages": 300, "len_indptr": 2, "num_kv_indices": 290},
    {"batch_size": 5, "num_pages": 400, "len_indptr": 6, "num_kv_indices": 350},
]
SMALL: dict[str, list[dict[str, int]]] = {
    GQA: _DECODE,
    MLA: _DECODE,
    PREFILL: [
        {"total_q": 1, "num_pages": 99, "len_indptr": 2, "num_kv_indices": 34},
        {"total_q": 33, "num_pages": 99, "len_indptr": 2, "num_kv_indices": 33},
        {"total_q": 52, "num_pages": 99, "len_indptr": 5, "num_kv_indices": 67},
    ],
    MOE: [{"seq_len": 1}, {"seq_len": 7}, {"seq_len": 40}],
}
CONSTANTS: dict[str, dict[str, int]] = {
    MOE: {
        "num_experts": 64,
        "num_local_experts": 8,
        "hidden_size": 256,
        "intermediate_size": 128,
        "gemm1_out_size": 256,
        "num_hidden_blocks": 2,
        "num_intermediate_blocks": 1,
        "num_gemm1_out_blocks": 2,
    }
}
"""Constant axes that are reduced too."""


@cache
def task_of(name: str) -> Task:
    return load_task_folder(builtin_tasks()[name])


@cache
def reference_of(name: str) -> ModuleType:
    return load_reference(task_of(name).reference)


def make(name: str, axes: dict[str, int], seed: int = 5, **params: Any) -> Values:
    """Return inputs, on the processor."""
    sizes = {**task_of(name).constants, **CONSTANTS.get(name, {}), **axes}
    made = reference_of(name).inputs(sizes, params, seed)
    return {key: value.cpu() if isinstance(value, torch.Tensor) else value for key, value in made.items()}


def as_tuple(answer: Any) -> tuple[torch.Tensor, ...]:
    return answer if isinstance(answer, tuple) else (answer,)


def expected(name: str, values: Values) -> tuple[torch.Tensor, ...]:
    return as_tuple(reference_of(name).reference(**values))


def findings(name: str, got: Any, want: Any, **changes: Any) -> list[Finding]:
    """Return what the task's tolerance says of each output."""
    stated = task_of(name).tolerance.model_copy(update=changes)
    rule = Rule(stated.rtol, stated.atol, stated.rule, stated.matched, stated.normalised)
    return [compare(rule, one, other) for one, other in zip(as_tuple(got), as_tuple(want), strict=True)]
