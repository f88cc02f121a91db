"""Which lever an attempt turns: the agent's wish, held against what the pack and this machine allow. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sia_ray.levers.decision import Lever


class Choice(NamedTuple):
    """A lever with its reason, and why each other one was not taken."""

    lever: Lever
    reason: str
    rejected: dict[str, str]


def excluded_levers(allowed: tuple[str, ...]) -> dict[Lever, str]:
    """Levers that cannot be turned in this run, each with the reason."""
    found: dict[Lever, str] = {}
    for lever in (Lever.HARNESS, Lever.WEIGHTS):
        if lever.value not in allowed:
            found[lever] = "the pack does not allow it ([levers] of task.toml)"
    if Lever.WEIGHTS not in found:
        found[Lever.WEIGHTS] = "this version has no trainer"
    return found


def choose(wish: Lever, excluded: Mapping[Lever, str]) -> Choice:
    """Follow ``wish`` unless it is excluded; then the harness, which every pack has."""
    rejected = {lever.value: why for lever, why in excluded.items()}
    if wish not in excluded:
        for lever in (Lever.HARNESS, Lever.WEIGHTS):
            if lever is not wish:
                rejected.setdefault(lever.value, "the agent chose otherwise")
        return Choice(wish, "the agent's choice", rejected)
    return Choice(Lever.HARNESS, f"the agent wished {wish.value}, which is excluded", rejected)
