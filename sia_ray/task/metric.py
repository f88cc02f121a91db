"""The number that a task is judged by, as a task pack declares it."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Metric(BaseModel):
    """Which value of results.json is the score, which way is better, and what it may be.

    ``name`` is a key at the top of results.json, else one under ``summary``; a dotted name walks into objects.
    ``denominator`` says in words what the score is a share of ("all 913 questions"), so that two scores are
    only ever compared over the same one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=200, description="key of results.json")
    direction: Literal["max", "min"] = Field(default="max", description="which way is better")
    range: tuple[float, float] | None = Field(default=None, description="lowest and highest possible score")
    denominator: str = Field(default="", max_length=500, description="what the score is a share of")

    @model_validator(mode="after")
    def _range_is_one(self) -> Metric:
        if self.range is not None:
            low, high = self.range
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise ValueError("range must be two finite numbers, the lower one first")
        return self
