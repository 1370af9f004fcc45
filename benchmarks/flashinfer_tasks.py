"""Every workload of the FlashInfer-Bench tasks on one GPU: made, checked and timed. Run: `--help`.

Needs torch and triton only (the program `flashinfer`: flashinfer-python too). Appends JSON lines to a file and skips
what is in it already, so that it may be stopped and started again. A row says what one program did on one workload:
milliseconds (the median of calls between two events, second-level cache flushed before each), and what the tolerance
says of its outputs. Every program is checked on fresh inputs, and once more on those that it is timed with.
"""

import argparse
import importlib.util
import json
import statistics
import sys
import time
import tomllib
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.flashinfer_errors import ERRORS, TASKS, load_reference, wrong_reference
from evaluators.worker.tolerance import Rule, compare

FOLDER = Path(__file__).parents[1] / "evaluators" / "tasks"
FLUSH_BYTES = 256 << 20
Outputs = tuple[torch.Tensor, ...]


class Bench:
    """One task's workloads and programs."""

    def __init__(self, name: str, rows: "Rows", budget_s: float) -> None:
        self.name, self.rows, self.budget_s = name, rows, budget_s
        self.task = tomllib.loads((FOLDER / name / "task.toml").read_text())
        self.source = (FOLDER / name / "reference.py").read_text()
        self.reference = load_reference(self.source)
        stated = self.task["tolerance"]
        self.rule = Rule(
            stated["rtol"], stated["atol"], stated["rule"], stated.get("matched", 1.0), stated.get("normalised")
        )
        self.flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")

    def programs(self, wanted: list[str]) -> dict[str, Callable[..., Callable[[], Outputs]]]:
        """Return what makes a timed call from inputs, by name: `eager`, `seed`, `seed_triton`, `triton`, ..."""
        found: dict[str, Callable[..., Callable[[], Outputs]]] = {}
        for name in wanted:
            if name == "eager":
                found[name] = _calling(self.reference.baseline)
            elif name.startswith("seed"):
                found[name] = self._seed(_module(FOLDER / self.name / f"{name}.py"))
            elif (FOLDER / self.name / f"baseline_{name}.py").is_file():
                found[name] = _baseline(_module(FOLDER / self.name / f"baseline_{name}.py"))
        return found

    def _seed(self, module: types.ModuleType) -> Callable[..., Callable[[], Outputs]]:
        def prepare(**values: Any) -> Callable[[], Outputs]:
            outputs = tuple(
                torch.full(self._shape(tensor["shape"], values), torch.nan, device="cuda").to(
                    getattr(torch, tensor["dtype"])
                )
                for tensor in self.task["outputs"].values()
            )

            def call() -> Outputs:
                module.run(*values.values(), *outputs)
                return outputs

            return call

        return prepare

    def _shape(self, axes: list[str], values: dict[str, Any]) -> list[int]:
        first = next(iter(values.values()))
        lengths = {"batch_size": first.shape[0], "total_q": first.shape[0], "seq_len": first.shape[0]}
        return [lengths.get(axis) or self.task["constants"][axis] for axis in axes]

    def workload(self, workload: dict[str, Any], programs: dict[str, Callable[..., Callable[[], Outputs]]]) -> None:
        """Measure the programs that have no row yet."""
        due = {name: make for name, make in programs.items() if not self.rows.has(self.name, workload["name"], name)}
        if not due:
            return
        sizes = {**self.task["constants"], **workload["axes"]}
        examples = []
        for seed in (1, 2):
            started = _now()
            values = self.reference.inputs(sizes, workload.get("params", {}), seed)
            made = _now()
            examples.append((values, _tuple(self.reference.reference(**values))))
            made_s, answered_s = made - started, _now() - made
        floor = self.reference.floor(sizes)
        common = {"made_s": round(made_s, 4), "answered_s": round(answered_s, 4), **floor}
        for name, prepare in due.items():
            try:
                row = self._measure(prepare, examples)
            except Exception as error:  # one program's failure is its row, the others go on
                row = {"status": "error", "message": f"{type(error).__name__}: {error}"[:400]}
                if "CUDA error" in str(error):  # nothing more can be done in this process
                    self.rows.add(self.name, workload["name"], name, row)
                    raise
            self.rows.add(self.name, workload["name"], name, {**common, **row})

    def _measure(self, prepare: Callable[..., Callable[[], Outputs]], examples: list[Any]) -> dict[str, Any]:
        (values, expected), (timed_values, timed_expected) = examples
        started = time.perf_counter()
        row = self.judged(prepare(**values)(), expected)
        row["first_s"] = round(time.perf_counter() - started, 3)
        if row["status"] != "passed":
            return row
        call = prepare(**timed_values)
        row |= self.judged(call(), timed_expected)
        if row["status"] != "passed":
            return row
        row |= self.times(call)
        return row | self.judged(call(), timed_expected)

    def judged(self, got: Outputs, expected: Outputs) -> dict[str, Any]:
        """Return what the tolerance says of all outputs together."""
        found = [compare(self.rule, one, other) for one, other in zip(got, expected, strict=True)]
        failed = next((finding for finding in found if finding.status != "passed"), None)
        return {
            "status": "passed" if failed is None else str(failed.status.value),
            "message": "" if failed is None else failed.message,
            "matched": round(min(finding.matched for finding in found), 6),
            "normalised": [float(f"{finding.normalised:.3g}") for finding in found],
            "worst": float(f"{max(finding.worst for finding in found):.3g}"),
        }

    def times(self, call: Callable[[], Outputs]) -> dict[str, Any]:
        """Return the median time of a call and its spread, milliseconds, and how many calls there were."""
        took = [self._once(call) for _ in range(3)]
        count = max(3, min(50, int(self.budget_s * 1e3 / (took[-1] + 0.1))))
        took = sorted(self._once(call) for _ in range(count))
        spread = (took[(3 * count) // 4] - took[count // 4]) / statistics.median(took)
        return {"ms": round(statistics.median(took), 6), "spread": round(spread, 4), "calls": count}

    def _once(self, call: Callable[[], Outputs]) -> float:
        begin, end = _event(), _event()
        self.flush.zero_()
        begin.record()
        call()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end))

    def errors(self, workload: dict[str, Any]) -> None:
        """Check that each deliberate error is rejected at full size."""
        due = [error for error in ERRORS[self.name] if not self.rows.has(self.name, workload["name"], error)]
        if not due:
            return
        sizes = {**self.task["constants"], **workload["axes"]}
        values = self.reference.inputs(sizes, workload.get("params", {}), 3)
        expected = _tuple(self.reference.reference(**values))
        for error in due:
            got = _tuple(wrong_reference(self.name, error, self.source)(**values))
            self.rows.add(self.name, workload["name"], error, {"error": True, **self.judged(got, expected)})
            del got


class Rows:
    """The results file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._seen = {(row["task"], row["workload"], row["program"]) for row in map(json.loads, lines)}

    def has(self, task: str, workload: str, program: str) -> bool:
        """Return whether there is a row."""
        return (task, workload, program) in self._seen

    def add(self, task: str, workload: str, program: str, row: dict[str, Any]) -> None:
        """Append a row."""
        with self._path.open("a") as file:
            file.write(json.dumps({"task": task, "workload": workload, "program": program, **row}) + "\n")
        self._seen.add((task, workload, program))


def _tuple(answer: Any) -> Outputs:
    return answer if isinstance(answer, tuple) else tuple(answer) if isinstance(answer, list) else (answer,)


def _calling(function: Callable[..., Any]) -> Callable[..., Callable[[], Outputs]]:
    return lambda **values: lambda: _tuple(function(**values))


def _baseline(module: types.ModuleType) -> Callable[..., Callable[[], Outputs]]:
    names = vars(module)
    if "planned_baseline" not in names:
        return _calling(names["baseline"])

    def prepare(**values: Any) -> Callable[[], Outputs]:
        planned = names["planned_baseline"](**values)
        return lambda: _tuple(planned())

    return prepare


def _module(path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(f"{path.parent.name[:8]}_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path}: cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _now() -> float:
    torch.cuda.synchronize()
    return time.perf_counter()


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _for_errors(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the last workload of the search, one of the middle, and the last: each has several queries and tokens."""
    workloads = task["workloads"]
    yield [workload for workload in workloads if workload["split"] == "search"][-1]
    yield workloads[len(workloads) * 2 // 3]
    yield workloads[-1]


def _roof() -> dict[str, float]:
    """Return the bytes that this GPU copies (read and written) and its bfloat16 operations, a second."""
    source = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    copy_ms = _median_ms(lambda: target.copy_(source))
    product_ms = _median_ms(lambda: a @ a)
    return {"copy_bytes_per_s": 2e3 * source.nbytes / copy_ms, "bf16_per_s": 2e3 * 8192**3 / product_ms}


def _median_ms(call: Callable[[], Any]) -> float:
    took = []
    for _ in range(12):
        begin, end = _event(), _event()
        begin.record()
        call()
        end.record()
        end.synchronize()
        took.append(begin.elapsed_time(end))
    return float(statistics.median(took[2:]))


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="JSON-lines file that rows are appended to")
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), help="names, or parts of them")
    parser.add_argument("--programs", nargs="*", default=["eager", "seed", "seed_triton", "triton"])
    parser.add_argument("--only", default="", help="workloads whose name begins so")
    parser.add_argument("--errors", action="store_true", help="check the deliberate errors instead")
    parser.add_argument("--budget-s", type=float, default=0.03, help="seconds of timed calls, for each program")
    options = parser.parse_args()
    rows = Rows(options.out)
    if not rows.has("", "", "device"):
        rows.add("", "", "device", {"device": torch.cuda.get_device_name(), "torch": torch.__version__, **_roof()})
    for name in (task for task in TASKS if any(part in task for part in options.tasks)):
        bench = Bench(name, rows, options.budget_s)
        started = time.perf_counter()
        if options.errors:
            for workload in _for_errors(bench.task):
                bench.errors(workload)
        else:
            programs = bench.programs(options.programs)
            for workload in bench.task["workloads"]:
                if workload["name"].startswith(options.only):
                    bench.workload(workload, programs)
        torch.cuda.empty_cache()
        print(f"{name}: {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
