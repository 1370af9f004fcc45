"""Output classes: narrower results are another task's."""

from types import ModuleType
from typing import Any

import pytest

from evaluators.errors import TaskError
from evaluators.local import LocalEvaluator
from evaluators.output_class import with_output
from evaluators.resolve import resolve_builtin, resolve_task
from evaluators.task import contract_solution
from tests.evaluators.test_trimul import small


def floor(source: str, axes: dict[str, int]) -> Any:
    made = ModuleType("reference")
    exec(compile(source, "reference.py", "exec"), vars(made))
    return vars(made)["floor"](axes)


def test_it_is_another_task_with_a_lower_floor_and_no_seed() -> None:
    plain, half = resolve_task("trimul"), resolve_builtin("trimul?output=float16")
    assert half.digest != plain.digest
    assert (half.name, half.outputs["y"].dtype, half.origin) == ("trimul-float16", "float16", "trimul?output=float16")
    assert [half.seed("python"), half.seed("triton")] == [None, None]
    sizes = {"batch": 2, "n": 8, "dim": 16, "hidden": 32}
    saved = floor(plain.reference, sizes)["bytes"] - floor(half.reference, sizes)["bytes"]
    assert saved == 2 * 2 * 8 * 8 * 16
    assert floor(half.reference, sizes)["operations"] == floor(plain.reference, sizes)["operations"]


async def test_each_class_takes_its_own_results_only() -> None:
    plain = small()
    half = with_output(plain, "float16", "trimul?output=float16")
    seed = plain.seed("python")
    assert seed is not None
    wide = seed.files["seed.py"]
    narrow = wide.replace("return gated", "return (gated").replace('"].t()\n', '"].t()).half()\n')
    assert narrow != wide
    judge = LocalEvaluator()
    found = {}
    try:
        for task in (plain, half):
            programs = [
                contract_solution(task.contracts["python"], "python", {"p.py": text}) for text in (wide, narrow)
            ]
            verdicts = await judge.compare(task, programs, "search" if task is half else "check")
            found[task.name] = [verdict.status.value for verdict in verdicts.evaluations]
    finally:
        await judge.close()
    # The search times the half class' baseline, too: it rounds as programs must.
    assert found == {"trimul": ["passed", "wrong_dtype"], "trimul-float16": ["wrong_dtype", "passed"]}


@pytest.mark.parametrize(
    ("reference", "reason"),
    {
        "trimul?output=float8": "output: must be float16 or bfloat16",
        "trimul_official?output=float16": "is for tasks judged by ksearch that have float32 results",
        "trimul?class=half": "unknown option 'class'; it may be one of output",
        "trimul_official?class=half": "unknown option 'class'; it has none",
    }.items(),
)
def test_what_is_no_class(reference: str, reason: str) -> None:
    with pytest.raises(TaskError) as caught:
        resolve_task(reference)
    assert reason in str(caught.value)
    assert str(caught.value).startswith(reference)
