"""A GPU MODE problem under the format's own protocol: its eval.py judges and times programs, as upstream does."""

import json

from evaluators.adapters.gpumode.problem_folder import ProblemFolder
from evaluators.adapters.own_task import plain_name
from evaluators.objective import Objective
from evaluators.solution import Language
from evaluators.task import Contract, Task, Tolerance, Workload

META = "ksearch-official.json"
"""Beside the problem's files: what its task.yml says of the run."""
_CONTRACT = """
Programs define `custom_kernel(data)` in `{submission}`; types come from `task.py`. Judged by the problem's own {main}:
test, benchmark, and for a winner leaderboard; what counts is {ranking} of the benchmarks' mean times. Under this
protocol words in cases stay words: `False` is the text "False".
"""
_RANKINGS = {"geom": "the geometric mean", "mean": "the mean", "last": "the last"}
COMPILE_S = 120


def official_task(folder: ProblemFolder, device: str) -> Task:
    """Return the problem as a task that its own eval.py judges. Nothing is run."""
    meta = {
        "main": folder.main,
        "submission": folder.submission,
        "tests": [dict(case) for case in folder.tests],
        "benchmarks": [dict(case) for case in folder.benchmarks],
        "ranking": folder.ranking,
        "timeouts_s": dict(folder.timeouts_s),
    }
    contract = Contract(entry_point="custom_kernel", binding="file")
    languages: tuple[Language, ...] = ("python",) if device == "cpu" else ("triton", "python")
    words = {"submission": folder.submission, "main": folder.main, "ranking": _RANKINGS[folder.ranking]}
    return Task(
        name=f"{plain_name(folder.path.resolve())}-official",
        title=f"GPU MODE {folder.path.resolve().name}, official protocol",
        description=f"{folder.description.strip()}\n{_CONTRACT.format(**words)}",
        device="cpu" if device == "cpu" else "cuda",
        axes=(),
        inputs={},
        outputs={},
        workloads=(Workload(name="official", axes={}),),
        tolerance=Tolerance(rtol=0.0, atol=0.0),
        objective=Objective(name=folder.ranking, goal="min", unit="us"),
        contracts=dict.fromkeys(languages, contract),
        reference=folder.files.get("reference.py", folder.files[folder.main]),
        verdict="gpumode",
        files={**folder.files, META: json.dumps(meta)},
        timeout_s=float(sum(folder.timeouts_s.values()) + COMPILE_S),
        origin=f"gpumode:{folder.path}#official",
    )
