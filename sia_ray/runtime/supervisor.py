"""The Supervisor: owns the ledger of one storage root and drives its runs.

A plain class around one thread that runs ``episode.loop``. As a Ray actor it restarts after a crash, opens the ledger
again (which fences whatever was left of its predecessor) and goes on with the runs of its session.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sia_ray.candidate.identity import digest_bytes, digest_value
from sia_ray.candidate.store import BlobStore
from sia_ray.clock import SystemClock
from sia_ray.config import ActorFile, RunSpec, SupervisorPolicy, parse
from sia_ray.episode.loop import Loop
from sia_ray.episode.workshop import Subject, Workshop
from sia_ray.errors import InfrastructureError, LedgerError, NotFoundError, UsageError
from sia_ray.ledger.events import HoldoutRequested, RunResumed, RunStarted
from sia_ray.ledger.schema import GenerationRow, RunRow, RunStatus
from sia_ray.runtime.executor import RayExecutor
from sia_ray.runtime.prepare import Parcel, Ready, make_ready, unpack_parcel
from sia_ray.task.cache import cache_root

T = TypeVar("T")


log = logging.getLogger(__name__)

FOLLOWERS = 64
"""Followers that may wait for news at once."""


class Snapshot(NamedTuple):
    """What a follower sees: ``seq`` to ask from next time, the run and its generations so far, their digest.

    ``paused`` says what the run waits for, when the machine keeps it waiting.
    """

    seq: int
    run: RunRow
    generations: tuple[GenerationRow, ...]
    state_digest: str
    paused: str = ""


class Supervisor:
    """``session`` names the cluster session: after a restart its running runs go on by themselves."""

    def __init__(self, storage: str, session: str, files: dict[str, ActorFile]) -> None:
        root = Path(storage)
        self.session = session
        self.blobs = BlobStore(root / "blobs")
        self.workshop = Workshop(self.blobs, root)
        self.executor = RayExecutor(
            blobs=self.blobs, files=files, cache_dir=cache_root(), deliver=lambda outcome: self.loop.deliver(outcome)
        )
        self.files = files
        self.trouble: dict[int, str] = {}
        """Runs of this session that could not be taken up again, and why."""
        self._waiting = ThreadPoolExecutor(FOLLOWERS, thread_name_prefix="follower")
        policy = parse(SupervisorPolicy, files["supervisor"].policy, where="actors/supervisor.md: policy")
        self.loop = Loop(
            root,
            executor=self.executor,
            workshop=self.workshop,
            clock=SystemClock(),
            max_tries=policy.max_tries,
        )
        self.thread = threading.Thread(target=self.loop.run, name="loop", daemon=True)
        self.thread.start()
        threading.Thread(target=self._continue_session, name="restart", daemon=True).start()

    def _continue_session(self) -> None:
        """Drive again what this session was driving when a predecessor died."""
        try:
            epoch = self.loop.ready.result()
            self.executor.origin = f"{digest_bytes(str(self.loop.storage).encode())[:4]}.{epoch}"
            rows = self.loop.call(lambda: self.loop.state.rows(RunRow)).result()
        except Exception:
            log.exception("the Supervisor cannot begin")
            return
        for row in rows:
            if row.status is RunStatus.RUNNING and row.session == self.session:
                try:
                    self._attach(row)
                except Exception as error:
                    log.exception("run %d cannot be taken up again", row.run)
                    self.trouble[row.run] = str(error)

    async def hello(self) -> int:
        """The epoch. Raises LedgerLocked when another live Supervisor owns the storage root, LedgerError when this
        one has stopped.
        """
        epoch = await asyncio.wrap_future(self.loop.ready)
        if not self.thread.is_alive():
            why = self.loop.error or "it was asked to"
            raise LedgerError(f"The Supervisor stopped: {why}.", "`sia-ray resume RUN` goes on with a run.")
        return epoch

    async def start(self, spec: RunSpec, parcel: Parcel, asked: str) -> int:
        """Accept a run; its number, once that is on disk. Raises what a person must mend before any work.

        ``asked`` tells one request from another: the same one, repeated, is answered by the run that it began.
        """
        await self.hello()
        return await asyncio.to_thread(self._start, spec, parcel, asked)

    async def resume(self, run: int) -> None:
        """Drive a run that was left unfinished. Does nothing for one that is over or under way."""
        await self.hello()
        await asyncio.to_thread(self._resume, run)

    async def request_holdout(self, run: int) -> None:
        """Score start and best of a finished run on the holdout, if that was left out."""
        await self.hello()
        row = await self._on_loop(lambda: self.loop.state.get(RunRow, run))
        if row is None:
            raise NotFoundError(f"There is no run {run} here.", "`sia-ray status` lists the runs.")
        if row.status is RunStatus.RUNNING or (
            row.holdout and all(entry["status"] != "inconclusive" for entry in row.holdout.values())
        ):
            return
        ready = await asyncio.to_thread(self._make_ready, row)

        def request() -> None:
            self.loop.commit([HoldoutRequested(run=run)])
            self._adopt(run, ready)

        await self._on_loop(request)

    async def watch(self, run: int, after: int, wait_s: float = 1.0) -> Snapshot:
        """The run as it stands; waits up to ``wait_s`` for news after ``after``. Raises when the loop has stopped."""
        await self.hello()
        await asyncio.get_running_loop().run_in_executor(self._waiting, self._wait_for_news, after, wait_s)
        if run in self.trouble:
            hint = "Mend the cause, then `sia-ray resume RUN`."
            raise InfrastructureError(f"Run {run} cannot be taken up again: {self.trouble[run]}.", hint)
        snapshot: Snapshot = await self._on_loop(lambda: self._snapshot(run))
        return snapshot

    async def stop(self) -> bool:
        """Let go of the ledger, unless a run is under way: then False."""
        if self.thread.is_alive() and await self._on_loop(lambda: bool(self.loop.active)):
            return False
        self.loop.stop()
        await asyncio.to_thread(self.thread.join, 10.0)
        return True

    def _start(self, spec: RunSpec, parcel: Parcel, asked: str) -> int:
        root = unpack_parcel(parcel, cache_dir=self.executor.cache_dir)
        ready = make_ready(spec, root, cache_dir=self.executor.cache_dir)
        stored = self.blobs.put(parcel.data)

        def begin() -> int:
            for row in self.loop.state.rows(RunRow):
                if row.facts.get("asked") == asked:
                    return row.run
            number = self._number(spec.run_id)
            facts = {
                "asked": asked,
                "parcel": stored,
                "parcel_name": parcel.name,
                "parcel_digest": parcel.digest,
                "actors": {role: digest_value(file.model_dump(mode="json")) for role, file in self.files.items()},
            }
            event = _run_started(number, ready, facts, self.session, self.loop.clock.now())
            self._register(number, ready)
            self.loop.commit([event])
            self.loop.active.add(number)
            return number

        return self.loop.call(begin).result()

    def _number(self, wanted: int | None) -> int:
        taken = {row.run for row in self.loop.state.rows(RunRow)}
        taken |= self.workshop.tree.numbers_on_disk()
        if wanted is not None and wanted in taken:
            raise UsageError(f"Run {wanted} exists already.", "Leave --run_id out for the next free number.")
        return wanted or max(taken, default=0) + 1

    def _resume(self, run: int) -> None:
        row = self.loop.call(lambda: self.loop.state.get(RunRow, run)).result()
        if row is None:
            raise NotFoundError(f"There is no run {run} here.", "`sia-ray status` lists the runs.")
        if row.status is not RunStatus.RUNNING or run in self.loop.active:
            return
        self._attach(row)

    def _attach(self, row: RunRow) -> None:
        ready = self._make_ready(row)

        def go_on() -> None:
            if row.session != self.session:
                self.loop.commit([RunResumed(run=row.run, session=self.session)])
            self._adopt(row.run, ready)
            self.workshop.publish_all(self.loop.state, row.run)

        self.loop.call(go_on).result()

    def _adopt(self, run: int, ready: Ready) -> None:
        self._register(run, ready)
        self.loop.active.add(run)

    def _register(self, run: int, ready: Ready) -> None:
        self.workshop.subjects[run] = Subject.of(ready.pack)
        self.executor.add_run(run, ready)

    def _make_ready(self, row: RunRow) -> Ready:
        """What the run needs, made again; refused when it is no longer what the run started with."""
        facts = row.facts
        given = Parcel(facts["parcel_name"], self.blobs.get(facts["parcel"]), facts["parcel_digest"])
        root = unpack_parcel(given, cache_dir=self.executor.cache_dir)
        ready = make_ready(RunSpec.model_validate(row.spec), root, cache_dir=self.executor.cache_dir)
        now = _fixed(ready)
        then = {name: getattr(row, name) for name in now}
        changed = sorted(name for name in now if now[name] != then[name])
        if changed:
            raise InfrastructureError(
                f"Run {row.run} cannot be resumed here: {', '.join(changed)} changed since it started.",
                "Resume it where it started, or start a new run.",
            )
        return ready

    def _snapshot(self, run: int) -> Snapshot:
        row = self.loop.state.get(RunRow, run)
        if row is None:
            raise NotFoundError(f"There is no run {run} here.", "`sia-ray status` lists the runs.")
        digest = "" if row.status is RunStatus.RUNNING else self.loop.state.state_digest(run)
        generations = tuple(self.loop.state.rows(GenerationRow, run))
        return Snapshot(self.loop.seq, row, generations, digest, self.loop.why_paused(run))

    def _wait_for_news(self, after: int, wait_s: float) -> None:
        with self.loop.changed:
            self.loop.changed.wait_for(lambda: self.loop.seq > after or not self.thread.is_alive(), timeout=wait_s)

    async def _on_loop(self, action: Any) -> Any:
        return await asyncio.wrap_future(self.loop.call(action))


def _fixed(ready: Ready) -> dict[str, Any]:
    """What must not change while a run lasts."""
    splits = ready.splits.by_name
    metric = ready.pack.config.metric
    return {
        "pack": ready.pack.digest,
        "metric": metric.name if metric else "",
        "direction": metric.direction if metric else "max",
        "evaluators": {str(name): split.evaluator_sha256 for name, split in splits.items()},
        "splits": {str(name): split.digest for name, split in splits.items()},
        "environment": ready.conditions,
        "sandbox": ready.sandbox,
    }


def _run_started(number: int, ready: Ready, facts: dict[str, Any], session: str, at: str) -> RunStarted:
    spec = ready.spec
    return RunStarted(
        run=number,
        task=ready.pack.name,
        spec=spec.model_dump(mode="json"),
        facts=facts,
        seed=spec.seed,
        agent=spec.agent,
        generations=spec.generations,
        lookahead=spec.lookahead,
        scores_holdout=spec.holdout and "holdout" in ready.splits,
        session=session,
        at=at,
        **_fixed(ready),
    )
