"""Replay: plays back recorded replies, for tests and audits.

The recording is JSON Lines: line n is the ``Reply`` to generation n, as ``record`` writes it. The same brief gets the
same reply, however often it is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sia_ray.agents.protocol import Brief, Reply
from sia_ray.config import parse
from sia_ray.errors import NotFoundError, UsageError


def record(reply: Reply) -> str:
    """``reply`` as one line of a recording, line end included."""
    return reply.model_dump_json() + "\n"


class ReplaySettings(BaseModel):
    """Options of the back-end."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: Path = Field(description="the recording")


class Replay:
    """An ``Agent`` that says what was said before. Raises NotFoundError for a recording that is not there."""

    name = "replay"

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self._file = parse(ReplaySettings, options or {}, where="options of agent 'replay'").file
        try:
            lines = self._file.read_bytes().split(b"\n")
        except OSError as error:
            raise NotFoundError(
                f"The recording {self._file} cannot be read: {error.strerror}.", "Check file=."
            ) from None
        self._replies = [_reply(line, f"{self._file}, line {n}") for n, line in enumerate(lines, 1) if line.strip()]

    def check(self, reference: Mapping[str, str], harness: Mapping[str, str]) -> None:
        """Any pack will do."""

    def first(self, brief: Brief) -> Reply:
        return self.next(brief)

    def next(self, brief: Brief) -> Reply:
        """The reply to ``brief.generation``; raises NotFoundError when the recording is shorter."""
        if brief.generation > len(self._replies):
            raise NotFoundError(
                f"The recording {self._file} ends after generation {len(self._replies)}; "
                f"generation {brief.generation} was asked for.",
                f"Run {len(self._replies)} generations, or record more.",
            )
        return self._replies[brief.generation - 1]


def _reply(line: bytes, where: str) -> Reply:
    try:
        return Reply.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"]) or "the line"
        raise UsageError(f"{where}: {path}: {first['msg']}.", "Each line is one Reply as JSON.") from None
