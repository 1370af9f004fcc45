"""Runs in the confined process: loads the program, calls it on slots of shared memory, answers when it is done.

Nothing here is trusted: the program can rewrite all of it. It decides nothing: values are judged and time is taken by
the supervisor. What it reports (exceptions, a wrong type) can only fail its own program.
"""

import gc
import json
import socket
import sys
from collections.abc import Callable
from itertools import repeat
from typing import Any

import torch

from evaluators.worker import calls, loading, syscalls, wire
from evaluators.worker.layout import decode_layout
from evaluators.worker.memory import HostMemory, Memory
from evaluators.worker.runner_cuda import Device, DeviceMemory

_MOST_HEAP, _SPARE_RESULTS = 192 << 20, 4
_AWAKE_S = 0.002
"""For how long the next request for a GPU is waited for without sleeping."""


class _Mapping:
    """One case's slots as call arguments."""

    def __init__(self, memory: Memory, slots: int, axes: list[int]) -> None:
        self.memory, self.slots, self.axes = memory, slots, axes
        self.written = sum(field.nbytes for field in memory.layout.outputs)
        self.arguments: list[tuple[Any, ...]] = []
        self.scalars: list[list[tuple[int, Callable[[], Any]]]] = []
        """Per slot: the places of scalars among the arguments, and what reads them."""
        self.ready: list[tuple[Any, ...]] = []
        """What is called with: the arguments, or what was planned by them."""
        self.targets: list[list[torch.Tensor]] = []
        """Per slot, where returned values are copied to; empty: they are not."""


class _Runner:
    """Answers requests, one by one."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._binding = ""
        self._call: Any = None
        self._plan: Any = None
        self._returns = False
        self._results_wanted = ""
        self._cases: dict[int, _Mapping] = {}
        self._results: list[tuple[Memory, int, Any]] = []
        self._warm = 0
        self._device: Device | None = None
        self._snapshot = loading.snapshot()

    def serve(self) -> None:
        """Answer until the supervisor closes the socket."""
        while True:
            if self._device is not None:
                wire.await_message(self._sock, _AWAKE_S)
            message = wire.receive(self._sock)
            if not message.data:
                return
            op, nonce, body = wire.unpack(message.data)
            if op == wire.CALL:
                self._calls(nonce, body)
            else:
                self._answer(op, nonce, body, message.fds)

    def _calls(self, nonce: bytes, body: bytes) -> None:
        index, slots = wire.unpack_call(body)
        told = b""
        guard = loading.Guard()
        with guard:
            if slots:
                told = self._run(self._cases[index], slots)
            if self._device is not None:
                self._device.finish()
        self._reply(nonce, guard.failure, told)

    def _run(self, case: _Mapping, slots: tuple[int, ...]) -> bytes:
        """Call the program; return where its results are, if that is wanted."""
        call, arguments, targets, outputs = self._call, case.ready, case.targets, case.memory.layout.outputs
        if not self._returns:
            for slot in slots:
                call(*arguments[slot])
            return b""
        results = []
        for slot in slots:
            result = call(*arguments[slot])
            if targets:
                calls.hand_over(result, targets[slot], outputs)
            results.append(result)
        self._results += zip(repeat(case.memory), slots, results)
        return wire.pack_addresses(calls.addresses(results, outputs)) if self._results_wanted == wire.TOLD else b""

    def _answer(self, op: int, nonce: bytes, body: bytes, fds: list[int]) -> None:
        data = b""
        guard = loading.Guard()
        with guard:
            if op == wire.START:
                self._device = Device(json.loads(body)["memory_bytes"])
            elif op == wire.LOAD:
                self._load(json.loads(body), fds)
            elif op == wire.SETUP:
                self._setup(json.loads(body), fds[0])
            elif op == wire.PREPARE:
                self._prepare(wire.unpack_call(body)[0])
            elif op == wire.COLLECT:
                self._collect(json.loads(body)["check"])
            else:
                data = json.dumps({"patched": loading.changed(self._snapshot)}).encode()
        self._reply(nonce, guard.failure, data)

    def _reply(self, nonce: bytes, failure: dict[str, Any] | None, data: bytes) -> None:
        self._sock.send(nonce + (data if failure is None else wire.FAILED + json.dumps(failure).encode()))

    def _load(self, request: dict[str, Any], fds: list[int]) -> None:
        self._binding = request["binding"]
        torch.set_num_threads(1)
        syscalls.tune_allocator()
        self._returns, self._results_wanted = self._binding in ("value", "baseline"), request["results"]
        self._call, self._plan = loading.load(request, fds)
        if self._device is not None and self._binding == "plain_c":
            self._device.watch(loading.last_error(request["path"]))
        gc.disable()

    def _setup(self, request: dict[str, Any], fd: int) -> None:
        layout = decode_layout(request["layout"])
        on_gpu = self._device is not None
        memory: Memory = DeviceMemory(fd, layout, request["nbytes"]) if on_gpu else HostMemory(fd, layout)
        case = _Mapping(memory, request["slots"], request["axes"])
        if self._returns and (on_gpu or self._results_wanted == wire.COPIED):
            places = [calls.tensors(memory, slot, outputs=True) for slot in range(case.slots)]
            case.targets = [list(tensors.values()) for tensors in places]
        self._cases[request["case"]] = case
        if self._binding != "plain_c" and not on_gpu:
            self._warm_heap(case.written * (case.slots + _SPARE_RESULTS))
        slots = range(case.slots)
        case.arguments = [calls.arguments(self._binding, memory, slot, case.axes) for slot in slots]
        case.scalars = [calls.scalar_readers(self._binding, memory, slot) for slot in slots]
        self._make_ready(case)

    def _warm_heap(self, nbytes: int) -> None:
        """Room for a window's results and for what is made on the way to one."""
        wanted = min(_MOST_HEAP, nbytes)
        if wanted > self._warm:
            syscalls.warm_heap(wanted)
            self._warm = wanted

    def _prepare(self, index: int) -> None:
        """Read the scalars, of which the slots have new ones, and plan by them what is planned."""
        case = self._cases[index]
        for slot, scalars in enumerate(case.scalars):
            if scalars:
                arguments = list(case.arguments[slot])
                for place, read in scalars:
                    arguments[place] = read()
                case.arguments[slot] = tuple(arguments)
        self._make_ready(case)

    def _make_ready(self, case: _Mapping) -> None:
        case.ready = case.arguments
        if self._plan is not None:
            case.ready = [(self._plan(*arguments),) for arguments in case.arguments]

    def _collect(self, check: bool) -> None:
        """Let go of returned values, with `check` after seeing that they are what the task declares."""
        returned, self._results = self._results, []
        results = _checked(returned) if check else []
        returned.clear()
        if self._device is not None:
            self._device.spoil(results)
            results.clear()
            # What letting go of them has begun belongs to the time that it takes.
            self._device.finish()


def _checked(returned: list[tuple[Memory, int, Any]]) -> list[torch.Tensor]:
    results = [one for memory, slot, result in returned for one in calls.check_result(result, memory, slot)]
    calls.check_apart(results)
    return results


def serve(sock: socket.socket) -> None:
    """Serve requests on `sock` in this (already confined) process."""
    sys.argv = [""]
    _Runner(sock).serve()
