"""Landlock, a system-call filter and a session of its own: for kernels that refuse user namespaces.

Landlock bounds paths, signals, TCP and abstract sockets. What it leaves open is closed by the filter: socket(2)
altogether (unless the job may use the network), shared memory segments, and changes of mode, owner and
attributes, which are only pretended. There is no mount, so paths are spelled as the host spells them, and no
/dev/shm, so named semaphores (multiprocessing.Lock) do not work. Left open: whether a file whose path is known
exists, its size, and setting its times.

Rules only add, so a folder with hidden ones below it is granted child by child. It can be listed as a whole (an
interpreter lists the folders of its modules): names below a hidden folder are seen, no content is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sia_ray.errors import InfrastructureError
from sia_ray.sandbox import seccomp
from sia_ray.sandbox.disk import writable_folders
from sia_ray.sandbox.launcher import ALL_RIGHTS, FILE_RIGHTS, LIST_RIGHTS, READ_RIGHTS, landlock_abi
from sia_ray.sandbox.layout import DEVICES, layout, spelled_for_the_host
from sia_ray.sandbox.namespaces import command_plan, launch
from sia_ray.sandbox.policy import Finished, Job
from sia_ray.sandbox.process import not_started, supervise
from sia_ray.sandbox.scratch import scratch_folder

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
        try:
            with scratch_folder() as tmp:
                start = launch(_plan(job, tmp), namespaced=False, writable=(*writable_folders(job), tmp))
                return supervise(start, job.limits, self.name)
        except InfrastructureError as error:
            return not_started(self.name, str(error))


def _plan(job: Job, tmp: Path) -> dict[str, object]:
    inside = layout(job)
    readable = [*_ALSO_READABLE, *(str(Path(link.path).resolve()) for link in inside.links)]
    readable += [str(mount.source) for mount in inside.mounts if not mount.writable]
    writable = [str(tmp), *(f"/dev/{name}" for name in DEVICES)]
    writable += [str(mount.source) for mount in inside.mounts if mount.writable]
    hidden = frozenset(inside.hidden)
    above = frozenset(str(parent) for path in hidden for parent in Path(path).parents)
    paths = dict.fromkeys(g for path in readable if os.path.exists(path) for g in _grants(path, hidden, above))
    return command_plan(spelled_for_the_host(job, tmp), isolate=True) | {
        "paths": [*paths, *(_grant(path, ALL_RIGHTS) for path in writable if os.path.exists(path))],
        "seccomp": seccomp.program(namespaces=False, sockets=job.network),
    }


def _grant(path: str, rights: int) -> tuple[str, int]:
    """The kernel refuses the rights of folders on a file."""
    return path, rights if os.path.isdir(path) else rights & FILE_RIGHTS


def _grants(root: str, hidden: frozenset[str], above: frozenset[str]) -> Iterator[tuple[str, int]]:
    """Rights that show ``root`` without the content of what is ``hidden`` below it; ``above`` leads there."""
    if root not in above:
        yield _grant(root, READ_RIGHTS)
        return
    yield root, LIST_RIGHTS
    waiting = [root]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.path in above:
                    waiting.append(entry.path)
                elif entry.path not in hidden and not entry.is_symlink():  # a link's target has rights of its own
                    yield entry.path, READ_RIGHTS if entry.is_dir() else READ_RIGHTS & FILE_RIGHTS
