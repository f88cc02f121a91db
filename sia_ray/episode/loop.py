"""The loop: decide, hand out, record, decide again.

One thread owns the ledger and everything here; others talk to it through ``call`` and ``deliver``. Outcomes that
arrive together are committed together, and nothing is acknowledged before its commit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from sia_ray import faults
from sia_ray.clock import Clock
from sia_ray.episode.decide import Action, Construct, Do, End, Finish, Open, Record, decide
from sia_ray.episode.inbox import Call, Inbox
from sia_ray.episode.work import Done, Fault, Held, Kind, Order
from sia_ray.episode.workshop import Workshop
from sia_ray.errors import FetchError, InfrastructureError, LedgerError, LedgerRefused, UnknownTransition
from sia_ray.ledger.database import Database
from sia_ray.ledger.events import (
    AttemptFailed,
    EpisodeOpened,
    EpisodeReleased,
    Event,
    GenerationEnded,
    RunEnded,
    WorkFaulted,
    WorkFinished,
    WorkStarted,
)
from sia_ray.ledger.schema import GenerationRow, RunRow, RunStatus, State, WorkRow, WorkStatus

log = logging.getLogger(__name__)
T = TypeVar("T")

RETRY_S = 1.0
"""How long a paused loop waits before it tries again, seconds."""


class Executor(Protocol):
    """Whoever carries out orders. ``submit`` returns at once; the outcome comes through ``Loop.deliver``."""

    def submit(self, order: Order, payload: Any) -> None: ...

    def remove_run(self, run: int) -> None: ...


class Step(NamedTuple):
    """What one run does next: events to record, then orders to hand out."""

    run: int
    events: tuple[Event, ...]
    orders: tuple[Order, ...]


class Loop:
    """Drives the runs named in ``active``. ``max_tries`` bounds how often the machine may fail one piece of work."""

    def __init__(
        self, storage: Path, *, executor: Executor, workshop: Workshop, clock: Clock, max_tries: int = 3
    ) -> None:
        self.storage = storage
        self.executor = executor
        self.workshop = workshop
        self.clock = clock
        self.max_tries = max_tries
        self.active: set[int] = set()
        self.changed = threading.Condition()
        self.ready: Future[int] = Future()
        """The epoch, once the ledger is open; or why it could not be opened."""
        self.error: BaseException | None = None
        self.inbox: Inbox[Done | Fault | Held] = Inbox()
        self._under_way: set[str] = set()
        self._unrecorded: list[Done | Fault] = []
        """Outcomes that came in and that the ledger has not taken yet."""
        self._paused: dict[int, str] = {}
        self._held: dict[int, str] = {}

    @property
    def state(self) -> State:
        return self.ledger.state

    @property
    def seq(self) -> int:
        """The last acknowledged event."""
        return self.ledger.seq

    def why_paused(self, run: int) -> str:
        """What keeps ``run`` waiting: storage that takes nothing, a file out of reach. Empty when nothing does."""
        return self._paused.get(run) or self._held.get(run, "")

    def deliver(self, outcome: Done | Fault | Held) -> None:
        """Hand in an outcome, from any thread."""
        self.inbox.put(outcome)

    def call(self, action: Callable[[], T]) -> Future[T]:
        """Run ``action`` on the loop's thread, from any thread; its result after the commit that it led to."""
        return self.inbox.call(action)

    def stop(self) -> None:
        self.inbox.stop()

    def run(self) -> None:
        """Until ``stop``, or until the ledger is lost: then ``error`` says why and nothing more is acknowledged.

        A disk that takes nothing for a while, or anything else that the machine may get over, only pauses the runs
        that need it (``why_paused``).
        """
        try:
            self.ledger = Database.open(self.storage, clock=self.clock)
        except Exception as error:
            self.ready.set_exception(error)
            self.inbox.close(error)
            return
        try:
            self.ready.set_result(self.ledger.epoch)
            while (messages := self.inbox.receive(RETRY_S if self._paused else None)) is not None:
                self.absorb(messages)
                self.advance()
        except Exception as error:
            log.exception("the loop stopped")
            self.error = error
        finally:
            self.inbox.close(self.error or LedgerError("The Supervisor has stopped.", "`sia-ray resume RUN` goes on."))
            self.ledger.close()
            self._tell()

    def absorb(self, messages: Sequence[Call | Done | Fault | Held]) -> None:
        """Record outcomes in one commit, those that a full disk kept waiting included; then do what was asked."""
        self._held |= {m.run: m.reason for m in messages if isinstance(m, Held)}
        self._unrecorded += [m for m in messages if isinstance(m, Done | Fault)]
        try:
            self.commit([event for outcome in self._unrecorded for event in self._outcome_events(outcome)])
        except LedgerRefused as error:
            self._pause(self.active, error)
        else:
            self._under_way -= {outcome.key for outcome in self._unrecorded}
            self._unrecorded.clear()
        for message in messages:
            if isinstance(message, Call):
                message.carry_out()

    def _pause(self, runs: Iterable[int], error: Exception) -> None:
        for run in runs:
            if run not in self._paused:
                log.warning("run %d is paused: %s", run, error)
            self._paused[run] = str(error)

    def _outcome_events(self, outcome: Done | Fault) -> list[Event]:
        row = self.state.get(WorkRow, outcome.key)
        if row is None or row.status is not WorkStatus.STARTED:
            log.warning("a late duplicate of %s was dropped", outcome.key[:12])
            return []
        if isinstance(outcome, Done):
            finished = WorkFinished(run=row.run, work=outcome.key, outcome=outcome.outcome, artifacts=outcome.artifacts)
            return [finished]
        final = outcome.final or len(row.faults) + 1 >= self.max_tries
        return [WorkFaulted(run=row.run, work=outcome.key, reason=outcome.reason, final=final)]

    def commit(self, events: Iterable[Event]) -> None:
        """One transaction; then the export; then whoever waits is told."""
        batch = list(events)
        if not batch:
            return
        faults.point("loop.before_commit")
        self.ledger.commit(batch, dedup=[_once(event) for event in batch])
        faults.point("loop.after_commit")
        self.workshop.publish(self.state, batch)
        for event in batch:
            if isinstance(event, RunEnded):
                self.active.discard(event.run)
                self.executor.remove_run(event.run)
        self._tell()

    def _tell(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def advance(self) -> None:
        """Decide and act until only work that is under way is left, or what is left has to wait."""
        if self._unrecorded:
            return
        before, self._paused = self._paused, {}
        try:
            while self._advance_once():
                pass
        except LedgerRefused as error:
            self._pause(self.active, error)
        if before.keys() - self._paused:
            log.info("going on with runs %s", sorted(before.keys() - self._paused))

    def _advance_once(self) -> bool:
        """One step of every run that can make one; False when none can."""
        claimed: set[str] = set()
        steps = [self._next_step(run, claimed) for run in self._running() if run.run not in self._paused]
        steps = [step for step in steps if step.events]
        if not steps:
            return False
        for step in self._record(steps):
            for order in step.orders:
                self._hand_out(order)
        return True

    def _next_step(self, run: RunRow, claimed: set[str]) -> Step:
        """What ``run`` does next. What goes wrong in one run ends or pauses that run and no other."""
        events: list[Event] = []
        orders: list[Order] = []
        try:
            for action in decide(self.state, run):
                if not isinstance(action, Do):
                    events += self._perform(run, action)
                elif action.order.key not in self._under_way | claimed:
                    claimed.add(action.order.key)
                    orders.append(action.order)
        except Exception as error:
            return Step(run.run, self._hindered(run.run, error), ())
        return Step(run.run, (*events, *map(_started, orders)), tuple(orders))

    def _record(self, steps: list[Step]) -> list[Step]:
        """Commit all steps together; where one cannot be, each for itself. Returns those that stand."""
        try:
            self.commit([event for step in steps for event in step.events])
            return steps
        except UnknownTransition:
            stand = []
            for step in steps:
                try:
                    self.commit(step.events)
                    stand.append(step)
                except UnknownTransition as error:
                    self.commit([self._broken(step.run, error)])
            return stand

    def _hindered(self, run: int, error: Exception) -> tuple[Event, ...]:
        """A run waits for what the machine may get over; anything else, damaged bytes included, ends it."""
        if isinstance(error, InfrastructureError) and not isinstance(error, FetchError):
            self._pause([run], error)
            return ()
        return (self._broken(run, error),)

    def _broken(self, run: int, error: Exception) -> RunEnded:
        """A run that cannot go on because of a defect in what it is made of, or in this program."""
        log.error("run %d cannot go on", run, exc_info=error)
        reason = f"the run cannot go on: {type(error).__name__}: {error}"
        return RunEnded(run=run, status=RunStatus.FAILED, reason=reason, at=self.clock.now())

    def _running(self) -> list[RunRow]:
        rows = (self.state.get(RunRow, number) for number in sorted(self.active))
        return [row for row in rows if row is not None and row.status is RunStatus.RUNNING]

    def _hand_out(self, order: Order) -> None:
        faults.point("loop.hand_out")
        try:
            payload = self.workshop.brief(self.state, order) if order.kind is Kind.PROPOSE else None
        except Exception as error:
            self.commit(self._hindered(order.run, error))
            return
        self._under_way.add(order.key)
        self.executor.submit(order, payload)

    def _perform(self, run: RunRow, action: Action) -> list[Event]:
        match action:
            case Open():
                return [
                    EpisodeOpened(
                        run=run.run,
                        episode=action.generation,
                        base=action.base,
                        base_candidate=action.base_candidate,
                        visible=action.visible,
                        builder=self.workshop.builder,
                        source=run.agent,
                        at=self.clock.now(),
                    )
                ]
            case Construct():
                return self._construct(run, action)
            case Record():
                return list(action.events)
            case End():
                return [self._end(run, action)]
            case Finish():
                return [
                    RunEnded(
                        run=run.run,
                        status=action.status,
                        reason=action.reason,
                        best=action.best,
                        at=self.clock.now(),
                    )
                ]
            case _:
                raise AssertionError(action)

    def _construct(self, run: RunRow, action: Construct) -> list[Event]:
        """The candidate that the answer makes; or the attempt's failure, which ends its generation."""
        events = self.workshop.construct(self.state, run, action)
        last = events[-1]
        if isinstance(last, EpisodeReleased):
            ended = GenerationEnded(
                run=run.run,
                generation=action.generation,
                status="skipped",
                reason="the agent sees no further change worth its cost",
                at=self.clock.now(),
            )
            return [*events, ended]
        if not isinstance(last, AttemptFailed):
            return events
        released = EpisodeReleased(run=run.run, episode=action.generation, reason="non_progress")
        ended = GenerationEnded(
            run=run.run,
            generation=action.generation,
            status="failed",
            reason=last.reason,
            fingerprint=last.fingerprint,
            at=self.clock.now(),
        )
        return [*events, released, ended]

    def _end(self, run: RunRow, action: End) -> GenerationEnded:
        generation = self.state.one(GenerationRow, run.run, action.generation)
        verdict = action.verdict
        values, comparison = self.workshop.compare(self.state, run, generation, verdict)
        return GenerationEnded(
            run=run.run,
            generation=action.generation,
            status=verdict.status,
            score=verdict.score,
            values=values,
            comparison=comparison,
            reason=verdict.reason,
            fingerprint=verdict.fingerprint,
            detail=verdict.detail,
            seconds=self.workshop.seconds(self.state, run, generation),
            at=self.clock.now(),
        )


def _once(event: Event) -> str | None:
    """The key under which an outcome is recorded once, ever."""
    return f"finished:{event.work}" if isinstance(event, WorkFinished) else None


def _started(order: Order) -> WorkStarted:
    return WorkStarted(run=order.run, work=order.key, what=order.kind, subject=order.candidate, split=order.split)
