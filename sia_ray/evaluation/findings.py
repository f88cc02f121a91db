"""What is known about a pack after a check: findings, each with its place and the way out, in one report."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, computed_field

from sia_ray.errors import SiaRayError
from sia_ray.sandbox.policy import Sandbox


class Level(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """A run of this pack would fail, or its scores would mean nothing."""
    WARNING = "warning"
    """A run works; somebody will be surprised later."""


class Finding(BaseModel):
    """One thing to know about the pack, where it stands and what to do about it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: Level
    what: str
    where: str
    todo: str


class SplitSize(BaseModel):
    """``smallest_gain`` is the least gain in a mean of right answers that ``items`` can show (one-sided, 5 %)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    items: int | None
    smallest_gain: float | None


class Report(BaseModel):
    """What the preflight found. ``score`` is the reference's on ``split``, a few rows, and no estimate of anything."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    root: str
    digest: str = ""
    sandbox: str = ""
    split: str = ""
    limit_s: float | None = None
    """What the reference was given here; a run gives it ``[target] wall_s``."""
    metric: str = ""
    direction: str = "max"
    status: str = ""
    score: float | None = None
    items: int | None = None
    seconds: dict[str, float] = {}
    peak_memory_mb: float | None = None
    log: str = ""
    """The end of what the reference printed."""
    splits: dict[str, SplitSize] = {}
    findings: tuple[Finding, ...] = ()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def ok(self) -> bool:
        """Whether a run may start: no finding is an error."""
        return all(finding.level is not Level.ERROR for finding in self.findings)


class Trial(NamedTuple):
    """What ``check`` was given, and the one place where it collects what it finds."""

    sandbox: Sandbox
    cache_dir: Path
    findings: list[Finding]
    seconds: dict[str, float]

    def error(self, what: str, where: str, todo: str) -> None:
        self.findings.append(Finding(level=Level.ERROR, what=what, where=where, todo=todo))

    def warn(self, what: str, where: str, todo: str) -> None:
        self.findings.append(Finding(level=Level.WARNING, what=what, where=where, todo=todo))

    def failed(self, error: SiaRayError, where: str) -> None:
        self.error(error.message.strip(), where, error.hint)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the seconds of a block to ``seconds``, also when it raises."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = time.monotonic() - start
