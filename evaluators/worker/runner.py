"""Runs in the confined process: loads the program, calls it on slots of shared memory, answers when it is done.

Nothing here is trusted: the program can rewrite all of it. It decides nothing: values are judged and time is taken by
the supervisor. What it reports (exceptions, a wrong type) can only fail its own program.
"""

import ctypes
import gc
import json
import mmap
import os
import socket
import sys
from typing import Any

import torch

from evaluators.worker import calls, loading, syscalls, wire
from evaluators.worker.layout import Layout, decode_layout

_MOST_HEAP, _SPARE_RESULTS = 192 << 20, 4


class _Mapping:
    """One case's shared memory as call arguments."""

    def __init__(self, fd: int, layout: Layout, slots: int, axes: list[int]) -> None:
        self.layout, self.slots, self.axes = layout, slots, axes
        self.written = sum(field.nbytes for field in layout.outputs)
        self.memory = mmap.mmap(fd, 0, flags=mmap.MAP_SHARED)
        syscalls.populate(self.memory)
        os.close(fd)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.arguments: list[Any] = []


class _Runner:
    """Answers requests, one by one."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._binding = ""
        self._call: Any = None
        self._plan: Any = None
        self._returns = False
        self._cases: dict[int, _Mapping] = {}
        self._results: list[tuple[_Mapping, int, Any]] = []
        self._warm = 0
        self._snapshot = loading.snapshot()

    def serve(self) -> None:
        """Answer until the supervisor closes the socket."""
        while True:
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
        guard = loading.Guard()
        with guard:
            if slots:
                self._run(self._cases[index], slots)
        self._reply(nonce, guard.failure)

    def _run(self, case: _Mapping, slots: tuple[int, ...]) -> None:
        call, arguments = self._call, case.arguments
        if self._returns:
            self._results += [(case, slot, call(*arguments[slot])) for slot in slots]
        else:
            for slot in slots:
                call(*arguments[slot])

    def _answer(self, op: int, nonce: bytes, body: bytes, fds: list[int]) -> None:
        reply: dict[str, Any] | None = None
        guard = loading.Guard()
        with guard:
            if op == wire.LOAD:
                self._load(json.loads(body), fds)
            elif op == wire.SETUP:
                self._setup(json.loads(body), fds[0])
            elif op == wire.PREPARE:
                self._prepare(wire.unpack_call(body)[0])
            elif op == wire.COLLECT:
                self._collect(json.loads(body)["copy"])
            else:
                reply = {"patched": loading.changed(self._snapshot)}
        self._reply(nonce, guard.failure or reply)

    def _reply(self, nonce: bytes, body: dict[str, Any] | None) -> None:
        self._sock.send(nonce if body is None else nonce + json.dumps(body).encode())

    def _load(self, request: dict[str, Any], fds: list[int]) -> None:
        self._binding = request["binding"]
        torch.set_num_threads(1)
        syscalls.tune_allocator()
        self._returns = self._binding in ("value", "baseline")
        self._call, self._plan = loading.load(request, fds)
        gc.disable()

    def _setup(self, request: dict[str, Any], fd: int) -> None:
        case = _Mapping(fd, decode_layout(request["layout"]), request["slots"], request["axes"])
        self._cases[request["case"]] = case
        if self._binding != "plain_c":
            self._warm_heap(case.written * (case.slots + _SPARE_RESULTS))
        self._prepare(request["case"])

    def _warm_heap(self, nbytes: int) -> None:
        """Room for a window's results and for what is made on the way to one."""
        wanted = min(_MOST_HEAP, nbytes)
        if wanted > self._warm:
            syscalls.warm_heap(wanted)
            self._warm = wanted

    def _prepare(self, index: int) -> None:
        case = self._cases[index]
        case.arguments = [
            calls.arguments(self._binding, case.memory, case.base, case.layout, slot, case.axes)
            for slot in range(case.slots)
        ]
        if self._plan is not None:
            case.arguments = [(self._plan(*arguments),) for arguments in case.arguments]

    def _collect(self, copy: bool) -> None:
        """Let go of returned values, with `copy` after copying them into their slots."""
        earlier: list[Any] = []
        for case, slot, result in self._results:
            if copy:
                inputs = calls.tensors(case.memory, case.layout, slot, outputs=False)
                outputs = calls.tensors(case.memory, case.layout, slot, outputs=True)
                values = calls.check_result(result, case.layout, inputs, earlier)
                for name, value in values.items():
                    outputs[name].copy_(value)
                earlier += values.values()
        self._results = []


def serve(sock: socket.socket) -> None:
    """Serve requests on `sock` in this (already confined) process."""
    sys.argv = [""]
    _Runner(sock).serve()
