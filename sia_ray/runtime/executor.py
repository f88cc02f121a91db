"""Carries out orders on Ray: agents and Targets are actors, evaluators are tasks.

Bytes travel through the object store and end in the blob store; what comes back to the loop is small. Each order in
flight is watched by one thread of its own, so a slow one holds up nothing.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray.exceptions import GetTimeoutError

from sia_ray.agents.protocol import Brief, Reply
from sia_ray.agents.target import TargetJob, TargetRun
from sia_ray.candidate.store import BlobStore
from sia_ray.candidate.views import pack_view, view_digest
from sia_ray.episode.loop import RETRY_S
from sia_ray.episode.work import Done, Fault, Held, Kind, Order
from sia_ray.errors import EditRejected, InfrastructureError, NotFoundError, UsageError
from sia_ray.evaluation.contract import Evaluation
from sia_ray.evaluation.results import Status
from sia_ray.runtime.actors import ActorFiles, evaluator_task, start_actor, warm_evaluator
from sia_ray.runtime.prepare import Ready
from sia_ray.runtime.scoring import ScoringJob
from sia_ray.sandbox.preparation import evaluator_limits, target_limits, withheld

log = logging.getLogger(__name__)

IN_FLIGHT = 64
SCHEDULING_S = 6 * 3600.0
"""How long an order may wait for its resources beyond its own limits, seconds: Ray reports what is lost, this is the
last resort."""
BACKOFF_S = (0.0, 0.2, 1.0, 5.0)
"""Pause before a fault is reported, by how often the order was tried before, seconds."""


class Pool:
    """Actors of one role, started when they are first needed: a laptop's cores are busy enough at the start."""

    def __init__(self, start: Callable[[int], Any], size: int) -> None:
        self._start = start
        self._size = size
        self._all: list[Any] = []
        self._idle: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()

    def warm(self) -> None:
        """Start one more actor, if there may be one more."""
        with self._lock:
            if len(self._all) < self._size:
                self._all.append(self._start(len(self._all) + 1))
                self._idle.put(self._all[-1])

    @contextmanager
    def lease(self) -> Iterator[Any]:
        """One actor for the length of the block; waits while all are busy."""
        if self._idle.empty():
            self.warm()
        actor = self._idle.get()
        try:
            yield actor
        finally:
            self._idle.put(actor)

    def close(self) -> None:
        for actor in self._all:
            ray.kill(actor)


class Pools(NamedTuple):
    """The actors that serve one run."""

    meta: Pool
    feedback: Pool
    target: Pool


class View(NamedTuple):
    """A split folder in the object store."""

    digest: str
    ref: Any


class RayExecutor:
    """``deliver`` takes outcomes, from any thread."""

    def __init__(
        self, *, blobs: BlobStore, files: ActorFiles, cache_dir: Path, deliver: Callable[[Done | Fault | Held], None]
    ) -> None:
        self.blobs = blobs
        self.files = files
        self.cache_dir = cache_dir
        self.deliver = deliver
        self.origin = ""
        """Storage root and epoch, in a few letters: keeps names of actors apart."""
        self._names = itertools.count(1)
        self._ready: dict[int, Ready] = {}
        self._pools: dict[int, Pools] = {}
        self._views: dict[int, dict[Path, View]] = {}
        self._tried: Counter[str] = Counter()
        self._outputs: dict[str, Any] = {}
        self._watchers = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="order")

    def add_run(self, run: int, ready: Ready) -> None:
        """Make the actors of a run startable, and start the two that its first order needs."""
        if run in self._pools:
            return
        spec, task = ready.spec, ready.pack.name
        self._ready[run] = ready

        def pool(role: str, size: int, *arguments: Any) -> Pool:
            file = self.files[role]

            def start(slot: int) -> Any:
                title = f"{role} {slot}" if size > 1 else role
                name = f"{title} of run {run} ({task}) {self.origin}.{next(self._names)}"
                return start_actor(file, name, *arguments)

            return Pool(start, size)

        pools = Pools(
            meta=pool("meta", 1, spec.agent, spec.agent_options),
            feedback=pool("feedback", 1, spec.agent, spec.agent_options),
            target=pool("target", min(spec.lookahead, self.files["target"].ray.replicas), ready.sandbox),
        )
        pools.meta.warm()
        pools.target.warm()
        if not ready.pack.config.evaluator.num_gpus and not ready.pack.config.evaluator.resources:
            warm_evaluator(ready.pack.config.evaluator)
        self._pools[run] = pools

    def remove_run(self, run: int) -> None:
        """Let the actors of a run go."""
        self._ready.pop(run, None)
        self._views.pop(run, None)
        for pool in self._pools.pop(run, ()):
            pool.close()

    def submit(self, order: Order, payload: Any) -> None:
        self._watchers.submit(self._carry_out, order, payload)

    def _carry_out(self, order: Order, payload: Any) -> None:
        """One order, start to end; whatever the machine does becomes a Fault."""
        try:
            match order.kind:
                case Kind.PROPOSE:
                    outcome = self._propose(order, payload)
                case Kind.RUN:
                    outcome = self._run(order)
                case Kind.EVALUATE:
                    outcome = self._evaluate(order)
        except Exception as error:
            cause = getattr(error, "cause", None) or error
            log.warning("%s of generation %d: %s", order.kind, order.generation, error)
            time.sleep(BACKOFF_S[min(self._tried[order.key], len(BACKOFF_S) - 1)])
            self._tried[order.key] += 1
            reason = f"{type(cause).__name__}: {_first_line(cause)}"
            final = isinstance(cause, UsageError | NotFoundError | EditRejected)
            self.deliver(Fault(order.key, reason, final=final))
            return
        self._tried.pop(order.key, None)
        self.deliver(outcome)

    def _propose(self, order: Order, brief: Brief) -> Done:
        pools = self._pools[order.run]
        if order.generation == 1:
            with pools.meta.lease() as meta:
                reply: Reply = ray.get(meta.first.remote(brief), timeout=SCHEDULING_S)
        else:
            with pools.feedback.lease() as feedback:
                reply = ray.get(feedback.next.remote(brief), timeout=SCHEDULING_S)
        stored = self._keep(order, reply.model_dump_json().encode())
        return Done(order.key, {"lever": reply.decision.lever}, {"reply": stored})

    def _run(self, order: Order) -> Done:
        ready, pools = self._ready[order.run], self._pools[order.run]
        target = ready.pack.config.target
        limits = target_limits(target)
        view = self._view(order.run, ready.splits[order.split].public)
        job = TargetJob(
            view.digest,
            ready.pack.requirements,
            limits,
            target.network,
            baseline=ready.pack.baseline,
            withheld=withheld(ready.pack),
        )
        harness = self.blobs.get(order.inputs[0])
        label = f"run gen {order.generation} on {order.split}"
        with pools.target.lease() as actor:
            meta, outputs, words = actor.run.options(num_returns=3, name=label).remote(job, harness, [view.ref])
            outcome, cost = self._wait(meta, limits.wall_s, lambda: ray.kill(actor, no_restart=False))
        run = TargetRun(outcome, cost, ray.get(outputs), ray.get(words))
        digest = self._keep(order, run.outputs)
        if run.outcome["ok"]:
            self._outputs[digest] = outputs
        return Done(order.key, run.outcome, {**run.cost, "outputs": digest, "log": self._keep(order, run.log)})

    def _evaluate(self, order: Order) -> Done:
        ready = self._ready[order.run]
        pack, split = ready.pack, ready.splits[order.split]
        wanted = pack.config.evaluator
        limits = evaluator_limits(wanted)
        view = self._view(order.run, split.root)
        reference = None
        if pack.items is not None and order.split != "smoke":
            reference = self._view(order.run, pack.items.parent)
        job = ScoringJob(
            view=view.digest,
            reference=reference.digest if reference else None,
            metric=pack.config.metric,
            requirements=pack.requirements,
            limits=limits,
            sandbox=ready.sandbox,
        )
        outputs = self._outputs.pop(order.inputs[0], None) or ray.put(self.blobs.get(order.inputs[0]))
        task = evaluator_task(wanted, name=f"evaluate {pack.name} gen {order.generation} on {order.split}")
        refs = [view.ref] + ([reference.ref] if reference else [])
        ref = task.remote(job, outputs, refs)
        evaluation: Evaluation = self._wait(ref, limits.wall_s * 2, lambda: ray.cancel(ref, force=True))
        if evaluation.status is Status.INFRASTRUCTURE:
            raise InfrastructureError(evaluation.reason or "The evaluator's sandbox failed.")
        stored = self._keep(order, evaluation.model_dump_json().encode())
        items = len(evaluation.items) or split.n_hint
        outcome = {"status": evaluation.status.value, "score": evaluation.score, "n": items}
        return Done(
            order.key,
            outcome,
            {"evaluation": stored, "wall_s": round(evaluation.wall_s, 4), "detail": evaluation.reason},
        )

    def _keep(self, order: Order, data: bytes) -> str:
        """The digest of ``data``, stored. Storage that refuses is waited for: what was done is not done again."""
        refused = False
        while True:
            try:
                digest = self.blobs.put(data)
            except InfrastructureError as error:
                refused = True
                self.deliver(Held(order.run, str(error)))
                time.sleep(RETRY_S)
                continue
            if refused:
                self.deliver(Held(order.run, ""))
            return digest

    @staticmethod
    def _wait(ref: Any, own_s: float, give_up: Callable[[], Any]) -> Any:
        """The result; when it does not come, whatever still works on it is ended before anybody tries again."""
        try:
            return ray.get(ref, timeout=own_s + SCHEDULING_S)
        except GetTimeoutError:
            give_up()
            raise

    def _view(self, run: int, folder: Path) -> View:
        """The folder in the object store, put there once a run."""
        views = self._views.setdefault(run, {})
        if folder not in views:
            views[folder] = View(view_digest(folder), ray.put(pack_view(folder)))
        return views[folder]


def _first_line(error: BaseException) -> str:
    cause = getattr(error, "cause", None) or error
    text = str(cause).strip().splitlines()
    return text[0][:300] if text else ""
