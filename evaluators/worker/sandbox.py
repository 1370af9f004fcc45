"""What a candidate's process may do: layers, each applied when the host has it and recorded.

Order matters and is that of `confine`: namespaces and mounts need privileges, so they come before the unprivileged
user; the kernel forgets the parent-death signal when the user changes, so that comes after; Landlock and seccomp
forbid what the earlier layers need, so they come last.
"""

import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evaluators.worker import landlock, seccomp, syscalls

NOBODY = 65534
SYSTEM_PATHS = ("/usr", "/lib", "/lib64", "/bin", "/etc", "/opt", "/proc", "/sys/devices/system/cpu", "/nix/store")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SHARED_MEMORY = "/dev/shm"
_OPEN_FILES, _TIMERS = 1024, 16
WORK_BYTES, GPU_WORK_BYTES = 64 << 20, 1 << 30
"""Room for what a process writes, and for what compilers for a GPU leave behind besides."""
GPU_WRITABLE = (
    *("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset", "/dev/nvidia-caps"),
    *(f"/dev/nvidia{number}" for number in range(16)),
)
"""The driver's devices."""
GPU_PATHS = ("/sys/bus", "/sys/class", "/sys/devices", "/sys/module", "/run/nvidia-persistenced", "/dev/shm")
LAYERS = {
    "session": "own session, killed with its parent",
    "limits": "limits on memory, processor time, file size, processes, no core files",
    "user_namespace": "privileges for the layers below, from a user namespace (not needed as root)",
    "pid_namespace": "own process namespace: nothing outside is visible, everything inside dies together",
    "network_namespace": "no network",
    "private_proc": "a /proc that shows only itself",
    "private_mounts": "the whole file system read-only but for a private folder",
    "unprivileged_user": "runs as uid 65534 (only when started as root)",
    "no_capabilities": "no capabilities, no new privileges",
    "landlock": "reads only system and Python folders, writes only its private folder",
    "seccomp": "no sockets, no tracing, no mounts",
}


@dataclass(frozen=True)
class Plan:
    """How to confine one process."""

    work: str
    """Its private folder: current folder, HOME and TMPDIR."""
    readable: tuple[str, ...]
    """What it may read besides the system's folders."""
    keep_work: bool
    """Whether what it writes into `work` is wanted afterwards (builds); else `work` is a tmpfs where possible."""
    memory_bytes: int | None
    """Address space it may add to what the forked process has; None: any (CUDA reserves huge ranges)."""
    cpu_s: int
    file_bytes: int
    processes: int
    processors: tuple[int, ...] = ()
    """Those it runs on; empty: any."""
    shared_memory: bool = False
    """Whether it gets a /dev/shm, a private one where possible: locks between processes of its own are made there."""
    gpu: bool = False
    """Whether it may open GPU devices."""
    work_bytes: int = WORK_BYTES
    """Size of `work` when it is a tmpfs."""
    writable: tuple[str, ...] = ()
    """Further folders that it may write to, whose content is kept: a compiler's cache."""


def enter_user_namespace() -> bool:
    """Become privileged inside a user namespace unless already able to make namespaces. Returns whether it did."""
    try:
        if _may_unshare():
            return False
        uid, gid = os.geteuid(), os.getegid()
        syscalls.unshare(syscalls.CLONE_NEWUSER)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    except OSError:
        return False
    return True


def _may_unshare() -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            syscalls.unshare(syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNS)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def confine(plan: Plan, parent: int) -> tuple[str, ...]:
    """Apply every layer that this host has to the calling process, for good, and return the layers' names.

    `parent` is the process id of the forking process as the caller sees it (0 from inside a PID namespace). Raises
    OSError only for layers that every Linux has.
    """
    os.setsid()
    _limit(plan)
    active = ["session", "limits"]
    if _allowed(lambda: syscalls.unshare(syscalls.CLONE_NEWNET | syscalls.CLONE_NEWIPC)):
        active.append("network_namespace")
    if _allowed(_leave_mounts):
        if parent == 0 and _allowed(_mount_proc):
            active.append("private_proc")
        if _allowed(lambda: _mount_private(plan)):
            active.append("private_mounts")
    os.chdir(plan.work)
    if os.geteuid() == 0:
        if _become_nobody(plan):
            active.append("unprivileged_user")
        else:
            os.chown(plan.work, 0, 0)
    syscalls.die_with_parent(parent)
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    if _allowed(syscalls.drop_capabilities):
        active.append("no_capabilities")
    readable = (*SYSTEM_PATHS, *plan.readable, *(GPU_PATHS if plan.gpu else ()))
    writable = (plan.work, *plan.writable, *DEVICES, *(GPU_WRITABLE if plan.gpu else ()))
    writable += (SHARED_MEMORY,) if plan.shared_memory else ()
    # Where the driver names its threads. A rule for /proc/self holds for this process alone, not for those it starts.
    own_processes = plan.shared_memory and "private_proc" in active
    writable += (("/proc" if own_processes else "/proc/self"),) if plan.gpu else ()
    if landlock.version() and _allowed(lambda: landlock.restrict(readable, writable)):
        active.append("landlock")
    if seccomp.supported() and _allowed(lambda: seccomp.restrict(gpu=plan.gpu)):
        active.append("seccomp")
    return tuple(active)


def _allowed(step: Callable[[], None]) -> bool:
    try:
        step()
    except OSError as error:
        if not syscalls.is_refusal(error):
            raise
        return False
    return True


def _limit(plan: Plan) -> None:
    if plan.processors:
        os.sched_setaffinity(0, plan.processors)
    Path("/proc/self/oom_score_adj").write_text("1000")
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limited = plan.memory_bytes is not None
    memory = pages * resource.getpagesize() + (plan.memory_bytes or 0) if limited else resource.RLIM_INFINITY
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, plan.cpu_s),
        (resource.RLIMIT_FSIZE, plan.file_bytes),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_NPROC, plan.processes),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        # What a GPU's driver needs is not known.
        (resource.RLIMIT_SIGPENDING, resource.RLIM_INFINITY if plan.gpu else _TIMERS),
    ):
        hard = resource.getrlimit(kind)[1]
        both = value != resource.RLIM_INFINITY and hard != resource.RLIM_INFINITY
        limit = min(value, hard) if both else hard if value == resource.RLIM_INFINITY else value
        resource.setrlimit(kind, (limit, limit))


def _leave_mounts() -> None:
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)


def _mount_proc() -> None:
    syscalls.mount("proc", "/proc", "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)


def _mount_private(plan: Plan) -> None:
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV
    _reveal((plan.work, *plan.readable, *plan.writable))
    for path in plan.writable:
        syscalls.mount(path, path, "", syscalls.MS_BIND)
    if plan.keep_work:
        syscalls.mount(plan.work, plan.work, "", syscalls.MS_BIND)
    else:
        owner = os.geteuid() or NOBODY
        syscalls.mount("tmpfs", plan.work, "tmpfs", flags, f"size={plan.work_bytes},mode=700,uid={owner}")
    syscalls.set_read_only("/", read_only=True, recursive=True)
    for path in (plan.work, *plan.writable, *(("/proc",) if plan.gpu else ())):
        syscalls.set_read_only(path, read_only=False, recursive=False)
    if plan.shared_memory:
        syscalls.mount("tmpfs", SHARED_MEMORY, "tmpfs", flags, "size=64m,mode=1777")


def _reveal(paths: tuple[str, ...]) -> None:
    """Make paths below folders that are closed to other users (such as /root) reachable, and nothing else there."""
    blocked: dict[str, list[str]] = {}
    for path in sorted({os.path.realpath(path) for path in paths if os.path.isdir(path)}):
        gate = _closed_ancestor(path)
        if gate is not None:
            inside = blocked.setdefault(gate, [])
            if not any(path.startswith(f"{outer}/") for outer in inside):
                inside.append(path)
    for gate, inside in blocked.items():
        kept = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in inside}
        syscalls.mount("tmpfs", gate, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "size=1m,mode=755")
        for path, fd in kept.items():
            os.makedirs(path, mode=0o755, exist_ok=True)
            syscalls.mount(f"/proc/self/fd/{fd}", path, "", syscalls.MS_BIND | syscalls.MS_REC)
            os.close(fd)


def _closed_ancestor(path: str) -> str | None:
    """Return the topmost folder above `path` (not itself) through which other users may not pass."""
    parts = path.split("/")
    ancestors = ["/".join(parts[:length]) for length in range(2, len(parts))]
    return next((folder for folder in ancestors if not os.stat(folder).st_mode & 0o001), None)


def _become_nobody(plan: Plan) -> bool:
    """Become uid 65534, unless that user could not reach what the process needs."""
    needed = [path for path in (*plan.readable, *plan.writable) if os.path.isdir(path)]
    if any(_closed_ancestor(os.path.realpath(path)) for path in (plan.work, *needed)):
        return False
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except OSError as error:
        # A user namespace that maps a single user has no other one to become.
        if not syscalls.is_refusal(error):
            raise
        return False
    return True
