"""improvement.md: what a generation changes and why, rendered from the decision and never from prose alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sia_ray.evidence.markdown import gain, inline, number

SHORTEST = 21
"""Readers of SIA's files skip bullets of 20 characters or fewer."""
LONGEST = 400


class Stated(Protocol):
    """The part of ``levers.decision.Decision`` that is told here (evidence lies below levers)."""

    @property
    def lever(self) -> str: ...
    @property
    def hypothesis(self) -> str: ...
    @property
    def strategy(self) -> str: ...
    @property
    def expected_gain(self) -> float | None: ...
    @property
    def expected_cost_s(self) -> float | None: ...
    @property
    def constraint_met(self) -> str: ...
    @property
    def changes(self) -> Sequence[str]: ...


def bullet(text: str, limit: int = LONGEST) -> str:
    """``text`` as the content of a bullet that SIA's reader picks up: one line, long enough, no colon at its end."""
    line = inline(text, limit).rstrip(": ")
    return line if len(line) >= SHORTEST else f"change to the harness: {line}"


def render(decision: Stated, *, generation: int, base_generation: int, base_score: float | None) -> str:
    """improvement.md of ``generation``. ``base_score`` is the dev score that the change starts from, if it has one."""
    changes = decision.changes or ("no change to the harness was proposed",)
    scored = "without a score" if base_score is None else f"dev score {number(base_score)}"
    lines = [
        f"# Improvement: Generation {generation}",
        "",
        "## Hypothesis",
        "",
        inline(decision.hypothesis, 2000) or "(none given)",
        "",
        "## Changes",
        "",
        *(f"- {bullet(change)}" for change in changes),
        "",
        "## Plan",
        "",
        f"**Base**: Generation {base_generation} ({scored})",
        f"**Lever**: {inline(str(decision.lever))}",
        f"**Strategy**: {inline(str(decision.strategy))}",
    ]
    if decision.expected_gain is not None:
        lines.append(f"**Expected gain over the base**: {gain(decision.expected_gain)}")
    if decision.expected_cost_s is not None:
        lines.append(f"**Expected cost**: {number(decision.expected_cost_s)} s")
    if decision.constraint_met:
        lines.append(f"**Constraint met**: {inline(decision.constraint_met, 1000)}")
    return "\n".join(lines) + "\n"
