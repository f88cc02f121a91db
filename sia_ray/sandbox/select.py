"""Which sandbox runs generated code here: the best that works, or none at all.

``auto`` never falls back to running without one, nor to one that tells of private data when there is some.
"""

from __future__ import annotations

import difflib
import functools
from typing import NamedTuple

from sia_ray.errors import SandboxUnavailable, UsageError
from sia_ray.sandbox.bubblewrap import Bubblewrap
from sia_ray.sandbox.landlock import Landlock
from sia_ray.sandbox.namespaces import Namespaces
from sia_ray.sandbox.none import Unsandboxed
from sia_ray.sandbox.policy import Job, Limits, Sandbox
from sia_ray.sandbox.variables import base_env

_LADDER: tuple[Sandbox, ...] = (Bubblewrap(), Namespaces(), Landlock())
"""Best first."""
_BY_NAME: dict[str, Sandbox] = {sandbox.name: sandbox for sandbox in (*_LADDER, Unsandboxed())}
MODES = ("auto", *_BY_NAME)
_TELLS = {
    "landlock": "a program in it learns whether a file whose path it knows exists, and its size",
    "none": "a program without one reads everything",
}
"""What there is to learn of private data in a sandbox, for those that do not hide it altogether."""


class Availability(NamedTuple):
    """Whether a sandbox works on this machine; ``why`` it does not, empty where it does."""

    name: str
    works: bool
    why: str


@functools.cache
def _tried(name: str) -> Availability:
    """Run a line of shell in the sandbox; once in the life of this process."""
    limits = Limits(wall_s=10, memory_mb=256)
    finished = _BY_NAME[name].run(Job(("/bin/sh", "-c", "echo works"), (), base_env(), limits))
    works = finished.ok and finished.output.data == b"works\n"
    return Availability(name, works, "" if works else finished.detail or finished.output.text().strip())


def available() -> list[Availability]:
    """Every sandbox that isolates, best first, tried on this machine."""
    return [_tried(sandbox.name) for sandbox in _LADDER]


def select(mode: str = "auto", *, private_data: bool = False) -> Sandbox:
    """The sandbox called ``mode``; for ``auto`` the first that works and, with ``private_data``, hides it.

    Raises UsageError for a word that is no mode, and SandboxUnavailable when what was asked for does not work.
    """
    if mode == "auto":
        for sandbox in _LADDER:
            if (sandbox.name not in _TELLS or not private_data) and _tried(sandbox.name).works:
                return sandbox
        raise _nothing_left()
    if mode not in _BY_NAME:
        close = difflib.get_close_matches(mode, MODES, n=1)
        raise UsageError(
            f"There is no sandbox {mode!r}.",
            f"Did you mean {close[0]!r}?" if close else f"Choose one of {', '.join(MODES)}.",
        )
    if mode != "none" and not (tried := _tried(mode)).works:
        raise SandboxUnavailable(
            f"The sandbox {mode!r} does not work on this machine: {tried.why}",
            "Use --sandbox auto, or install what is missing.",
        )
    return _BY_NAME[mode]


def _nothing_left() -> SandboxUnavailable:
    """The error of ``auto``: why each sandbox is out, and what a person may do."""
    tried = available()
    reasons = "; ".join(f"{found.name}: {found.why or _TELLS[found.name]}" for found in tried)
    named = [f"--sandbox {found.name} takes it all the same; " for found in tried if found.works]
    return SandboxUnavailable(
        f"No sandbox {'that hides private data ' if named else ''}works on this machine ({reasons}).",
        "Install bubblewrap (apt install bubblewrap, dnf install bubblewrap), or allow user namespaces; "
        f"{''.join(named)}--sandbox none runs generated code with your own rights, and its results are never promoted.",
    )
