"""Bubblewrap: user, mount, PID, network, IPC and UTS namespaces built by a small audited program.

Measured on the way here, and each a test: bubblewrap must itself start with an empty environment, or
/proc/1/environ inside shows ours; ``--die-with-parent`` follows the thread that started it (see process.py);
as root it keeps every capability unless told to drop them.

The first process inside is a shell that starts the command and waits for it: it reaps orphans, so their CPU
time is counted, keeps the command from being PID 1 (which ignores signals), and its end ends the namespace.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess

from sia_ray.errors import InfrastructureError
from sia_ray.sandbox import seccomp
from sia_ray.sandbox.disk import writable_folders
from sia_ray.sandbox.layout import is_device, layout, scratch_mb
from sia_ray.sandbox.policy import Finished, Job, Mount
from sia_ray.sandbox.process import Launch, Wires, not_started, supervise

_INIT = '(exec "$@" 2>&1); exit $?'
_MIB = 1 << 20


class Bubblewrap:
    """The first choice of ``auto``. ``program`` is found on PATH unless given."""

    name = "bubblewrap"
    isolates = True

    def __init__(self, program: str | None = None) -> None:
        self._program = program or shutil.which("bwrap") or "/usr/bin/bwrap"

    def run(self, job: Job) -> Finished:
        """Run ``job``. The calling thread must outlive it, and does: it blocks here until all is gone."""
        try:
            return supervise(self._launch(job), job.limits, self.name)
        except InfrastructureError as error:
            return not_started(self.name, str(error))

    def _launch(self, job: Job) -> Launch:
        options = arguments(job, _options_of(self._program))
        filter_program = seccomp.program(namespaces=True)

        def command(wires: Wires) -> list[str]:
            argv = [self._program, "--args", str(wires.data[0])]
            argv += ["--json-status-fd", str(wires.status), "--block-fd", str(wires.gate)]
            if filter_program:
                argv += ["--seccomp", str(wires.data[1])]
            return [*argv, "--", "/bin/sh", "-c", _INIT, "sh", *job.argv]

        packed = b"".join(option.encode() + b"\0" for option in options)
        return Launch(command, (packed, filter_program), namespaced=True, writable=writable_folders(job))


def arguments(job: Job, known: frozenset[str]) -> list[str]:
    """Bubblewrap's options for ``job``; of those that came late only the ``known`` ones."""
    inside, scratch = layout(job), str(scratch_mb(job.limits) * _MIB)
    size = ["--size", scratch] if "--size" in known else []
    argv = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    argv += [] if job.network else ["--unshare-net"]
    argv += ["--disable-userns"] if "--disable-userns" in known else []
    argv += ["--hostname", "sandbox", "--new-session", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL"]
    argv += ["--proc", "/proc", "--dev", "/dev", *size, "--tmpfs", "/dev/shm", *size, "--tmpfs", "/tmp"]
    for link in inside.links:
        argv += ["--symlink", link.target, link.path]
    for mount in inside.mounts:
        argv += [_bind(mount), str(mount.source), mount.target]
    for path in inside.hidden:
        argv += ["--tmpfs", path, "--remount-ro", path]
    argv += ["--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", job.cwd]
    for name, value in job.env.items():
        argv += ["--setenv", name, value]
    return argv


def _bind(mount: Mount) -> str:
    if is_device(mount):
        return "--dev-bind"
    return "--bind" if mount.writable else "--ro-bind"


@functools.cache
def _options_of(program: str) -> frozenset[str]:
    """The long options that this version of the program knows."""
    try:
        text = subprocess.run([program, "--help"], capture_output=True, env={}, timeout=10).stdout.decode()
    except (OSError, subprocess.SubprocessError) as error:
        raise InfrastructureError(f"{program} does not start: {error}", "Install bubblewrap.") from error
    return frozenset(re.findall(r"^\s+(--[a-z-]+)", text, re.MULTILINE))
