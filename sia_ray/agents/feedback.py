"""Feedback: reads the evidence and decides what to change next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sia_ray.agents.protocol import Brief, Reply, load_agent


class Feedback:
    """Asks one back-end for generations after the first. Holds no state that matters."""

    def __init__(self, agent: str, options: Mapping[str, Any]) -> None:
        self.agent = load_agent(agent, options)

    def next(self, brief: Brief) -> Reply:
        return self.agent.next(brief)
