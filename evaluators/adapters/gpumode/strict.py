"""A GPU MODE problem under our own evaluator: fresh inputs each call, true booleans, outputs checked elsewhere.

The problem's modules run where references do; `data` is taken apart into flat inputs, and put together again for the
program. The rule is that of its `make_match_reference`.
"""

import ast
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import ValidationError

from evaluators.adapters.gpumode.problem_folder import Case, ProblemFolder
from evaluators.adapters.gpumode.strict_source import probe_source, reference_source, wrapper_source
from evaluators.adapters.own_task import plain_name
from evaluators.adapters.probing import PROBE_S, NoRoom, Signature, probed
from evaluators.adapters.source_file import SourceFile
from evaluators.errors import TaskError
from evaluators.invalid import first_problem, problem_in
from evaluators.objective import Objective
from evaluators.solution import Language
from evaluators.task import Contract, DType, Scalar, Task, Tensor, Tolerance, Workload
from evaluators.task_file import size_problem
from evaluators.task_source import check_reference

_MATCHER = "make_match_reference"
_RTOL, _ATOL = 1e-5, 1e-8
"""What the format's comparison allows when the problem says nothing."""
_HIDDEN = ("reference.py", "eval.py")
"""Files that a program does not see."""
_CONTRACT = """
Programs define `custom_kernel(data)`. `data` is put together as the problem's `generate_input` does it, anew for each
call: {shape}. It returns the output (or a tuple of outputs), of the declared type, contiguous. Judged strictly: inputs
and weights differ from call to call, booleans mean what they say, and nothing may be kept between calls but what
depends on shapes alone. A tensor that is called `preallocated...` is fresh memory into which the result may be written.
"""


def strict_task(folder: ProblemFolder, device: str) -> Task:
    """Return the problem as a task of our evaluator. Raises TaskError that names the file and what in it is wrong."""
    source = SourceFile(folder.path / "reference.py", folder.files.get("reference.py", ""))
    for name in ("generate_input", "ref_kernel"):
        if name not in source.functions:
            source.refuse(f"defines no function {name}")
    tolerance = _tolerance(source)
    workloads = _workloads(source, folder)
    modules = _modules(folder)
    try:
        # The probe sees no GPU; sizes and types are the same without.
        about = _about(source, probe_source(modules, "cpu"), workloads)
        signature = probed(source, reference_source(modules, "cpu", about), workloads, PROBE_S, fake=True)
    except NoRoom as error:
        folder.refuse(_field_of(error.workload), error.problem)
    reference = reference_source(modules, device, about)
    try:
        task = _task(folder, reference, signature, tolerance, device, about)
        check_reference(reference, tuple(task.inputs))
    except ValidationError as error:
        source.refuse(first_problem(error))
    except TaskError as error:
        source.refuse(str(error))
    for workload in task.workloads:
        problem = size_problem(task, workload)
        if problem:
            folder.refuse(_field_of(workload), problem)
    return task


def _about(source: SourceFile, probe: str, workloads: Sequence[Workload]) -> dict[str, Any]:
    """Return how the problem's data is put together, and what of it differs from case to case."""
    about = probed(source, probe, workloads, PROBE_S, fake=True).about
    if not isinstance(about, dict) or not {"leaves", "shape", "promoted", "flags"} <= set(about):
        problem = about.get("problem") if isinstance(about, dict) else None
        source.refuse(str(problem or "what it says of its data is not understood"))
    names = [name for _, name in about["leaves"] if name is not None]
    if len(set(names)) != len(names) or not names:
        source.refuse("generate_input: two parts of its data have one name, or there is none")
    for place, kind, *_ in about["flags"]:
        if kind == "differs":
            source.refuse(
                f"generate_input: {place} is a word that differs from case to case, which no input can be; its own"
                f" check runs under the official protocol only: gpumode:{source.path.parent}#official"
            )
    return dict(about)


def _modules(folder: ProblemFolder) -> dict[str, str]:
    return {name: text for name, text in folder.files.items() if name.endswith(".py") and name != folder.main}


def _workloads(source: SourceFile, folder: ProblemFolder) -> list[Workload]:
    """Return the benchmarks as the search split and the tests as held out."""
    parameters = set(source.parameters("generate_input"))
    found = list[Workload]()
    for kind, cases in (("benchmark", folder.benchmarks), ("test", folder.tests)):
        for number, case in enumerate(cases):
            unknown = [name for name in case if name not in parameters]
            if unknown:
                folder.refuse(f"{_field(kind, number)}.{unknown[0]}", "generate_input has no such argument")
            found.append(_workload(folder, kind, number, case))
    return found


def _field(kind: str, number: int) -> str:
    return f"{kind}s[{number}]"


def _field_of(workload: Workload) -> str:
    kind, number = workload.name.split()
    return _field(kind, int(number))


def _workload(folder: ProblemFolder, kind: str, number: int, case: Case) -> Workload:
    axes = {key: value for key, value in case.items() if type(value) is int and value > 0 and key != "seed"}
    params = {key: _true_word(value) for key, value in case.items() if key not in axes}
    split = "search" if kind == "benchmark" else "held_out"
    workload = {"name": f"{kind} {number}", "split": split, "axes": axes, "params": params}
    try:
        return Workload.model_validate(workload)
    except ValidationError as error:
        problem = problem_in(error, workload)
        folder.refuse(".".join((_field(kind, number), *map(str, problem.keys[1:]))), problem.reason)


def _true_word(value: int | str | bool) -> int | str | bool:
    """Return a boolean for the words that mean one: under the official protocol they stay words."""
    return {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value


def _tolerance(source: SourceFile) -> Tolerance:
    """Return the tolerance that the problem hands to its matcher."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == _MATCHER:
            given = {word.arg: word.value for word in node.keywords}
            return Tolerance(
                rtol=_number(source, given.get("rtol"), _RTOL), atol=_number(source, given.get("atol"), _ATOL)
            )
    source.refuse(
        f"check_implementation: is not made by {_MATCHER}, its own check runs under the official protocol only: "
        f"gpumode:{source.path.parent}#official"
    )


def _number(source: SourceFile, node: ast.expr | None, default: float) -> float:
    if node is None:
        return default
    value = ast.literal_eval(node) if isinstance(node, ast.Constant) else None
    if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
        source.refuse(f"{_MATCHER}: rtol and atol must be written out")
    return float(value)


def _task(
    folder: ProblemFolder,
    reference: str,
    signature: Signature,
    tolerance: Tolerance,
    device: str,
    about: Mapping[str, Any],
) -> Task:
    wrapper = wrapper_source(list(signature.inputs), about)
    contract = Contract(entry_point="custom_kernel", binding="custom_kernel", wrapper=wrapper)
    languages: tuple[Language, ...] = ("python",) if device == "cpu" else ("triton", "python")
    kinds: tuple[DType, ...] = get_args(DType)
    assert all(tensor.dtype in kinds for tensor in signature.outputs.values())
    return Task(
        name=plain_name(folder.path.resolve()),
        title=f"GPU MODE {folder.path.resolve().name}",
        description=f"{folder.description.strip()}\n{_CONTRACT.format(shape=_words(about['shape']))}{_differences(about)}",
        device="cpu" if device == "cpu" else "cuda",
        constants=signature.constants,
        axes=signature.axes,
        inputs={name: _described(name, item, about["promoted"]) for name, item in signature.inputs.items()},
        outputs=signature.outputs,
        workloads=signature.workloads,
        tolerance=tolerance,
        objective=Objective(),
        contracts=dict.fromkeys(languages, contract),
        reference=reference,
        files={name: text for name, text in folder.files.items() if name not in (*_HIDDEN, folder.main)},
        timeout_s=float(folder.timeouts_s["test"]),
        origin=f"gpumode:{folder.path}",
        reference_at=str(folder.path / "reference.py"),
        workloads_at=str(folder.path / "task.yml"),
    )


def _described(name: str, item: Tensor | Scalar, promoted: Mapping[str, Sequence[str]]) -> Tensor | Scalar:
    """Return an input that says in which types the problem makes it, where there are several."""
    if name not in promoted:
        return item
    return item.model_copy(
        update={"description": f"made as {' or '.join(promoted[name][1:])}, the same type in all cases"}
    )


def _differences(about: Mapping[str, Any]) -> str:
    """Return, for coders, where `data` is not as the problem makes it."""
    lines = [f"`{name}` is {kinds[0]} in every case." for name, kinds in about["promoted"].items()]
    for place, kind, *value in about["flags"]:
        if kind == "left out":
            lines.append(f"`{place}` is not there: look at the tensors.")
        elif kind == "always":
            lines.append(f"`{place}` is always {value[0]!r}: look at the tensors.")
    return "".join(f"{line}\n" for line in lines)


def _words(shape: Any) -> str:
    """Return the nest as Python would write it."""
    kind, content = shape
    if kind == "dict":
        return "{" + ", ".join(f"{key!r}: {_words(item)}" for key, item in content) + "}"
    if kind in ("tuple", "list"):
        inner = ", ".join(_words(item) for item in content)
        return f"[{inner}]" if kind == "list" else f"({inner}{',' if len(content) == 1 else ''})"
    if kind == "flag":
        return f"bool({content})"
    return str(content) if kind == "input" else repr(content)
