"""The rows that events project onto: one class a table, one SQLite table a class.

A row is what is known now about one thing; the events say how it came to be so. Fields marked ``volatile`` (times,
epochs, artifacts whose bytes carry a clock, infrastructure retries) are annotation: two runs that differ in nothing
else have the same ``state_digest``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from sia_ray.candidate.identity import digest_value

VOLATILE: JsonDict = {"volatile": True}


class RunStatus(StrEnum):
    """The states of a run."""

    RUNNING = "running"
    """The Supervisor drives it, now or as soon as it is resumed."""
    DONE = "done"
    """It ended by itself: every generation has an outcome."""
    FAILED = "failed"
    """It ended without a result; ``reason`` says why."""


class WorkStatus(StrEnum):
    """The states of a piece of work (one agent call, one target run, one evaluation)."""

    STARTED = "started"
    """Handed out at least once; no outcome is recorded."""
    FINISHED = "finished"
    """Its outcome is recorded, once and for all."""
    INCONCLUSIVE = "inconclusive"
    """The machine failed it more often than is worth trying: nobody knows the outcome."""


class GenerationStatus(StrEnum):
    """The states of a generation."""

    PROPOSING = "proposing"
    """Its agent is being asked."""
    TESTING = "testing"
    """A candidate is built and in its candidate tests."""
    SCORING = "scoring"
    """The candidate passed its tests and is being scored on the dev split."""
    PASSED = "passed"
    """It has a dev score."""
    FAILED = "failed"
    """It has none, by its own fault; ``reason`` and ``fingerprint`` say which."""
    INCONCLUSIVE = "inconclusive"
    """It has none, by the machine's fault."""
    SKIPPED = "skipped"
    """The agent saw no further change worth its cost."""

    @property
    def final(self) -> bool:
        return self in (self.PASSED, self.FAILED, self.INCONCLUSIVE, self.SKIPPED)


class EpisodeStatus(StrEnum):
    """The states of an episode; ``TRANSITIONS`` says which follows which."""

    QUEUED = "queued"
    OPEN = "open"
    ATTEMPTING = "attempting"
    REFLECTING = "reflecting"
    PASSED = "passed"
    DISPROVEN = "disproven"
    STALLED = "stalled"
    ESCALATED = "escalated"
    TERMINATED = "terminated"


_ENDS = frozenset(
    {
        EpisodeStatus.PASSED,
        EpisodeStatus.DISPROVEN,
        EpisodeStatus.STALLED,
        EpisodeStatus.ESCALATED,
        EpisodeStatus.TERMINATED,
    }
)
TRANSITIONS: dict[EpisodeStatus, frozenset[EpisodeStatus]] = {
    EpisodeStatus.QUEUED: frozenset({EpisodeStatus.OPEN}),
    EpisodeStatus.OPEN: _ENDS | {EpisodeStatus.ATTEMPTING},
    EpisodeStatus.ATTEMPTING: _ENDS | {EpisodeStatus.REFLECTING},
    EpisodeStatus.REFLECTING: _ENDS | {EpisodeStatus.ATTEMPTING},
    EpisodeStatus.ESCALATED: frozenset({EpisodeStatus.OPEN}),
}
"""Which state of an episode may follow which; from those that are not here, none does."""


class Row(BaseModel):
    """Base of all rows. ``key`` names the fields that identify one."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    table: ClassVar[str]
    key: ClassVar[tuple[str, ...]]

    def identity(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.key)

    @classmethod
    def volatile_fields(cls) -> frozenset[str]:
        return frozenset(
            name
            for name, field in cls.model_fields.items()
            if isinstance(field.json_schema_extra, dict) and field.json_schema_extra.get("volatile")
        )

    def stable(self) -> dict[str, Any]:
        """The row without its volatile fields, as JSON-ready values."""
        return self.model_dump(mode="json", exclude=set(self.volatile_fields()))


class RunRow(Row):
    """A run and what was fixed when it started."""

    table = "runs"
    key = ("run",)

    run: int
    task: str
    status: RunStatus
    reason: str = ""
    spec: dict[str, Any] = Field(json_schema_extra=VOLATILE)
    facts: dict[str, Any] = Field(json_schema_extra=VOLATILE)
    seed: int
    agent: str
    generations: int
    lookahead: int
    sandbox: str
    metric: str
    direction: str
    pack: str
    evaluators: dict[str, str]
    splits: dict[str, str]
    environment: str
    best: int | None = None
    scores_holdout: bool = False
    holdout: dict[str, Any] = {}
    session: str = Field(default="", json_schema_extra=VOLATILE)
    started: str = Field(default="", json_schema_extra=VOLATILE)
    ended: str = Field(default="", json_schema_extra=VOLATILE)

    @property
    def isolated(self) -> bool:
        """Whether its candidates ran in a sandbox; nothing of a run without one is ever promoted."""
        return self.sandbox != "none"


class WorkRow(Row):
    """One piece of work under its key: digest(kind, candidate, split, evaluator, environment, seed)."""

    table = "work"
    key = ("work",)

    work: str
    run: int
    kind: str
    subject: str
    split: str = ""
    status: WorkStatus
    outcome: dict[str, Any] = {}
    artifacts: dict[str, Any] = Field(default={}, json_schema_extra=VOLATILE)
    tries: int = Field(default=0, json_schema_extra=VOLATILE)
    faults: tuple[str, ...] = Field(default=(), json_schema_extra=VOLATILE)


class CandidateRow(Row):
    """An immutable harness (and, later, weights), by content."""

    table = "candidates"
    key = ("run", "candidate")

    run: int
    candidate: str
    parent: str = ""
    lever: str = "harness"
    bundle: str
    generation: int


class IdeaRow(Row):
    """A hypothesis worth an episode."""

    table = "ideas"
    key = ("run", "idea")

    run: int
    idea: int
    hypothesis: str
    lever: str
    expected_gain: float | None = None
    source: str
    status: EpisodeStatus = EpisodeStatus.QUEUED


class EpisodeRow(Row):
    """One idea owned until it ends."""

    table = "episodes"
    key = ("run", "episode")

    run: int
    episode: int
    idea: int
    status: EpisodeStatus
    base: str
    builder: str
    attempts: int = 0
    released: str = ""
    fingerprint: str = ""


class AttemptRow(Row):
    """One try inside an episode, under one declared strategy."""

    table = "attempts"
    key = ("run", "episode", "attempt")

    run: int
    episode: int
    attempt: int
    strategy: str
    stage: str
    passed: bool | None = None
    candidate: str = ""
    fingerprint: str = ""
    reason: str = ""


class GenerationRow(Row):
    """One candidate as it appears on disk."""

    table = "generations"
    key = ("run", "generation")

    run: int
    generation: int
    status: GenerationStatus
    episode: int
    base: int | None = None
    visible: int = 0
    candidate: str = ""
    lever: str = "harness"
    strategy: str = ""
    changes: tuple[str, ...] = ()
    proposal: dict[str, Any] = {}
    score: float | None = None
    comparison: dict[str, Any] = {}
    reason: str = ""
    fingerprint: str = ""
    values: dict[str, Any] = Field(default={}, json_schema_extra=VOLATILE)
    detail: str = Field(default="", json_schema_extra=VOLATILE)
    started: str = Field(default="", json_schema_extra=VOLATILE)
    ended: str = Field(default="", json_schema_extra=VOLATILE)
    seconds: float | None = Field(default=None, json_schema_extra=VOLATILE)


ROWS: dict[str, type[Row]] = {
    cls.table: cls for cls in (RunRow, WorkRow, CandidateRow, IdeaRow, EpisodeRow, AttemptRow, GenerationRow)
}

R = TypeVar("R", bound=Row)


class State:
    """All rows, in memory. Changed only by ``put`` with what ``apply`` returned."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._tables: dict[str, dict[tuple[Any, ...], Row]] = {name: {} for name in ROWS}
        self._by_run: dict[tuple[str, int], dict[tuple[Any, ...], Row]] = {}
        for row in rows:
            self.put(row)

    def put(self, row: Row) -> None:
        key = row.identity()
        self._tables.setdefault(row.table, {})[key] = row
        self._by_run.setdefault((row.table, getattr(row, "run", 0)), {})[key] = row

    def get(self, cls: type[R], *key: Any) -> R | None:
        row = self._tables.get(cls.table, {}).get(key)
        return row if isinstance(row, cls) else None

    def one(self, cls: type[R], *key: Any) -> R:
        """Like ``get``; KeyError when there is none."""
        row = self.get(cls, *key)
        if row is None:
            raise KeyError((cls.table, *key))
        return row

    def rows(self, cls: type[R], run: int | None = None) -> list[R]:
        """Rows of one table in key order, of one run or of all."""
        table = self._tables.get(cls.table, {}) if run is None else self._by_run.get((cls.table, run), {})
        return [row for _, row in sorted(table.items()) if isinstance(row, cls)]

    def all_rows(self) -> list[Row]:
        return [row for table in sorted(self._tables) for _, row in sorted(self._tables[table].items())]

    def tables(self) -> Mapping[str, int]:
        return {name: len(rows) for name, rows in self._tables.items()}

    def state_digest(self, run: int | None = None) -> str:
        """Digest of every row (of one run, or of all) without volatile fields."""
        rows = [row for row in self.all_rows() if run is None or getattr(row, "run", None) == run]
        return digest_value([[row.table, row.stable()] for row in rows])
