"""What can happen: the closed vocabulary of the ledger. ``apply`` says what each one means.

Events carry facts, never references into a live cluster. To add one: a class here, a branch in ``apply``, a line in
docs/ledger.md. Fields are only ever added, with defaults, so that newer readers read older ledgers.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 1


class Event(BaseModel):
    """Base of all events; ``run`` is the run it belongs to."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    kind: ClassVar[str]
    run: int


class RunStarted(Event):
    """A run was accepted: everything that stays fixed while it lasts."""

    kind = "run_started"

    task: str
    spec: dict[str, Any]
    facts: dict[str, Any] = {}
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
    scores_holdout: bool = False
    session: str = ""
    at: str = ""


class RunResumed(Event):
    """A run that a stopped Supervisor left is driven again; ``session`` is the cluster session that drives it."""

    kind = "run_resumed"

    session: str


class WorkStarted(Event):
    """A piece of work was handed out (again, if it was before)."""

    kind = "work_started"

    work: str
    what: str
    subject: str
    split: str = ""


class WorkFinished(Event):
    """A piece of work has its outcome. Recorded once for each key; ``artifacts`` are digests of stored bytes."""

    kind = "work_finished"

    work: str
    outcome: dict[str, Any]
    artifacts: dict[str, Any] = {}


class WorkFaulted(Event):
    """The machine failed a piece of work; ``final`` when it will not be tried again."""

    kind = "work_faulted"

    work: str
    reason: str
    final: bool = False


class EpisodeOpened(Event):
    """An idea was taken up: the builder belongs to it until the episode is released."""

    kind = "episode_opened"

    episode: int
    base: int | None
    base_candidate: str
    visible: int
    builder: str
    source: str
    at: str = ""


class AttemptDecided(Event):
    """The agent answered: what it wants to try, in one episode."""

    kind = "attempt_decided"

    episode: int
    attempt: int
    hypothesis: str
    lever: str
    strategy: str
    expected_gain: float | None = None
    changes: tuple[str, ...] = ()
    proposal: dict[str, Any] = {}
    lever_reason: str = ""
    levers_rejected: dict[str, str] = {}


class CandidateBuilt(Event):
    """The answer became a candidate (or is one that exists already)."""

    kind = "candidate_built"

    episode: int
    attempt: int
    candidate: str
    bundle: str


class AttemptFailed(Event):
    """The attempt ended in a stage, by its own fault."""

    kind = "attempt_failed"

    episode: int
    attempt: int
    stage: str
    fingerprint: str
    reason: str


class EpisodeReleased(Event):
    """The builder is free again, for one of the five reasons."""

    kind = "episode_released"

    episode: int
    reason: str


class GenerationEnded(Event):
    """A generation has its outcome on the dev split."""

    kind = "generation_ended"

    generation: int
    status: str
    score: float | None = None
    values: dict[str, Any] = {}
    comparison: dict[str, Any] = {}
    reason: str = ""
    fingerprint: str = ""
    detail: str = ""
    seconds: float | None = None
    at: str = ""


class HoldoutScored(Event):
    """The held-out cases were scored for one generation, after the loop; never fed back."""

    kind = "holdout_scored"

    generation: int
    role: str
    status: str
    score: float | None
    n: int | None
    evaluator_sha256: str
    reason: str = ""


class HoldoutRequested(Event):
    """A person asked for the holdout score of a run that ended without one."""

    kind = "holdout_requested"


class RunEnded(Event):
    """The run is over."""

    kind = "run_ended"

    status: str
    reason: str = ""
    best: int | None = None
    at: str = ""


EVENTS: dict[str, type[Event]] = {cls.kind: cls for cls in Event.__subclasses__()}


def to_payload(event: Event) -> dict[str, Any]:
    """The event as JSON-ready values, without its kind."""
    return event.model_dump(mode="json")


def from_payload(kind: str, version: int, payload: dict[str, Any]) -> Event:
    """The event of a ledger line. Raises KeyError for a kind that this version does not know."""
    return EVENTS[kind].model_validate(payload)
