"""The monitor of the back-ends that need no program besides Python: the main program of a process of its own.

The plan is a marshalled dict: the same interpreter writes and reads it, and json would double the time to
start. The monitor forks a child, which isolates itself as the plan says, waits at the gate until its limits
are set, and becomes the command (or, in a PID namespace, the parent of the command). Status lines are those
that process.py describes. Nothing here imports more than it must: it runs before every job.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing and signal would be a third of the time to start
    from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)

_CLONE_NEW = 0x10000000 | 0x00020000 | 0x20000000 | 0x08000000 | 0x04000000
"""User, mount, PID, IPC and UTS namespaces."""
_CLONE_NEWNET = 0x40000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 2, 4, 8, 0x1000, 0x4000, 0x40000
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4
_AT_FDCWD, _AT_RECURSIVE, _MNT_DETACH = -100, 0x8000, 2
_PDEATHSIG, _DUMPABLE, _SECCOMP, _CAPBSET_DROP, _NO_NEW_PRIVS, _SUBREAPER = 1, 4, 22, 24, 38, 36
_SIGKILL, _SIGTERM, _IGNORED_BY_PYTHON = 9, 15, (13, 25)
_MOUNT_SETATTR, _PIVOT_ROOT, _CAPSET = 442, {"x86_64": 155, "aarch64": 41}, {"x86_64": 126, "aarch64": 91}
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446


def _check(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def _syscall(number: int, what: str, *arguments: Any) -> int:
    return _check(_LIBC.syscall(ctypes.c_long(number), *arguments), what)


def _prctl(option: int, value: int, what: str) -> None:
    _check(_LIBC.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)), what)


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    words = [word.encode() for word in (source, target, kind)]
    _check(_LIBC.mount(*words, ctypes.c_ulong(flags), data.encode()), f"mount {kind or source} on {target}")


def _set_attributes(target: str, attributes: int, flags: int) -> None:
    """Read-only, nosuid and nodev for a mount; with ``_AT_RECURSIVE`` also for those below it (Linux 5.12)."""
    wanted = struct.pack("=QQQQ", attributes, 0, 0, 0)
    _syscall(_MOUNT_SETATTR, f"mount_setattr {target}", _AT_FDCWD, target.encode(), flags, wanted, 32)


def _pivot(new_root: bytes, put_old: bytes) -> None:
    _syscall(_PIVOT_ROOT[os.uname().machine], "pivot_root", new_root, put_old)


# ---- namespaces


def unshare(plan: dict[str, Any]) -> None:
    uid, gid = os.getuid(), os.getgid()
    _check(_LIBC.unshare(_CLONE_NEW | (0 if plan["network"] else _CLONE_NEWNET)), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def build_root(plan: dict[str, Any]) -> None:
    """Move into a fresh root that holds the plan's mounts and nothing else."""
    _mount("none", "/", "", _MS_REC | _MS_PRIVATE)
    _mount("tmpfs", "/tmp", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755")
    os.mkdir("/tmp/old")
    os.mkdir("/tmp/new")
    _pivot(b"/tmp", b"/tmp/old")
    os.chdir("/")
    _mount("tmpfs", "/new", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755")
    for target, link in plan["links"]:
        os.symlink(link, "/new" + target)
    _proc()
    _dev(plan)
    _scratch("/new/tmp", plan)
    for source, target, writable, device in plan["mounts"]:
        _bind("/old" + source, "/new" + target)
        keep = _ATTR_NOSUID | (0 if device else _ATTR_NODEV) | (0 if writable or device else _ATTR_RDONLY)
        _set_attributes("/new" + target, keep, _AT_RECURSIVE)
    for path in plan["hidden"]:
        _mount("tmpfs", "/new" + path, "tmpfs", _MS_RDONLY | _MS_NOSUID | _MS_NODEV, "mode=0755")
    for path in ("/new/proc", "/new/dev", "/new"):
        _set_attributes(path, _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV, 0)
    _check(_LIBC.umount2(b"/old", _MNT_DETACH), "umount old root")
    os.chdir("/new")
    _pivot(b".", b".")
    _check(_LIBC.umount2(b".", _MNT_DETACH), "umount staging root")
    os.chdir("/")
    _check(_LIBC.sethostname(b"sandbox", 7), "sethostname")


def _proc() -> None:
    """Our own /proc; with no room for further user namespaces. It ends read-only: a root's sysctls are in it."""
    os.mkdir("/new/proc")
    _mount("proc", "/new/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    with open("/new/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("0")


def _dev(plan: dict[str, Any]) -> None:
    os.mkdir("/new/dev")
    _mount("tmpfs", "/new/dev", "tmpfs", _MS_NOSUID, "mode=0755,size=1m")
    for name in plan["devices"]:
        _bind(f"/old/dev/{name}", f"/new/dev/{name}")
    for name, link in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(link, f"/new/dev/{name}")
    _scratch("/new/dev/shm", plan)


def _scratch(path: str, plan: dict[str, Any]) -> None:
    os.mkdir(path)
    _mount("tmpfs", path, "tmpfs", _MS_NOSUID | _MS_NODEV, f"mode=0777,size={plan['scratch_bytes']}")


def _bind(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    _mount(source, target, "", _MS_BIND | _MS_REC)


# ---- rights


def drop_capabilities() -> None:
    """None left, and none to be gained by starting a program (which as root would bring them back)."""
    for capability in range(64):
        if _LIBC.prctl(_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) < 0:
            break
    header, nothing = struct.pack("=Ii", 0x20080522, 0), bytes(24)
    _syscall(_CAPSET[os.uname().machine], "capset", header, nothing)


def landlock_abi() -> int:
    """Version of Landlock in this kernel; 0 or less where there is none."""
    return int(_LIBC.syscall(ctypes.c_long(_LANDLOCK_CREATE), None, ctypes.c_size_t(0), 1))


FILE_RIGHTS = 1 | 2 | 4 | 1 << 14 | 1 << 15
"""What can be granted on a file: execute, write, read, truncate, ioctl of a device."""
LIST_RIGHTS = 8
READ_RIGHTS = 1 | 4 | LIST_RIGHTS
"""Execute, read a file, list a folder."""
ALL_RIGHTS = (1 << 16) - 1


def landlock(plan: dict[str, Any]) -> None:
    """Leave the paths of the plan and nothing else; no signals and no abstract sockets to the outside."""
    network = 0 if plan["network"] else 3
    attributes = struct.pack("=QQQ", ALL_RIGHTS, network, 3)
    ruleset = _syscall(_LANDLOCK_CREATE, "landlock", attributes, ctypes.c_size_t(len(attributes)), 0)
    for path, rights in plan["paths"]:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        _syscall(_LANDLOCK_ADD, f"landlock {path}", ruleset, 1, struct.pack("=Qi", rights, fd), 0)
        os.close(fd)
    _prctl(_NO_NEW_PRIVS, 1, "no_new_privs")
    _syscall(_LANDLOCK_RESTRICT, "landlock", ruleset, 0)
    os.close(ruleset)


def filter_system_calls(program: bytes) -> None:
    _prctl(_NO_NEW_PRIVS, 1, "no_new_privs")
    if program:
        code = ctypes.create_string_buffer(program, len(program))
        argument = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(code)))
        _check(_LIBC.prctl(_SECCOMP, ctypes.c_ulong(2), argument, ctypes.c_ulong(0), ctypes.c_ulong(0)), "seccomp")


# ---- processes


def become(plan: dict[str, Any]) -> None:
    """Turn this process into the command; returns only by an exception."""
    for number in _IGNORED_BY_PYTHON:
        _LIBC.signal(number, None)
    os.dup2(1, 2)
    os.chdir(plan["cwd"])
    if plan["isolate"]:
        drop_capabilities()
    if "paths" in plan:
        landlock(plan)
    if plan["isolate"]:
        filter_system_calls(plan["seccomp"])
    os.execvpe(plan["argv"][0], plan["argv"], plan["env"])


def child(plan: dict[str, Any], gate: int, errors: int) -> None:
    """The first process of the tree. Whatever fails before the command runs is written to ``errors``."""
    try:
        if plan["namespaces"]:
            _prctl(_PDEATHSIG, _SIGKILL, "pdeathsig")
            build_root(plan)
        os.read(gate, 1)
        if plan["namespaces"]:
            _prctl(_DUMPABLE, 0, "dumpable")
            command = os.fork()
            if command:
                os.close(errors)
                for fd in (1, 2):
                    os.close(fd)
                os._exit(_wait_for(command))
        become(plan)
    except OSError as error:
        os.write(errors, str(error).encode())
    os._exit(127)


def _wait_for(command: int) -> int:
    """Reap all children until ``command`` ends; its exit status as a shell gives it."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == command:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def kill_descendants() -> None:
    """SIGKILL for all below this sub-reaper, until none is left; also what was forked meanwhile."""
    me = os.getpid()
    while True:
        waiting = [me]
        while waiting:
            pid = waiting.pop()
            try:
                for thread in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{thread}/children") as file:
                        waiting.extend(int(word) for word in file.read().split())
                if pid != me:
                    os.kill(pid, _SIGKILL)
            except OSError:
                pass
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def become_sub_reaper() -> None:
    """Orphans of the tree become ours; SIGTERM, also sent when our parent dies, ends the whole tree."""
    import signal

    def end_at_once(*_: object) -> None:
        kill_descendants()
        os._exit(128 + _SIGTERM)

    signal.signal(signal.SIGTERM, end_at_once)
    _prctl(_SUBREAPER, 1, "subreaper")
    _prctl(_PDEATHSIG, _SIGTERM, "pdeathsig")


def main() -> None:
    """Run the plan. ``sys.argv``: the descriptors of the plan, the status and the gate (see process.py)."""
    plan_fd, status, gate = map(int, sys.argv[1:])
    for fd in (plan_fd, status, gate):
        os.set_inheritable(fd, False)
    with open(plan_fd, "rb") as file:
        plan = marshal.load(file)
    errors, errors_of_child = os.pipe()
    try:
        if plan["namespaces"]:
            unshare(plan)
            _prctl(_PDEATHSIG, _SIGKILL, "pdeathsig")
        else:
            become_sub_reaper()
        if os.getppid() != plan["parent"]:
            return
        first = os.fork()
    except OSError as error:
        os.write(status, b'{"error": "%s"}\n' % str(error).replace('"', "'").encode())
        return
    if first == 0:
        os.close(errors)
        child(plan, gate, errors_of_child)
    os.close(errors_of_child)
    for fd in (1, 2):
        os.close(fd)
    os.write(status, b'{"child-pid": %d}\n' % first)
    os.close(gate)
    failure = os.read(errors, 4096)
    code = _wait_for(first)
    if not plan["namespaces"]:
        kill_descendants()
    if failure:
        os.write(status, b'{"error": "%s"}\n' % failure.replace(b"\\", b"").replace(b'"', b"'"))
    else:
        os.write(status, b'{"exit-code": %d}\n' % code)
    os._exit(0)
