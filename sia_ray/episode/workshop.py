"""Where bytes meet decisions: briefs for agents, candidates out of answers, comparisons, the run tree.

Everything here can be done again after a crash with the same result: inputs are stored bytes, named by digest in the
ledger.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sia_ray.agents.protocol import Brief, Reply, Seen
from sia_ray.candidate.bundle import pack as pack_files
from sia_ray.candidate.edits import apply_answer
from sia_ray.candidate.identity import digest_tree, digest_value
from sia_ray.candidate.static import Check, check_static
from sia_ray.candidate.store import BlobStore
from sia_ray.episode.decide import Construct, Verdict
from sia_ray.episode.tree import RunTree, finished_work
from sia_ray.episode.work import Kind, Order
from sia_ray.errors import EditRejected, InfrastructureError
from sia_ray.evaluation.contract import Evaluation
from sia_ray.evaluation.statistics import compare
from sia_ray.ledger.events import (
    AttemptDecided,
    AttemptFailed,
    CandidateBuilt,
    EpisodeReleased,
    Event,
    GenerationEnded,
    RunEnded,
    RunStarted,
)
from sia_ray.ledger.schema import (
    EpisodeRow,
    GenerationRow,
    GenerationStatus,
    RunRow,
    State,
)
from sia_ray.levers.choice import choose, excluded_levers
from sia_ray.levers.decision import Lever
from sia_ray.task.pack import TaskPack

log = logging.getLogger(__name__)

BUILDER = {"version": 1, "codec": "search_replace", "normalisers": ["fences", "crlf", "bom"]}
"""The builder as it ships: what turns an answer into a candidate."""


_CLASSES = {"encoding": "encoding", "missing_symbol": "missing_symbol"}
"""Rejections of an edit that have a causal class of their own; all others are malformed edits."""


@dataclass(frozen=True)
class Subject:
    """What a run is about, loaded once: its pack and the texts of the pack's reference folder."""

    pack: TaskPack
    reference: dict[str, str]

    @classmethod
    def of(cls, pack: TaskPack) -> Subject:
        return cls(pack, pack.reference_texts)


class Workshop:
    """Turns recorded answers into candidates. ``subjects`` is filled by whoever starts or resumes a run."""

    def __init__(self, blobs: BlobStore, storage: Path) -> None:
        self.blobs = blobs
        self.tree = RunTree(storage, blobs)
        self.subjects: dict[int, Subject] = {}
        self.builder = digest_value(BUILDER)[:12]

    def harness(self, state: State, run: int, candidate: str) -> dict[str, bytes]:
        """The files of a candidate."""
        return self.tree.harness(state, run, candidate)

    def brief(self, state: State, order: Order) -> Brief:
        """What the agent may see for this order: an allow-list (P8), cut at the generation's ``visible``."""
        run = state.one(RunRow, order.run)
        subject = self.subjects[order.run]
        generation = state.one(GenerationRow, order.run, order.generation)
        base = self.harness(state, order.run, order.candidate) if order.candidate else subject.pack.reference_harness
        return Brief(
            run=f"run_{order.run}",
            task=run.task,
            generation=order.generation,
            max_generations=run.generations,
            seed=run.seed,
            direction="min" if run.direction == "min" else "max",
            metric=run.metric,
            base={path: data.decode("utf-8", errors="replace") for path, data in base.items()},
            reference=subject.reference,
            seen=tuple(_seen(state, run.run, generation)),
            task_md=subject.pack.task_md,
            context_md=self.tree.context(state, run, generation.visible),
        )

    def construct(self, state: State, run: RunRow, action: Construct) -> list[Event]:
        """The events that the answer makes: a decision, then a candidate or the attempt's failure."""
        reply = Reply.model_validate_json(self.blobs.get(action.answer))
        decision = reply.decision
        episode = state.one(EpisodeRow, run.run, action.generation)
        where: dict[str, Any] = {"run": run.run, "episode": action.generation, "attempt": episode.attempts + 1}
        choice = choose(decision.lever, excluded_levers(self.subjects[run.run].pack.config.levers.allowed))
        decided = AttemptDecided(
            hypothesis=decision.hypothesis,
            lever=choice.lever,
            lever_reason=choice.reason,
            levers_rejected=choice.rejected,
            strategy=decision.strategy,
            expected_gain=decision.expected_gain,
            changes=decision.changes,
            proposal=decision.proposal,
            **where,
        )
        if choice.lever is Lever.STOP:
            return [decided, EpisodeReleased(run=run.run, episode=action.generation, reason="terminal")]
        pack = self.subjects[run.run].pack
        base = self.harness(state, run.run, episode.base) if episode.base else pack.reference_harness
        try:
            files = apply_answer(base, decision.answer) if decision.answer else base
        except EditRejected as error:
            label = f"apply:{_CLASSES.get(error.reason, 'malformed_edit')}"
            reason = f"{error.reason}: {error.message}"
            return [decided, AttemptFailed(stage="apply", fingerprint=label, reason=reason, **where)]
        found = check_static(files)
        if found:
            stage = "contract" if found[0].check in (Check.MAIN, Check.CLI) else "static"
            label = f"{stage}:{found[0].reason}"
            return [decided, AttemptFailed(stage=stage, fingerprint=label, reason=found[0].message, **where)]
        bundle = self.blobs.put(pack_files(files))
        return [decided, CandidateBuilt(candidate=digest_tree(files), bundle=bundle, **where)]

    def compare(
        self, state: State, run: RunRow, generation: GenerationRow, verdict: Verdict
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The evaluator's scalars for display, and the paired comparison with the base on the same dev items."""
        if not verdict.evaluation:
            return {}, {}
        ours = self.evaluation(verdict.evaluation)
        values: dict[str, Any] = dict(ours.values)
        if generation.base is None or verdict.status is not GenerationStatus.PASSED:
            return values, {}
        base = self._dev_evaluation(state, run, generation.base)
        if base is None or not ours.items or not base.items:
            return values, {}
        if {item.id for item in base.items} != {item.id for item in ours.items}:
            return values, {"base": generation.base, "refused": "the pack's items differ between the two"}
        result = compare(
            {item.id: item.value for item in base.items},
            {item.id: item.value for item in ours.items},
            direction="min" if run.direction == "min" else "max",
        )
        return values, {"base": generation.base, **result._asdict()}

    def evaluation(self, digest: str) -> Evaluation:
        return Evaluation.model_validate_json(self.blobs.get(digest))

    def seconds(self, state: State, run: RunRow, generation: GenerationRow) -> float | None:
        """Wall time of the target on the dev split, seconds; None when it did not run there."""
        row = finished_work(state, run, generation.candidate, Kind.RUN, "dev")
        return None if row is None else float(row.artifacts.get("wall_s", 0.0))

    def _dev_evaluation(self, state: State, run: RunRow, generation: int) -> Evaluation | None:
        candidate = state.one(GenerationRow, run.run, generation).candidate
        row = finished_work(state, run, candidate, Kind.EVALUATE, "dev")
        return None if row is None else self.evaluation(row.artifacts["evaluation"])

    def publish(self, state: State, events: Sequence[Event]) -> None:
        """Bring the run tree up to what these events changed."""
        try:
            for event in events:
                if isinstance(event, GenerationEnded):
                    row = state.one(GenerationRow, event.run, event.generation)
                    self.tree.write_generation(state, state.one(RunRow, event.run), row)
            for run in {e.run for e in events if isinstance(e, RunStarted | GenerationEnded)}:
                self.tree.write_run(state, state.one(RunRow, run))
            for run in {e.run for e in events if isinstance(e, RunEnded)}:
                self.publish_all(state, run)
        except (OSError, InfrastructureError) as error:
            log.warning("the run tree lags behind the ledger: %s", error)

    def publish_all(self, state: State, run: int) -> None:
        """Write whatever a crash kept from the run tree."""
        row = state.one(RunRow, run)
        for generation in state.rows(GenerationRow, run):
            if generation.status.final:
                self.tree.write_generation(state, row, generation)
        self.tree.write_run(state, row)


def _seen(state: State, run: int, generation: GenerationRow) -> Iterable[Seen]:
    """Earlier generations as the agent may know them. One that the machine failed says nothing and is left out."""
    for row in state.rows(GenerationRow, run):
        if row.generation >= generation.generation:
            return
        if row.generation > generation.visible:
            yield Seen(generation=row.generation, status="pending", proposal=row.proposal)
        elif row.status is GenerationStatus.PASSED:
            yield Seen(generation=row.generation, status="passed", score=row.score, proposal=row.proposal)
        elif row.status is GenerationStatus.FAILED:
            yield Seen(generation=row.generation, status="failed", proposal=row.proposal)
