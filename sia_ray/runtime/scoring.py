"""What an evaluator task does on its worker: everything but Ray."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from sia_ray.candidate.bundle import unpack
from sia_ray.candidate.views import ensure_view
from sia_ray.evaluation.contract import Evaluation, evaluate
from sia_ray.sandbox.environments import ensure_environment
from sia_ray.sandbox.policy import Limits
from sia_ray.sandbox.select import select
from sia_ray.task.metric import Metric


class ScoringJob(NamedTuple):
    """What to score and under which rules; views are named by digest."""

    view: str
    reference: str | None
    metric: Metric | None
    requirements: bytes | None
    limits: Limits
    sandbox: str


def score(job: ScoringJob, outputs: bytes, fetch: Callable[[int], bytes], *, cache_dir: Path) -> Evaluation:
    """Score bundled ``outputs``; ``fetch(i)`` gives the i-th view (0 the split, 1 the pack's reference folder)."""
    environment = ensure_environment(job.requirements, cache_dir=cache_dir)
    split = ensure_view(job.view, lambda: fetch(0), cache_dir=cache_dir)
    reference = None
    if job.reference is not None:
        reference = ensure_view(job.reference, lambda: fetch(1), cache_dir=cache_dir)
    return evaluate(
        select(job.sandbox),
        split_dir=split,
        reference_dir=reference,
        outputs=unpack(outputs),
        metric=job.metric,
        limits=job.limits,
        python=environment.python,
    )
