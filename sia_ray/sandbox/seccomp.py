"""System calls that no candidate needs, refused by a small filter program for the kernel.

The filter is a second wall behind namespaces: mounting, tracing, foreign namespaces, kernel interfaces with a
history of holes, and socket families that a network namespace does not confine (AF_VSOCK reaches the host of
a virtual machine). Where there are no namespaces (Landlock), it is also the wall against sockets, shared
memory segments and changes of modes, which Landlock leaves open.
"""

from __future__ import annotations

import errno
import platform
import struct

_COLUMN = {"x86_64": 0, "aarch64": 1}
_AUDIT_ARCH = (0xC000003E, 0xC00000B7)

_REFUSED: dict[str, tuple[int, int]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "open_by_handle_at": (304, 265),
    "personality": (135, 92),
}
_REFUSED_WITHOUT_NAMESPACES: dict[str, tuple[int, int]] = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "setpriority": (141, 140),
}
_PRETENDED_WITHOUT_NAMESPACES: dict[str, tuple[int, int]] = {
    "chmod": (90, -1),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, -1),
    "fchown": (93, 55),
    "lchown": (94, -1),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
}
_ONLY_SELF_WITHOUT_NAMESPACES = ((302, 261), (203, 122))
"""prlimit64 and sched_setaffinity: allowed with process 0, that is the caller."""
_SOCKET = (41, 198)
_NAMESPACED_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK."""

_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_ERRNO = 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06


def supported() -> bool:
    """Whether the numbers of this machine's system calls are known here."""
    return platform.system() == "Linux" and platform.machine() in _COLUMN


def _op(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _answer(number: int, error: int) -> bytes:
    """Answer the system call ``number`` with ``error``; 0 pretends that it was done."""
    return _op(_EQUAL, number, no=1) + _op(_RETURN, _ERRNO | error)


def program(*, namespaces: bool, sockets: bool = True) -> bytes:
    """The filter as the kernel's array of ``sock_filter``; empty where this machine is not ``supported``.

    namespaces: whether the program runs in namespaces of its own. Without them shared memory segments and message
    queues are refused, and changes of mode, owner and attributes are pretended, as these reach every file of the
    user. (Changes of times are let through: pretending them would break Path.touch.) sockets: whether socket(2)
    may be called at all; socketpair(2) always may.
    """
    if not supported():
        return b""
    column = _COLUMN[platform.machine()]
    code = _op(_LOAD, 4) + _op(_EQUAL, _AUDIT_ARCH[column], yes=1) + _op(_RETURN, _KILL) + _op(_LOAD, 0)
    if column == 0:  # the x32 numbers would be a second door to every call
        code += _op(_AT_LEAST, 0x40000000, no=1) + _op(_RETURN, _ERRNO | errno.ENOSYS)
    refused = _REFUSED if namespaces else _REFUSED | _REFUSED_WITHOUT_NAMESPACES
    code += b"".join(_answer(numbers[column], errno.EPERM) for numbers in refused.values())
    if not namespaces:
        pretended = [n[column] for n in _PRETENDED_WITHOUT_NAMESPACES.values() if n[column] >= 0]
        code += b"".join(_answer(number, 0) for number in pretended)
        for numbers in _ONLY_SELF_WITHOUT_NAMESPACES:
            code += _op(_EQUAL, numbers[column], no=4) + _op(_LOAD, 16) + _op(_EQUAL, 0, yes=1)
            code += _op(_RETURN, _ERRNO | errno.EPERM) + _op(_RETURN, _ALLOW)
    if not sockets:
        code += _answer(_SOCKET[column], errno.EACCES)
    else:
        families = _NAMESPACED_FAMILIES
        code += _op(_EQUAL, _SOCKET[column], no=len(families) + 2) + _op(_LOAD, 16)
        code += b"".join(_op(_EQUAL, family, yes=len(families) - place) for place, family in enumerate(families))
        code += _op(_RETURN, _ERRNO | errno.EAFNOSUPPORT)
    return code + _op(_RETURN, _ALLOW)
