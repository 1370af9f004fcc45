"""The zygote: imports torch once, never computes, and forks one confined process per candidate run.

Requests come on the socket whose descriptor is argv[1], each with three descriptors (control, output, lifeline):
`{"id", "mode": "runner" | "script" | "exec", "plan": {...}, "argv", "environment"}`. Replies:
`{"ready", "namespaces"}` once, then `{"id", "exit"}` when a process has ended (negative: killed by that signal).
`{"end": id}` kills a process and, without PID namespaces, every stray descendant; it is answered by `{"ended": id}`.
"""

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from typing import Any

from evaluators.worker import descendants, sandbox, syscalls, warden, wire


class Zygote:
    """Forks, reaps and reports."""

    def __init__(self, sock: socket.socket, namespaces: socket.socket | None) -> None:
        self._sock, self._warden = sock, namespaces
        self._running: dict[int, int] = {}
        self._own_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._signals, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_inheritable(wake, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def serve(self) -> None:
        """Answer requests until the supervisor is gone."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        poll.register(self._signals, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self._signals in ready:
                os.read(self._signals, 4096)
                self._reap()
            if self._sock.fileno() in ready:
                message = wire.receive(self._sock)
                if not message.data:
                    return
                self._handle(json.loads(message.data), message.fds)

    def _handle(self, request: dict[str, Any], fds: list[int]) -> None:
        if "end" in request:
            self._end(request["end"])
            wire.send_json(self._sock, {"ended": request["end"]})
            return
        pid = self._fork(request, fds)
        self._running[pid] = request["id"]
        wire.close_all(fds)

    def _fork(self, request: dict[str, Any], fds: list[int]) -> int:
        zygote = os.getpid()
        if self._warden is not None:
            first = warden.new_namespace(self._warden, fds[2])
            namespace = os.open(f"/proc/{first}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
            syscalls.setns(namespace, syscalls.CLONE_NEWPID)
            os.close(namespace)
        pid = os.fork()
        if pid == 0:
            _become_child(request, fds[0], fds[1], 0 if self._warden is not None else zygote)
        return pid

    def _end(self, identity: int) -> None:
        for pid, known in list(self._running.items()):
            if known == identity:
                os.kill(pid, signal.SIGKILL)
        if self._warden is None:
            keep = set(self._running) - {pid for pid, known in self._running.items() if known == identity}
            descendants.kill_below(os.getpid(), keep)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            identity = self._running.pop(pid, None)
            if identity is not None:
                wire.send_json(self._sock, {"id": identity, "exit": os.waitstatus_to_exitcode(status)})


def _become_child(request: dict[str, Any], control: int, output: int, parent: int) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.closerange(3, control)
    os.closerange(control + 1, 4096)
    sock = socket.socket(fileno=control)
    plan = request["plan"]
    lists = {name: tuple(plan[name]) for name in ("readable", "writable")}
    layers = sandbox.confine(sandbox.Plan(**{**plan, **lists}), parent)
    os.environ.clear()
    os.environ.update(request["environment"])
    wire.send_json(sock, {"layers": layers})
    if request["mode"] == "exec":
        os.execve(request["argv"][0], request["argv"], request["environment"])
    from evaluators.worker import runner, script

    (script if request["mode"] == "script" else runner).serve(sock)
    os._exit(0)


def main() -> None:
    """Start up, say so, serve."""
    sock = socket.socket(fileno=int(sys.argv[1]))
    syscalls.die_with_parent(int(sys.argv[2]))
    user_namespace = sandbox.enter_user_namespace()
    holder = warden.start(os.getpid())
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    for name in ("numpy", *sys.argv[3].split(",")):
        importlib.import_module(name)
    import torch

    from evaluators.worker import runner, script  # noqa: F401

    torch.set_num_threads(1)
    # What is here now is garbage in no child: a collection there would touch, and so copy, all of it.
    gc.collect()
    gc.freeze()
    wire.send_json(sock, {"ready": True, "namespaces": holder is not None, "user_namespace": user_namespace})
    Zygote(sock, holder).serve()


if __name__ == "__main__":
    main()
