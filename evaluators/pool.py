"""Several devices as one evaluator. A device that fails its health probe is taken out, and no program is blamed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from evaluators.devices import Device
from evaluators.errors import InfrastructureError
from evaluators.evaluation import Comparison, Effort, Environment, Evaluation
from evaluators.evaluator import Evaluator
from evaluators.local import LocalEvaluator
from evaluators.probe import DOUBTFUL, problem_of
from evaluators.solution import Solution
from evaluators.task import Task

MOST_TAKEN_OUT = 2
"""Devices that one call may cost: a program that twice leaves a sick device behind gets no third one."""
T = TypeVar("T", Evaluation, Comparison)


@dataclass(frozen=True)
class _Lane:
    """One supervisor on one device."""

    device: Device
    judge: LocalEvaluator


class PoolEvaluator:
    """Implements evaluators.evaluator.Evaluator on devices; those of a kind are alike. Use it from one event loop.

    Each device has `lanes` supervisors: while one of them times, which takes the device's lock (across processes too),
    the others build. A device is probed before its first use and after every verdict that a sick device could have
    brought about; such a verdict counts only if the device is well afterwards.
    """

    def __init__(self, devices: Sequence[Device], lanes: int = 1) -> None:
        """Nothing starts until the first job."""
        self._lanes = [_Lane(device, device.make()) for _ in range(lanes) for device in devices]
        for lane in self._lanes:
            lane.judge.waits.told = lanes > 1  # Those of a device wait for each other.
        self._idle = list(self._lanes)
        self._changed = asyncio.Condition()
        self._kind = self._lanes[0].device.kind
        """Of the device that was last asked for."""
        self._well: dict[str, Environment] = {}
        """Device -> its environment, of those that were probed."""
        self._sick: dict[str, str] = {}
        """Device -> why it was taken out."""

    @property
    def sick(self) -> dict[str, str]:
        """Devices that were taken out, and why."""
        return dict(self._sick)

    async def evaluate(
        self, task: Task, solution: Solution, effort: Effort, rival: Solution | None = None
    ) -> Evaluation:
        """Judge `solution` on the first device that is idle, on another one when that turns out to be sick.

        Raises InfrastructureError when no device is left, or two were lost over this program; TaskError.
        """

        async def work(judge: Evaluator) -> Evaluation:
            return await judge.evaluate(task, solution, effort, rival)

        verdict, lost = await self._on_some_device(task, work, lambda verdict: verdict.status in DOUBTFUL)
        return verdict.model_copy(update={"notes": (*verdict.notes, *lost)})

    async def compare(self, task: Task, solutions: Sequence[Solution], effort: Effort) -> Comparison:
        """Judge all programs on one device, in one interleaved run. Raises as `evaluate`."""

        async def work(judge: Evaluator) -> Comparison:
            return await judge.compare(task, solutions, effort)

        def doubtful(comparison: Comparison) -> bool:
            return any(evaluation.status in DOUBTFUL for evaluation in comparison.evaluations)

        return (await self._on_some_device(task, work, doubtful))[0]

    def protocol(self, task: Task) -> str:
        """Return the timing protocol of the devices."""
        return self._lanes[0].judge.protocol(task)

    async def environment(self) -> Environment:
        """Return what figures measured here depend on: the same for all devices of the kind that was last used.

        Raises InfrastructureError.
        """
        while True:
            for lane in self._lanes:
                if lane.device.kind == self._kind and lane.device.name in self._well:
                    return self._well[lane.device.name]
            async with self._lane(self._kind):
                pass

    async def close(self) -> None:
        """End the processes that this evaluator started. It can be used again."""
        for lane in self._lanes:
            await lane.judge.close()

    async def _on_some_device(
        self, task: Task, work: Callable[[Evaluator], Awaitable[T]], doubtful: Callable[[T], bool]
    ) -> tuple[T, list[str]]:
        """Return what came of `work`, and a note for each device that was lost over it."""
        self._kind = task.device
        lost: list[str] = []
        while len(lost) < MOST_TAKEN_OUT:
            async with self._lane(task.device) as lane:
                answer: T | None = None
                try:
                    answer = await work(lane.judge)
                    if not doubtful(answer) and lane.device.name not in self._sick:
                        return answer, lost
                except InfrastructureError:
                    if await self._is_well(lane):
                        raise
                if answer is not None and await self._is_well(lane):
                    return answer, lost
                lost.append(f"device {lane.device.name} was taken out: {self._sick[lane.device.name]}")
        raise InfrastructureError(f"{len(lost)} devices were lost over one program: {'; '.join(lost)}")

    @asynccontextmanager
    async def _lane(self, kind: str) -> AsyncIterator[_Lane]:
        """Give an idle lane of a device that is well. Raises InfrastructureError when there is no such device."""
        while True:
            lane = await self._take(kind)
            try:
                if lane.device.name in self._well or await self._begin(lane):
                    yield lane
                    return
            finally:
                await self._put_back(lane)

    async def _take(self, kind: str) -> _Lane:
        async with self._changed:
            while True:
                of_kind = [lane for lane in self._lanes if lane.device.kind == kind]
                if not of_kind:
                    raise InfrastructureError(f"none of the devices is a {kind}: set the option devices")
                if all(lane.device.name in self._sick for lane in of_kind):
                    reasons = "; ".join(f"{name}: {reason}" for name, reason in self._sick.items())
                    raise InfrastructureError(f"no device is left ({reasons})")
                lane = next((lane for lane in self._idle if lane in of_kind and self._may_use(lane)), None)
                if lane is not None:
                    self._idle.remove(lane)
                    return lane
                await self._changed.wait()

    def _may_use(self, lane: _Lane) -> bool:
        return lane.device.name not in self._sick

    async def _put_back(self, lane: _Lane) -> None:
        async with self._changed:
            # At the end of the line: the next evaluation goes to the device that has rested longest.
            self._idle.append(lane)
            self._changed.notify_all()
        if lane.device.name in self._sick:
            await lane.judge.close()

    async def _begin(self, lane: _Lane) -> bool:
        """Probe a device before its first use; return whether it is well. Raises InfrastructureError."""
        if not await self._is_well(lane):
            return False
        environment = await lane.judge.environment()
        kinds = {other.device.name: other.device.kind for other in self._lanes}
        for name, other in self._well.items():
            if kinds[name] == lane.device.kind and other.fingerprint != environment.fingerprint:
                raise InfrastructureError(
                    f"devices {name} and {lane.device.name} are not alike, so their figures cannot be compared: "
                    "name devices of one kind in the option devices"
                )
        self._well[lane.device.name] = environment
        return True

    async def _is_well(self, lane: _Lane) -> bool:
        """Probe the lane's device, unless it was taken out already; take it out when the probe fails."""
        name = lane.device.name
        if name not in self._sick:
            problem = await problem_of(lane.judge, lane.device.kind)
            if problem:
                async with self._changed:
                    self._sick[name] = problem
                    self._well.pop(name, None)
                    self._changed.notify_all()
        return name not in self._sick
