"""Driver: whether a task can be got right by accident, found by running its reference on changed inputs and outputs."""

import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from evaluators.worker import floor, floor_cuda, tolerance

if TYPE_CHECKING:
    from evaluators.adapters.drivers import floors
    from evaluators.adapters.drivers.subject import Refused, Subject, Tensors, caught, copied
else:  # Where this runs, these lie beside it.
    import floors
    from subject import Refused, Subject, Tensors, caught, copied

_TOO_FAR, _NEAR = 4.0, 0.25
_TOO_LARGE, _TOO_LARGE_AT_HOME = (
    "takes more memory or time than there is without its device",
    "takes more memory than this device has",
)
_ELSEWHERE = "needs the task's device"
_SAMPLE = 1 << 20
"""Of a large input, so many values tell its mean."""
_SAID = "said: "
"""As evaluators.worker.replies.SAID."""
_encoded = json.JSONEncoder().encode
"""As it is before the task's code runs."""
_UNUSED = "preallocated"
"""How inputs are called that only lend their shape."""
_LONGEST = 4000
"""Characters of a finding."""
_WHOLE = {"int32": 2**31, "int64": 2**63}
"""Type of a number -> what its values stay below; the least is that, negative."""
_OTHER_SEED = 4
_LEFT_OUT = 20
"""One part in so many is left out of an output."""


def main(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return findings: `check`, `state` (passed, failed, not checked) and `detail`.

    Where it failed for want of memory at a workload, a finding has `no_room`, true. `request`: `task` (the job's form).
    """
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
    checker.check_floors()
    return checker.findings


class Checker:
    """One task under examination."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.task, self.subject, self.findings = task, Subject(task), list[dict[str, Any]]()
        self.rule = tolerance.Rule(task["rtol"], task["atol"], task["rule"], task["matched"], task["normalised"])
        self.cases = task["cases"]
        self.case = min((case for case in self.cases if not case["held_out"]), key=_volume)
        self.others = sorted((case for case in self.cases if case is not self.case), key=_volume)
        self.made: Tensors = {}
        self.expected: Tensors = {}
        self.least: dict[str, dict[str, Any]] = {}

    def note(self, check: str, state: str, detail: str, no_room: bool = False) -> None:
        """Add a finding, and say it."""
        finding = {"check": check, "state": state, "detail": detail[:_LONGEST], "no_room": no_room}
        self.findings.append(finding)
        sys.stdout.write(f"\n{_SAID}{_encoded(finding)}\n")
        sys.stdout.flush()

    def run(self, check: str, function: Callable[[], str]) -> bool:
        """Add the finding of one check; returns whether it passed."""
        outcome: list[str] = []
        sys.stdout.write(f"\nat: {check}\n")
        sys.stdout.flush()
        self.subject.begin()
        with caught(outcome):
            self.note(check, "passed", function())
        for reason in outcome:
            self.note(check, *self.verdict(reason))
        return not outcome

    def verdict(self, reason: str) -> tuple[str, str, bool]:
        """Return the state of a check that failed, its detail, and whether that was for want of memory at a workload.

        For want of the task's device nothing is told.
        """
        if self.subject.is_elsewhere(reason):
            return "not checked", f"{_ELSEWHERE}: {reason}", False
        if self.too_large(reason):
            return "not checked", _TOO_LARGE_AT_HOME if self.subject.at_home else _TOO_LARGE, False
        if self.subject.lacks_memory(reason):
            return "failed", f"{self.subject.workload} needs more memory than there is: {reason}", True
        return "failed", reason, False

    def reference_runs(self) -> str:
        """Run everything once, and keep the smallest search workload for the other checks."""
        self.subject.load()
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

    def too_large(self, reason: str) -> bool:
        """Return whether a failure is for want of what another device has, memory or speed."""
        return self.subject.too_large(reason, has_run=bool(self.expected))

    def run_case(self, case: dict[str, Any]) -> None:
        """Run the reference at one workload."""
        inputs = self.subject.inputs(case, 1)
        # The reference may write into what it is given.
        outputs = self.subject.reference(copied(inputs) if case is self.case else inputs)
        for argument, value in [
            *((item, inputs.get(item["name"])) for item in self.task["inputs"]),
            *((item, outputs.get(item["name"])) for item in self.task["outputs"]),
        ]:
            _check_declared(argument, value, case)
        if case is self.case:
            self.made, self.expected = inputs, outputs

    def repeatable(self) -> str:
        """The same seed gives the same inputs, and the same inputs the same outputs."""
        again = self.subject.inputs(self.case, 1)
        different = [name for name, value in self.used.items() if not _same(value, again[name])]
        if different:
            raise Refused(f"with one seed, {', '.join(different)} differ from one call to the next: use the seed given")
        torch.manual_seed(_OTHER_SEED)  # What the reference draws itself, no program can draw too.
        outputs = self.subject.reference(copied(self.made))
        wrong = self.wrong(outputs)
        if wrong:
            raise Refused(f"the reference gives something else the second time: {wrong}")
        return ""

    @property
    def used(self) -> Tensors:
        """The inputs whose values matter; what lies in memory that is only lent is nobody's."""
        return {name: value for name, value in self.made.items() if not name.startswith(_UNUSED)}

    def seeded(self) -> str:
        """Another seed gives other inputs."""
        other = self.subject.inputs(self.case, 2)
        same = [name for name, value in self.used.items() if _same(value, other[name])]
        fixed = [name for name in same if _random(self.made[name])]
        if fixed or len(same) == len(self.used):
            raise Refused(f"{', '.join(fixed or same)} do not depend on the seed: a program could know them beforehand")
        return f"but for {', '.join(same)}" if same else ""

    def inputs_matter(self) -> str:
        """Any input in place of which another one stands gives another output, at some workload at least."""
        kept, left = (self.made, self.expected), set(self.used)
        skipped: set[str] = set()
        for case in [self.case, *self.others]:
            if case is not self.case:
                self.made = self.subject.inputs(case, 1)
                self.expected = self.subject.reference(copied(self.made))
            for name, other in self.subject.inputs(case, 2).items():
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
            return self.wrong(self.subject.reference({**copied(self.made), name: value})) != ""
        return None

    def constants_fail(self) -> str:
        """Zeros are wrong, and so is the mean that each output has with another seed."""
        others = self.subject.reference(self.subject.inputs(self.case, 2))
        for what, constant in (("zeros", torch.zeros_like), ("its mean", _mean_like)):
            for name in self.expected:
                if not self.wrong({**self.expected, name: constant(others[name])}):
                    raise Refused(f"{name}: {what} everywhere would be right: the tolerance is too wide for its values")
        return ""

    def parts_fail(self) -> str:
        """An output whose last twentieth is zero is wrong; where it is zero anyway, what is before it is taken."""
        for name, expected in self.expected.items():
            part = expected.clone(memory_format=torch.contiguous_format)
            row, count = _plain(part), max(1, part.numel() // _LEFT_OUT)
            if bool(row[-count:].any()):
                row[-count:] = 0
            else:
                row[row.nonzero().reshape(-1)[-count:]] = 0
            if part.numel() >= _LEFT_OUT and not self.wrong({**self.expected, name: part}):
                raise Refused(f"{name}: right with its last twentieth set to zero")
        return ""

    def perturbed(self) -> str:
        """Errors well beyond the tolerance are wrong, errors well within it are right."""
        exact = self.rule.rtol == self.rule.atol == 0
        for name, expected in self.expected.items():
            if exact or not expected.is_floating_point():
                if exact and not self.wrong({**self.expected, name: _off(expected)}):
                    raise Refused(f"{name}: other numbers would be right")
                continue
            if self.wrong({**self.expected, name: self._moved(expected, _NEAR)}):
                raise Refused(f"{name}: an error of a quarter of the tolerance is wrong: the type cannot hold it")
            if not self.wrong({**self.expected, name: self._moved(expected, _TOO_FAR)}):
                raise Refused(f"{name}: an error of four times the tolerance in every element is right")
        if exact:
            return "it is zero: any other number is wrong, also one that only rounds differently"
        return f"an error of {_NEAR:g} times the tolerance is right, of {_TOO_FAR:g} times is wrong"

    def _moved(self, expected: torch.Tensor, times: float) -> torch.Tensor:
        wide = expected.double()
        finite = wide.isfinite()
        step = times * (self.rule.atol + self.rule.rtol * wide.abs())
        step = step.masked_fill(~finite, 0.0)  # What is not finite cannot be a little off.
        if self.rule.normalised is not None and times < 1:
            spread = float(wide[finite].std(correction=0))
            step = step.clamp(max=times * self.rule.normalised * spread) if spread > 0 else step
        signs = torch.where(torch.rand(wide.shape, device=wide.device) < 0.5, -1.0, 1.0)
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
                words.append(
                    f"{_short(dtype)} inputs {'wrong' if self.wrong(self.subject.reference(made)) else 'right'}"
                )
        return ", ".join(words)

    def baseline_right(self) -> str:
        """The baseline is judged like a program."""
        wrong = self.wrong(self.subject.baseline(self.made))
        if wrong:
            raise Refused(wrong)
        return "it is the reference" if not {"baseline", "planned_baseline"} & set(self.subject.names) else ""

    def check_floors(self) -> None:
        """Add what is found of the task's floors."""
        if not self.run("floors", self.floors_told) or not self.least:
            return
        check = "the floor is below the baseline"
        if self.subject.at_home:
            self.run(check, self.floors_hold)
        else:
            self.note(check, "not checked", _ELSEWHERE)

    def floors_told(self) -> str:
        """Ask for the floor of every workload."""
        if "floor" not in self.subject.names:
            return "none: nothing is refused for being too fast"
        try:
            self.least = {case["name"]: floors.told(self.subject.names["floor"], case) for case in self.cases}
        except floors.Untold as error:
            raise Refused(str(error)) from error
        return f"told for {len(self.least)} workloads"

    def floors_hold(self) -> str:
        """The baseline takes longer than the floor, at every workload."""
        below, shares = list[str](), dict[str, float]()
        for case in self.cases:
            least = self.least[case["name"]]
            took_us = self.subject.fastest_ns(self.subject.inputs(case, 3)) / 1e3
            least_us = max(self.physical_floor_ns(least) / 1e3, least["practical_us"] or 0.0)
            words = f"{case['name']} (baseline {took_us:.1f} us, floor {least_us:.1f} us)"
            shares[words] = least_us / took_us
            below += [words] if took_us < least_us else []
        if below:
            raise Refused(f"not at {len(below)} of {len(self.cases)} workloads: {', '.join(below)}")
        return f"{len(shares)} workloads, closest at {max(shares, key=shares.__getitem__)}"

    def physical_floor_ns(self, least: dict[str, Any]) -> float:
        """Return the least nanoseconds that this device needs for so many bytes and operations."""
        if self.subject.device == "cpu":
            return floor.floor_ns(least["bytes"], least["operations"])
        properties = torch.cuda.get_device_properties(self.subject.device)
        return floor_cuda.floor_ns(least["bytes"], least["operations"], properties)

    def wrong(self, outputs: Tensors) -> str:
        """Return why the outputs are wrong, empty when they are right."""
        for name, expected in self.expected.items():
            got = outputs[name]
            if not isinstance(got, torch.Tensor):
                return f"{name} is a {type(got).__name__}"
            if got.shape != expected.shape:
                return f"{name} has shape {list(got.shape)}"
            finding = tolerance.compare(self.rule, got.to(expected.dtype).contiguous(), expected.contiguous())
            if finding.message:
                return f"{name}: {finding.message}"
        return ""


def _volume(case: dict[str, Any]) -> int:
    volume = 1
    for size in case["axes"].values():
        volume *= size
    return volume


def _check_declared(argument: dict[str, Any], value: Any, case: dict[str, Any]) -> None:
    if argument["shape"] is None:
        _check_number(argument, value, case)
        return
    shape = [case["axes"][axis] for axis in argument["shape"]]
    if not isinstance(value, torch.Tensor):
        raise Refused(f"{argument['name']} at {case['name']} is a {type(value).__name__}, declared is a tensor")
    if list(value.shape) != shape or _short(value.dtype) != argument["dtype"]:
        got, declared = f"{_short(value.dtype)} {list(value.shape)}", f"{argument['dtype']} {shape}"
        raise Refused(f"{argument['name']} at {case['name']} is {got}, declared is {declared}")


def _check_number(argument: dict[str, Any], value: Any, case: dict[str, Any]) -> None:
    if not isinstance(value, int | float):
        raise Refused(f"{argument['name']} at {case['name']} is a {type(value).__name__}, declared is a number")
    if argument["dtype"] in _WHOLE and not _fits(value, _WHOLE[argument["dtype"]]):
        raise Refused(f"{argument['name']} at {case['name']} is {value!r:.40}, declared is {argument['dtype']}")


def _fits(value: float, most: int) -> bool:
    return isinstance(value, int) and -most <= value < most


def _same(a: Any, b: Any) -> bool:
    """Return whether two inputs are the same; not a number is the same as not a number."""
    if not isinstance(a, torch.Tensor):
        return bool(a == b or (a != a and b != b))
    if a.shape != b.shape:
        return False
    one, other = _plain(a), _plain(b)
    return bool(torch.equal(one, other)) or bool(((one == other) | ((one != one) & (other != other))).all())


def _random(value: Any) -> bool:
    """Return whether an input is one that only a seed explains: a tensor of differing floats."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return False
    plain = _plain(value)
    return bool((plain != plain[0]).any())


def _plain(value: torch.Tensor) -> torch.Tensor:
    """Return the elements in a row; those of eight bits as whole numbers, for which every device has all operations."""
    row = value.reshape(-1).contiguous()
    return row.view(torch.uint8) if value.is_floating_point() and value.element_size() == 1 else row


def _changes(value: Any, other: Any) -> Iterator[Any]:
    """Yield replacements for an input: that of another seed, then what changes its values and keeps their range."""
    if not _same(value, other):
        yield other
    if isinstance(value, torch.Tensor):
        yield _plain(value).roll(1).view(value.dtype).view(value.shape)
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
    if expected.is_floating_point():
        wide = expected.double()
        # One more than a large number may be the same number in its type.
        return torch.where(wide.abs() < 1, wide + 1, -wide).to(expected.dtype)
    return ~expected if expected.dtype == torch.bool else expected + 1


def _rounded(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.to(dtype).to(value.dtype)
    return value


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
