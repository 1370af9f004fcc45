"""A seccomp filter that refuses the system calls by which a program could reach beyond its sandbox.

Refused with EPERM: sockets (all but local ones where a GPU's driver needs those), ptrace and other processes' memory,
mounts, namespaces, keys, BPF, performance counters, io_uring, modules, memory that no limit counts (but for a GPU's
driver), and huge pages made on demand, with which a program's slots would be in other memory than a rival's. `clone3`,
whose flags cannot be seen, seems not to exist, so that C libraries take `clone`. Files, memory, threads and forks are
left to the other layers.
"""

import ctypes
import struct

from evaluators.worker import syscalls

_LOAD, _JUMP_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_JUMP_AT_LEAST, _X32 = 0x35, 0x40000000
_FIRST_ARGUMENT, _THIRD_ARGUMENT, _AF_UNIX = 16, 32, 1
_ALLOW, _KILL, _REFUSE, _MISSING = 0x7FFF0000, 0x80000000, 0x00050000 | 1, 0x00050000 | 38
_CLONE, _CLONE3, _NEW_NAMESPACES = (56, 220), 435, 0x7E020000
_MADVISE, _COLLAPSE = (28, 233), 25
# name: (x86_64, aarch64)
_REFUSED = {
    "socket": (41, 198),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "mount_setattr": (442, 442),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "unshare": (272, 97),
    "setns": (308, 268),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "kexec_load": (246, 104),
    "open_by_handle_at": (304, 265),
}
# Memory that no limit counts, which the GPU's driver makes; and timers: thousands of them slow whoever is next.
_REFUSED_WITHOUT_GPU = {"memfd_create": (319, 279), "shmget": (29, 194), "timerfd_create": (283, 85)}
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def supported() -> bool:
    """Return whether the table above covers this processor."""
    return syscalls.MACHINE in _ARCHITECTURES


def restrict(*, gpu: bool = False) -> None:
    """Install the filter in this process, for good. Needs no_new_privs. Raises OSError when the kernel refuses.

    `gpu`: allow what a GPU's driver needs.
    """
    architecture, column = _ARCHITECTURES[syscalls.MACHINE]
    code = [
        _instruction(_LOAD, 4),
        _instruction(_JUMP_EQUAL, architecture, 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, 0),
        *(_instruction(_JUMP_AT_LEAST, _X32, 0, 1), _instruction(_RETURN, _REFUSE)),
    ]
    for name, numbers in (_REFUSED | ({} if gpu else _REFUSED_WITHOUT_GPU)).items():
        if name == "socket" and gpu:
            code += _by_argument(numbers[column], _FIRST_ARGUMENT, (_JUMP_EQUAL, _AF_UNIX), _ALLOW, _REFUSE)
        else:
            code += [_instruction(_JUMP_EQUAL, numbers[column], 0, 1), _instruction(_RETURN, _REFUSE)]
    code += [
        *(_instruction(_JUMP_EQUAL, _CLONE3, 0, 1), _instruction(_RETURN, _MISSING)),
        *_by_argument(_MADVISE[column], _THIRD_ARGUMENT, (_JUMP_EQUAL, _COLLAPSE), _REFUSE, _ALLOW),
        *_by_argument(_CLONE[column], _FIRST_ARGUMENT, (_JUMP_SET, _NEW_NAMESPACES), _REFUSE, _ALLOW),
    ]
    code.append(_instruction(_RETURN, _ALLOW))
    buffer = ctypes.create_string_buffer(b"".join(code))
    program = _Program(len(code), ctypes.addressof(buffer))
    syscalls.prctl(syscalls.PR_SET_SECCOMP, 2, ctypes.byref(program))


def _by_argument(number: int, argument: int, test: tuple[int, int], then: int, otherwise: int) -> list[bytes]:
    """Return what decides a call by one of its arguments: a test and the value it tests against."""
    return [
        _instruction(_JUMP_EQUAL, number, 0, 4),
        _instruction(_LOAD, argument),
        _instruction(*test, 0, 1),
        _instruction(_RETURN, then),
        _instruction(_RETURN, otherwise),
    ]


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
