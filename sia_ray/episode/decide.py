"""What to do next, from what is known: pure.

``decide(state, run)`` reads the rows of one run and returns actions; the loop carries them out and asks again. It
never looks at clocks, cores or who finished first, so a run is the same on one core and on many, and the same after
any number of restarts.
"""

from __future__ import annotations

from typing import NamedTuple

from sia_ray.episode.work import Order, evaluate_order, propose_order, run_order
from sia_ray.ledger.events import AttemptFailed, EpisodeReleased, Event, HoldoutScored
from sia_ray.ledger.schema import (
    CandidateRow,
    EpisodeRow,
    GenerationRow,
    GenerationStatus,
    RunRow,
    RunStatus,
    State,
    WorkRow,
    WorkStatus,
)

REFERENCE = 1
"""The generation that delivers the pack's reference: the baseline of every run."""


class Do(NamedTuple):
    """Hand out a piece of work (if it is not under way already)."""

    order: Order


class Open(NamedTuple):
    """Give the builder to the next idea, which edits generation ``base`` and sees outcomes up to ``visible``."""

    generation: int
    base: int | None
    base_candidate: str
    visible: int


class Construct(NamedTuple):
    """Turn the agent's recorded answer into a candidate."""

    generation: int
    answer: str


class Record(NamedTuple):
    """Write these events."""

    events: tuple[Event, ...]


class End(NamedTuple):
    """The generation has its outcome."""

    generation: int
    verdict: Verdict


class Finish(NamedTuple):
    """The run is over."""

    status: RunStatus
    reason: str
    best: int | None


class Verdict(NamedTuple):
    """What a split says about a candidate. ``items`` and ``evaluation`` are digests of stored bytes."""

    status: GenerationStatus
    score: float | None = None
    reason: str = ""
    fingerprint: str = ""
    evaluation: str = ""
    n: int | None = None
    detail: str = ""


Action = Do | Open | Construct | Record | End | Finish


def decide(state: State, run: RunRow) -> tuple[Action, ...]:
    """The next actions of ``run``, in order of generation; empty when it only waits or is over."""
    if run.status is not RunStatus.RUNNING:
        return ()
    generations = state.rows(GenerationRow, run.run)
    if generations and generations[0].status.final and generations[0].status is not GenerationStatus.PASSED:
        return _stop(generations[0])
    open_ones = [g for g in generations if not g.status.final]
    actions: list[Action] = []
    for generation in open_ones:
        actions += _advance(state, run, generation)
    finishing = [action for action in actions if isinstance(action, Finish)]
    if finishing:
        return (finishing[0],)
    opening = _open_next(state, run, generations)
    if opening is not None:
        actions.append(opening)
    if not open_ones and _complete(run, generations):
        return _conclude(state, run, generations)
    return tuple(actions)


def better(direction: str, score: float, than: float) -> bool:
    """Whether ``score`` beats ``than`` in the metric's direction."""
    return score > than if direction == "max" else score < than


def best_of(run: RunRow, generations: list[GenerationRow]) -> GenerationRow | None:
    """The generation with the best dev score; the earlier one where two are equal."""
    best: GenerationRow | None = None
    for row in generations:
        if row.score is None:
            continue
        if best is None or best.score is None or better(run.direction, row.score, best.score):
            best = row
    return best


def _complete(run: RunRow, generations: list[GenerationRow]) -> bool:
    """Whether no further idea is taken up: all were, or the agent sees none worth its cost."""
    return len(generations) >= run.generations or any(row.lever == "stop" for row in generations)


def _open_next(state: State, run: RunRow, generations: list[GenerationRow]) -> Open | None:
    """The next idea, once the builder is free and every outcome that its proposal may see is there."""
    number = len(generations) + 1
    if _complete(run, generations):
        return None
    if generations and not generations[0].status.final:
        return None  # A run whose reference has no score stops; nothing else is begun before that is known.
    building = (GenerationStatus.PROPOSING, GenerationStatus.TESTING)
    if any(g.status in building for g in generations):
        return None
    visible = max(0, number - run.lookahead)
    if any(not g.status.final for g in generations[:visible]):
        return None
    if number == REFERENCE:
        return Open(number, None, "", 0)
    base = best_of(run, generations[:visible]) or generations[0]
    return Open(number, base.generation, base.candidate, visible)


def _advance(state: State, run: RunRow, generation: GenerationRow) -> list[Action]:
    number = generation.generation
    episode = state.one(EpisodeRow, run.run, generation.episode)
    if generation.status is GenerationStatus.PROPOSING:
        order = propose_order(run, generation, episode.base)
        work = state.get(WorkRow, order.key)
        if work is None or work.status is WorkStatus.STARTED:
            return [Do(order)]
        if work.status is WorkStatus.INCONCLUSIVE:
            return [Finish(RunStatus.FAILED, f"no proposal for generation {number}: {_last_fault(work)}", None)]
        return [Construct(number, work.artifacts["reply"])]
    split = "smoke" if generation.status is GenerationStatus.TESTING else "dev"
    found = _trial(state, run, generation, split) if split in run.splits else Verdict(GenerationStatus.PASSED)
    if isinstance(found, Do):
        return [found]
    if split == "dev":
        base = state.get(GenerationRow, run.run, generation.base or 0)
        # The paired comparison needs the base's outcome, so that it is the same whoever finishes first.
        return [End(number, found)] if base is None or base.status.final else []
    if found.status is GenerationStatus.PASSED:
        return [Record((EpisodeReleased(run=run.run, episode=number, reason="candidate_tests_passed"),))]
    if found.status is GenerationStatus.INCONCLUSIVE:
        return [Record((EpisodeReleased(run=run.run, episode=number, reason="terminal"),)), End(number, found)]
    failed = AttemptFailed(
        run=run.run,
        episode=number,
        attempt=episode.attempts,
        stage="smoke",
        fingerprint=found.fingerprint,
        reason=found.reason,
    )
    released = EpisodeReleased(run=run.run, episode=number, reason="non_progress")
    return [Record((failed, released)), End(number, found)]


def _trial(state: State, run: RunRow, generation: GenerationRow, split: str) -> Do | Verdict:
    """Run and evaluate on one split, whichever of the two is missing; else what they say."""
    candidate = state.one(CandidateRow, run.run, generation.candidate)
    order = run_order(run, generation.generation, candidate.candidate, candidate.bundle, split)
    ran = state.get(WorkRow, order.key)
    if ran is None or ran.status is WorkStatus.STARTED:
        return Do(order)
    if ran.status is WorkStatus.INCONCLUSIVE:
        return Verdict(GenerationStatus.INCONCLUSIVE, reason=_last_fault(ran), fingerprint="infrastructure")
    if not ran.outcome["ok"]:
        return Verdict(
            GenerationStatus.FAILED,
            reason=str(ran.outcome["reason"]),
            fingerprint=f"{split}:{_run_class(str(ran.outcome['cause']))}",
            detail=str(ran.artifacts.get("detail", "")),
        )
    order = evaluate_order(run, generation.generation, candidate.candidate, ran.artifacts["outputs"], split)
    scored = state.get(WorkRow, order.key)
    if scored is None or scored.status is WorkStatus.STARTED:
        return Do(order)
    if scored.status is WorkStatus.INCONCLUSIVE:
        return Verdict(GenerationStatus.INCONCLUSIVE, reason=_last_fault(scored), fingerprint="infrastructure")
    outcome, evaluation = scored.outcome, str(scored.artifacts["evaluation"])
    if outcome["status"] == "passed":
        score, n = float(outcome["score"]), outcome.get("n")
        return Verdict(GenerationStatus.PASSED, score, evaluation=evaluation, n=n)
    label = "no_output" if outcome["status"] == "missing" else "invalid_output"
    reason = f"the evaluator's verdict on {split}: {outcome['status']}"
    detail = str(scored.artifacts.get("detail", ""))
    return Verdict(GenerationStatus.FAILED, None, reason, f"{split}:{label}", evaluation, detail=detail)


def _run_class(cause: str) -> str:
    known = {
        "timeout": "timeout",
        "memory": "resource",
        "processes": "resource",
        "disk": "resource",
        "requirements": "missing_symbol",
    }
    return known.get(cause, "contract_invocation")


def _last_fault(work: WorkRow) -> str:
    return work.faults[-1] if work.faults else "unknown fault"


def _stop(first: GenerationRow) -> tuple[Action, ...]:
    reason = f"generation 1 has no score: {first.reason}"
    return (Finish(RunStatus.FAILED, reason, None),)


def _conclude(state: State, run: RunRow, generations: list[GenerationRow]) -> tuple[Action, ...]:
    """Score start and best on the holdout, once, after the loop; then end."""
    best = best_of(run, generations)
    assert best is not None, "generation 1 passed"
    wanted = {"start": generations[0], "best": best} if run.scores_holdout else {}
    actions: list[Action] = []
    for role, generation in wanted.items():
        if role in run.holdout:
            continue
        found = _trial(state, run, generation, "holdout")
        if isinstance(found, Do):
            actions.append(found)
            continue
        event = HoldoutScored(
            run=run.run,
            generation=generation.generation,
            role=role,
            status=found.status,
            score=found.score,
            n=found.n,
            evaluator_sha256=run.evaluators["holdout"],
            reason=found.reason,
        )
        actions.append(Record((event,)))
    return tuple(actions) or (Finish(RunStatus.DONE, "", best.generation),)
