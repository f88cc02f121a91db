"""The write side of the ledger: one process, one connection, one transaction a batch.

    STORAGE/ledger.sqlite     the record: events, and the state tables that `apply` projects them onto
    STORAGE/ledger.jsonl      its export
    STORAGE/supervisor.lock   held for life by the one Supervisor of this root

Two things keep a second writer out. The lock keeps it from starting; the ``epoch`` row, bumped at each start and
compared inside every transaction, stops one whose lock was lost. A transition is acknowledged when `commit` returns:
by then SQLite has synced it (WAL, ``synchronous=FULL``). Not promised: anything about a disk that lies about syncing,
or a network file system (WAL needs shared memory).

A `Database` belongs to the thread that opened it.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from sia_ray.candidate.identity import canonical
from sia_ray.clock import Clock
from sia_ray.errors import Fenced, LedgerDamaged, LedgerError, LedgerRefused, UsageError
from sia_ray.faults import point
from sia_ray.ledger.apply import apply
from sia_ray.ledger.columns import create_table, encode, upsert
from sia_ray.ledger.events import SCHEMA_VERSION, Event, from_payload, to_payload
from sia_ray.ledger.journal import GENESIS, JSONL, Journal, Recorded, read_journal
from sia_ray.ledger.lock import Lock
from sia_ray.ledger.query import (
    LEDGER,
    Reader,
    check_version,
    load_state,
    read_events,
    read_only,
    replay,
    tables_match,
)
from sia_ray.ledger.schema import ROWS, R, Row, State

__all__ = ["Database", "Reader", "read_only", "rebuild_database"]

log = logging.getLogger(__name__)

_BASE: Final = ("meta", "epoch", "events")
_REFUSALS: Final = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN")

MIGRATIONS: Final[dict[int, tuple[str, ...]]] = {
    1: (
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
        "CREATE TABLE epoch (id INTEGER PRIMARY KEY CHECK (id = 1), epoch INTEGER NOT NULL)",
        "INSERT INTO epoch VALUES (1, 0)",
        "CREATE TABLE events (seq INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, at TEXT NOT NULL, run INTEGER NOT NULL,"
        " kind TEXT NOT NULL, version INTEGER NOT NULL, payload TEXT NOT NULL, dedup TEXT UNIQUE, prev TEXT NOT NULL,"
        " digest TEXT NOT NULL)",
        "CREATE INDEX events_by_run ON events (run, seq)",
    ),
}
"""What turns version n - 1 into version n. State tables are not migrated: they are projected anew."""


class _Batch(State):
    """The rows that a batch would change, on top of a state that it does not touch."""

    def __init__(self, base: State) -> None:
        super().__init__()
        self._base = base

    def get(self, cls: type[R], *key: Any) -> R | None:
        own = super().get(cls, *key)
        return self._base.get(cls, *key) if own is None else own

    def rows(self, cls: type[R], run: int | None = None) -> list[R]:
        own = super().rows(cls, run)
        if not own:
            return self._base.rows(cls, run)
        merged = {row.identity(): row for row in (*self._base.rows(cls, run), *own)}
        return [merged[key] for key in sorted(merged)]


class Database:
    """The ledger of one storage root, open for writing. Make one with `open`; use it from that thread alone."""

    def __init__(self, storage: Path, clock: Clock, lock: Lock, connection: sqlite3.Connection) -> None:
        self.storage = storage
        self.duplicates = 0
        """Late duplicates dropped since opening."""
        self._clock = clock
        self._lock = lock
        self._connection = connection
        self.state = _open_state(connection)
        """Everything that is acknowledged, in memory. Read it; only `commit` changes it."""
        self.epoch = _bump_epoch(connection)
        self._head = _head(connection)
        self._journal = Journal(storage / JSONL, lambda after: read_events(connection, after=after))

    @classmethod
    def open(cls, storage: Path, *, clock: Clock, lock_wait_s: float = 5.0) -> Database:
        """Take over ``storage`` (made when missing), waiting up to ``lock_wait_s`` for a dying predecessor.

        A database that is gone is rebuilt from ``ledger.jsonl``. Raises LedgerLocked when a live Supervisor owns the
        root, LedgerDamaged when what is there does not hold, LedgerError when it is newer than this version or the
        disk refuses.
        """
        try:
            storage.mkdir(parents=True, exist_ok=True)
            lock = Lock(storage, clock, lock_wait_s)
        except OSError as error:
            if isinstance(error, FileExistsError | NotADirectoryError | PermissionError) or error.errno == errno.EROFS:
                message = f"{storage} cannot hold runs: {error.strerror}."
                raise UsageError(message, "Name a folder that can be written with --storage DIR.") from None
            raise _explained(error, storage) from error
        connection: sqlite3.Connection | None = None
        try:
            point("ledger.locked")
            path, jsonl = storage / LEDGER, storage / JSONL
            if not path.exists() and jsonl.exists() and jsonl.stat().st_size:
                rebuild_database(jsonl, path)
            connection = _connect(path)
            _migrate(connection)
            return cls(storage, clock, lock, connection)
        except BaseException as error:
            if connection is not None:
                connection.close()
            lock.release()
            if isinstance(error, sqlite3.Error | OSError):
                raise _explained(error, storage) from error
            raise

    @property
    def seq(self) -> int:
        """The seq of the last acknowledged event; 0 when there is none."""
        return self._head.seq if self._head else 0

    def commit(self, events: Sequence[Event], *, dedup: Sequence[str | None] | None = None) -> list[Recorded | None]:
        """Record ``events`` in order, all of them or none, in one synced transaction.

        ``dedup[i]`` is the key under which event i may be recorded only once, ever; a late duplicate is counted,
        logged, dropped, and returned as None. Raises Fenced when a newer Supervisor has taken over, UnknownTransition
        when an event cannot happen, LedgerRefused when the disk does not take it, LedgerError when SQLite fails for
        another reason: in each case nothing is recorded and the state in memory is as it was.
        """
        keys = list(dedup) if dedup is not None else [None] * len(events)
        if len(keys) != len(events):
            raise ValueError(f"{len(events)} events but {len(keys)} dedup keys")
        batch = _Batch(self.state)
        try:
            with _Transaction(self._connection):
                self._check_epoch()
                recorded = self._record(batch, events, keys)
                point("ledger.before_commit")
        except sqlite3.Error as error:
            raise _explained(error, self.storage) from error
        entries = [entry for entry in recorded if entry is not None]
        for row in batch.all_rows():
            self.state.put(row)
        self._head = entries[-1] if entries else self._head
        point("ledger.committed")
        self._journal.append(entries)
        point("ledger.exported")
        return recorded

    def _check_epoch(self) -> None:
        epoch = self._connection.execute("SELECT epoch FROM epoch").fetchone()[0]
        if epoch != self.epoch:
            raise Fenced(
                f"A newer Supervisor (epoch {epoch}) has taken over {self.storage} from this one ({self.epoch}).",
                "Nothing was recorded; this process must exit.",
            )

    def _record(self, batch: _Batch, events: Sequence[Event], keys: Sequence[str | None]) -> list[Recorded | None]:
        at, head, seen = self._clock.now(), self._head, set[str]()
        recorded: list[Recorded | None] = []
        for event, key in zip(events, keys, strict=True):
            if key is not None and (key in seen or self._is_recorded(key)):
                self.duplicates += 1
                log.info("late duplicate of %s dropped: %s", event.kind, key)
                recorded.append(None)
                continue
            if key is not None:
                seen.add(key)
            payload = to_payload(event)
            # Applied as a replay would read it, so that memory and record cannot differ.
            for row in apply(batch, from_payload(event.kind, SCHEMA_VERSION, payload)):
                batch.put(row)
            head = Recorded(
                seq=head.seq + 1 if head else 1,
                epoch=self.epoch,
                at=at,
                run=event.run,
                kind=event.kind,
                version=SCHEMA_VERSION,
                payload=canonical(payload).decode(),
                dedup=key,
                prev=head.digest if head else GENESIS,
                digest="",
            ).sealed()
            recorded.append(head)
        _insert_events(self._connection, (entry for entry in recorded if entry))
        point("ledger.events_written")
        _write_rows(self._connection, batch.all_rows())
        return recorded

    def _is_recorded(self, key: str) -> bool:
        found = self._connection.execute("SELECT 1 FROM events WHERE dedup = ?", (key,)).fetchone()
        return found is not None

    def close(self) -> None:
        """Let go of the storage root. What was acknowledged needs no close."""
        try:
            self._journal.close()
            self._connection.close()
        finally:
            self._lock.release()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


class _Transaction:
    """BEGIN IMMEDIATE … COMMIT; rolled back by any exception, a simulated crash included."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *exc: BaseException | TracebackType | None) -> None:
        try:
            if kind is None:
                self._connection.execute("COMMIT")
        finally:
            # A full disk has rolled back already; a second ROLLBACK would raise.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    try:
        journal = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        connection.execute("PRAGMA synchronous = FULL")
        synchronous = connection.execute("PRAGMA synchronous").fetchone()[0]
    except sqlite3.Error:
        connection.close()
        raise
    if (journal, synchronous) != ("wal", 2):
        connection.close()
        raise LedgerError(
            f"{path}: SQLite refuses WAL with full sync (journal {journal}, synchronous {synchronous}).",
            "Put the storage root on a local disk with --storage DIR.",
        )
    return connection


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring the base tables to this version, then project the state tables anew where their shape differs."""
    with _Transaction(connection):
        fresh = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone() is None
        version = 0 if fresh else check_version(connection)
        for step in range(version + 1, SCHEMA_VERSION + 1):
            for statement in MIGRATIONS.get(step, ()):
                connection.execute(statement)
        if version < SCHEMA_VERSION:
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('schema_version', ?)", (str(SCHEMA_VERSION),))
        if version < SCHEMA_VERSION or not tables_match(connection):
            _project(connection)


def _project(connection: sqlite3.Connection) -> None:
    """Replace every state table by the projection of the events."""
    stored = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (name,) in stored:
        if name not in _BASE and not name.startswith("sqlite_"):
            connection.execute(f'DROP TABLE "{name}"')
    for cls in ROWS.values():
        connection.execute(create_table(cls))
    _write_rows(connection, replay(connection).all_rows())


def _open_state(connection: sqlite3.Connection) -> State:
    try:
        return load_state(connection)
    except ValueError as error:
        raise LedgerDamaged(
            f"A state table holds a row that cannot be read: {error}.", "Run `sia-ray ledger verify`."
        ) from error


def _bump_epoch(connection: sqlite3.Connection) -> int:
    with _Transaction(connection):
        connection.execute("UPDATE epoch SET epoch = epoch + 1")
        epoch = int(connection.execute("SELECT epoch FROM epoch").fetchone()[0])
    point("ledger.opened")
    return epoch


def _head(connection: sqlite3.Connection) -> Recorded | None:
    seq = connection.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0]
    return next(read_events(connection, after=seq - 1), None)


def _insert_events(connection: sqlite3.Connection, entries: Iterable[Recorded]) -> None:
    connection.executemany(f"INSERT INTO events VALUES ({', '.join('?' * len(Recorded._fields))})", entries)


def _write_rows(connection: sqlite3.Connection, rows: Iterable[Row]) -> None:
    for row in rows:
        connection.execute(upsert(type(row)), encode(row))


def rebuild_database(jsonl: Path, path: Path) -> None:
    """Replay ``jsonl`` into a new database at ``path``, which appears whole or not at all.

    For a database that is gone while its export is whole; a torn last line is left out. Raises LedgerDamaged when a
    line does not hold, LedgerError when ``path`` exists.
    """
    if path.exists():
        raise LedgerError(f"{path} exists.", "Move it aside first.")
    part = path.with_name(f"{path.name}.rebuild")
    # Leftovers of the lost database: SQLite would play a stale log into the new one.
    for leftover in (part, *(Path(f"{base}{end}") for base in (path, part) for end in ("-wal", "-shm"))):
        leftover.unlink(missing_ok=True)
    with closing(_connect(part)) as connection:
        _migrate(connection)
        with _Transaction(connection):
            _insert_events(connection, read_journal(jsonl))
            connection.execute("UPDATE epoch SET epoch = (SELECT coalesce(max(epoch), 0) FROM events)")
            _project(connection)
    point("ledger.rebuilt")
    os.replace(part, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    log.warning("%s was gone: rebuilt from %s", path, jsonl.name)


def _explained(error: sqlite3.Error | OSError, storage: Path) -> LedgerError:
    """The same in words: what happened, what it means for the record, what to do."""
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    if name in ("SQLITE_CORRUPT", "SQLITE_NOTADB"):
        return LedgerDamaged(f"The ledger of {storage} is damaged: {error}.", "Run `sia-ray ledger verify`.")
    if name == "SQLITE_BUSY":
        return LedgerRefused(
            f"Another process kept the ledger of {storage} busy for 30 s: nothing was recorded.",
            "End the program that has it open for writing.",
        )
    message = f"The disk refused the ledger of {storage} ({name}: {error}): nothing was recorded."
    if isinstance(error, OSError) or name.startswith(_REFUSALS):
        return LedgerRefused(message, "Free space there, or make it writable.")
    return LedgerError(message, "`sia-ray ledger verify` checks it; `sia-ray resume RUN` goes on.")
