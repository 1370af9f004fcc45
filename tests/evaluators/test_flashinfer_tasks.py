import itertools
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from benchmarks.flashinfer_errors import ERRORS, GQA, MLA, MOE, PREFILL, TASKS, wrong_reference
from evaluators.worker.status import Status
from tests.evaluators.flashinfer_cases import SMALL, as_tuple, expected, findings, make, reference_of, task_of

ROOT = Path(__file__).parents[2]
CASES = [(name, place) for name in TASKS for place in range(len(SMALL[name]))]
LARGER = {
    GQA: {"batch_size": 4, "num_pages": 900, "len_indptr": 5, "num_kv_indices": 800},
    MLA: {"batch_size": 4, "num_pages": 900, "len_indptr": 5, "num_kv_indices": 800},
    PREFILL: {"total_q": 60, "num_pages": 400, "len_indptr": 4, "num_kv_indices": 300},
    MOE: {"seq_len": 24},
}


@pytest.mark.parametrize(
    ("name", "workloads", "searched"), [(GQA, 48, 5), (MLA, 47, 5), (PREFILL, 38, 8), (MOE, 19, 5)]
)
def test_every_published_workload_is_there(name: str, workloads: int, searched: int) -> None:
    task = task_of(name)
    assert len(task.workloads) == workloads
    assert len(task.split("search")) == searched
    assert len({str(workload.axes) + str(workload.params) for workload in task.workloads}) == workloads
    assert task.objective.aggregate == "mean"
    assert {language for language in task.contracts if task.seed(language) is not None} == {"python", "triton"}
    assert "cuda" in task.contracts


def right(name: str, got: Any, want: Any) -> None:
    for finding in findings(name, got, want):
        assert finding.status is Status.PASSED, finding.message


@pytest.mark.parametrize(("name", "place"), CASES)
def test_seed_and_baseline_agree_with_the_reference(name: str, place: int) -> None:
    seed = task_of(name).seed("python")
    assert seed is not None
    module = ModuleType("seed")
    exec(compile(seed.files[seed.main_file], "seed.py", "exec"), vars(module))
    for layout in ("pool", "permuted"):
        values = make(name, SMALL[name][place], layout=layout, offset=8)
        want = expected(name, values)
        got = tuple(torch.full_like(tensor, torch.nan) for tensor in want)
        vars(module)[seed.entry_point](*values.values(), *got)
        right(name, got, want)
        right(name, reference_of(name).baseline(**values), want)


@pytest.mark.parametrize("routing", ["remote", "local"])
def test_the_programs_know_what_to_do_with_none_and_with_all_local_experts(routing: str) -> None:
    values = make(MOE, {"seq_len": 9}, routing=routing, offset=16)
    want = expected(MOE, values)
    assert bool(want[0].any()) is (routing == "local")
    right(MOE, reference_of(MOE).baseline(**values), want)


def test_triton_programs_agree_with_the_reference_when_interpreted() -> None:
    script = Path(__file__).with_name("flashinfer_interpreted.py")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["right"] * 11


@pytest.mark.parametrize(("name", "error"), [(name, error) for name in TASKS for error in ERRORS[name]])
def test_a_deliberate_error_is_rejected(name: str, error: str) -> None:
    values = make(name, LARGER[name])
    wrong = wrong_reference(name, error, task_of(name).reference)
    statuses = [finding.status for finding in findings(name, wrong(**values), expected(name, values))]
    assert any(status is not Status.PASSED for status in statuses)


def test_a_skip_in_a_long_sequence_is_seen_by_full_match_and_by_the_normalised_error() -> None:
    """Nearly every element of 14,000 tokens' mean is within the absolute limit whatever a twentieth of them says."""
    values = make(GQA, {"batch_size": 1, "num_pages": 14_100, "len_indptr": 2, "num_kv_indices": 14_000})
    wrong = wrong_reference(GQA, "5 % of the keys skipped", task_of(GQA).reference)
    got, want = wrong(**values), expected(GQA, values)
    output, lse = findings(GQA, got, want, matched=0.95, normalised=None)
    assert output.status is Status.PASSED
    assert lse.status is Status.PASSED
    assert 0.98 < output.matched < 1.0
    assert findings(GQA, got, want, normalised=None)[0].status is Status.WRONG_VALUES
    output, lse = findings(GQA, got, want, matched=0.95)
    assert (output.status, lse.status) == (Status.WRONG_VALUES, Status.WRONG_VALUES)
    assert output.normalised > 0.1


@pytest.mark.parametrize("name", TASKS)
def test_inputs_depend_on_the_seed_and_every_input_matters(name: str) -> None:
    values, others = make(name, LARGER[name], 1), make(name, LARGER[name], 2)
    assert torch.equal(make(name, LARGER[name], 1)[next(iter(values))], values[next(iter(values))])
    want = expected(name, values)
    fixed = {"sm_scale", "routed_scaling_factor", "local_expert_offset"}
    for changed in values:
        if changed in fixed:
            assert values[changed] == others[changed]
            other = {**values, changed: values[changed] * 1.3 + (8 if changed == "local_expert_offset" else 0)}
        else:
            assert not torch.equal(values[changed], others[changed]), changed
            other = {**values, changed: others[changed]}
        got = expected(name, other)
        assert any(finding.status is not Status.PASSED for finding in findings(name, got, want)), changed


@pytest.mark.parametrize(("name", "layout"), list(itertools.product((GQA, MLA, PREFILL), ("pool", "permuted"))))
def test_sequences_are_ragged_and_their_slots_distinct(name: str, layout: str) -> None:
    axes = {**LARGER[name], "num_kv_indices": 300, "num_pages": 301}
    for seed in range(20):
        values = make(name, axes, seed, layout=layout)
        slots, lengths = values["kv_indices"], values["kv_indptr"].diff()
        assert sorted(slots.tolist()) == list(range(1, 301))
        assert values["kv_indptr"][0] == 0
        assert values["kv_indptr"][-1] == 300
        assert int(lengths.min()) >= 1
        assert len(set(lengths.tolist())) > 1
        assert bool((slots.diff() == 1).all()) is False
        if name == PREFILL:
            queries = values["qo_indptr"].diff()
            assert values["qo_indptr"][-1] == axes["total_q"]
            assert int(queries.min()) >= 1
            assert bool((lengths >= queries).all())


def test_a_pool_hands_out_runs_for_prompts_and_single_slots_in_turn_afterwards() -> None:
    values = make(GQA, LARGER[GQA], layout="pool")
    start, end = values["kv_indptr"][:2].tolist()
    steps = values["kv_indices"][start:end].diff()
    assert int((steps == 1).sum()) >= len(steps) // 2
    assert int((steps > 1).sum()) > 0
    assert bool((steps >= 1).all())


def test_routing_spreads_over_the_experts() -> None:
    values = make(MOE, {"seq_len": 512})
    chosen, weights = reference_of(MOE).route(values["routing_logits"], values["routing_bias"], 2.5)
    counts = torch.bincount(chosen.flatten(), minlength=64)
    assert int((counts > 0).sum()) > 55
    assert int(counts.max()) < 512
    assert torch.allclose(weights.sum(dim=1), torch.tensor(2.5))
    assert all(len(set(row)) == 8 for row in chosen.tolist())
    assert len({group // 8 for group in chosen[0].tolist()}) <= 4


def test_one_token_always_has_a_local_expert() -> None:
    for seed in range(20):
        values = make(MOE, {"seq_len": 1}, seed, offset=32)
        chosen, _ = reference_of(MOE).route(values["routing_logits"], values["routing_bias"], 2.5)
        assert bool(((chosen >= 32) & (chosen < 40)).any())


@pytest.mark.parametrize("name", TASKS)
def test_floors_count_what_must_be_moved_and_done(name: str) -> None:
    task = task_of(name)
    floors = [reference_of(name).floor(dict(task.sizes(workload))) for workload in task.workloads]
    assert all(floor["bytes"] > 0 and floor["operations"] > 0 for floor in floors)
    smallest, largest = floors[0], floors[-1]
    assert largest["bytes"] >= smallest["bytes"]
    if name == PREFILL:
        assert 4.6e12 < largest["operations"] < 4.8e12
    if name == GQA:
        assert largest["bytes"] == pytest.approx(61519 * 2048 + 64 * 32 * 128 * 4, rel=0.01)


def test_the_floor_of_ragged_prefills_is_never_above_what_they_do() -> None:
    for seed in range(20):
        values = make(PREFILL, LARGER[PREFILL], seed)
        queries, tokens = values["qo_indptr"].diff(), values["kv_indptr"].diff()
        seen = int((queries * (tokens - queries) + queries * (queries + 1) // 2).sum())
        floor = reference_of(PREFILL).floor({**task_of(PREFILL).constants, **LARGER[PREFILL]})
        assert floor["operations"] <= 2 * seen * 16 * (2 * 512 + 64)


def test_outputs_are_what_the_task_declares() -> None:
    for name in TASKS:
        task = task_of(name)
        for (output, tensor), value in zip(
            task.outputs.items(), as_tuple(expected(name, make(name, LARGER[name]))), strict=True
        ):
            assert value.dtype == getattr(torch, tensor.dtype), output
            assert value.dim() == len(tensor.shape)
