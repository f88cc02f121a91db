"""The supervisor of every sandboxed run: start, capture, bound, kill, and say why it ended.

A back-end describes how it starts a job (``Launch``); this module does the rest, the same way for all. The
process it starts is the *monitor*. On its status descriptor the monitor writes JSON lines: ``child-pid`` as
soon as the *child* exists (the first process inside), ``exit-code`` when the command has ended, or ``error``.
The child waits at the gate until its limits are set from here, so no code runs in a forked copy of this
(multi-threaded) process.

The thread that calls ``supervise`` starts the monitor and stays until the whole tree is gone. This matters:
the kernel's parent-death signal, which ends the tree when we are killed, follows the starting *thread*.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from sia_ray.sandbox import tree
from sia_ray.sandbox.capture import Capture
from sia_ray.sandbox.disk import DiskWatch
from sia_ray.sandbox.layout import scratch_mb
from sia_ray.sandbox.policy import Cause, Finished, Limits, Output

_CHUNK_BYTES = 1 << 18
_NOTE_BYTES = 4096
_KILL_S = 10.0
_FIRST_LOOK_S, _SLOWEST_LOOK_S, _FASTEST_LOOK_S = 0.01, 0.25, 0.005
_FILL_MB_PER_S = 8192.0
"""Faster than a machine can fill memory: the next look comes before what is left can be used up."""
_MIB = 1 << 20


class Wires(NamedTuple):
    """Descriptors that the monitor inherits, under the same numbers as here."""

    status: int
    gate: int
    data: tuple[int, ...]


class Launch(NamedTuple):
    """How a back-end starts a job.

    ``command`` gives the monitor's argv; ``data`` are byte strings it can read from ``wires.data``.
    ``namespaced``: the child is the first process of a PID namespace, whose end ends all. Otherwise the monitor
    is the sub-reaper of its tree, and kills it when it is sent SIGTERM. ``writable``: folders of the host that the job
    can write to, for its limit of disk.
    """

    command: Callable[[Wires], list[str]]
    data: tuple[bytes, ...]
    namespaced: bool
    writable: tuple[Path, ...] = ()


def not_started(sandbox: str, detail: str) -> Finished:
    """The result of a run that never was."""
    return Finished(Cause.INFRASTRUCTURE, None, Output(b"", b"", 0), 0.0, 0.0, 0.0, sandbox, detail)


def supervise(launch: Launch, limits: Limits, sandbox: str) -> Finished:
    """Run ``launch`` to its end. Blocks; may be called from any thread, and from several at once."""
    try:
        run = _Run(limits, launch)
    except OSError as error:
        return not_started(sandbox, str(error))
    try:
        run.start(launch)
        return run.finish(sandbox)
    except OSError as error:
        return not_started(sandbox, str(error))
    finally:
        run.close()


class _Run:
    """One run in progress. ``close`` ends whatever is left of it, whichever way it went."""

    def __init__(self, limits: Limits, launch: Launch) -> None:
        self._limits, self._namespaced = limits, launch.namespaced
        self._disk = DiskWatch(launch.writable, limits.disk_mb)
        self._started = time.monotonic()
        self._output, self._notes = Capture(limits.output_bytes), Capture(_NOTE_BYTES)
        self._selector = selectors.DefaultSelector()
        self._open: set[int] = set()
        self._monitor: subprocess.Popen[bytes] | None = None
        self._monitor_fd = self._gate = -1
        self._ended = False
        self._child, self._child_fd = -1, -1
        self._status, self._error = b"", ""
        self._exit_code: int | None = None
        self._stopped: Cause | None = None
        self._detail = ""
        self._peak_mb, self._above = 0.0, False
        self._pause_s, self._next_look = _FIRST_LOOK_S, self._started + _FIRST_LOOK_S
        self._next_disk_look = self._started
        self._cpu_s = 0.0

    # ---- start

    def start(self, launch: Launch) -> None:
        out, notes, status, gate = (self._pipe() for _ in range(4))
        data = tuple(self._memory_file(content) for content in launch.data)
        self._gate = gate[1]
        self._monitor = subprocess.Popen(
            launch.command(Wires(status[1], gate[0], data)),
            stdin=subprocess.DEVNULL,
            stdout=out[1],
            stderr=notes[1],
            env={},
            cwd="/",
            pass_fds=(status[1], gate[0], *data),
            start_new_session=True,
        )
        self._monitor_fd = self._keep(os.pidfd_open(self._monitor.pid))
        for fd in (out[1], notes[1], status[1], gate[0], *data):
            self._shut(fd)
        self._watch(out[0], lambda: self._drain(out[0], self._output))
        self._watch(notes[0], lambda: self._drain(notes[0], self._notes))
        self._watch(status[0], lambda: self._read_status(status[0]))
        self._watch(self._monitor_fd, self._monitor_ended)

    def _keep(self, fd: int) -> int:
        self._open.add(fd)
        return fd

    def _shut(self, fd: int) -> None:
        if fd in self._open:
            self._open.remove(fd)
            os.close(fd)

    def _pipe(self) -> tuple[int, int]:
        read, write = os.pipe()
        return self._keep(read), self._keep(write)

    def _memory_file(self, content: bytes) -> int:
        fd = self._keep(os.memfd_create("sia-ray"))
        with open(fd, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def _watch(self, fd: int, then: Callable[[], None]) -> None:
        self._selector.register(fd, selectors.EVENT_READ, then)

    # ---- what can happen while the command runs

    def _drain(self, fd: int, into: Capture) -> None:
        chunk = os.read(fd, _CHUNK_BYTES)
        into.feed(chunk)
        if not chunk:
            self._selector.unregister(fd)

    def _read_status(self, fd: int) -> None:
        chunk = os.read(fd, _NOTE_BYTES)
        if not chunk:
            self._selector.unregister(fd)
        self._status += chunk
        *lines, self._status = self._status.split(b"\n")
        for line in lines:
            fields: Mapping[str, object] = json.loads(line)
            if isinstance(pid := fields.get("child-pid"), int):
                self._admit(pid)
            if isinstance(code := fields.get("exit-code"), int):
                self._exit_code = code
            self._error = str(fields.get("error", self._error))

    def _admit(self, pid: int) -> None:
        """Bound the child, then let it go on."""
        with contextlib.suppress(ProcessLookupError):
            self._child_fd = self._keep(os.pidfd_open(pid))
            self._child = pid
            _bound(pid, self._limits, own_user_namespace=self._namespaced)
        with contextlib.suppress(BrokenPipeError):
            os.write(self._gate, b"\n")
        self._shut(self._gate)

    def _monitor_ended(self) -> None:
        self._ended = True

    def _look(self) -> None:
        """Measure the tree; stop it when it is above its limits at two looks in a row.

        Two, because a process between vfork and exec counts its parent's memory a second time.
        """
        before = time.monotonic()
        if self._child < 0:
            self._next_look = before + self._pause_s
            return
        pids = tree.descendants(self._child)
        seen = tree.usage(pids)
        scratch = tree.scratch_mb(self._child, scratch_mb(self._limits)) if self._namespaced else 0.0
        memory = seen.memory_mb + scratch
        if memory > self._limits.memory_mb:
            memory = tree.shared_out_mb(pids) + scratch
        self._peak_mb = max(self._peak_mb, memory, seen.largest_mb)
        too_much = memory > self._limits.memory_mb
        too_many = seen.processes > self._limits.processes
        if (too_much or too_many) and self._above:
            what = f"{memory:.0f} MiB of memory" if too_much else f"{seen.processes} processes and threads"
            allowed = f"{self._limits.memory_mb} MiB" if too_much else str(self._limits.processes)
            self._stop(Cause.MEMORY if too_much else Cause.PROCESSES, f"{what} in use, {allowed} allowed")
        self._above = too_much or too_many
        now = time.monotonic()
        self._pause_s = min(self._pause_s * 2, _SLOWEST_LOOK_S)
        room_s = (self._limits.memory_mb - memory) / _FILL_MB_PER_S
        self._next_look = now + max(min(self._pause_s, room_s), _FASTEST_LOOK_S, 10 * (now - before))
        if self._above:
            self._next_look = now + _FASTEST_LOOK_S

    def _look_at_disk(self) -> None:
        before = time.monotonic()
        if self._child >= 0 and (too_much := self._disk.look(tree.descendants(self._child))):
            self._stop(Cause.DISK, too_much)
        now = time.monotonic()
        self._next_disk_look = now + max(self._disk.pause_s, 4 * (now - before))

    def _stop(self, cause: Cause, detail: str) -> None:
        if self._stopped is None:
            self._stopped, self._detail = cause, detail
            if self._child >= 0:  # what is killed with its namespace is never waited for, and would not count
                self._cpu_s = tree.cpu_s(tree.descendants(self._child))
            self._kill()

    def _kill(self) -> None:
        """Tell the whole tree to end; returns at once."""
        with contextlib.suppress(ProcessLookupError):
            if self._namespaced and self._child_fd >= 0:
                signal.pidfd_send_signal(self._child_fd, signal.SIGKILL)
            else:  # without a child yet, the parent-death signal takes the one that is being made
                ending = signal.SIGKILL if self._namespaced else signal.SIGTERM
                signal.pidfd_send_signal(self._monitor_fd, ending)

    # ---- from start to end

    def finish(self, sandbox: str) -> Finished:
        deadline = self._started + self._limits.wall_s
        give_up = math.inf
        while not self._ended and (now := time.monotonic()) < give_up:
            if self._stopped is None and now >= deadline:
                self._stop(Cause.TIMEOUT, f"still running after {self._limits.wall_s:g} s")
            if self._stopped is None and now >= self._next_look:
                self._look()
            if self._stopped is None and now >= self._next_disk_look:
                self._look_at_disk()
            if self._stopped is not None:
                give_up = min(give_up, now + _KILL_S)
            until = min(deadline, self._next_look, self._next_disk_look, give_up) if self._stopped is None else give_up
            for key, _ in self._selector.select(max(0.0, until - time.monotonic())):
                key.data()
        self._end_all()
        self._drain_the_rest()
        wall_s = time.monotonic() - self._started
        cause, returncode, detail = self._verdict()
        output = self._output.output()
        return Finished(cause, returncode, output, wall_s, self._cpu_s, self._peak_mb, sandbox, detail)

    def _drain_the_rest(self) -> None:
        """What the pipes still hold. All writers are gone, or cannot be waited for."""
        self._selector.unregister(self._monitor_fd)
        while self._selector.get_map() and (events := self._selector.select(0)):
            for key, _ in events:
                key.data()

    def _end_all(self) -> None:
        """Return when nothing of the tree is left: what still runs is killed, and the monitor reaped."""
        if self._monitor is None or self._monitor.returncode is not None:
            return
        if not self._ended:
            for pid in tree.descendants(self._monitor.pid):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        try:
            _, status, spent = os.wait4(self._monitor.pid, 0)
        except ChildProcessError:  # this process reaps its children elsewhere; the status line must do
            self._monitor.returncode = 0
        else:
            self._monitor.returncode = os.waitstatus_to_exitcode(status)
            self._cpu_s = max(self._cpu_s, spent.ru_utime + spent.ru_stime)
            # A child starts with its parent's peak on record: a figure below our own says nothing.
            if spent.ru_maxrss > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss:
                self._peak_mb = max(self._peak_mb, spent.ru_maxrss / 1024)
        if self._child_fd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._child_fd, signal.SIGKILL)
            _wait_until_readable(self._child_fd, _KILL_S)

    def close(self) -> None:
        self._end_all()
        self._selector.close()
        for fd in list(self._open):
            self._shut(fd)

    def _verdict(self) -> tuple[Cause, int | None, str]:
        if self._stopped is not None:
            return self._stopped, None, self._detail
        code = self._exit_code
        if code is not None and not self._error and (too_much := self._disk.look([])):
            return Cause.DISK, None, too_much
        if self._error or code is None:
            notes = self._notes.output().text().strip()
            return Cause.INFRASTRUCTURE, None, self._error or notes or "the sandbox's monitor was lost"
        if code > 128 and code - 128 in signal.valid_signals():
            died_of = signal.Signals(code - 128) if code - 128 in set(signal.Signals) else None
            name = died_of.name if died_of else f"signal {code - 128}"
            if died_of is signal.SIGXCPU:
                return Cause.TIMEOUT, None, "the CPU time of one process passed wall_s × cpus"
            if died_of is signal.SIGXFSZ:
                return Cause.DISK, None, f"a file passed {self._limits.file_mb} MiB, the most that one may have"
            return Cause.SIGNAL, 128 - code, name
        return Cause.EXITED, code, ""


def _wait_until_readable(fd: int, within_s: float) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        selector.select(within_s)


def _bound(pid: int, limits: Limits, *, own_user_namespace: bool) -> None:
    """Set the limits that the kernel keeps for ``pid`` and all that will descend from it.

    The number of processes is kept by the kernel only where it counts per user namespace (Linux 5.14); before
    that it counts all processes of the user, and would refuse sound jobs on a busy machine. Address space is
    not bounded: numeric libraries reserve far more than they use. Where memory runs out all the same, the
    kernel takes a sandboxed process before any of ours (oom_score_adj).
    """
    cpu_s = math.ceil(limits.wall_s * limits.cpus) + 2
    bounds = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: limits.file_mb * _MIB,
        resource.RLIMIT_CPU: cpu_s,
        resource.RLIMIT_NOFILE: 1024,
        resource.RLIMIT_MEMLOCK: 64 * 1024,
    }
    kernel = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    if own_user_namespace and kernel >= (5, 14):
        bounds[resource.RLIMIT_NPROC] = limits.processes
    for name, value in bounds.items():
        hard = resource.prlimit(pid, name)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # At the hard limit of CPU time comes SIGKILL; one second before it SIGXCPU, which can be told apart.
        soft = bound - 1 if name == resource.RLIMIT_CPU else bound
        resource.prlimit(pid, name, (soft, bound))
    with contextlib.suppress(OSError), open(f"/proc/{pid}/oom_score_adj", "w") as file:
        file.write("1000")
