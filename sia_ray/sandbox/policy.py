"""What a sandboxed run may do, and what comes back from it: the contract that every back-end keeps.

A back-end is anything with ``name``, ``isolates`` and ``run(job) -> Finished``. Callers never learn which one
they hold; a result says which one made it (``Finished.sandbox``).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field


class Limits(BaseModel):
    """Hard bounds of one run. Passing one ends the whole process tree."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    wall_s: float = Field(default=3600.0, gt=0, description="wall time, seconds")
    memory_mb: int = Field(default=2048, gt=0, description="memory of the tree, MiB")
    cpus: int = Field(default=2, gt=0, description="cores; also the thread count of numeric libraries is 1 by default")
    processes: int = Field(default=256, gt=0, description="processes and threads alive at once")
    file_mb: int = Field(default=1024, gt=0, description="largest file that may be written, MiB")
    disk_mb: int = Field(default=4096, gt=0, description="what may be added to the writable mounts, MiB")
    output_bytes: int = Field(default=64 * 1024, gt=0, description="head and tail kept of each output stream, bytes")


class Mount(NamedTuple):
    """A host folder or file shown inside at ``target`` (absolute)."""

    source: Path
    target: str
    writable: bool = False


class Job(NamedTuple):
    """One command. Paths in ``argv`` and ``cwd`` are paths inside the sandbox.

    ``python`` is the environment whose interpreter ``argv`` starts (its prefix, its base prefix and the system's
    libraries are readable inside); ``env`` is the whole environment: nothing is inherited.
    """

    argv: tuple[str, ...]
    mounts: tuple[Mount, ...]
    env: Mapping[str, str]
    limits: Limits
    cwd: str = "/"
    python: Path | None = None
    network: bool = False


class Cause(StrEnum):
    """Why a run ended."""

    EXITED = "exited"
    """The command ended by itself; ``returncode`` says how."""
    TIMEOUT = "timeout"
    """The wall-time limit passed; the whole tree was killed."""
    MEMORY = "memory"
    """The memory limit was passed."""
    PROCESSES = "processes"
    """More processes and threads were alive at once than allowed."""
    DISK = "disk"
    """More was written than allowed: to one file, or to all of the writable mounts together."""
    SIGNAL = "signal"
    """The command died of a signal that was not ours (segmentation fault, abort)."""
    INFRASTRUCTURE = "infrastructure"
    """The sandbox itself could not start or lost its child: nothing is known about the command."""


class Output(NamedTuple):
    """A bounded capture of one stream, as bytes: the first and the last ``limits.output_bytes``."""

    head: bytes
    tail: bytes
    total: int

    @property
    def truncated(self) -> bool:
        return self.total > len(self.head) + len(self.tail)

    @property
    def data(self) -> bytes:
        """Head and tail with a line between them that says how much was left out."""
        if not self.truncated:
            return self.head + self.tail
        cut = self.total - len(self.head) - len(self.tail)
        return self.head + f"\n[... {cut} bytes left out ...]\n".encode() + self.tail

    def text(self) -> str:
        return self.data.decode("utf-8", errors="replace")


class Finished(NamedTuple):
    """What is known after a run. ``output`` is stdout and stderr, merged in the order of writing."""

    cause: Cause
    returncode: int | None
    output: Output
    wall_s: float
    cpu_s: float
    peak_memory_mb: float
    sandbox: str
    detail: str = ""

    @property
    def ok(self) -> bool:
        return self.cause is Cause.EXITED and self.returncode == 0


class Sandbox(Protocol):
    """A back-end. ``isolates`` is False only for ``none``: its results are marked and never promoted."""

    @property
    def name(self) -> str: ...

    @property
    def isolates(self) -> bool: ...

    def run(self, job: Job) -> Finished:
        """Run ``job`` to its end or its limit; never raises for what the command does."""
        ...
