"""What an agent answers: one lever, the reason for it, and the change itself.

A decision is a proposal with reasons, never an order: code checks the edit, picks the lever together with the
run's policy and measures the gain. Numbers here are the agent's expectation, kept beside what came true.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

Scalar = int | float | str | bool
"""A value of a search proposal, as TOML and JSON can both say it."""


class Lever(StrEnum):
    """What a generation changes."""

    HARNESS = "harness"
    """The target agent's files."""
    WEIGHTS = "weights"
    """The weights that the target agent works with."""
    STOP = "stop"
    """Nothing: the agent sees no further change worth its cost."""


class Strategy(StrEnum):
    """How an attempt relates to what was there before."""

    CORRECT_EDIT = "correct_edit"
    """The same mechanism, its details set right."""
    CHANGE_MECHANISM = "change_mechanism"
    """Another way to do the job."""
    NARROW_SCOPE = "narrow_scope"
    """A smaller change than before, so that its effect can be told."""
    EXPAND_SURFACE = "expand_surface"
    """Something that the harness did not do before."""


class Decision(BaseModel):
    """One structured decision of the Feedback agent (or of search, which is the same to the loop).

    ``answer`` is the edit in the codec of ``candidate.edits`` (SEARCH/REPLACE blocks or a whole file); an empty one
    leaves the harness as it is. ``expected_gain`` is in units of the run's metric, positive = better.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    lever: Lever
    hypothesis: str = Field(description="what should get better, and why")
    strategy: Strategy
    expected_gain: float | None = Field(default=None, allow_inf_nan=False)
    expected_cost_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    constraint_met: str = Field(default="", description="how the last reflection's constraint is met")
    changes: tuple[str, ...] = Field(default=(), description="one line a change, for improvement.md")
    answer: str = ""
    proposal: dict[str, Scalar] = Field(default_factory=dict, description="search's parameters by name")
