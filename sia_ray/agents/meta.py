"""Meta: writes the first candidate of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sia_ray.agents.protocol import Brief, Reply, load_agent


class Meta:
    """Asks one back-end for generation 1. Holds no state that matters: it may die and be asked again."""

    def __init__(self, agent: str, options: Mapping[str, Any]) -> None:
        self.agent = load_agent(agent, options)

    def first(self, brief: Brief) -> Reply:
        return self.agent.first(brief)
