"""Pieces of work and their keys.

A key is the digest of everything that the outcome depends on, so that nothing identical is done twice, whoever asks:
digest(kind, candidate, split, evaluator, environment, seed).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from sia_ray.candidate.identity import digest_value
from sia_ray.ledger.schema import GenerationRow, RunRow


class Kind(StrEnum):
    """What can be handed out."""

    PROPOSE = "propose"
    """Meta (generation 1) or Feedback (later ones) answers."""
    RUN = "run"
    """A Target runs the candidate on the public view of a split."""
    EVALUATE = "evaluate"
    """The pack's evaluator scores what the candidate left."""


class Order(NamedTuple):
    """One piece of work: its key and what it is about. ``inputs`` are digests of stored bytes."""

    key: str
    kind: Kind
    run: int
    generation: int
    candidate: str
    split: str = ""
    inputs: tuple[str, ...] = ()


class Done(NamedTuple):
    """The outcome of a piece of work: ``outcome`` is what is true of it, ``artifacts`` where its bytes are."""

    key: str
    outcome: dict[str, Any]
    artifacts: dict[str, Any]


class Fault(NamedTuple):
    """The machine failed a piece of work: nothing is known about the candidate. ``final``: trying again is no use."""

    key: str
    reason: str
    final: bool = False


class Held(NamedTuple):
    """The work of ``run`` is done but cannot be stored, because of ``reason``; it can again when that is empty."""

    run: int
    reason: str


def propose_order(run: RunRow, generation: GenerationRow, base: str) -> Order:
    """Ask for generation ``generation``; its answer depends on what the agent may see, fixed by run and ``visible``."""
    key = digest_value(
        [Kind.PROPOSE, run.run, base, run.pack, run.agent, run.seed, generation.generation, generation.visible]
    )
    return Order(key, Kind.PROPOSE, run.run, generation.generation, base)


def run_order(run: RunRow, generation: int, candidate: str, bundle: str, split: str) -> Order:
    """Run ``candidate`` (its files are ``bundle``) on ``split``."""
    key = digest_value([Kind.RUN, candidate, run.splits[split], run.environment, run.seed])
    return Order(key, Kind.RUN, run.run, generation, candidate, split, (bundle,))


def evaluate_order(run: RunRow, generation: int, candidate: str, outputs: str, split: str) -> Order:
    """Score the ``outputs`` that ``candidate`` left on ``split``."""
    key = digest_value([Kind.EVALUATE, candidate, run.splits[split], run.evaluators[split], run.environment, run.seed])
    return Order(key, Kind.EVALUATE, run.run, generation, candidate, split, (outputs,))
