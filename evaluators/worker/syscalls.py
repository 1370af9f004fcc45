"""The few Linux calls that Python's standard library lacks. Each raises OSError when the kernel refuses."""

import ctypes
import errno
import mmap
import os
import platform
from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

MACHINE = platform.machine()
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 36, 38
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
_SYS_MOUNT_SETATTR = 442
_AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = -100, 0x8000, 1
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
_HEAP_BLOCK = 16 << 20
_MADV_POPULATE_WRITE = 23


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return int(result)


def raw(number: int, *args: object) -> int:
    """Make system call `number`; the arguments are ctypes values, None or int (passed as a 64-bit long)."""
    converted = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    return _checked(_libc.syscall(ctypes.c_long(number), *converted), f"system call {number}")


def prctl(option: int, *args: object) -> None:
    """Call prctl with up to four arguments."""
    values = [ctypes.c_ulong(arg) if isinstance(arg, int) else arg for arg in args]
    values += [ctypes.c_ulong(0)] * (4 - len(values))
    _checked(_libc.prctl(ctypes.c_int(option), *values), f"prctl {option}")


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags`; a new PID namespace holds the children made from now on."""
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(fd: int, flags: int) -> None:
    """Enter the namespace behind `fd`; a PID namespace holds the children made from now on."""
    _checked(_libc.setns(ctypes.c_int(fd), ctypes.c_int(flags)), "setns")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount `source` on `target`."""
    encoded = (source.encode(), target.encode(), kind.encode() or None)
    _checked(_libc.mount(*encoded, ctypes.c_ulong(flags), options.encode() or None), f"mount {target}")


def set_read_only(path: str, read_only: bool, recursive: bool) -> None:
    """Make the mount at `path` (and those below it) read-only, or writable again."""

    class Attributes(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")]

    bit = _MOUNT_ATTR_RDONLY
    attributes = Attributes(bit, 0, 0, 0) if read_only else Attributes(0, bit, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    size = ctypes.sizeof(attributes)
    raw(_SYS_MOUNT_SETATTR, _AT_FDCWD, ctypes.c_char_p(path.encode()), flags, ctypes.byref(attributes), size)


def drop_capabilities() -> None:
    """Give up every capability of this process (they are moot for an unprivileged user outside namespaces)."""

    class Header(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]

    data = (ctypes.c_uint32 * 6)()
    _checked(_libc.capset(ctypes.byref(Header(0x20080522, 0)), ctypes.byref(data)), "capset")


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread that forked it ends; `parent` is that process' id."""
    prctl(PR_SET_PDEATHSIG, 9)
    if os.getppid() != parent:
        os._exit(1)


def tune_allocator() -> None:
    """Keep freed blocks in the heap, so that a program that returns new tensors pays for page faults only once."""
    _libc.mallopt(M_MMAP_THRESHOLD, _HEAP_BLOCK * 2)
    _libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def populate(memory: mmap.mmap) -> None:
    """Have every page of a mapping present, writable and marked as written, so that using it first costs no more."""
    try:
        memory.madvise(_MADV_POPULATE_WRITE)
    except OSError as error:
        if not is_refusal(error):
            raise
        _touch(memory)


def _touch(memory: mmap.mmap) -> None:
    for offset in range(0, len(memory), mmap.PAGESIZE):
        memory[offset] = memory[offset]


def warm_heap(nbytes: int) -> None:
    """Have about `nbytes` of freed heap that is already backed by memory (a page fault costs about 2 us)."""
    _libc.malloc.restype = ctypes.c_void_p
    blocks = [ctypes.c_void_p(_libc.malloc(ctypes.c_size_t(_HEAP_BLOCK))) for _ in range(-(-nbytes // _HEAP_BLOCK))]
    for block in blocks:
        if block.value is not None:
            start, end = -(-block.value // mmap.PAGESIZE), (block.value + _HEAP_BLOCK) // mmap.PAGESIZE
            where = ctypes.c_void_p(start * mmap.PAGESIZE), ctypes.c_size_t((end - start) * mmap.PAGESIZE)
            if _libc.madvise(*where, _MADV_POPULATE_WRITE) != 0:
                _libc.memset(block, 1, ctypes.c_size_t(_HEAP_BLOCK))
    for block in blocks:
        _libc.free(block)


class _Range(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def read_memory(pid: int, source: int, target: int, count: int) -> int:
    """Copy up to `count` bytes at an address of process `pid` to one of this process; return how many."""
    return _transfer(_libc.process_vm_readv, pid, target, source, count)


def write_memory(pid: int, target: int, source: int, count: int) -> int:
    """Copy up to `count` bytes at an address of this process to one of process `pid`; return how many."""
    return _transfer(_libc.process_vm_writev, pid, source, target, count)


def _transfer(call: Any, pid: int, ours: int, theirs: int, count: int) -> int:
    call.restype = ctypes.c_ssize_t
    here, there = _Range(ours, count), _Range(theirs, count)
    places = ctypes.byref(here), ctypes.c_ulong(1), ctypes.byref(there), ctypes.c_ulong(1), ctypes.c_ulong(0)
    return _checked(call(ctypes.c_int(pid), *places), call.__name__)


def equal_bytes(a: int, b: int, count: int) -> bool:
    """Return whether `count` bytes at two addresses agree."""
    return int(_libc.memcmp(ctypes.c_void_p(a), ctypes.c_void_p(b), ctypes.c_size_t(count))) == 0


def is_refusal(error: OSError) -> bool:
    """Return whether the kernel lacks a feature or forbids it to us (against: the call was wrong)."""
    return error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSPC)
