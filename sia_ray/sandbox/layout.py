"""What a sandboxed program sees of the file system, the same for every back-end.

An interpreter needs the system's libraries, a handful of files of /etc, its environment and the interpreter
that the environment was made from; a job adds its own mounts. Nothing else of the host is there: no home, no
/tmp, no /var, no /run. Nor is what was installed into other interpreters than the job's own: a package may hold the
answers of a task.

A back-end that cannot show a file at another path (Landlock, none) runs the job as ``spelled_for_the_host``.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from sia_ray.errors import InfrastructureError, UsageError
from sia_ray.sandbox.policy import Job, Limits, Mount

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime")
_ETC_NETWORK = (
    *("resolv.conf", "hosts", "nsswitch.conf"),
    *("ssl/certs", "ssl/openssl.cnf", "pki/tls/certs", "pki/ca-trust/extracted"),
)
_INSTALLED = ("lib*/python3*/*-packages", "envs/*")
"""Below a prefix: what was installed into it, and the environments that conda and pyenv keep there."""
DEVICES = ("null", "zero", "full", "random", "urandom")


class Link(NamedTuple):
    """A symbolic link inside: ``path`` → ``target``."""

    path: str
    target: str


class Layout(NamedTuple):
    """``mounts`` are in the order of mounting (parents first) with resolved sources.

    ``hidden`` are folders, as spelled inside, that the mounts would show and the back-end must not.
    """

    mounts: tuple[Mount, ...]
    links: tuple[Link, ...]
    hidden: tuple[str, ...]


def layout(job: Job) -> Layout:
    """What ``job`` sees.

    Raises UsageError for a mount target that is not a plain absolute path below the root, and
    InfrastructureError when a source or the program to start is not on this machine.
    """
    links = tuple(Link(path, os.readlink(path)) for path in _SYSTEM if Path(path).is_symlink())
    system = [Mount(Path(p), p) for p in _SYSTEM if Path(p).is_dir() and not Path(p).is_symlink()]
    names = _ETC + (_ETC_NETWORK if job.network else ())
    etc = [Mount((p := Path("/etc", n)).resolve(), str(p)) for n in names if Path("/etc", n).exists()]
    chain = list(_chain(job.python)) if job.python else []
    prefixes = list(_prefix_mounts(chain))
    mounts = [*system, *etc, *prefixes, *_own(job)]
    _check_program(job, mounts)
    installed = _installed(job.python, chain)
    hidden = {path for mount in (*system, *prefixes) for path in _shown(installed, mount, mounts)}
    return Layout(tuple(sorted(mounts, key=lambda m: m.target.count("/"))), links, tuple(sorted(hidden)))


def _shown(folders: set[Path], mount: Mount, mounts: list[Mount]) -> Iterator[str]:
    """Where ``mount`` shows ``folders``, unless another of ``mounts`` lies over it there."""
    for folder in folders:
        if folder.is_relative_to(mount.source):
            path = str(Path(mount.target) / folder.relative_to(mount.source))
            if next(_on_host(path, mounts)) == folder:
                yield path


def _installed(python: Path | None, chain: list[Path]) -> set[Path]:
    """Real folders of what was installed into the system, into the ``chain`` of ``python`` and beside Sia-Ray.

    ``python``'s own are not among them, and none are when it says that it uses those of its base.
    """
    if python and _settings(python).get("include-system-site-packages", "").lower() == "true":
        return set()
    prefixes = {prefix.resolve() for prefix in chain}
    own = {python.resolve()} if python else set()
    ours = {Path(path).resolve() for path in (sys.prefix, sys.base_prefix)}
    roots = ({Path("/usr"), Path("/usr/local")} | ours | prefixes) - own
    found = {path.resolve() for root in roots for pattern in _INSTALLED for path in root.glob(pattern) if path.is_dir()}
    needed = {path for path in found if any(prefix.is_relative_to(path) for prefix in prefixes)}
    return {path for path in found - needed if (found - needed | own).isdisjoint(path.parents)}


def _own(job: Job) -> Iterator[Mount]:
    for mount in job.mounts:
        if not mount.target.startswith("/") or os.path.normpath(mount.target) != mount.target or mount.target == "/":
            raise UsageError(
                f"A mount's target must be a plain absolute path below the root, not {mount.target!r}.",
                "Give a path such as /data.",
            )
        if not mount.source.exists():
            raise InfrastructureError(
                f"The sandbox has nothing to show at {mount.target}: {mount.source} is not there.",
                "Look whether the folder was unpacked, and not removed since.",
            )
        yield Mount(mount.source.resolve(), mount.target, mount.writable)


def interpreter_mounts(prefix: Path) -> Iterator[Mount]:
    """The environment ``prefix`` and, link by link, the prefixes that its interpreter comes from.

    Each is shown at the path it is spelled by and, where that goes through symbolic links, at its real path.
    """
    return _prefix_mounts(_chain(prefix))


def _prefix_mounts(chain: Iterable[Path]) -> Iterator[Mount]:
    for spelled in chain:
        if not spelled.is_relative_to("/usr"):
            yield Mount(spelled.resolve(), str(spelled))


def _chain(prefix: Path) -> Iterator[Path]:
    """``prefix`` and what it comes from, each as spelled and by its real path."""
    prefix = Path(os.path.abspath(prefix))
    waiting, seen = [prefix, *_bases(prefix)], set[Path]()
    while waiting:
        spelled = waiting.pop(0)
        if spelled in seen or not _is_interpreter(spelled):
            continue
        seen.add(spelled)
        yield spelled
        waiting.extend([spelled.resolve(), *_bases(spelled)])


def _bases(prefix: Path) -> Iterator[Path]:
    """Prefixes that ``prefix`` leans on: the ``home`` of its pyvenv.cfg and each hop of bin/python."""
    if home := _settings(prefix).get("home"):
        yield Path(home).parent
    program = prefix / "bin" / "python"
    for _ in range(16):
        if not program.is_symlink():
            return
        program = Path(os.path.normpath(program.parent / os.readlink(program)))
        yield program.parent.parent


def _settings(prefix: Path) -> dict[str, str]:
    """The lines of its pyvenv.cfg; none when it is no virtual environment."""
    config = prefix / "pyvenv.cfg"
    lines = config.read_text(errors="replace").splitlines() if config.is_file() else []
    pairs = (line.partition("=") for line in lines)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def _is_interpreter(prefix: Path) -> bool:
    """Whether ``prefix`` is an environment or a Python installation, and so may be shown (a home may not)."""
    return (prefix / "pyvenv.cfg").is_file() or any(prefix.glob("lib*/python3*"))


def _check_program(job: Job, mounts: list[Mount]) -> None:
    """A program that is not there is the caller's or the machine's fault, and no result of the command."""
    program = job.argv[0]
    if not program.startswith("/"):
        return
    on_host = next((p for p in _on_host(program, mounts) if p.exists()), None)
    if on_host is None or not os.access(on_host, os.X_OK):
        raise InfrastructureError(
            f"The sandbox cannot start {program}: it is not there, or not executable.",
            "Look whether the environment was built, and whether Job.python names its folder.",
        )


def _on_host(path: str, mounts: list[Mount]) -> Iterator[Path]:
    for mount in sorted(mounts, key=lambda m: -len(m.target)):
        if path == mount.target or path.startswith(mount.target + "/"):
            yield Path(str(mount.source) + path[len(mount.target) :])
            return
    yield Path(path)


def is_device(mount: Mount) -> bool:
    """Whether ``mount`` shows a device node (a GPU's, say), which must stay usable inside."""
    return stat.S_ISCHR(mount.source.stat().st_mode)


def scratch_mb(limits: Limits) -> int:
    """Size of /tmp and of /dev/shm: they live in memory, so a part of the memory limit."""
    return max(16, limits.memory_mb // 4)


def spelled_for_the_host(job: Job, tmp: Path) -> Job:
    """``job`` with each path below a mount's target, in argv, cwd and values of env, replaced by its source.

    A path counts wherever it stands between characters that cannot be part of a file name, so
    ``--data=/data/x:/work`` and ``open('/data/x')`` are both replaced; ``/tmp`` becomes ``tmp``. Paths of the
    interpreter's prefixes stay. A program that builds such a path by itself will not find it: these
    back-ends are for programs that are told their paths, as target agents and evaluators are.
    """
    table = {m.target: str(m.source) for m in _own(job)}
    table.setdefault("/tmp", str(tmp))
    if job.python:
        table.update({m.target: m.target for m in interpreter_mounts(job.python)})
    longest_first = sorted(table, key=len, reverse=True)
    pattern = re.compile(r"(?<![\w./-])(" + "|".join(map(re.escape, longest_first)) + r")(?![\w.-])")

    def spell(text: str) -> str:
        return pattern.sub(lambda found: table[found[1]], text)

    return job._replace(
        argv=tuple(map(spell, job.argv)),
        cwd=spell(job.cwd),
        env={name: spell(value) for name, value in job.env.items()},
    )
