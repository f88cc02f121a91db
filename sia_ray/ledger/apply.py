"""The one projection: what each event means for the rows. Pure; also serves replay, verification and simulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sia_ray.errors import UnknownTransition
from sia_ray.ledger import events as ev
from sia_ray.ledger.schema import (
    TRANSITIONS,
    AttemptRow,
    CandidateRow,
    EpisodeRow,
    EpisodeStatus,
    GenerationRow,
    GenerationStatus,
    IdeaRow,
    Row,
    RunRow,
    RunStatus,
    State,
    WorkRow,
    WorkStatus,
)

Rows = tuple[Row, ...]

RELEASES: dict[str, EpisodeStatus] = {
    "candidate_tests_passed": EpisodeStatus.PASSED,
    "disproven": EpisodeStatus.DISPROVEN,
    "non_progress": EpisodeStatus.STALLED,
    "escalation": EpisodeStatus.ESCALATED,
    "terminal": EpisodeStatus.TERMINATED,
}
"""The five reasons that free the builder, and the state in which each leaves the episode."""


def apply(state: State, event: ev.Event) -> Rows:
    """The full rows to upsert for ``event``. Raises UnknownTransition when it cannot happen in ``state``."""
    handler = _HANDLERS.get(type(event))
    if handler is None:
        raise UnknownTransition(f"The ledger has no meaning for the event {event.kind!r}.")
    try:
        rows: Rows = handler(state, event)
    except KeyError as error:
        raise UnknownTransition(f"{event.kind} names what does not exist: {error.args[0]!r}.") from error
    return rows


def _require(condition: bool, event: ev.Event, why: str) -> None:
    if not condition:
        raise UnknownTransition(f"{event.kind} is not possible now: {why}.")


def _move(episode: EpisodeRow, to: EpisodeStatus, event: ev.Event, **update: Any) -> EpisodeRow:
    """The episode in its next state; UnknownTransition when the table has no such step."""
    allowed = to in TRANSITIONS.get(episode.status, frozenset())
    _require(allowed, event, f"episode {episode.episode} cannot go from {episode.status} to {to}")
    return episode.model_copy(update={"status": to, **update})


def _run_started(state: State, event: ev.RunStarted) -> Rows:
    _require(state.get(RunRow, event.run) is None, event, f"run {event.run} exists")
    fields = event.model_dump(exclude={"at"})
    return (RunRow(status=RunStatus.RUNNING, started=event.at, **fields),)


def _run_resumed(state: State, event: ev.RunResumed) -> Rows:
    run = state.one(RunRow, event.run)
    _require(run.status is RunStatus.RUNNING, event, f"run {event.run} is {run.status}")
    return (run.model_copy(update={"session": event.session}),)


def _work_started(state: State, event: ev.WorkStarted) -> Rows:
    known = state.get(WorkRow, event.work)
    if known is None:
        row = WorkRow(
            work=event.work,
            run=event.run,
            kind=event.what,
            subject=event.subject,
            split=event.split,
            status=WorkStatus.STARTED,
            tries=1,
        )
        return (row,)
    _require(known.status is WorkStatus.STARTED, event, f"work {event.work[:12]} is {known.status}")
    return (known.model_copy(update={"tries": known.tries + 1}),)


def _work_finished(state: State, event: ev.WorkFinished) -> Rows:
    row = state.one(WorkRow, event.work)
    _require(row.status is WorkStatus.STARTED, event, f"work {event.work[:12]} is {row.status}")
    update: dict[str, Any] = {
        "status": WorkStatus.FINISHED,
        "outcome": event.outcome,
        "artifacts": event.artifacts,
    }
    return (row.model_copy(update=update),)


def _work_faulted(state: State, event: ev.WorkFaulted) -> Rows:
    row = state.one(WorkRow, event.work)
    _require(row.status is WorkStatus.STARTED, event, f"work {event.work[:12]} is {row.status}")
    status = WorkStatus.INCONCLUSIVE if event.final else row.status
    return (row.model_copy(update={"faults": (*row.faults, event.reason), "status": status}),)


def _episode_opened(state: State, event: ev.EpisodeOpened) -> Rows:
    _require(state.get(EpisodeRow, event.run, event.episode) is None, event, "it is open already")
    busy = [e.episode for e in state.rows(EpisodeRow, event.run) if e.status in _OWNING]
    _require(not busy, event, f"episode {busy} owns the builder")
    idea = IdeaRow(
        run=event.run,
        idea=event.episode,
        hypothesis="",
        lever="harness",
        source=event.source,
        status=EpisodeStatus.OPEN,
    )
    episode = EpisodeRow(
        run=event.run,
        episode=event.episode,
        idea=event.episode,
        status=EpisodeStatus.OPEN,
        base=event.base_candidate,
        builder=event.builder,
    )
    generation = GenerationRow(
        run=event.run,
        generation=event.episode,
        status=GenerationStatus.PROPOSING,
        episode=event.episode,
        base=event.base,
        visible=event.visible,
        started=event.at,
    )
    return (idea, episode, generation)


def _attempt_decided(state: State, event: ev.AttemptDecided) -> Rows:
    episode = state.one(EpisodeRow, event.run, event.episode)
    idea = state.one(IdeaRow, event.run, episode.idea)
    generation = state.one(GenerationRow, event.run, event.episode)
    return (
        idea.model_copy(
            update={
                "hypothesis": event.hypothesis,
                "lever": event.lever,
                "expected_gain": event.expected_gain,
            }
        ),
        _move(episode, EpisodeStatus.ATTEMPTING, event, attempts=event.attempt),
        AttemptRow(
            run=event.run,
            episode=event.episode,
            attempt=event.attempt,
            strategy=event.strategy,
            stage="construct",
        ),
        generation.model_copy(
            update={
                "lever": event.lever,
                "strategy": event.strategy,
                "changes": event.changes,
                "proposal": event.proposal,
            }
        ),
    )


def _candidate_built(state: State, event: ev.CandidateBuilt) -> Rows:
    attempt = state.one(AttemptRow, event.run, event.episode, event.attempt)
    generation = state.one(GenerationRow, event.run, event.episode)
    episode = state.one(EpisodeRow, event.run, event.episode)
    _require(attempt.passed is None, event, "the attempt has ended")
    rows: Rows = (
        attempt.model_copy(update={"candidate": event.candidate, "stage": "smoke"}),
        generation.model_copy(update={"candidate": event.candidate, "status": GenerationStatus.TESTING}),
    )
    if state.get(CandidateRow, event.run, event.candidate) is None:
        rows += (
            CandidateRow(
                run=event.run,
                candidate=event.candidate,
                parent=episode.base,
                lever=generation.lever,
                bundle=event.bundle,
                generation=event.episode,
            ),
        )
    return rows


def _attempt_failed(state: State, event: ev.AttemptFailed) -> Rows:
    attempt = state.one(AttemptRow, event.run, event.episode, event.attempt)
    episode = state.one(EpisodeRow, event.run, event.episode)
    _require(attempt.passed is None, event, "the attempt has ended")
    update = {"passed": False, "stage": event.stage, "fingerprint": event.fingerprint, "reason": event.reason}
    return (
        attempt.model_copy(update=update),
        _move(episode, EpisodeStatus.REFLECTING, event, fingerprint=event.fingerprint),
    )


def _episode_released(state: State, event: ev.EpisodeReleased) -> Rows:
    episode = state.one(EpisodeRow, event.run, event.episode)
    idea = state.one(IdeaRow, event.run, episode.idea)
    generation = state.one(GenerationRow, event.run, event.episode)
    _require(event.reason in RELEASES, event, f"{event.reason!r} is no reason for a release")
    status = RELEASES[event.reason]
    rows: Rows = (
        _move(episode, status, event, released=event.reason),
        idea.model_copy(update={"status": status}),
    )
    if status is EpisodeStatus.PASSED:
        attempt = state.one(AttemptRow, event.run, event.episode, episode.attempts)
        rows += (
            attempt.model_copy(update={"passed": True, "stage": "paired"}),
            generation.model_copy(update={"status": GenerationStatus.SCORING}),
        )
    return rows


def _generation_ended(state: State, event: ev.GenerationEnded) -> Rows:
    row = state.one(GenerationRow, event.run, event.generation)
    status = GenerationStatus(event.status)
    _require(not row.status.final and status.final, event, f"{row.status} → {status}")
    update = event.model_dump(exclude={"run", "generation", "status", "at"})
    return (row.model_copy(update={**update, "status": status, "ended": event.at}),)


def _holdout_scored(state: State, event: ev.HoldoutScored) -> Rows:
    run = state.one(RunRow, event.run)
    entry = event.model_dump(exclude={"run", "role"})
    return (run.model_copy(update={"holdout": {**run.holdout, event.role: entry}}),)


def _holdout_requested(state: State, event: ev.HoldoutRequested) -> Rows:
    run = state.one(RunRow, event.run)
    _require(run.status is RunStatus.DONE, event, f"run {event.run} is {run.status}")
    _require("holdout" in run.splits, event, "the task has no holdout split")
    scored = {role: entry for role, entry in run.holdout.items() if entry["status"] != "inconclusive"}
    again = {"status": WorkStatus.STARTED, "tries": 0, "faults": ()}
    lost = [
        row.model_copy(update=again)
        for row in state.rows(WorkRow, event.run)
        if row.split == "holdout" and row.status is WorkStatus.INCONCLUSIVE
    ]
    update = {"status": RunStatus.RUNNING, "scores_holdout": True, "holdout": scored}
    return (run.model_copy(update=update), *lost)


def _run_ended(state: State, event: ev.RunEnded) -> Rows:
    run = state.one(RunRow, event.run)
    _require(run.status is RunStatus.RUNNING, event, f"run {event.run} is {run.status}")
    update = {
        "status": RunStatus(event.status),
        "reason": event.reason,
        "best": event.best,
        "ended": event.at,
    }
    return (run.model_copy(update=update),)


_OWNING = (EpisodeStatus.OPEN, EpisodeStatus.ATTEMPTING, EpisodeStatus.REFLECTING)

_HANDLERS: dict[type[ev.Event], Callable[[State, Any], Rows]] = {
    ev.RunStarted: _run_started,
    ev.RunResumed: _run_resumed,
    ev.WorkStarted: _work_started,
    ev.WorkFinished: _work_finished,
    ev.WorkFaulted: _work_faulted,
    ev.EpisodeOpened: _episode_opened,
    ev.AttemptDecided: _attempt_decided,
    ev.CandidateBuilt: _candidate_built,
    ev.AttemptFailed: _attempt_failed,
    ev.EpisodeReleased: _episode_released,
    ev.GenerationEnded: _generation_ended,
    ev.HoldoutScored: _holdout_scored,
    ev.HoldoutRequested: _holdout_requested,
    ev.RunEnded: _run_ended,
}
