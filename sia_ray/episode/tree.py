"""The run tree on disk: ``STORAGE/run_N/gen_M`` in SIA's names, written from the ledger and the stored bytes.

It is an export. A generation's folder appears whole, once, when its outcome is in the ledger; whatever a crash kept
from disk is written when the run is next attached.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Literal

from sia_ray.agents.protocol import Reply
from sia_ray.candidate.bundle import unpack, write_tree
from sia_ray.candidate.store import BlobStore, write_atomic
from sia_ray.episode.work import Kind, evaluate_order, propose_order, run_order
from sia_ray.evaluation.contract import Evaluation
from sia_ray.evidence.context import GenerationView, RunView, render_context
from sia_ray.evidence.improvement import render
from sia_ray.evidence.run_tree import GenerationTree, generation_files, run_files
from sia_ray.ledger.schema import CandidateRow, EpisodeRow, GenerationRow, RunRow, State, WorkRow, WorkStatus

ENTRY = "target_agent.py"


class RunTree:
    """Writes under ``storage``; reads bytes from ``blobs``."""

    def __init__(self, storage: Path, blobs: BlobStore) -> None:
        self.storage = storage
        self.blobs = blobs
        self._views: dict[tuple[int, int], GenerationView] = {}

    def numbers_on_disk(self) -> set[int]:
        """Numbers that a folder under the storage root bears already, ours or SIA's."""
        names = (path.name for path in self.storage.glob("run_*")) if self.storage.is_dir() else ()
        return {int(name[4:]) for name in names if name[4:].isdecimal()}

    def write_run(self, state: State, run: RunRow) -> None:
        """context.md and profiles.json as of now."""
        views = [self.view(state, run, row) for row in state.rows(GenerationRow, run.run) if row.status.final]
        profile = {"profile_id": run.agent, "name": f"{run.agent} back-end", "agent_impl": run.agent, "model": "none"}
        target = {"profile_id": "none", "name": "the harness calls no model", "model": "none"}
        folder = self.storage / f"run_{run.run}"
        folder.mkdir(parents=True, exist_ok=True)
        for path, data in run_files(_run_view(run), views, meta=profile, target=target).items():
            write_atomic(folder / path, data)

    def write_generation(self, state: State, run: RunRow, row: GenerationRow) -> None:
        """``gen_M``, unless it stands already."""
        folder = self.storage / f"run_{run.run}" / f"gen_{row.generation}"
        if folder.exists():
            return
        staging = folder.with_name(f".gen_{row.generation}.part")
        shutil.rmtree(staging, ignore_errors=True)
        write_tree(generation_files(self._contents(state, run, row)), staging)
        staging.rename(folder)

    def context(self, state: State, run: RunRow, upto: int) -> str:
        """context.md as a proposal may see it: generations up to ``upto``."""
        rows = [row for row in state.rows(GenerationRow, run.run) if row.generation <= upto and row.status.final]
        return render_context(_run_view(run), [self.view(state, run, row) for row in rows])

    def view(self, state: State, run: RunRow, row: GenerationRow) -> GenerationView:
        """A final generation as context.md tells it."""
        known = self._views.get((run.run, row.generation))
        if known is not None:
            return known
        source = self.harness(state, run.run, row.candidate).get(ENTRY, b"")
        self._views[run.run, row.generation] = GenerationView(
            number=row.generation,
            status=row.status.value,
            started=row.started,
            duration_s=row.seconds or 0.0,
            reason=row.reason,
            size_bytes=len(source),
            lines=source.count(b"\n"),
            base=row.base,
            lever=row.lever,
            strategy=row.strategy,
            insights=row.changes,
            values=row.values,
            score=row.score,
            execution=_execution(self._outputs(state, run, row)),
            candidate=row.candidate,
        )
        return self._views[run.run, row.generation]

    def harness(self, state: State, run: int, candidate: str) -> dict[str, bytes]:
        """The files of a candidate; none where the answer never became one."""
        found = state.get(CandidateRow, run, candidate)
        return unpack(self.blobs.get(found.bundle)) if found else {}

    def _contents(self, state: State, run: RunRow, row: GenerationRow) -> GenerationTree:
        reply = self._reply(state, run, row)
        evaluation = self._evaluation(state, run, row)
        ran = trial(state, run, row.candidate, Kind.RUN)
        results = None
        if evaluation is not None:
            results = evaluation.results.encode() if evaluation.results is not None else evaluation.rejected_bytes
        base = state.get(GenerationRow, run.run, row.base) if row.base else None
        improvement = ""
        if reply is not None and base is not None:
            improvement = render(
                reply.decision,
                generation=row.generation,
                base_generation=base.generation,
                base_score=base.score,
            )
        return GenerationTree(
            number=row.generation,
            harness=self.harness(state, run.run, row.candidate),
            prompt=reply.prompt if reply else "",
            improvement=improvement,
            stdout=self.blobs.get(ran.artifacts["log"]) if ran else b"",
            outputs=self._outputs(state, run, row),
            evaluation_log=evaluation.log.encode() if evaluation else b"",
            results=results,
            passed=row.status.value == "passed",
            record=_record(state, run, row, ran, evaluation),
        )

    def _reply(self, state: State, run: RunRow, row: GenerationRow) -> Reply | None:
        base = state.one(EpisodeRow, run.run, row.episode).base
        work = state.get(WorkRow, propose_order(run, row, base).key)
        if work is None or work.status is not WorkStatus.FINISHED:
            return None
        return Reply.model_validate_json(self.blobs.get(work.artifacts["reply"]))

    def _outputs(self, state: State, run: RunRow, row: GenerationRow) -> dict[str, bytes]:
        ran = trial(state, run, row.candidate, Kind.RUN)
        return unpack(self.blobs.get(ran.artifacts["outputs"])) if ran else {}

    def _evaluation(self, state: State, run: RunRow, row: GenerationRow) -> Evaluation | None:
        work = trial(state, run, row.candidate, Kind.EVALUATE)
        return Evaluation.model_validate_json(self.blobs.get(work.artifacts["evaluation"])) if work else None


def finished_work(state: State, run: RunRow, candidate: str, kind: Kind, split: str) -> WorkRow | None:
    """The finished piece of work of one kind on a candidate and split, whichever run did it."""
    row = state.get(CandidateRow, run.run, candidate)
    if row is None or split not in run.splits:
        return None
    ran = state.get(WorkRow, run_order(run, row.generation, candidate, row.bundle, split).key)
    if kind is Kind.EVALUATE and ran is not None:
        if "outputs" not in ran.artifacts:
            return None
        order = evaluate_order(run, row.generation, candidate, ran.artifacts["outputs"], split)
        ran = state.get(WorkRow, order.key)
    return ran if ran is not None and ran.status is WorkStatus.FINISHED else None


def trial(state: State, run: RunRow, candidate: str, kind: Kind) -> WorkRow | None:
    """The candidate's work on dev, or on smoke when dev was never tried."""
    row = state.get(CandidateRow, run.run, candidate)
    if row is None:
        return None
    tried = state.get(WorkRow, run_order(run, row.generation, candidate, row.bundle, "dev").key) is not None
    return finished_work(state, run, candidate, kind, "dev" if tried else "smoke")


def _run_view(run: RunRow) -> RunView:
    direction: Literal["max", "min"] = "min" if run.direction == "min" else "max"
    return RunView(
        run=f"run_{run.run}",
        task=run.task,
        meta_model="none",
        task_model="none",
        agent_impl=run.agent,
        started=run.started,
        max_generations=run.generations,
        metric=run.metric or "score",
        direction=direction,
        seed=run.seed,
        sandbox=run.sandbox,
    )


def _execution(outputs: dict[str, bytes]) -> Literal["single", "multi", "none"]:
    if any(path.startswith("agent_execution/") for path in outputs):
        return "multi"
    return "single" if "agent_execution.json" in outputs else "none"


def _record(
    state: State, run: RunRow, row: GenerationRow, ran: WorkRow | None, evaluation: Evaluation | None
) -> dict[str, Any]:
    """candidate.json: where this generation came from and what became of it."""
    candidate = state.get(CandidateRow, run.run, row.candidate)
    return {
        "run": run.run,
        "candidate": row.candidate,
        "parent": candidate.parent if candidate else "",
        "base": row.base,
        "lever": row.lever,
        "strategy": row.strategy,
        "proposal": row.proposal,
        "status": row.status.value,
        "score": row.score,
        "metric": run.metric,
        "comparison": row.comparison,
        "reason": row.reason,
        "fingerprint": row.fingerprint,
        "detail": row.detail,
        "sandbox": run.sandbox,
        "isolated": run.isolated,
        "environment": run.environment,
        "evaluator_sha256": evaluation.evaluator_sha256 if evaluation else "",
        "cost": {k: v for k, v in ran.artifacts.items() if k not in ("outputs", "log", "detail")} if ran else {},
    }
