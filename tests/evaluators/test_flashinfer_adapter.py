import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from benchmarks.flashinfer_errors import GQA, MLA, MOE, PREFILL, load_reference
from evaluators.adapters.flashinfer import synthesis
from evaluators.adapters.flashinfer.exporting import (
    export_definition,
    export_solution,
    export_traces,
    export_workload,
    save,
    save_traces,
    save_workloads,
    write_all,
)
from evaluators.adapters.flashinfer.load import load_task
from evaluators.adapters.flashinfer.solutions import import_solution, is_solution, read_solution
from evaluators.errors import KsearchError, TaskError
from evaluators.evaluation import Environment, Evaluation, Measurement, WorkloadResult
from evaluators.local import LocalEvaluator
from evaluators.objective import Value
from evaluators.resolve import resolve_task
from evaluators.solution import Binding, Solution
from evaluators.task import Task
from evaluators.task_check import check_task
from evaluators.worker.status import Status
from graph.cli.evaluating import load_program
from tests.evaluators import flashinfer_folder as folders
from tests.evaluators.flashinfer_cases import task_of
from tests.evaluators.flashinfer_folder import (
    NAME,
    PROGRAM,
    UUIDS,
    blob_path,
    definition,
    workload,
    write_blob,
    write_folder,
)

INDPTR, INDICES = [0, 4, 18, 30], [*range(9, 39)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "trace")


def load(root: Path, options: str = "?device=cpu") -> Task:
    return load_task(f"{root}#{NAME}{options}")


def made(task: Task, place: int, seed: int = 3, **params: Any) -> tuple[ModuleType, dict[str, Any]]:
    module = load_reference(task.reference)
    workload = task.workloads[place]
    return module, module.inputs(dict(task.sizes(workload)), {**workload.params, **params}, seed)


def program(binding: Binding) -> Solution:
    entry = "run" if binding == "value" else "into"
    return Solution(files={"main.py": PROGRAM}, language="python", entry_point=entry, binding=binding)


def test_a_definition_becomes_a_task(root: Path) -> None:
    task = resolve_task(f"flashinfer:{root}#{NAME}")
    assert task.device == "cuda"
    assert task.arguments == (*definition()["inputs"], *definition()["outputs"])
    assert task.axes == ("batch_size", "num_pages", "len_indptr", "num_kv_indices")
    assert task.constants == {"heads": 4, "kv_heads": 2, "head_dim": 8, "page_size": 1}
    assert [workload.name for workload in task.workloads] == list(UUIDS)
    assert task.tolerance.rule == "either"
    assert (task.tolerance.rtol, task.tolerance.atol, task.tolerance.matched) == (1e-2, 1e-2, 1.0)
    assert task.objective.aggregate == "mean"
    assert "def run(q, k_cache" in task.description
    assert "len_indptr == batch_size + 1" in task.description


def test_missing_indices_are_made_up_so_that_they_fit_together(root: Path) -> None:
    task = load(root)
    for seed in range(10):
        module, values = made(task, 1, seed)
        assert values["sm_scale"] == 0.35355339
        assert values["kv_indptr"].dtype == torch.int32
        assert values["kv_indptr"].tolist()[0] == 0
        assert values["kv_indptr"].tolist()[-1] == 30
        assert int(values["kv_indptr"].diff().min()) >= 1
        assert len(set(values["kv_indices"].tolist())) == 30
        assert 1 <= int(values["kv_indices"].min()) <= int(values["kv_indices"].max()) < 40
        answer = module.reference(**values)
        assert list(answer) == ["output", "lse"]
        assert bool(torch.isfinite(answer["output"]).all())
    assert not torch.equal(made(task, 1, 1)[1]["kv_indices"], made(task, 1, 2)[1]["kv_indices"])


def test_stored_indices_are_used_and_must_stay_what_they_were(root: Path) -> None:
    path = write_blob(root, INDPTR, INDICES)
    task = load(root)
    _, values = made(task, 1)
    assert values["kv_indptr"].tolist() == INDPTR
    assert values["kv_indices"].tolist() == INDICES
    path.write_bytes(path.read_bytes()[:-1] + b"\7")
    with pytest.raises(ValueError, match="is not the file that the task was made with"):
        made(task, 1)


def test_tensors_made_up_for_want_of_their_files_are_told(root: Path) -> None:
    write_blob(root, INDPTR, INDICES)
    text = "inputs made up because their files are missing: "
    assert load(root).notes == (f"{text}kv_indptr (1 of 2 workloads), kv_indices (1 of 2 workloads)",)
    line = workload(UUIDS[1], 3, 40, 30)
    line["workload"]["inputs"]["q"] = {"type": "safetensors", "path": "blob/q.safetensors", "tensor_key": "q"}
    write_folder(root, lines=[line])
    task = load(root)
    assert task.notes == (f"{text}q (1 of 1 workloads)",)
    assert task.digest == task.model_copy(update={"notes": ()}).digest
    write_folder(root, lines=[workload(UUIDS[1], 3, 40, 30)])
    assert load(root).notes == ()


def test_of_many_workloads_some_are_held_out(root: Path) -> None:
    lines = [workload(f"{number:08x}-0000-4000-8000-000000000000", 1, 40, number + 1) for number in range(30)]
    write_folder(root, lines=lines)
    task = load(root)
    assert len(task.split("search")) == 8
    assert len(task.split("held_out")) == 22
    assert task.workloads[0].split == task.workloads[-1].split == "search"


@pytest.mark.parametrize(("name", "matched"), [("fib", 1.0), ("low-bit", 0.95), ("contest-moe", 0.9)])
def test_a_tolerance_is_chosen_by_name(root: Path, name: str, matched: float) -> None:
    assert load(root, f"?device=cpu&tolerance={name}").tolerance.matched == matched


def test_experts_with_eight_bits_have_the_formats_wider_rule(root: Path) -> None:
    name = "moe_fp8_block_scale_tiny"
    write_folder(root, {**definition(), "name": name}, [{**workload(UUIDS[0], 1, 40, 17), "definition": name}])
    for folder, suffix in (("definitions", "json"), ("workloads", "jsonl")):
        shutil.move(root / folder / "gqa_paged" / f"{NAME}.{suffix}", root / folder / "gqa_paged" / f"{name}.{suffix}")
    assert load_task(f"{root}#{name}").tolerance.matched == 0.95


Break = Callable[[Path], None]


def _definition(**changes: Any) -> Break:
    return lambda root: write_folder(root, {**definition(), **changes}) and None


def _input(**changes: Any) -> Break:
    return _definition(inputs={**definition()["inputs"], **changes})


def _workload(**changes: Any) -> Break:
    line = workload(UUIDS[0], 1, 40, 17)
    return lambda root: write_folder(root, lines=[{**line, "workload": {**line["workload"], **changes}}]) and None


def _axes(**changes: int) -> Break:
    return _workload(axes={**workload(UUIDS[0], 1, 40, 17)["workload"]["axes"], **changes})


def _given(**changes: Any) -> Break:
    return _workload(inputs={**workload(UUIDS[0], 1, 40, 17)["workload"]["inputs"], **changes})


def _file(name: str, data: bytes) -> Break:
    return lambda root: (root / name).write_bytes(data) and None


def _blob(data: bytes) -> Break:
    def change(root: Path) -> None:
        blob_path(root).parent.mkdir(parents=True)
        blob_path(root).write_bytes(data)

    return change


def _header(entry: dict[str, Any], data: bytes = b"") -> bytes:
    text = json.dumps({"kv_indptr": entry, "kv_indices": entry}).encode()
    return struct.pack("<Q", len(text)) + text + data


def _link_out(root: Path) -> None:
    (root.parent / "secret.json").write_text(json.dumps(definition()))
    path = root / "definitions" / "gqa_paged" / f"{NAME}.json"
    path.unlink()
    path.symlink_to(root.parent / "secret.json")


def _blob_link_out(root: Path) -> None:
    outside = write_blob(root.parent / "other", INDPTR, INDICES)
    blob_path(root).parent.mkdir(parents=True)
    blob_path(root).symlink_to(outside)


def _workloads_link_out(root: Path) -> None:
    path = root / "workloads" / "gqa_paged" / f"{NAME}.jsonl"
    path.rename(root.parent / "other.jsonl")
    path.symlink_to(root.parent / "other.jsonl")


def _again(kind: str, suffix: str) -> Break:
    def change(root: Path) -> None:
        (root / kind / "other").mkdir()
        shutil.copy(root / kind / "gqa_paged" / f"{NAME}.{suffix}", root / kind / "other")

    return change


def _pipe(root: Path) -> None:
    path = root / "workloads" / "gqa_paged" / f"{NAME}.jsonl"
    path.unlink()
    os.mkfifo(path)


def _stored(path: str) -> dict[str, str]:
    return {"type": "safetensors", "path": path, "tensor_key": "kv_indptr"}


ENTRY = {"dtype": "I32", "shape": [4], "data_offsets": [0, 16]}
HOSTILE: dict[str, tuple[Break, str]] = {
    "absolute path": (
        _given(kv_indptr=_stored("/etc/passwd")),
        "jsonl:1: workload.inputs.kv_indptr.path: '/etc/passwd' is",
    ),
    "path upwards": (
        _given(kv_indptr=_stored("blob/../../x")),
        "inputs.kv_indptr.path: 'blob/../../x' is not a path within",
    ),
    "definition is a link out": (_link_out, f"{NAME}.json: leads out of"),
    "blob is a link out": (_blob_link_out, "jsonl:2: workload.inputs.kv_indptr.path: {blob}: leads out of"),
    "workloads are a link out": (_workloads_link_out, f"{NAME}.jsonl: leads out of"),
    "huge axis": (_axes(num_pages=2**31 - 1, batch_size=2**31 - 1), "jsonl:1: workload.axes: the tensors take"),
    "axis beyond any": (_axes(num_pages=2**70), "jsonl:1: workload.axes.num_pages: must be less than"),
    "axis of nothing": (_axes(num_pages=0), "jsonl:1: workload.axes.num_pages: must be greater"),
    "axis missing": (_workload(axes={"batch_size": 1}), "jsonl:1: workload.axes: must be exactly"),
    "input missing": (_workload(inputs={"q": {"type": "random"}}), "jsonl:1: workload.inputs: must be exactly"),
    "unknown dtype": (
        _input(q=folders.tensor("batch_size", dtype="float13")),
        ".json: inputs.q.dtype: unknown dtype 'float13'",
    ),
    "dtype not supported": (
        _input(q=folders.tensor("batch_size", dtype="float4_e2m1")),
        "inputs.q.dtype: float4_e2m1 is not",
    ),
    "unknown axis": (_input(q=folders.tensor("rows")), ".json: inputs.q.shape: unknown axis 'rows'"),
    "no axes": (_input(q=folders.tensor()), "inputs.q.shape: tensors without axes"),
    "output is an input": (
        _definition(outputs={"q": folders.tensor("batch_size")}),
        ".json: outputs.q: is an input too",
    ),
    "no run": (_definition(reference="def walk(): pass"), ".json: reference: defines no function run(q, k_cache"),
    "run of other arguments": (
        _definition(reference="def run(q): pass"),
        "reference: run takes 1 arguments, there are 6",
    ),
    "not Python": (_definition(reference="def run(:"), ".json: reference: is not Python"),
    "another name": (_definition(name="other"), ".json: name: is 'other'"),
    "field missing": (
        lambda root: write_folder(root, {key: value for key, value in definition().items() if key != "axes"}) and None,
        ".json: axes: missing",
    ),
    "not JSON": (_file(f"definitions/gqa_paged/{NAME}.json", b"{"), ".json: is not JSON"),
    "not text": (_file(f"workloads/gqa_paged/{NAME}.jsonl", b"\xff\n"), "jsonl:1: is not UTF-8"),
    "nested": (_file(f"definitions/gqa_paged/{NAME}.json", b"[" * 100_000), ".json: is not JSON: "),
    "too large": (_file(f"definitions/gqa_paged/{NAME}.json", b" " * (5 << 20)), ".json: is larger than"),
    "no workload": (_file(f"workloads/gqa_paged/{NAME}.jsonl", b"\n"), "jsonl: holds no workload"),
    "workloads in Git LFS": (
        _file(f"workloads/gqa_paged/{NAME}.jsonl", b"version https://git-lfs.github.com/spec/v1\n"),
        "is a pointer of Git LFS; fetch the file with: git lfs pull",
    ),
    "not finite": (_given(sm_scale={"type": "scalar", "value": float("inf")}), "inputs.sm_scale: inf is not a number"),
    "number for a tensor": (
        _given(q={"type": "scalar", "value": 1}),
        "inputs.q: 1 is a number, the argument is a tensor",
    ),
    "blob in Git LFS": (_blob(b"version https://git-lfs.github.com/spec/v1\noid"), "is a pointer of Git LFS"),
    "blob of garbage": (_blob(b"\xff" * 64), "is no safetensors file"),
    "blob cut short": (_blob(_header(ENTRY)), "is shorter than its entry of 'kv_indptr' says"),
    "blob of an unknown type": (
        _blob(_header({**ENTRY, "dtype": "F64"})),
        "'kv_indptr' is of type 'F64', which is none",
    ),
    "blob that lies": (_blob(_header({**ENTRY, "shape": [9]}, b" " * 16)), "the entry of 'kv_indptr' is inconsistent"),
    "blob of another shape": (
        _blob(_header({**ENTRY, "shape": [2, 2]}, b" " * 16)),
        "holds int32 [2, 2], declared is int32 [4]",
    ),
    "blob of another type": (
        _blob(_header({**ENTRY, "dtype": "F32"}, b" " * 16)),
        "holds float32 [4], declared is int32",
    ),
    "blob of another kind": (
        _blob(_header({**ENTRY, "dtype": []}, b" " * 16)),
        "the entry of 'kv_indptr' is inconsist",
    ),
    "blob is a folder": (lambda root: blob_path(root).mkdir(parents=True), ".safetensors is not a plain file"),
    "blob of a long name": (_given(kv_indptr=_stored("x" * 300)), "workload.inputs.kv_indptr.path: 'xxx"),
    "blob of half a letter": (_given(kv_indptr=_stored("\ud800")), "path: '\\ud800' is not a path within"),
    "a true axis": (_axes(num_pages=True), "jsonl:1: workload.axes.num_pages: must be a whole number"),
    "a number too large": (
        _given(sm_scale={"type": "scalar", "value": 10**400}),
        "inputs.sm_scale: 1000000000000000000000000000000000000000 is not a number, or not finite",
    ),
    "a workload twice": (
        lambda root: write_folder(root, lines=[workload(UUIDS[0], 1, 40, 17)] * 2) and None,
        f"jsonl:2: workload.uuid: '{UUIDS[0]}' is used twice",
    ),
    "a workload that steers": (_workload(uuid="\x1b[2J"), "jsonl:1: workload.uuid: must be printable, on one line"),
    "a definition twice": (_again("definitions", "json"), f"{NAME}.json: is there twice"),
    "workloads twice": (_again("workloads", "jsonl"), f"{NAME}.jsonl: is there twice"),
    "no plain file": (_pipe, f"{NAME}.jsonl: is not a plain file"),
    "a word of Python": (_input(**{"lambda": folders.tensor("batch_size")}), ".json: inputs.lambda: is a word of Py"),
    "steers a terminal": (_definition(name="\x1b[31m"), "name: is '\\x1b[31m'"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_or_inconsistent_folder_is_refused_in_one_line(root: Path, case: str) -> None:
    break_it, message = HOSTILE[case]
    break_it(root)
    with pytest.raises(TaskError) as caught:
        load(root)
    assert message.replace("{blob}", str(blob_path(root))) in str(caught.value)
    assert str(root) in str(caught.value)
    assert str(caught.value).isprintable()


def test_nothing_is_run_while_a_folder_is_read(root: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    write_folder(root, {**definition(), "reference": f"open({str(marker)!r}, 'w')\n{folders.REFERENCE}"})
    load(root)
    assert not marker.exists()


def test_integers_that_nobody_can_guess_are_asked_for(root: Path) -> None:
    odd = {**definition()["inputs"], "table": folders.tensor("batch_size", "num_pages", dtype="int32")}
    line = workload(UUIDS[0], 1, 40, 17)
    line["workload"]["inputs"]["table"] = {**line["workload"]["inputs"]["kv_indptr"], "tensor_key": "table"}
    text = folders.REFERENCE.replace("sm_scale):", "sm_scale, table):")
    write_folder(root, {**definition(), "inputs": odd, "reference": text}, [line])
    with pytest.raises(TaskError, match=r"inputs.table.path: .*safetensors is missing, and integers .* git lfs pull"):
        load(root)


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("{root}", "must be flashinfer:ROOT#DEFINITION"),
        ("{root}#nearly_paged_decode", f"did you mean '{NAME}'"),
        ("{root}#../definitions/x", "is not the name of a definition"),
        (f"{{root}}#{NAME}?colour=red", "unknown option 'colour'"),
        (f"{{root}}#{NAME}?tolerance=wide", "?tolerance=wide: tolerance: 'wide' is unknown; it may be one of fib,"),
        (f"{{root}}#{NAME}?device=tpu", "must be cpu or cuda"),
        (f"{{root}}/nowhere#{NAME}", "no such folder"),
    ],
)
def test_a_wrong_reference_to_a_definition_says_what_is_wrong(root: Path, rest: str, message: str) -> None:
    with pytest.raises(TaskError) as caught:
        load_task(rest.format(root=root))
    assert message in str(caught.value)


def test_prefills_and_pages_of_several_tokens_are_made_up_too() -> None:
    inputs: dict[str, Any] = {
        "q": folders.tensor("total_q", "heads"),
        "k_cache": folders.tensor("num_pages", "page_size", "heads"),
        "qo_indptr": folders.tensor("len_indptr", dtype="int32"),
        "kv_indptr": folders.tensor("len_indptr", dtype="int32"),
        "kv_indices": folders.tensor("num_kv_indices", dtype="int32"),
        "kv_last_page_len": folders.tensor("batch_size", dtype="int32"),
    }
    axes = {"total_q": 50, "heads": 2, "num_pages": 30, "page_size": 16, "len_indptr": 5, "batch_size": 4}
    for seed in range(20):
        values = synthesis.make_inputs({"inputs": inputs, "device": "cpu"}, {**axes, "num_kv_indices": 12}, {}, seed)
        tokens = (values["kv_indptr"].diff() - 1) * 16 + values["kv_last_page_len"]
        assert bool((tokens >= values["qo_indptr"].diff()).all())
        assert values["kv_indptr"].tolist()[-1] == 12
        assert values["qo_indptr"].tolist()[-1] == 50


@pytest.fixture
async def evaluator() -> Any:
    local = LocalEvaluator()
    yield local
    await local.close()


async def test_programs_that_return_and_programs_that_write_are_judged(root: Path, evaluator: LocalEvaluator) -> None:
    write_blob(root, INDPTR, INDICES)
    task = load(root)
    for binding in ("value", "dps"):
        result = await evaluator.evaluate(task, program(binding), "check")
        assert result.passed, result.message
    wrong = program("value").model_copy(update={"files": {"main.py": PROGRAM.replace("/ math.log(2)", "")}})
    result = await evaluator.evaluate(task, wrong, "check")
    assert result.status is Status.WRONG_VALUES
    assert result.message.startswith("lse: ")


def _running(body: str) -> str:
    return f"import os, sys, time\ndef run(q, k_cache, v_cache, kv_indptr, kv_indices, sm_scale):\n    {body}\n"


_PASSING_OVER = "while True:\n        try:\n            time.sleep(1)\n        except BaseException: pass"
FAILING: dict[str, tuple[str, str, str]] = {
    "ends the process": ("os._exit(3)", "may have ended its process", "exited with code 3 before it answered"),
    "crashes": ("os.kill(os.getpid(), 11)", "may have ended its process", "ended by SIGSEGV"),
    "exits": ("sys.exit(3)", "failed: SystemExit: 3", "SystemExit: 3"),
    "never returns": ("while True: pass", "failed: TimeoutError: took more than 1 s", "no end within 1 s"),
    "cannot be interrupted": (_PASSING_OVER, "its reference went on after its limit of 1 s", "no end within 15 s"),
    "raises": ("raise ValueError('no such\\nthing')", "failed: ValueError: no such thing", "ValueError: no such thing"),
}
"""What a reference does -> its body, and what an evaluation and a check of the task say of it."""


@pytest.mark.parametrize("what", FAILING)
async def test_a_failing_reference_is_named_with_its_file_and_field(
    root: Path, evaluator: LocalEvaluator, what: str
) -> None:
    body, judged, checked = FAILING[what]
    write_folder(root, {**definition(), "reference": _running(body)}, [workload(UUIDS[0], 1, 40, 17)])
    task = load(root).model_copy(update={"timeout_s": 1.0})
    place = f"definitions/gqa_paged/{NAME}.json: reference"
    with pytest.raises(KsearchError) as caught:
        await evaluator.evaluate(task, program("value"), "check")
    assert judged in str(caught.value)
    assert f"task {NAME} ({place})" in str(caught.value)
    write_folder(root, {**definition(), "reference": folders.REFERENCE}, [workload(UUIDS[0], 1, 40, 17)])
    assert (await evaluator.evaluate(load(root), program("value"), "check")).passed, "the next task is not blamed"
    finding = check_task(task)[-1]
    assert (finding.check, finding.state) == ("the reference runs", "failed")
    assert finding.detail.startswith(f"{place}: ")
    assert checked in finding.detail


def test_programs_go_through_the_format_and_back(root: Path) -> None:
    task = load(root)
    for binding in ("value", "dps"):
        solution = program(binding)
        path = save(root, export_solution(task, solution, "someone", ["NVIDIA H200"]), "gqa_paged")
        assert is_solution(path.read_text())
        assert read_solution(path.read_text(), str(path)) == solution
    assert not is_solution(solution.model_dump_json())
    assert path.is_relative_to(root / "solutions" / "someone" / "gqa_paged" / NAME)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("spec.entry_point", {"entry_point": "other.py::run"}),
        ("spec.language", {"language": "tilelang"}),
        ("spec.binding", {"language": "cuda"}),
    ],
)
def test_a_solution_that_cannot_be_called_is_refused(root: Path, field: str, change: dict[str, str]) -> None:
    made = export_solution(load(root), program("dps"), "someone", ["any"])
    with pytest.raises(TaskError, match=f"x.json: {field}: "):
        import_solution(made.model_copy(update={"spec": made.spec.model_copy(update=change)}), "x.json")


def evaluation(task: Task, status: Status = Status.PASSED) -> Evaluation:
    ratio = Value(value=2.0, low=1.9, high=2.1)
    timed = Measurement(baseline_ms=0.02, candidate_ms=0.01, ratio=ratio, estimates=5, repeats=100)
    passed = status is Status.PASSED
    results = tuple(
        WorkloadResult(
            workload=workload.name, status=status, worst_error=0.5 if passed else None,
            measurement=timed if passed else None, message="" if passed else "output: 3 of 9 elements are wrong",
        )
        for workload in task.workloads[:2]
    )  # fmt: skip
    return Evaluation(
        status=status,
        tier="timed" if passed else "built",
        solution="0" * 64,
        task=task.digest,
        effort="search",
        protocol="cpu-abba-1",
        objective=ratio if passed else None,
        workloads=results,
        environment=Environment(device="NVIDIA H200", torch="2.11.0", triton="3.6.0"),
    )


WHEN = "2026-11-29T12:00:00"


def test_every_status_has_a_word_of_the_format(root: Path) -> None:
    task = load(root)
    solution = export_solution(task, program("dps"), "someone", ["any"])
    words = {"PASSED", "INCORRECT_SHAPE", "INCORRECT_NUMERICAL", "INCORRECT_DTYPE", "RUNTIME_ERROR", "COMPILE_ERROR"}
    for status in set(Status) - {Status.INTEGRITY}:
        for trace in export_traces(task, evaluation(task, status), solution, WHEN):
            assert trace.evaluation.status in {*words, "TIMEOUT"}
            assert (trace.evaluation.status == "PASSED") is (status is Status.PASSED)
            assert (trace.evaluation.performance is not None) is (status is Status.PASSED)


def test_a_task_a_program_and_its_evaluation_are_written_together(root: Path, tmp_path: Path) -> None:
    task, solution = load(root), program("dps")
    written = [
        str(path.relative_to(tmp_path / "out"))
        for path in write_all(tmp_path / "out", task, solution, evaluation(task))
    ]
    name = f"{NAME}_{solution.digest[:12]}"
    assert written == [
        f"definitions/custom/{NAME}.json",
        f"workloads/custom/{NAME}.jsonl",
        f"solutions/ksearch/custom/{NAME}/{name}.json",
        f"traces/ksearch/custom/{NAME}.jsonl",
    ]
    assert load_program(task, tmp_path / "out" / written[2], None) == solution
    lines = [json.loads(line) for line in (tmp_path / "out" / written[3]).read_text().splitlines()]
    assert [line["evaluation"]["performance"]["latency_ms"] for line in lines] == [0.01, 0.01]
    assert [line["workload"]["uuid"] for line in lines] == list(UUIDS)
    assert {line["evaluation"]["environment"]["hardware"] for line in lines} == {"NVIDIA H200"}


def test_flashinfer_bench_loads_what_is_written(tmp_path: Path) -> None:
    """Conformance: runs where flashinfer-bench is installed."""
    data = pytest.importorskip("flashinfer_bench.data", reason="needs the extra flashinfer-bench")
    written = tmp_path / "written"
    imported = load(write_folder(tmp_path / "trace"))
    tasks = [imported, *(task_of(name) for name in (GQA, MLA, PREFILL, MOE))]
    for task in tasks:
        save(written, export_definition(task, "attention"), "attention")
        workloads = [export_workload(task, workload) for workload in task.workloads]
        save_workloads(written, task.name, "attention", workloads)
        seed = task.seed("triton") or program("value")
        solution = export_solution(task, seed, "ksearch", ["NVIDIA H200"])
        save(written, solution, "attention")
        traces = export_traces(task, evaluation(task), solution, WHEN)
        traces += export_traces(task, evaluation(task, Status.WRONG_VALUES), solution, WHEN)
        traces += export_traces(task, evaluation(task, Status.TIMEOUT), solution, WHEN)
        save_traces(written, "ksearch", "attention", traces)
    loaded = data.TraceSet.from_path(str(written))
    assert set(loaded.definitions) == {task.name for task in tasks}
    for task in tasks:
        assert len(loaded.workloads[task.name]) == len(task.workloads)
        assert len(loaded.traces[task.name]) == 6
        assert list(loaded.definitions[task.name].inputs) == list(task.inputs)
        [solution] = loaded.solutions[task.name]
        assert solution.spec.destination_passing_style is (task.seed("triton") is not None)
        best = [trace for trace in loaded.traces[task.name] if trace.evaluation.performance is not None]
        assert {trace.evaluation.performance.speedup_factor for trace in best} == {2.0}


def test_an_exported_definition_can_be_imported_again(tmp_path: Path) -> None:
    first = load(write_folder(tmp_path / "trace"))
    again = tmp_path / "again"
    save(again, export_definition(first, "gqa_paged"), "gqa_paged")
    save_workloads(again, NAME, "gqa_paged", [export_workload(first, workload) for workload in first.workloads])
    second = load(again)
    for field in ("name", "constants", "axes", "arguments", "inputs", "outputs", "tolerance", "workloads"):
        assert getattr(second, field) == getattr(first, field), field
    module, values = made(second, 0)
    expected = load_reference(first.reference).reference(**values)
    assert torch.equal(module.reference(**values)["output"], expected["output"])


def test_what_the_format_has_no_words_for_is_refused(root: Path) -> None:
    task = load(root)
    plain = program("dps").model_copy(update={"binding": "plain_c"})
    with pytest.raises(TaskError, match="binding plain_c"):
        export_solution(task, plain, "someone", [])
    wide = {**task.inputs, "q": task.inputs["q"].model_copy(update={"dtype": "float64"})}
    with pytest.raises(TaskError, match="q: float64 cannot be written"):
        export_definition(task.model_copy(update={"inputs": wide}), "x")


def test_a_task_may_be_compared_with_another_baseline() -> None:
    assert "_moe_up_gate" in resolve_task(f"{MOE}@triton").reference
    assert "def planned_baseline(q_nope" in resolve_task(f"{MLA}@flashinfer").reference
    assert resolve_task(f"{MLA}@flashinfer").digest != resolve_task(MLA).digest
    with pytest.raises(TaskError, match="there is no baseline 'fast'; it has flashinfer"):
        resolve_task(f"{GQA}@fast")
    with pytest.raises(TaskError, match="there is no baseline 'fast'; there is none besides"):
        resolve_task("softmax@fast")
