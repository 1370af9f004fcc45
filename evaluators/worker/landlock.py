"""Landlock: which files this process may still touch, enforced by the kernel without privileges.

Interface: Linux's include/uapi/linux/landlock.h (ABI 1 in Linux 5.13; network rules from ABI 4, scopes from ABI 6).
"""

import ctypes
import os
import stat
from collections.abc import Iterable

from evaluators.worker import syscalls

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL = 1, 2, 4, 8, 1 << 14, 1 << 15
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_BIND_TCP, _CONNECT_TCP = 1, 2
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2


class _Ruleset(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("files", "network", "scopes")]


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def version() -> int:
    """Return the kernel's Landlock ABI, 0 when it has none."""
    try:
        return syscalls.raw(_CREATE, None, 0, 1)
    except OSError:
        return 0


def restrict(readable: Iterable[str], writable: Iterable[str]) -> None:
    """Allow this process (for good) to read only below `readable` and to do anything only below `writable`.

    TCP, signals to processes outside and abstract sockets are refused where the kernel's ABI has them. Paths that do
    not exist are left out. Needs no_new_privs. Raises OSError when the kernel refuses.
    """
    abi = version()
    files = _all_file_rights(abi)
    network = _BIND_TCP | _CONNECT_TCP if abi >= 4 else 0
    scopes = _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS if abi >= 6 else 0
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = syscalls.raw(_CREATE, ctypes.byref(_Ruleset(files, network, scopes)), size, 0)
    for path in readable:
        _allow(ruleset, path, _READ & files)
    for path in writable:
        _allow(ruleset, path, files)
    syscalls.raw(_RESTRICT, ruleset, 0)
    os.close(ruleset)


def _all_file_rights(abi: int) -> int:
    bits = 13 if abi < 2 else 14 if abi < 3 else 15 if abi < 5 else 16
    return (1 << bits) - 1


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return
    if not stat.S_ISDIR(os.fstat(fd).st_mode):
        rights &= _FILE_RIGHTS
    syscalls.raw(_ADD_RULE, ruleset, 1, ctypes.byref(_PathRule(rights, fd)), 0)
    os.close(fd)
