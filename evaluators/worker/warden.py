"""Makes PID namespaces for the zygote, from a process that is still small (forking it is cheap).

Each namespace is held by its first process, which only collects orphans and ends when its lifeline closes; with it
ends everything inside. It says hello on the lifeline, so that the other end learns its process id, and answers every
byte by the number that the newest process or thread inside was given. At STOP it stops all that are inside before.
"""

import os
import signal
import socket
from contextlib import suppress

from evaluators.worker import syscalls, wire

STOP = b"s"


def start(parent: int) -> socket.socket | None:
    """Fork the warden; return the socket on which it takes lifelines, or None when PID namespaces are refused."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        syscalls.die_with_parent(parent)
        _serve(theirs)
        os._exit(0)
    theirs.close()
    ours.send(b"?")
    if ours.recv(1) == b"y":
        return ours
    ours.close()
    os.waitpid(pid, 0)
    return None


def new_namespace(warden: socket.socket, lifeline: int) -> int:
    """Return the process id of the first process of a new PID namespace, which lives as long as `lifeline`."""
    socket.send_fds(warden, [b"n"], [lifeline])
    reply = warden.recv(16)
    if not reply.isdigit():
        raise OSError("the warden could not make a PID namespace")
    return int(reply)


def _serve(sock: socket.socket) -> None:
    sock.recv(1)
    if not _can_make():
        sock.send(b"n")
        return
    sock.send(b"y")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message = wire.receive(sock)
        if not message.data:
            return
        sock.send(str(_make(message.fds[0])).encode())
        os.close(message.fds[0])


def _can_make() -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            syscalls.unshare(syscalls.CLONE_NEWPID)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _make(lifeline: int) -> int:
    read, write = os.pipe()
    if os.fork() == 0:
        syscalls.unshare(syscalls.CLONE_NEWPID)
        pid = os.fork()
        if pid == 0:
            _hold(lifeline)
        os.write(write, str(pid).encode())
        os._exit(0)
    os.close(write)
    pid = int(os.read(read, 16) or b"-1")
    os.close(read)
    return pid


def _hold(lifeline: int) -> None:
    os.setsid()
    os.closerange(0, lifeline)
    os.closerange(lifeline + 1, 4096)
    line = socket.socket(fileno=lifeline)
    line.send(b"hello")
    while asked := line.recv(1):
        if asked == STOP:
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGSTOP)
        line.send(_newest())
    os._exit(0)


def _newest() -> bytes:
    """Return the last number given in this process' own PID namespace, `-` when the kernel does not tell."""
    try:
        with open("/proc/loadavg", "rb") as file:
            return file.read().split()[-1]
    except OSError:
        return b"-"
