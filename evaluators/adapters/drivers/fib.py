"""Driver: checks and times a program on one workload by FlashInfer-Bench's protocol, in the program's own process.

For every trial, inputs are drawn anew and the reference gives the right outputs. The baseline is timed; only then is
the program loaded. It must be right on every trial; then it is timed on the inputs of each: a call, 5 more, 10 to warm
up, 50 that count. Before each of these, a buffer of twice the second-level cache is zeroed and the device is waited
for; a call's time is that between two device events, on a processor that of the clock. A trial's figure is the median
of its 50, the latency the mean of the trials' figures.
"""

import inspect
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from evaluators.worker import loading, tolerance
from evaluators.worker.failure import CandidateFailure
from evaluators.worker.source import load_source
from evaluators.worker.status import Status

FIRST, WARM_UP = 6, 10
SLOW_S = 5.0
"""A baseline that would take longer than this a trial, seconds, is timed with fewer calls: FEW_WARM_UP and FEW."""
FEW_WARM_UP, FEW = 1, 5
Call = Callable[[], Any]
Clock = Callable[[Call], float]


class TaskProblem(Exception):
    """The task cannot be judged: its reference or its baseline fails."""


@dataclass(frozen=True)
class Trial:
    """Inputs in the order in which they are passed, and the right outputs."""

    inputs: tuple[Any, ...]
    expected: dict[str, torch.Tensor]


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Return what became of the program on the workload.

    `request`: `reference` (source); `case` (`axes`, `params`); `inputs` (names); `outputs`
    (name, dtype and shape of each); `rule` (of tolerance.py); `program` (`files`, `main`, `entry_point`, `binding`);
    `seeds` (one a trial); `device`; `timed`; `repeats` (calls of a trial that count).

    With `program` None only the task's own code runs: the answer is no program's word then.

    The answer is `{"task"}`, why the task itself cannot be judged; `{"alone"}`, that it can be, without a program;
    `{"failed": {"status", "message", "log"}}`; or `{"worst"}`, the largest error as a share of what is allowed, and if
    timed `candidate_ms`, `baseline_ms`, and `few`, whether the baseline was timed with fewer calls.
    """
    judged = _Judged(request, tolerance.Rule(*request["rule"]))
    try:
        return judged.answer()
    except TaskProblem as problem:
        return {"task": str(problem)}
    except CandidateFailure as failure:
        return {"failed": {"status": failure.status, "message": failure.message, "log": failure.log}}


class _Judged:
    """One program on one workload."""

    def __init__(self, request: dict[str, Any], rule: tolerance.Rule) -> None:
        self.request, self.rule = request, rule
        self.outputs: list[dict[str, Any]] = request["outputs"]
        self.device: str = request["device"]
        self.repeats: int = request["repeats"]

    def answer(self) -> dict[str, Any]:
        """Return the driver's answer. Raises TaskProblem, CandidateFailure."""
        names = _blamed("its source", lambda: vars(load_source(self.request["reference"])))
        trials = [_blamed("its reference", partial(self.trial, names, seed)) for seed in self.request["seeds"]]
        timed = self.request["timed"]
        baseline = self.baselines(names, trials) if timed else []
        if self.request["program"] is None:
            return {"alone": True}
        function = self.program()
        worst = self.check(function, trials)
        if not timed:
            return {"worst": worst}
        clock = make_clock(self.device)
        candidate = [self.time(function, trial, clock) for trial in trials]
        return {
            "worst": worst,
            "candidate_ms": statistics.fmean(candidate),
            "baseline_ms": statistics.fmean(took for took, _ in baseline),
            "few": any(few for _, few in baseline),
        }

    def trial(self, names: dict[str, Any], seed: int) -> Trial:
        """Return inputs of `seed` with their right outputs."""
        torch.manual_seed(seed)
        case = self.request["case"]
        made = names["inputs"](dict(case["axes"]), dict(case["params"]), seed)
        inputs = tuple(self.placed(made[name]) for name in self.request["inputs"])
        with torch.no_grad():
            answer = names["reference"](**dict(zip(self.request["inputs"], inputs, strict=True)))
        expected = {name: self.placed(value) for name, value in self.named(answer).items()}
        wait(self.device)  # What the reference does wrong on the device is told here, not in the program's first call.
        return Trial(inputs, expected)

    def baselines(self, names: dict[str, Any], trials: list[Trial]) -> list[tuple[float, bool]]:
        """Return `baseline` of each trial."""
        clock = make_clock(self.device)
        return [_blamed("its baseline", partial(self.baseline, names, trial, clock)) for trial in trials]

    def baseline(self, names: dict[str, Any], trial: Trial, clock: Clock) -> tuple[float, bool]:
        """Return what the task's baseline takes, milliseconds, and whether fewer calls were made. It must be right."""
        given = dict(zip(self.request["inputs"], trial.inputs, strict=True))
        with torch.no_grad():
            if "planned_baseline" in names:
                call: Call = names["planned_baseline"](**given)
            else:
                call = partial(names.get("baseline", names["reference"]), **given)
            if {"baseline", "planned_baseline"} & set(names):
                self.check_baseline(call, trial)
            return latency_ms(call, clock, self.repeats, SLOW_S)

    def check_baseline(self, call: Call, trial: Trial) -> None:
        """Raise TaskProblem unless the baseline is as right as programs must be."""
        answer = self.named(call())
        for name, expected in trial.expected.items():
            finding = tolerance.compare(self.rule, self.placed(answer[name]).contiguous(), expected.contiguous())
            if finding.message:
                raise TaskProblem(f"its baseline is wrong: {name}: {finding.message}")

    def program(self) -> Callable[..., Any]:
        """Return the program's function. Raises CandidateFailure when there is none, or it takes other arguments."""
        program, folder = self.request["program"], Path.cwd() / "program"
        folder.mkdir()
        for name, text in program["files"].items():
            (folder / name).write_text(text)
        place = {"binding": program["binding"], "path": str(folder / program["main"])}
        function, _ = loading.load({**place, "entry_point": program["entry_point"]}, [])
        count = len(self.request["inputs"]) + (len(self.outputs) if self.writes else 0)
        try:
            inspect.signature(function).bind(*range(count))
        except TypeError as error:
            raise CandidateFailure(Status.BUILD_ERROR, f"it is called with {count} arguments: {error}") from error
        except ValueError:
            pass  # Functions that are not Python's have no signature to look at.
        return function

    @property
    def writes(self) -> bool:
        """Whether the program is handed its outputs."""
        return bool(self.request["program"]["binding"] == "dps")

    def call(self, function: Callable[..., Any], trial: Trial) -> tuple[Call, list[torch.Tensor]]:
        """Return the call, and the outputs that it is handed: not a number each, until it writes them."""
        made = [_unwritten(output, self.device) for output in self.outputs] if self.writes else []
        return lambda: function(*trial.inputs, *made), made

    def check(self, function: Callable[..., Any], trials: list[Trial]) -> float:
        """Return the largest error as a share of what is allowed. Raises CandidateFailure."""
        worst = 0.0
        for number, trial in enumerate(trials, start=1):
            call, made = self.call(function, trial)
            answer = _caught(partial(self.called, call))
            got = made if self.writes else self.returned(answer)
            for output, value in zip(self.outputs, got, strict=True):
                worst = max(worst, self.compared(output, value, trial, f"trial {number}: {output['name']}"))
        return worst

    def called(self, call: Call) -> Any:
        """Return what a call returns, once the device is done."""
        with torch.no_grad():
            answer = call()
        wait(self.device)
        return answer

    def returned(self, answer: Any) -> list[Any]:
        """Return a returned value as a list of outputs. Raises CandidateFailure."""
        items = list(answer) if isinstance(answer, tuple | list) else [answer]
        if len(items) != len(self.outputs) or not all(isinstance(item, torch.Tensor) for item in items):
            kinds = ", ".join(type(item).__name__ for item in items)[:200]
            raise CandidateFailure(Status.RUNTIME_ERROR, f"returned {kinds}; expected {len(self.outputs)} tensors")
        return items

    def compared(self, output: dict[str, Any], got: torch.Tensor, trial: Trial, where: str) -> float:
        """Return an output's largest error as a share of what is allowed. Raises CandidateFailure."""
        expected = trial.expected[output["name"]]
        if got.shape != expected.shape:
            raise CandidateFailure(
                Status.WRONG_SHAPE, f"{where} has shape {list(got.shape)}, not {list(expected.shape)}"
            )
        if got.dtype != expected.dtype:
            raise CandidateFailure(Status.WRONG_DTYPE, f"{where} is {got.dtype}, not {expected.dtype}")
        found = tolerance.compare(self.rule, got.to(expected.device).contiguous(), expected.contiguous())
        if found.message:
            raise CandidateFailure(found.status, f"{where}: {found.message}")
        return float(found.worst)

    def time(self, function: Callable[..., Any], trial: Trial, clock: Clock) -> float:
        """Return what the program takes on a trial's inputs, milliseconds. Raises CandidateFailure."""
        call, _ = self.call(function, trial)
        with torch.no_grad():
            took: float = _caught(lambda: latency_ms(call, clock, self.repeats, None)[0])
        return took

    def named(self, answer: Any) -> dict[str, Any]:
        """Return what the reference or the baseline returned by output name."""
        if isinstance(answer, dict):
            return answer
        items = answer if isinstance(answer, tuple | list) else [answer]
        return dict(zip((output["name"] for output in self.outputs), items, strict=True))

    def placed(self, value: Any) -> Any:
        """Return a tensor where programs are to find it."""
        return value.to(self.device) if isinstance(value, torch.Tensor) else value


def latency_ms(call: Call, clock: Clock, repeats: int, slow_s: float | None) -> tuple[float, bool]:
    """Return the median time of a call, milliseconds, and whether fewer calls were made because it is slow.

    The first call tells nothing of that: it may compile.
    """
    clock(call)
    second_s = clock(call) / 1e3
    few = slow_s is not None and second_s * (FIRST + WARM_UP + repeats) > slow_s
    warm_up, counted = (FEW_WARM_UP, FEW) if few else (FIRST - 2 + WARM_UP, repeats)
    for _ in range(warm_up):
        clock(call)
    return statistics.median(clock(call) for _ in range(counted)), few


def make_clock(device: str) -> Clock:
    """Return what times one call, milliseconds, after a flush of the cache where the device has one to flush."""
    if device == "cpu":
        return _wall_ms
    cuda: Any = torch.cuda
    nbytes = 2 * cuda.get_device_properties(0).L2_cache_size
    buffer = torch.empty(nbytes, dtype=torch.int8, device="cuda")
    begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)

    def took_ms(call: Call) -> float:
        buffer.zero_()
        cuda.synchronize()
        begin.record()
        call()
        end.record()
        cuda.synchronize()
        return float(begin.elapsed_time(end))

    return took_ms


def wait(device: str) -> None:
    """Wait for the device."""
    if device == "cuda":
        torch.cuda.synchronize()


def _wall_ms(call: Call) -> float:
    began = time.perf_counter_ns()
    call()
    return max(1, time.perf_counter_ns() - began) / 1e6


def _unwritten(output: dict[str, Any], device: str) -> torch.Tensor:
    made = torch.empty(output["shape"], dtype=getattr(torch, output["dtype"]), device=device)
    if made.is_floating_point() and made.element_size() > 1:
        return made.fill_(float("nan"))
    made.view(torch.uint8).fill_(0 if made.dtype == torch.bool else 0x7F)
    return made


def _blamed(what: str, step: Callable[[], Any]) -> Any:
    """Return what `step`, the task's own code, returns. Raises TaskProblem."""
    try:
        return step()
    except TaskProblem:
        raise
    except Exception as error:  # the task's code may raise anything: told as a problem of the task
        words = " ".join(str(error).split())[:400]
        raise TaskProblem(f"{what} failed: {type(error).__name__}: {words}") from error


def _caught(step: Callable[[], Any]) -> Any:
    """Return what `step`, the program's code, returns. Raises CandidateFailure with what it raises."""
    guard, found = loading.Guard(), []
    with guard:
        found.append(step())
    if guard.failure is not None:
        raise CandidateFailure(guard.failure["status"], guard.failure["message"], log=guard.failure["log"])
    return found[0]
