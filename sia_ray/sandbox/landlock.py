"""Landlock, a system-call filter and a session of its own: for kernels that refuse user namespaces.

Landlock bounds paths, signals, TCP and abstract sockets. What it leaves open is closed by the filter: socket(2)
altogether (unless the job may use the network), shared memory segments, and changes of mode, owner and
attributes, which are only pretended. There is no mount, so paths are spelled as the host spells them, and no
/dev/shm, so named semaphores (multiprocessing.Lock) do not work. Left open: whether a file whose path is known
exists, its size, and setting its times.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from sia_ray.errors import InfrastructureError
from sia_ray.sandbox import seccomp
from sia_ray.sandbox.launcher import landlock_abi
from sia_ray.sandbox.layout import DEVICES, layout, spelled_for_the_host
from sia_ray.sandbox.namespaces import command_plan, launch
from sia_ray.sandbox.policy import Finished, Job
from sia_ray.sandbox.process import not_started, supervise

_NEEDED_ABI = 6
"""The first that keeps signals inside (Linux 6.12)."""
_ALSO_READABLE = ("/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu")


class Landlock:
    """Path rules and no sockets. Refuses to run anything where the kernel cannot keep that."""

    name = "landlock"
    isolates = True

    def run(self, job: Job) -> Finished:
        if not seccomp.supported() or landlock_abi() < _NEEDED_ABI:
            return not_started(self.name, f"Landlock {_NEEDED_ABI} is needed, which came with Linux 6.12.")
        tmp = Path(tempfile.mkdtemp(prefix="sia-ray-")).resolve()
        try:
            return supervise(launch(_plan(job, tmp), namespaced=False), job.limits, self.name)
        except InfrastructureError as error:
            return not_started(self.name, str(error))
        finally:
            shutil.rmtree(tmp, ignore_errors=True)


def _plan(job: Job, tmp: Path) -> dict[str, object]:
    inside = layout(job)
    readable = [*_ALSO_READABLE, *(str(Path(link.path).resolve()) for link in inside.links)]
    writable = [str(tmp), *(f"/dev/{name}" for name in DEVICES)]
    paths = [(path, False) for path in readable] + [(path, True) for path in writable]
    paths += [(str(mount.source), mount.writable) for mount in inside.mounts]
    return command_plan(spelled_for_the_host(job, tmp), isolate=True) | {
        "paths": [(path, write) for path, write in paths if os.path.exists(path)],
        "seccomp": seccomp.program(namespaces=False, sockets=job.network),
    }
