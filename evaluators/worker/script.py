"""Runs one function of a trusted driver beside untrusted Python, in a confined process that lives for just that."""

import json
import mmap
import os
import socket
import sys
from typing import Any

import torch

from evaluators.worker import loading, wire


def serve(sock: socket.socket) -> None:
    """Answer the one request: descriptors of its JSON and of where the JSON of the answer goes."""
    message = wire.receive(sock)
    if not message.data:
        return
    _, nonce, _ = wire.unpack(message.data)
    torch.set_num_threads(1)
    guard = loading.Guard()
    with guard:
        _run(*message.fds)
    sock.send(nonce if guard.failure is None else nonce + wire.FAILED + json.dumps(guard.failure).encode())


def _run(question: int, reply: int) -> None:
    with mmap.mmap(question, 0, prot=mmap.PROT_READ) as text:
        request = json.loads(bytes(text))
    if "modules" in request:
        # What came with the driver: modules beside it, and modules of the worker's own, under their own names.
        sys.path.insert(0, request["modules"])
        sys.modules["evaluators.worker"].__path__.append(request["modules"])
    names: dict[str, Any] = {"__name__": "driver"}
    exec(compile(request["driver"], "driver.py", "exec"), names)
    answer = json.dumps(names["main"](request["request"])).encode()
    with os.fdopen(os.dup(reply), "wb") as file:
        file.write(answer)
