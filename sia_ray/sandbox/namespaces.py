"""The same namespaces as bubblewrap's, built by our own launcher: for machines without the ``bwrap`` program."""

from __future__ import annotations

import marshal
import os
import sys
from pathlib import Path

from sia_ray.errors import InfrastructureError
from sia_ray.sandbox import seccomp
from sia_ray.sandbox.disk import writable_folders
from sia_ray.sandbox.layout import DEVICES, is_device, layout, scratch_mb
from sia_ray.sandbox.policy import Finished, Job
from sia_ray.sandbox.process import Launch, Wires, not_started, supervise

_START = "import sys; sys.path.append(sys.argv.pop(1)); import launcher; launcher.main()"
"""An import, since Python compiles a script anew each time; at the end of the path, where it shadows nothing."""


def launch(plan: dict[str, object], *, namespaced: bool, writable: tuple[Path, ...]) -> Launch:
    """Start launcher.py, under the interpreter that runs us, with ``plan``. ``writable`` is what Launch says of it."""

    def command(wires: Wires) -> list[str]:
        fds = [str(fd) for fd in (wires.data[0], wires.status, wires.gate)]
        return [sys.executable, "-I", "-S", "-c", _START, str(Path(__file__).parent), *fds]

    packed = marshal.dumps({**plan, "namespaces": namespaced, "parent": os.getpid()})
    return Launch(command, (packed,), namespaced=namespaced, writable=writable)


def command_plan(job: Job, *, isolate: bool) -> dict[str, object]:
    """The part of a plan that every back-end of the launcher needs."""
    return {
        "argv": list(job.argv),
        "env": dict(job.env),
        "cwd": job.cwd,
        "network": job.network,
        "isolate": isolate,
    }


class Namespaces:
    """User, mount, PID, IPC, UTS and network namespaces, a root of its own, no capabilities, seccomp."""

    name = "namespaces"
    isolates = True

    def run(self, job: Job) -> Finished:
        try:
            inside = layout(job)
        except InfrastructureError as error:
            return not_started(self.name, str(error))
        plan = command_plan(job, isolate=True) | {
            "links": [(link.path, link.target) for link in inside.links],
            "mounts": [(str(m.source), m.target, m.writable, is_device(m)) for m in inside.mounts],
            "hidden": list(inside.hidden),
            "devices": list(DEVICES),
            "scratch_bytes": scratch_mb(job.limits) << 20,
            "seccomp": seccomp.program(namespaces=True),
        }
        return supervise(launch(plan, namespaced=True, writable=writable_folders(job)), job.limits, self.name)
