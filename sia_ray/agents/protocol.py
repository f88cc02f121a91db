"""What an agent is shown, what it returns, and how one is found by name.

``Brief`` is the allow-list of promise P8: an agent sees the fields below and nothing else. Private answers, canary
items, holdout scores and secrets have no field here, so no back-end can pass them on by mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from sia_ray.config import suggest
from sia_ray.errors import UsageError
from sia_ray.levers.decision import Decision, Scalar

ENTRY_POINTS = "sia_ray.agents"
"""Entry-point group: a callable that takes the options mapping and returns an ``Agent``."""

_BUILT_IN = {
    "replay": ("sia_ray.agents.replay", "Replay"),
    "search": ("sia_ray.agents.search", "Search"),
}


class Seen(BaseModel):
    """One earlier generation, as far as this agent may know it. ``score`` is the dev score of a passed one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    generation: int = Field(ge=1)
    status: Literal["pending", "passed", "failed"]
    score: float | None = Field(default=None, allow_inf_nan=False)
    proposal: dict[str, Scalar] = Field(default_factory=dict)


class Brief(BaseModel):
    """Everything that an agent may see when it is asked for generation ``generation``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    task: str
    generation: int = Field(ge=1, description="the generation that is asked for")
    max_generations: int = Field(ge=1)
    seed: int
    direction: Literal["max", "min"]
    metric: str
    base: dict[str, str] = Field(description="the base's harness: path → text")
    reference: dict[str, str] = Field(default_factory=dict, description="the pack's reference/: path → text")
    seen: tuple[Seen, ...] = ()
    task_md: str = ""
    context_md: str = ""


class Usage(BaseModel):
    """What a reply cost. All zero where no model was asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    calls: int = Field(default=0, ge=0)
    tokens_in: int = Field(default=0, ge=0)
    tokens_out: int = Field(default=0, ge=0)
    cost_usd: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class Reply(BaseModel):
    """A decision with its record: ``prompt`` is what stands in the generation's prompt file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    decision: Decision
    prompt: str
    transcript: tuple[dict[str, Any], ...] = ()
    usage: Usage = Usage()


class Agent(Protocol):
    """A back-end of Meta and Feedback. The same brief may be asked again after a crash: hold no state that matters."""

    @property
    def name(self) -> str: ...

    def check(self, reference: Mapping[str, str], harness: Mapping[str, str]) -> None:
        """Raise ConfigError or UsageError for a pack that this back-end cannot work on; asked before any work."""
        ...

    def first(self, brief: Brief) -> Reply:
        """Meta: the first candidate of a run."""
        ...

    def next(self, brief: Brief) -> Reply:
        """Feedback: a change to ``brief.base``."""
        ...


def _import(module: str, attribute: str) -> Any:
    return getattr(import_module(module), attribute)


def load_agent(name: str, options: Mapping[str, Any] | None = None) -> Agent:
    """The back-end called ``name``, made with ``options``; raises UsageError when there is none of that name."""
    found: dict[str, Callable[[], Any]] = {p.name: p.load for p in entry_points(group=ENTRY_POINTS)}
    found |= {key: partial(_import, *where) for key, where in _BUILT_IN.items()}
    if name not in found:
        raise UsageError(f"There is no agent called {name!r}.", suggest(name, found))
    agent: Agent = found[name]()(dict(options or {}))
    return agent
