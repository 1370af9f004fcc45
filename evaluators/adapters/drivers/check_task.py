"""Driver: whether a task can be got right by accident, found by running its reference on changed inputs and outputs."""

import importlib
import math
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

Tensors = dict[str, Any]
_TOO_FAR, _NEAR = 4.0, 0.25
_MEMORY_WORDS = ("not enough memory", "can't allocate memory", "Cannot allocate memory", "MemoryError")
_ENDLESS = "no end within"
_TOO_LARGE = "takes more memory or time than there is without its device"
_SAMPLE = 1 << 20
"""Of a large input, so many values tell its mean."""
_UNUSED = "preallocated"
"""How inputs are called that only lend their shape."""
_LONGEST = 4000
"""Characters of a finding."""
_LEFT_OUT = 20
"""One part in so many is left out of an output."""


class Refused(Exception):
    """A check failed; the message says why."""


def main(request: dict[str, Any]) -> list[dict[str, str]]:
    """Return findings: `check`, `state` (passed, failed, not checked) and `detail`.

    `request`: `task` (the job's form), `timed` (whether the baseline can be timed here).
    """
    sys.path.insert(0, request["folder"])
    checker = Checker(request["task"])
    if not checker.run("the reference runs", checker.reference_runs):
        return checker.findings
    checker.run("inputs are repeatable", checker.repeatable)
    checker.run("inputs depend on the seed", checker.seeded)
    checker.run("every input matters", checker.inputs_matter)
    checker.run("a constant output is wrong", checker.constants_fail)
    checker.run("an output with a part left out is wrong", checker.parts_fail)
    checker.run("the tolerance is not vacuous", checker.perturbed)
    checker.run("half precision", checker.half)
    checker.run("the baseline is right", checker.baseline_right)
    checker.check_floors(timed=request["timed"])
    return checker.findings


class Checker:
    """One task under examination."""

    def __init__(self, task: dict[str, Any]) -> None:
        tolerance = importlib.import_module("tolerance")
        self.task, self.findings = task, list[dict[str, str]]()
        self.rule = tolerance.Rule(task["rtol"], task["atol"], task["rule"], task["matched"], task["normalised"])
        self.compare: Callable[..., Any] = tolerance.compare
        self.names: dict[str, Any] = {}
        self.until = math.inf
        self.at = ""
        self.cases = task["cases"]
        self.case = min((case for case in self.cases if not case["held_out"]), key=_volume)
        self.others = sorted((case for case in self.cases if case is not self.case), key=_volume)
        self.made: Tensors = {}
        self.expected: Tensors = {}
        self.least: dict[str, dict[str, Any]] = {}

    def note(self, check: str, state: str, detail: str) -> None:
        """Add a finding."""
        self.findings.append({"check": check, "state": state, "detail": detail[:_LONGEST]})

    def run(self, check: str, function: Callable[[], str]) -> bool:
        """Add the finding of one check; returns whether it passed."""
        outcome: list[str] = []
        sys.stdout.write(f"\nat: {check}\n")
        sys.stdout.flush()
        self.until = math.inf if self.task["device"] == "cpu" else time.monotonic() + self.task["timeout_s"]
        with caught(outcome):
            self.note(check, "passed", function())
        for reason in outcome:
            self.note(check, *(("not checked", _TOO_LARGE) if self.too_large(reason) else ("failed", reason)))
        return not outcome

    def reference_runs(self) -> str:
        """Run everything once, and keep the smallest search workload for the other checks."""
        module = types.ModuleType("reference")
        with self.limited("its source"):
            exec(compile(self.task["reference"], "reference.py", "exec"), vars(module))
        self.names = vars(module)
        self.run_case(self.case)
        left_out = list[str]()
        for case in self.others:
            outcome: list[str] = []
            with caught(outcome, self.too_large):
                self.run_case(case)
            left_out += [case["name"] for _ in outcome]
        words = f", not tried on this machine: {', '.join(left_out)}" if left_out else ""
        ran = len(self.cases) - len(left_out)
        return f"{ran} of {len(self.cases)} workloads; the checks below are made on {self.case['name']}{words}"

    def run_case(self, case: dict[str, Any]) -> None:
        """Run the reference at one workload."""
        inputs = self.inputs(case, 1)
        outputs = self.reference(inputs)
        for argument, value in [
            *((item, inputs.get(item["name"])) for item in self.task["inputs"]),
            *((item, outputs.get(item["name"])) for item in self.task["outputs"]),
        ]:
            _check_declared(argument, value, case)
        if case is self.case:
            self.made, self.expected = inputs, outputs

    def too_large(self, reason: str) -> bool:
        """Return whether a failure is for want of what another device has, memory or speed.

        Of a reference that does not return at its smallest workload, this is not believed.
        """
        wanted = (*_MEMORY_WORDS, _ENDLESS) if self.expected else _MEMORY_WORDS
        return self.task["device"] != "cpu" and any(words in reason for words in wanted)

    def repeatable(self) -> str:
        """The same seed gives the same inputs, and the same inputs the same outputs."""
        again = self.inputs(self.case, 1)
        different = [name for name, value in self.made.items() if not _same(value, again[name])]
        if different:
            raise Refused(f"with one seed, {', '.join(different)} differ from one call to the next: use the seed given")
        outputs = self.reference(_copied(self.made))
        wrong = self.wrong(outputs)
        if wrong:
            raise Refused(f"the reference gives something else the second time: {wrong}")
        return ""

    def seeded(self) -> str:
        """Another seed gives other inputs."""
        other = self.inputs(self.case, 2)
        same = [name for name, value in self.made.items() if _same(value, other[name])]
        fixed = [name for name in same if _random(self.made[name])]
        if fixed or len(same) == len(self.made):
            raise Refused(f"{', '.join(fixed or same)} do not depend on the seed: a program could know them beforehand")
        return f"but for {', '.join(same)}" if same else ""

    def inputs_matter(self) -> str:
        """Any input in place of which another one stands gives another output, at some workload at least."""
        kept, left = (self.made, self.expected), {name for name in self.made if not name.startswith(_UNUSED)}
        skipped: set[str] = set()
        for case in [self.case, *self.others]:
            if case is not self.case:
                self.made = self.inputs(case, 1)
                self.expected = self.reference(_copied(self.made))
            for name, other in self.inputs(case, 2).items():
                verdicts = (
                    [self._changed(name, value) for value in _changes(self.made[name], other)] if name in left else []
                )
                if any(verdicts) or None in verdicts:
                    left.discard(name)
                    skipped |= set() if any(verdicts) else {name}
            if not left:
                break
        self.made, self.expected = kept
        if left:
            raise Refused(f"a program may ignore {', '.join(sorted(left))}: changing it leaves the output right")
        words = ", ".join(sorted(skipped))
        return f"not told for {words}: the reference fails when it is changed" if words else ""

    def _changed(self, name: str, value: Any) -> bool | None:
        """Return whether the output is wrong with this input in place of its own; None when the reference fails."""
        outcome: list[str] = []
        with caught(outcome):
            return self.wrong(self.reference({**_copied(self.made), name: value})) != ""
        return None

    def constants_fail(self) -> str:
        """Zeros are wrong, and so is the mean of each output."""
        for what, constant in (("zeros", torch.zeros_like), ("its mean", _mean_like)):
            for name, expected in self.expected.items():
                if not self.wrong({**self.expected, name: constant(expected)}):
                    raise Refused(f"{name}: {what} everywhere would be right: the tolerance is too wide for its values")
        return ""

    def parts_fail(self) -> str:
        """An output whose last twentieth is zero is wrong."""
        for name, expected in self.expected.items():
            part = expected.clone().reshape(-1)
            part[-max(1, part.numel() // _LEFT_OUT) :] = 0
            if part.numel() >= _LEFT_OUT and not self.wrong({**self.expected, name: part.view(expected.shape)}):
                raise Refused(f"{name}: right with its last twentieth set to zero")
        return ""

    def perturbed(self) -> str:
        """Errors well beyond the tolerance are wrong, errors well within it are right."""
        for name, expected in self.expected.items():
            if not expected.is_floating_point():
                if self.rule.rtol == self.rule.atol == 0 and not self.wrong({**self.expected, name: _off(expected)}):
                    raise Refused(f"{name}: other whole numbers would be right")
                continue
            if self.wrong({**self.expected, name: self._moved(expected, _NEAR)}):
                raise Refused(f"{name}: an error of a quarter of the tolerance is wrong: the type cannot hold it")
            if not self.wrong({**self.expected, name: self._moved(expected, _TOO_FAR)}):
                raise Refused(f"{name}: an error of four times the tolerance in every element is right")
        return f"an error of {_NEAR:g} times the tolerance is right, of {_TOO_FAR:g} times is wrong"

    def _moved(self, expected: torch.Tensor, times: float) -> torch.Tensor:
        wide = expected.double()
        step = times * (self.rule.atol + self.rule.rtol * wide.abs())
        if self.rule.normalised is not None:
            step = step.clamp(max=times * self.rule.normalised * float(wide.std())) if times < 1 else step
        signs = torch.where(torch.rand(wide.shape) < 0.5, -1.0, 1.0)
        moved: torch.Tensor = (wide + step * signs).to(expected.dtype)
        return moved

    def half(self) -> str:
        """Say how results and inputs of half precision would be judged."""
        words = []
        for dtype in (torch.float16, torch.bfloat16):
            rounded = {name: _rounded(value, dtype) for name, value in self.expected.items()}
            words.append(f"{_short(dtype)} results are {'wrong' if self.wrong(rounded) else 'right'}")
            outcome: list[str] = []
            with caught(outcome):
                made = {name: _rounded(value, dtype) for name, value in self.made.items()}
                words.append(f"{_short(dtype)} inputs {'wrong' if self.wrong(self.reference(made)) else 'right'}")
        return ", ".join(words)

    def baseline_right(self) -> str:
        """The baseline is judged like a program."""
        wrong = self.wrong(self.named(self.baseline()(), self.task["outputs"]))
        if wrong:
            raise Refused(wrong)
        return "it is the reference" if not {"baseline", "planned_baseline"} & set(self.names) else ""

    def check_floors(self, *, timed: bool) -> None:
        """Add what is found of the task's floors."""
        if not self.run("floors", self.floors_told) or not self.least:
            return
        check = "the floor is below the baseline"
        if timed:
            self.run(check, self.floors)
        else:
            self.note(check, "not checked", "needs the task's device")

    def floors_told(self) -> str:
        """Ask for the floor of every workload."""
        if "floor" not in self.names:
            return "none: nothing is refused for being too fast"
        floors = importlib.import_module("floors")
        try:
            self.least = {case["name"]: floors.told(self.names["floor"], case) for case in self.cases}
        except floors.Untold as error:
            raise Refused(str(error)) from error
        return f"told for {len(self.least)} workloads"

    def floors(self) -> str:
        """The baseline takes longer than the floor, at every workload."""
        floor_ns = importlib.import_module("floor").floor_ns
        below, shares = list[str](), dict[str, float]()
        for case in self.cases:
            least = self.least[case["name"]]
            self.made = self.inputs(case, 3)
            took_us, least_us = _fastest(self.baseline()) / 1e3, floor_ns(least["bytes"], least["operations"]) / 1e3
            least_us = max(least_us, least["practical_us"] or 0.0)
            words = f"{case['name']} (baseline {took_us:.1f} us, floor {least_us:.1f} us)"
            shares[words] = least_us / took_us
            below += [words] if took_us < least_us else []
        if below:
            raise Refused(f"not at {len(below)} of {len(self.cases)} workloads: {', '.join(below)}")
        return f"{len(shares)} workloads, closest at {max(shares, key=shares.__getitem__)}"

    def inputs(self, case: dict[str, Any], seed: int) -> Tensors:
        """Return inputs by name."""
        torch.manual_seed(seed)
        self.at = case["name"]
        with self.limited(f"inputs() of {case['name']}"):
            made = self.names["inputs"](dict(case["axes"]), dict(case["params"]), seed)
        if not isinstance(made, dict):
            raise Refused(f"inputs() returned a {type(made).__name__}, not a dict")
        return made

    def reference(self, made: Tensors) -> Tensors:
        """Return the right outputs by name."""
        with torch.no_grad(), self.limited(f"reference() of {self.at}"):
            return self.named(self.names["reference"](**made), self.task["outputs"])

    @contextmanager
    def limited(self, what: str) -> Iterator[None]:
        """Raise Refused within the block when it takes longer than a check of a program may.

        Without a task's device, all of a check may take no longer.
        """

        def expired(number: int, frame: object) -> None:
            raise Refused(f"{what}: {_ENDLESS} {self.task['timeout_s']:g} s")

        left_s = min(self.task["timeout_s"], self.until - time.monotonic())
        if left_s <= 0:
            expired(0, None)
        signal.signal(signal.SIGALRM, expired)
        signal.setitimer(signal.ITIMER_REAL, left_s)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def baseline(self) -> Callable[[], Any]:
        """Return the baseline on the kept inputs."""
        made = _copied(self.made)
        if "planned_baseline" in self.names:
            planned: Callable[[], Any] = self.names["planned_baseline"](**made)
            return planned
        function = self.names.get("baseline", self.names["reference"])
        return lambda: function(**made)

    def named(self, answer: Any, arguments: list[dict[str, Any]]) -> Tensors:
        """Return what a function returned by output name."""
        if isinstance(answer, dict):
            return answer
        items = answer if isinstance(answer, tuple | list) else [answer]
        return dict(zip((argument["name"] for argument in arguments), items, strict=True))

    def wrong(self, outputs: Tensors) -> str:
        """Return why the outputs are wrong, empty when they are right."""
        for name, expected in self.expected.items():
            got = outputs[name]
            if got.shape != expected.shape:
                return f"{name} has shape {list(got.shape)}"
            finding = self.compare(self.rule, got.to(expected.dtype).contiguous(), expected.contiguous())
            if finding.message:
                return f"{name}: {finding.message}"
        return ""


@contextmanager
def caught(outcome: list[str], wanted: Callable[[str], bool] = bool) -> Iterator[None]:
    """Add what untrusted code raises to `outcome`, where it is `wanted`."""
    keeper = _Keeper(outcome, wanted)
    with keeper:
        yield


class _Keeper:
    def __init__(self, outcome: list[str], wanted: Callable[[str], bool]) -> None:
        self._outcome, self._wanted = outcome, wanted

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Keep the error's words and go on."""
        if not isinstance(error, Exception):
            return False
        own = isinstance(error, Refused)
        reason = str(error) if own else f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
        if not self._wanted(reason):
            return False
        self._outcome.append(reason)
        return True


def _volume(case: dict[str, Any]) -> int:
    volume = 1
    for size in case["axes"].values():
        volume *= size
    return volume


def _check_declared(argument: dict[str, Any], value: Any, case: dict[str, Any]) -> None:
    if argument["shape"] is None:
        if not isinstance(value, int | float):
            raise Refused(f"{argument['name']} at {case['name']} is a {type(value).__name__}, declared is a number")
        return
    shape = [case["axes"][axis] for axis in argument["shape"]]
    if not isinstance(value, torch.Tensor):
        raise Refused(f"{argument['name']} at {case['name']} is a {type(value).__name__}, declared is a tensor")
    if list(value.shape) != shape or _short(value.dtype) != argument["dtype"]:
        got, declared = f"{_short(value.dtype)} {list(value.shape)}", f"{argument['dtype']} {shape}"
        raise Refused(f"{argument['name']} at {case['name']} is {got}, declared is {declared}")


def _copied(made: Tensors) -> Tensors:
    return {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in made.items()}


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return a.shape == b.shape and bool(torch.equal(a.view(-1).contiguous(), b.view(-1).contiguous()))
    return bool(a == b)


def _random(value: Any) -> bool:
    """Return whether an input is one that only a seed explains: a tensor of differing floats."""
    return isinstance(value, torch.Tensor) and value.is_floating_point() and bool((value != value.reshape(-1)[0]).any())


def _changes(value: Any, other: Any) -> Iterator[Any]:
    """Yield replacements for an input: that of another seed, then what changes its values and keeps their range."""
    if not _same(value, other):
        yield other
    if isinstance(value, torch.Tensor):
        yield value.reshape(-1).roll(1).view(value.shape)
        if value.is_floating_point():
            yield torch.full_like(value, float(value.reshape(-1)[:_SAMPLE].double().mean()) + 1.0)
        elif value.dtype == torch.bool:
            yield ~value
    elif isinstance(value, bool):
        yield not value
    else:
        yield value * 2 + 1


def _mean_like(expected: torch.Tensor) -> torch.Tensor:
    return torch.full_like(expected, expected.double().mean().item())


def _off(expected: torch.Tensor) -> torch.Tensor:
    return ~expected if expected.dtype == torch.bool else expected + 1


def _rounded(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.to(dtype).to(value.dtype)
    return value


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _fastest(call: Callable[[], Any]) -> int:
    """Return the least time of one call, nanoseconds."""
    call()
    times: list[int] = []
    until = time.monotonic() + 0.2
    while len(times) < 3 or (time.monotonic() < until and len(times) < 50):
        started = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - started)
    return max(1, min(times))
