"""Search: the agent without a model. The search space says what may vary, Optuna's TPE proposes, each proposal
becomes a real edit of the base's source.

Every proposal is a function of its brief alone: a fresh sampler, seeded by (run seed, generation), and a fresh
in-memory study that is told what ``brief.seen`` says, in order of generation. Nothing survives a call, so a restarted
process proposes the same.

A run has a score of proposals or two, so none is wasted:

- the first ``startup`` proposals are a stratified design: each option of each part appears as evenly as it can, each
  number once in each equal slice of its range. Plain chance would leave options untried;
- a failed proposal is told as PRUNED: TPE ranks it behind every scored one, and no score is invented;
- a pending one is told as RUNNING with ``constant_liar``, so that its neighbourhood is not proposed twice;
- TPE draws a shortlist, and a regression on main effects (``main_effects``) chooses from it;
- proposals that were made before are struck off: identical content is never evaluated twice. When all were, draws by
  chance follow, and when ``retries`` of those bring nothing new either, the lever is ``stop``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from sia_ray.agents import proposals
from sia_ray.agents.main_effects import Trial, best
from sia_ray.agents.protocol import Brief, Reply
from sia_ray.agents.space import Space
from sia_ray.candidate.identity import derive_seed
from sia_ray.config import parse
from sia_ray.errors import UsageError
from sia_ray.levers.decision import Decision, Lever, Scalar, Strategy

TARGET = "target_agent.py"


class SearchSettings(BaseModel):
    """Options of the back-end. ``startup`` overrides the pack's; ``retries`` bounds the draws by chance."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    startup: int | None = Field(default=None, ge=0)
    retries: int = Field(default=32, ge=2)


class Asked(NamedTuple):
    """A new proposal and where it came from; ``proposal`` is None when nothing new was found."""

    proposal: dict[str, Scalar] | None
    source: str


class Search:
    """An ``Agent`` that needs neither key nor network. Raises ConfigError for a space that does not hold together."""

    name = "search"

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self._settings = parse(SearchSettings, options or {}, where="options of agent 'search'")

    def check(self, reference: Mapping[str, str], harness: Mapping[str, str]) -> None:
        """The pack needs a search space whose anchors stand in its reference harness."""
        space = Space.read(reference)
        space.check_reference(harness.get(TARGET, ""))

    def first(self, brief: Brief) -> Reply:
        """The reference harness, unchanged: the point that everything later is compared with."""
        space = Space.read(brief.reference)
        space.check_reference(_target(brief))
        decision = Decision(
            lever=Lever.HARNESS,
            hypothesis="The reference harness as the task pack delivers it: gains are measured from here.",
            strategy=Strategy.CORRECT_EDIT,
            proposal=space.initial,
        )
        return Reply(decision=decision, prompt=_prompt(brief, "reference", space.initial))

    def next(self, brief: Brief) -> Reply:
        """One proposal as an edit of the base; lever ``stop`` when nothing new was found in the space."""
        space = Space.read(brief.reference)
        base = _target(brief)
        asked = self._ask(brief, space)
        if asked.proposal is None:
            decision = Decision(
                lever=Lever.STOP,
                hypothesis=f"The search space is used up: {self._settings.retries} draws gave nothing new.",
                strategy=Strategy.NARROW_SCOPE,
            )
            return Reply(decision=decision, prompt=_prompt(brief, asked.source, {}))
        before = space.values_in(base)
        changes = space.describe(asked.proposal, before)
        decision = Decision(
            lever=Lever.HARNESS,
            hypothesis=_hypothesis(brief, _told(brief, space), asked, changes),
            strategy=_strategy(space, asked.proposal, before),
            expected_gain=None,  # TPE ranks by a ratio of densities: it predicts no score
            changes=changes,
            answer=space.edits(base, asked.proposal),
            proposal=asked.proposal,
        )
        return Reply(decision=decision, prompt=_prompt(brief, asked.source, asked.proposal))

    def _ask(self, brief: Brief, space: Space) -> Asked:
        startup = space.file.search.startup if self._settings.startup is None else self._settings.startup
        told = _told(brief, space)
        made = {proposals.key(space.initial), *(proposals.key(item.proposal) for item in told)}
        turn = brief.generation - 2  # generation 1 is the reference
        if 0 <= turn < startup:
            proposal = proposals.stratified(space, brief.seed, turn, startup)
            if proposals.key(proposal) not in made:
                return Asked(proposal, f"coverage {turn + 1} of {startup}")
        else:
            seed = derive_seed(brief.seed, "search", brief.generation)
            drawn = proposals.tpe(space, told, brief.direction, seed)
            new = [proposal for proposal in drawn if proposals.key(proposal) not in made]
            if new:
                return Asked(new[best(space, _trials(told, brief.direction), new)], "TPE")
        for again in range(self._settings.retries):
            proposal = proposals.chance(space, derive_seed(brief.seed, "chance", brief.generation, again))
            if proposals.key(proposal) not in made:
                return Asked(proposal, "chance")
        return Asked(None, "nothing new")


def _told(brief: Brief, space: Space) -> list[proposals.Told]:
    """What search knows of earlier generations. One that another agent made has no proposal and teaches nothing."""
    told = []
    for seen in sorted(brief.seen, key=lambda s: s.generation):
        proposal = space.keep_active(seen.proposal)
        if seen.generation == 1 and not proposal:
            proposal = space.initial
        if proposal:
            told.append(proposals.Told(proposal, seen))
    return told


def _trials(told: list[proposals.Told], direction: str) -> list[Trial]:
    """The same for ``main_effects``: greater is better, and a failed one counts like the worst that scored."""
    sign = 1.0 if direction == "max" else -1.0
    scores = {
        t.seen.generation: sign * s for t in told if (s := t.seen.score) is not None and t.seen.status == "passed"
    }
    worst = min(scores.values(), default=0.0)
    known = [t for t in told if t.seen.status != "pending"]
    pending = [Trial(t.proposal, None) for t in told if t.seen.status == "pending"]
    return [Trial(t.proposal, scores.get(t.seen.generation, worst)) for t in known] + pending


def _target(brief: Brief) -> str:
    if TARGET not in brief.base:
        raise UsageError(f"The base of generation {brief.generation} has no {TARGET}.", "Search edits that file.")
    return brief.base[TARGET]


def _hypothesis(brief: Brief, told: list[proposals.Told], asked: Asked, changes: tuple[str, ...]) -> str:
    what = "; ".join(changes) or "the base's own values"
    if asked.source.startswith("coverage"):
        return f"{asked.source.capitalize()}: every option is tried evenly before scores steer. {what}."
    scored = [t.seen for t in told if t.seen.status == "passed" and t.seen.score is not None]
    if asked.source == "chance" or not scored:
        return f"Drawn by chance, as nothing else was new. {what}."
    top = (max if brief.direction == "max" else min)(scored, key=lambda s: s.score or 0.0)
    return (
        f"After {len(scored)} scored proposals (best {brief.metric} {top.score:.4g} at generation {top.generation}) "
        f"these values are likelier among the good than among the rest. {what}."
    )


def _strategy(space: Space, proposal: Mapping[str, Scalar], before: Mapping[str, Scalar]) -> Strategy:
    """Another part is another mechanism; several constants correct the one there is; a single one narrows."""
    if any(proposal.get(part.name) != before.get(part.name) for part in space.file.part):
        return Strategy.CHANGE_MECHANISM
    moved = [name for name, value in proposal.items() if repr(value) != repr(before.get(name))]
    return Strategy.CORRECT_EDIT if len(moved) > 1 else Strategy.NARROW_SCOPE


def _prompt(brief: Brief, source: str, proposal: Mapping[str, Scalar]) -> str:
    """What stands where another agent's prompt would: the proposal, readable."""
    record = {
        "agent": "search",
        "generation": brief.generation,
        "seed": brief.seed,
        "source": source,
        "seen": len(brief.seen),
        "proposal": dict(proposal),
    }
    return json.dumps(record, indent=2, ensure_ascii=False) + "\n"
