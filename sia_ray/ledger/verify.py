"""Does the ledger hold? Every promise about it that can be checked after the fact, checked on one moment of it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from sia_ray.errors import SiaRayError
from sia_ray.ledger.apply import apply
from sia_ray.ledger.journal import GENESIS, JSONL, Recorded, check_link, read_lines
from sia_ray.ledger.query import LEDGER, load_state, read_events, read_only, tables_match
from sia_ray.ledger.schema import State


class Verification(BaseModel):
    """What was found. ``ok``: no finding. An export that lags is none: the next start completes it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ok: bool
    events: int
    exported: int
    """Events that ``ledger.jsonl`` holds."""
    head: str
    """Digest of the last event: two ledgers with one head have one history."""
    state_digest: str
    findings: tuple[str, ...]


def verify(storage: Path) -> Verification:
    """Check the ledger of ``storage``, also while its Supervisor works: it never writes and blocks nobody.

    File structure, gap-free numbers, hash chain, one outcome a key, events replayed = state tables, and
    ``ledger.jsonl`` = a prefix of the database. Raises NotFoundError when there is no ledger.
    """
    jsonl = storage / JSONL
    # Before the database's moment is fixed: the export of that time cannot be ahead of it.
    size = jsonl.stat().st_size if jsonl.exists() else 0
    lines = read_lines(jsonl, size_bytes=size) if size else iter(())
    with read_only(storage) as reader:
        check = _Check(reader.connection, lines)
        reader.connection.execute("BEGIN")
        try:
            check.structure()
            check.history()
            check.tables()
        except sqlite3.DatabaseError as error:
            check.findings.append(f"{LEDGER}: {error}")
    return Verification(
        ok=not check.findings,
        events=check.events,
        exported=check.exported,
        head=check.head.digest if check.head else GENESIS,
        state_digest=check.state.state_digest(),
        findings=tuple(check.findings),
    )


class _Check:
    """One pass over the events, compared with everything that repeats them."""

    def __init__(self, connection: sqlite3.Connection, lines: Iterator[bytes]) -> None:
        # A flipped byte may break UTF-8: it must fail its digest, not the reading.
        connection.text_factory = lambda data: data.decode("utf-8", errors="backslashreplace")
        self.connection = connection
        self.lines = lines
        self.findings: list[str] = []
        self.state = State()
        self.head: Recorded | None = None
        self.events = 0
        self.exported = 0
        self._replays = True
        self._follows = True

    def structure(self) -> None:
        for (finding,) in self.connection.execute("PRAGMA integrity_check(20)"):
            if finding != "ok":
                self.findings.append(f"{LEDGER}: {finding}")

    def history(self) -> None:
        """Chain, keys, export and replay, event by event."""
        keys: dict[str, int] = {}
        for entry in read_events(self.connection):
            self.events += 1
            if why := check_link(entry, self.head):
                self.findings.append(f"event {entry.seq}: {why}")
                self._replays = False
            if entry.dedup is not None and (first := keys.setdefault(entry.dedup, entry.seq)) != entry.seq:
                self.findings.append(f"event {entry.seq}: its key was recorded before, as event {first}")
            self.head = entry
            self._compare_line(entry)
            self._replay(entry)
        if self._follows and next(self.lines, None) is not None:
            self.findings.append(f"{JSONL} line {self.exported + 1}: goes on where the database ends")

    def _compare_line(self, entry: Recorded) -> None:
        if not self._follows:
            return
        line = next(self.lines, b"")
        expected = _line(entry)
        if line == expected:
            self.exported += 1
            return
        self._follows = False
        if not expected.startswith(line):
            self.findings.append(f"{JSONL} line {self.events}: differs from event {entry.seq} of the database")

    def _replay(self, entry: Recorded) -> None:
        if not self._replays:
            return
        try:
            for row in apply(self.state, entry.event()):
                self.state.put(row)
        except SiaRayError as error:
            self.findings.append(f"event {entry.seq}: replay stops: {error}")
            self._replays = False

    def tables(self) -> None:
        """The state tables against the replayed events. Says nothing where the replay had to stop."""
        if not self._replays:
            return
        if not tables_match(self.connection):
            self.findings.append("state tables: written by another version; the next start projects them anew")
            return
        try:
            stored = {(row.table, *row.identity()): row for row in load_state(self.connection).all_rows()}
        except ValueError as error:
            self.findings.append(f"state tables: a row cannot be read: {error}")
            return
        replayed = {(row.table, *row.identity()): row for row in self.state.all_rows()}
        for key in stored.keys() | replayed.keys():
            if stored.get(key) != replayed.get(key):
                self.findings.append(f"state tables: {key[0]} {key[1:]} is not what its events say")
        if len(self.findings) > 20:
            self.findings[20:] = [f"and {len(self.findings) - 20} more"]


def _line(entry: Recorded) -> bytes:
    try:
        return entry.line()
    except ValueError:
        # The payload is no JSON any more; no line can equal it.
        return json.dumps(entry).encode()
