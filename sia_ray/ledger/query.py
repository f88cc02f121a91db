"""The read side: what `status`, `show`, `view` and the `ledger` commands use. Never writes, never blocks the writer."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

from sia_ray.errors import LedgerDamaged, LedgerError, NotFoundError, UsageError
from sia_ray.ledger.apply import apply
from sia_ray.ledger.columns import create_table, decode, select
from sia_ray.ledger.events import SCHEMA_VERSION
from sia_ray.ledger.journal import Recorded
from sia_ray.ledger.schema import ROWS, State

LEDGER: Final = "ledger.sqlite"
_READING: Final = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
_EVENTS: Final = "SELECT seq, epoch, at, run, kind, version, payload, dedup, prev, digest FROM events"


class Answer(NamedTuple):
    """What a query returned."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def check_version(connection: sqlite3.Connection) -> int:
    """The schema version of the ledger. Raises LedgerError when it is newer than this sia-ray knows."""
    found = connection.execute("SELECT value FROM meta WHERE name = 'schema_version'").fetchone()
    if found is None:
        raise LedgerDamaged("The ledger does not say its schema version.", "Restore it from a copy.")
    version = int(found[0])
    if version > SCHEMA_VERSION:
        raise LedgerError(
            f"This ledger has schema version {version}; this sia-ray knows versions up to {SCHEMA_VERSION}.",
            "Upgrade sia-ray, or use another root with --storage DIR.",
        )
    return version


def read_events(connection: sqlite3.Connection, run: int | None = None, after: int = 0) -> Iterator[Recorded]:
    """Events after seq ``after``, in order; of one run or of all."""
    if run is None:
        cursor = connection.execute(f"{_EVENTS} WHERE seq > ? ORDER BY seq", (after,))
    else:
        cursor = connection.execute(f"{_EVENTS} WHERE run = ? AND seq > ? ORDER BY seq", (run, after))
    return map(Recorded._make, cursor)


def tables_match(connection: sqlite3.Connection) -> bool:
    """Whether every row class has its table, in the shape that this version gives it."""
    stored = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
    return all(stored.get(name) == create_table(cls) for name, cls in ROWS.items())


def load_state(connection: sqlite3.Connection) -> State:
    """The state, from its tables; every table must be there (see `tables_match`)."""
    return State(decode(cls, values) for cls in ROWS.values() for values in connection.execute(select(cls)))


def replay(connection: sqlite3.Connection) -> State:
    """The state, from the events alone."""
    state = State()
    for entry in read_events(connection):
        for row in apply(state, entry.event()):
            state.put(row)
    return state


class Reader:
    """A read-only view of a ledger. Each method sees one consistent moment; two calls may see two."""

    def __init__(self, storage: Path, connection: sqlite3.Connection) -> None:
        self.storage = storage
        self.connection = connection

    def state(self) -> State:
        """Every row: from the tables, or by replay where an older version wrote them in another shape."""
        self.connection.execute("BEGIN")
        try:
            return load_state(self.connection) if tables_match(self.connection) else replay(self.connection)
        finally:
            self.connection.execute("ROLLBACK")

    def events(self, run: int | None = None, after: int = 0) -> Iterator[Recorded]:
        """Events after seq ``after``, in order. To follow a run, ask again after the last seq seen."""
        return read_events(self.connection, run, after)

    def head(self) -> int:
        """The seq of the last event; 0 when there is none."""
        return int(self.connection.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0])

    def query(self, sql: str) -> Answer:
        """One SELECT over `events` and the state tables. Raises UsageError for anything else."""
        self.connection.set_authorizer(_only_reading)
        try:
            cursor = self.connection.execute(sql)
            names = tuple(column[0] for column in cursor.description or ())
            return Answer(names, cursor.fetchall())
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise UsageError(
                f"The query failed: {error}.",
                f"Write one SELECT over {', '.join(('events', *ROWS))}.",
            ) from error
        finally:
            self.connection.set_authorizer(None)

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


def _only_reading(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY


def read_only(storage: Path) -> Reader:
    """Open the ledger of ``storage`` for reading. Never creates a ledger.

    Raises NotFoundError when there is none, LedgerError when it is newer than this version or cannot be read.
    """
    path = storage / LEDGER
    if not path.is_file():
        raise NotFoundError(f"There is no ledger in {storage}.", "Name the root of your runs with --storage DIR.")
    try:
        reader = Reader(storage, _open(path))
    except sqlite3.Error as error:
        raise LedgerError(f"{path} cannot be read: {error}.", "Run `sia-ray ledger verify`.") from error
    try:
        check_version(reader.connection)
    except sqlite3.DatabaseError as error:
        reader.close()
        raise LedgerDamaged(f"{path} is no ledger: {error}.", "Restore it from a copy.") from error
    except LedgerError:
        reader.close()
        raise
    return reader


def _open(path: Path) -> sqlite3.Connection:
    """Open ``path`` read-only; a folder that must not be written has no place for SQLite's shared memory."""
    modes = ["mode=ro"]
    if not path.with_name(f"{path.name}-wal").exists():
        modes.append("mode=ro&immutable=1")
    for mode in modes:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, isolation_level=None, timeout=30)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            connection.close()
            if mode == modes[-1]:
                raise
        else:
            break
    return connection
