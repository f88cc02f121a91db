"""The loop: decide, hand out, record, decide again.

One thread owns the ledger and everything here; others talk to it through ``call`` and ``deliver``. Outcomes that
arrive together are committed together, and nothing is acknowledged before its commit.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from sia_ray import faults
from sia_ray.clock import Clock
from sia_ray.episode.decide import Action, Construct, Do, End, Finish, Open, Record, decide
from sia_ray.episode.work import Done, Fault, Kind, Order
from sia_ray.episode.workshop import Workshop
from sia_ray.errors import SiaRayError
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


class Executor(Protocol):
    """Whoever carries out orders. ``submit`` returns at once; the outcome comes through ``Loop.deliver``."""

    def submit(self, order: Order, payload: Any) -> None: ...

    def remove_run(self, run: int) -> None: ...


class Call(NamedTuple):
    """Something to do on the loop's thread, and where its result goes."""

    action: Callable[[], Any]
    result: Future[Any]


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
        self._inbox: queue.SimpleQueue[Call | Done | Fault | None] = queue.SimpleQueue()
        self._under_way: set[str] = set()

    @property
    def state(self) -> State:
        return self.ledger.state

    @property
    def seq(self) -> int:
        """The last acknowledged event."""
        return self.ledger.seq

    def deliver(self, outcome: Done | Fault) -> None:
        """Hand in an outcome, from any thread."""
        self._inbox.put(outcome)

    def call(self, action: Callable[[], T]) -> Future[T]:
        """Run ``action`` on the loop's thread, from any thread; its result after the commit that it led to."""
        result: Future[T] = Future()
        self._inbox.put(Call(action, result))
        return result

    def stop(self) -> None:
        self._inbox.put(None)

    def run(self) -> None:
        """Until ``stop``, or until the ledger refuses: then ``error`` says why and nothing more is acknowledged."""
        try:
            self.ledger = Database.open(self.storage, clock=self.clock)
        except SiaRayError as error:
            self.ready.set_exception(error)
            return
        try:
            self.ready.set_result(self.ledger.epoch)
            while (messages := self._receive()) is not None:
                self.absorb(messages)
                self.advance()
        except SiaRayError as error:
            log.error("the loop stopped: %s", error)
            self.error = error
        except Exception as error:
            log.exception("the loop failed")
            self.error = error
        finally:
            self.ledger.close()
            with self.changed:
                self.changed.notify_all()

    def _receive(self) -> list[Call | Done | Fault] | None:
        """Wait for one message, then take all that are there; None when asked to stop."""
        messages: list[Call | Done | Fault] = []
        message = self._inbox.get()
        while message is not None:
            messages.append(message)
            try:
                message = self._inbox.get_nowait()
            except queue.Empty:
                return messages
        return None

    def absorb(self, messages: Sequence[Call | Done | Fault]) -> None:
        """Record outcomes in one commit; then do what was asked."""
        outcomes = [m for m in messages if not isinstance(m, Call)]
        self.commit([event for outcome in outcomes for event in self._outcome_events(outcome)])
        for message in messages:
            if isinstance(message, Call):
                try:
                    message.result.set_result(message.action())
                except SiaRayError as error:
                    message.result.set_exception(error)

    def _outcome_events(self, outcome: Done | Fault) -> list[Event]:
        self._under_way.discard(outcome.key)
        row = self.state.get(WorkRow, outcome.key)
        if row is None or row.status is not WorkStatus.STARTED:
            log.warning("a late duplicate of %s was dropped", outcome.key[:12])
            return []
        if isinstance(outcome, Done):
            finished = WorkFinished(run=row.run, work=outcome.key, outcome=outcome.outcome, artifacts=outcome.artifacts)
            return [finished]
        final = row.tries >= self.max_tries
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
        with self.changed:
            self.changed.notify_all()

    def advance(self) -> None:
        """Decide and act until only work that is under way is left."""
        while True:
            events: list[Event] = []
            orders: dict[str, Order] = {}
            for run in self._running():
                for action in decide(self.state, run):
                    if isinstance(action, Do):
                        if action.order.key not in self._under_way:
                            orders.setdefault(action.order.key, action.order)
                    else:
                        events += self._perform(run, action)
            events += [_started(order) for order in orders.values()]
            if not events:
                return
            self.commit(events)
            for order in orders.values():
                self._hand_out(order)

    def _running(self) -> list[RunRow]:
        rows = (self.state.get(RunRow, number) for number in sorted(self.active))
        return [row for row in rows if row is not None and row.status is RunStatus.RUNNING]

    def _hand_out(self, order: Order) -> None:
        self._under_way.add(order.key)
        faults.point("loop.hand_out")
        payload = self.workshop.brief(self.state, order) if order.kind is Kind.PROPOSE else None
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
