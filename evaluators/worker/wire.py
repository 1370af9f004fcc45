"""Messages between the supervisor, the zygote and the runners: SOCK_SEQPACKET, one message a packet.

A request to a runner is `header + body`; its answer is the request's nonce, followed by nothing (done), by `!` and a
failure as JSON, by `@` and addresses, or by JSON that was asked for. The nonce only tells answers apart: what an answer
says is never taken as a verdict.
"""

import array
import json
import os
import select
import socket
import struct
import time
from typing import Any, NamedTuple

MAX_MESSAGE = 65536
NONCE_BYTES = 8
LOAD, SETUP, PREPARE, CALL, COLLECT, INSPECT, START = range(1, 8)
TOLD, COPIED = "told", "copied"
"""How a program's returned values come into their slots: it tells with its answer where they are, so that the
supervisor reads them there; or it copies them after each call."""
FAILED, _ADDRESSES = b"!", b"@"
"""What the data of an answer begins with, when it is no JSON that was asked for."""
_HEADER = struct.Struct("<B8s")
_CALL = struct.Struct("<HH")
_CREDENTIALS = struct.Struct("iII")


class Received(NamedTuple):
    """One message, who sent it (a process id as this process sees it, 0: unknown) and the descriptors it carried."""

    data: bytes
    pid: int
    fds: list[int]


def pack_json(op: int, nonce: bytes, body: dict[str, Any]) -> bytes:
    """Return a request whose body is JSON."""
    return _HEADER.pack(op, nonce) + json.dumps(body).encode()


def pack_call(op: int, nonce: bytes, case: int, slots: list[int]) -> bytes:
    """Return a request to call (or collect the results of) slots of one case, in this order."""
    return _HEADER.pack(op, nonce) + _CALL.pack(case, len(slots)) + struct.pack(f"<{len(slots)}I", *slots)


def pack_addresses(addresses: list[int]) -> bytes:
    """Return the data of an answer that tells where returned values are."""
    return _ADDRESSES + struct.pack(f"<{len(addresses)}Q", *addresses)


def unpack_addresses(data: bytes) -> list[int]:
    """Return the addresses. Raises ValueError when that is no such data."""
    if not data.startswith(_ADDRESSES) or len(data) % 8 != 1:
        raise ValueError("no addresses")
    return [address for (address,) in struct.iter_unpack("<Q", data[1:])]


def unpack(message: bytes) -> tuple[int, bytes, bytes]:
    """Return a request's operation, nonce and body."""
    op, nonce = _HEADER.unpack_from(message)
    return op, nonce, message[_HEADER.size :]


def unpack_call(body: bytes) -> tuple[int, tuple[int, ...]]:
    """Return the case and the slots of a call."""
    case, count = _CALL.unpack_from(body)
    return case, struct.unpack_from(f"<{count}I", body, _CALL.size)


def pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets; the first reports the sender's process id with each message."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours, theirs


def receive(sock: socket.socket, max_fds: int = 4) -> Received:
    """Return the next message; empty data: the other side closed. Raises ConnectionError when it was reset."""
    space = socket.CMSG_SPACE(_CREDENTIALS.size) + socket.CMSG_SPACE(max_fds * 4)
    data, ancillary, _, _ = sock.recvmsg(MAX_MESSAGE, space)
    pid, fds = 0, array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            pid = _CREDENTIALS.unpack_from(content)[0]
        elif level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    return Received(data, pid, list(fds))


def await_message(sock: socket.socket, seconds: float) -> None:
    """Return when a message is there, or after so long: without sleeping, as to be woken takes now more, now less."""
    poll, until = select.poll(), time.monotonic() + seconds
    poll.register(sock, select.POLLIN)
    while not poll.poll(0) and time.monotonic() < until:
        pass


def send_json(sock: socket.socket, body: dict[str, Any], fds: list[int] | None = None) -> None:
    """Send `body` as JSON, with file descriptors."""
    socket.send_fds(sock, [json.dumps(body).encode()], fds or [])


def close_all(fds: list[int]) -> None:
    """Close file descriptors."""
    for fd in fds:
        os.close(fd)
