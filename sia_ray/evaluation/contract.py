"""Running a pack's evaluator on a copy of a target's outputs, where the target has no hand in it.

SIA's contract, unchanged: ``python -u …/evaluate.py --gen-dir DIR`` beside its data, which writes
DIR/results.json; an exit code other than 0 means that there is no score. The outputs are copied into a fresh
folder, a results.json among them is dropped, and the split is mounted read-only.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from sia_ray.candidate.bundle import read_regular, write_tree
from sia_ray.candidate.identity import Files, digest_bytes
from sia_ray.errors import PackError
from sia_ray.evaluation.guards import grading_problem
from sia_ray.evaluation.items import Item, read_items
from sia_ray.evaluation.results import MAX_BYTES, Reading, Scalar, Status, read_results
from sia_ray.sandbox.policy import Cause, Finished, Job, Limits, Mount, Sandbox
from sia_ray.sandbox.scratch import scratch_folder
from sia_ray.sandbox.variables import base_env
from sia_ray.task.metric import Metric

EVALUATORS = ("data/public/evaluate.py", "evaluate.py")
RESULTS = "results.json"
ITEMS = "items.jsonl"
LOG_CHARS = 64_000
REASON_CHARS = 1_000
REJECTED_BYTES = 1_000_000


class Evaluation(BaseModel):
    """What one evaluation gave. Serialises to JSON and back.

    ``results`` is the accepted results.json as it stood; ``rejected`` is the refused one in base64, its first
    million bytes. ``items`` are empty when the pack has no ``reference/items.py`` or there is no score.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: Status
    score: float | None = None
    reason: str = ""
    metric: str = ""
    values: dict[str, Scalar] = {}
    results: str | None = None
    rejected: str | None = None
    log: str = ""
    items: tuple[Item, ...] = ()
    wall_s: float = 0.0
    evaluator_sha256: str = ""
    sandbox: str = ""

    @property
    def rejected_bytes(self) -> bytes | None:
        """The refused results.json, for ``results.rejected.bin``."""
        return None if self.rejected is None else base64.b64decode(self.rejected)


def find_evaluator(split_dir: Path) -> Path:
    """The evaluator of a materialised split. PackError when there is none: a run without a score is worth nothing."""
    for relative in EVALUATORS:
        if (split_dir / relative).is_file():
            return split_dir / relative
    raise PackError(
        f"{split_dir.name} has no evaluator.",
        "Add data/public/evaluate.py, which takes --gen-dir DIR and writes DIR/results.json.",
    )


def evaluate(
    sandbox: Sandbox,
    *,
    split_dir: Path,
    outputs: Files,
    metric: Metric | None,
    limits: Limits,
    python: Path,
    reference_dir: Path | None = None,
) -> Evaluation:
    """Score ``outputs`` (path → content, as the target left them) with the evaluator of ``split_dir``.

    ``python`` is the interpreter of the evaluator's environment (its ``bin/python``). ``reference_dir`` may hold
    ``items.py``.
    Never raises for what the outputs say or the evaluator does; PackError when there is no evaluator,
    BundleRejected for an output whose path leaves its folder.
    """
    evaluator = find_evaluator(split_dir)
    digest = digest_bytes(evaluator.read_bytes())
    clean = {path: data for path, data in outputs.items() if path.split("/")[0] not in (RESULTS, ITEMS)}
    try:
        with scratch_folder() as private:
            bench = _Bench(sandbox, split_dir.absolute(), private, python, limits, reference_dir)
            (private / "empty").mkdir()
            write_tree(clean, bench.gen)
            scored = bench.score(evaluator.relative_to(split_dir).as_posix(), metric)
        return _guarded(scored.model_copy(update={"evaluator_sha256": digest}), split_dir, clean)
    except OSError as error:
        reason = f"the outputs could not be laid out for the evaluator: {error}"
        return Evaluation(status=Status.INFRASTRUCTURE, reason=reason, evaluator_sha256=digest)


def _guarded(scored: Evaluation, split_dir: Path, outputs: Files) -> Evaluation:
    """``scored``, without its score when a grader with known holes counted otherwise than right answers / items."""
    if scored.results is None:
        return scored
    problem = grading_problem(scored.evaluator_sha256, scored.results, split_dir, outputs)
    if problem is None:
        return scored
    rejected = base64.b64encode(scored.results.encode("utf-8")[:REJECTED_BYTES]).decode()
    without = {"score": None, "results": None, "items": (), "rejected": rejected}
    return scored.model_copy(update={"status": Status.INVALID, "reason": problem, **without})


class _Bench(NamedTuple):
    """One evaluation's folders and means."""

    sandbox: Sandbox
    split_dir: Path
    private: Path
    python: Path
    limits: Limits
    reference_dir: Path | None

    @property
    def gen(self) -> Path:
        return self.private / "gen"

    def score(self, evaluator: str, metric: Metric | None) -> Evaluation:
        done = self._run(f"/task/{evaluator}", "--gen-dir", "/gen")
        log = done.output.text()[-LOG_CHARS:]
        common = Evaluation(status=Status.PASSED, log=log, wall_s=done.wall_s, sandbox=done.sandbox)
        if (ended := _ended_badly(done, "the evaluator")) is not None:
            return common.model_copy(update=ended._asdict())
        found = read_regular(self.gen, RESULTS, max_bytes=MAX_BYTES)
        if found.problem:
            reading = Reading(Status.INVALID, None, f"results.json {found.problem}", "", {})
        else:
            reading = read_results(found.data, metric)
        if reading.status is not Status.PASSED or found.data is None or reading.score is None:
            kept = None if found.data is None else base64.b64encode(found.data[:REJECTED_BYTES]).decode()
            return common.model_copy(update={**reading._asdict(), "rejected": kept})
        passed = common.model_copy(update={**reading._asdict(), "results": found.data.decode("utf-8")})
        return self._with_items(passed, reading.score)

    def _with_items(self, passed: Evaluation, score: float) -> Evaluation:
        """``passed`` with its items; without a score when the pack's own rows contradict it."""
        if self.reference_dir is None or not (self.reference_dir / "items.py").is_file():
            return passed
        done = self._run("/reference/items.py", "--gen-dir", "/gen", "--task-dir", "/task", "--out", f"/gen/{ITEMS}")
        ended = _ended_badly(done, "items.py")
        update: dict[str, object] = {"wall_s": passed.wall_s + done.wall_s}
        try:
            if ended is not None:
                raise ValueError(ended.reason)
            found = read_regular(self.gen, ITEMS, max_bytes=MAX_BYTES)
            if found.data is None or len(found.data) > MAX_BYTES:
                raise ValueError(found.problem or "items.jsonl is missing or too large")
            return passed.model_copy(update={**update, "items": read_items(found.data, score)})
        except ValueError as error:
            lost = ended is not None and ended.status is Status.INFRASTRUCTURE
            rejected = base64.b64encode((passed.results or "").encode("utf-8")[:REJECTED_BYTES]).decode()
            return passed.model_copy(
                update={
                    **update,
                    "status": Status.INFRASTRUCTURE if lost else Status.INVALID,
                    "score": None,
                    "reason": f"items do not hold: {error}",
                    "results": None,
                    "rejected": rejected,
                    "log": (passed.log + "\n" + done.output.text())[-LOG_CHARS:],
                }
            )

    def _run(self, script: str, *arguments: str) -> Finished:
        mounts = [
            Mount(self.split_dir, "/task"),
            Mount(self.gen, "/gen", writable=True),
            Mount(self.private / "empty", "/empty"),
        ]
        if self.reference_dir is not None:
            mounts.append(Mount(self.reference_dir.absolute(), "/reference"))
        prefix = self.python.parent.parent
        job = Job(
            argv=(str(self.python), "-u", script, *arguments),
            mounts=tuple(mounts),
            env=base_env(python=prefix),
            limits=self.limits,
            cwd="/empty",
            python=prefix,
        )
        return self.sandbox.run(job)


class _Ended(NamedTuple):
    status: Status
    reason: str


def _ended_badly(done: Finished, who: str) -> _Ended | None:
    """The status of a run that did not end with exit code 0, and its reason; None for one that did."""
    if done.ok:
        return None
    if done.cause is Cause.INFRASTRUCTURE:
        return _Ended(Status.INFRASTRUCTURE, done.detail or "the sandbox could not run the evaluator")
    if done.cause is Cause.TIMEOUT:
        return _Ended(Status.FAILED, f"timeout: {who} ran longer than its limit ({done.wall_s:.1f} s)")
    if done.cause is Cause.EXITED:
        last = "\n".join(line for line in done.output.text().splitlines() if line.strip())[-REASON_CHARS:]
        return _Ended(Status.FAILED, f"{who} exited with {done.returncode}: {last}".rstrip(": "))
    return _Ended(Status.ERROR, f"{who} was killed: {done.detail or done.cause.value}")
