"""The hash chain of events, and the exports made of it: ``ledger.jsonl`` and Parquet.

The database is the record. ``ledger.jsonl`` is written after each commit, may lag behind the database, never leads
it, and is brought up to date at start. One line is the canonical JSON of one event row; its ``digest`` is

    sha256(canonical([seq, epoch, at, run, kind, version, payload, dedup, prev]))

with the digest of the line before as ``prev``, so that nothing in the middle can change unseen.
"""

from __future__ import annotations

import json
import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sia_ray.candidate.identity import canonical, digest_bytes
from sia_ray.errors import LedgerDamaged
from sia_ray.ledger.columns import columns, encode
from sia_ray.ledger.events import Event, from_payload
from sia_ray.ledger.schema import ROWS

if TYPE_CHECKING:
    from sia_ray.ledger.query import Reader

log = logging.getLogger(__name__)

JSONL: Final = "ledger.jsonl"
GENESIS: Final = "0" * 64
"""``prev`` of the first event."""
_CHUNK: Final = 1 << 20
_BATCH: Final = 10_000


class Recorded(NamedTuple):
    """One event as it stands in the ledger. ``payload`` is canonical JSON text; ``at`` is wall time, annotation."""

    seq: int
    epoch: int
    at: str
    run: int
    kind: str
    version: int
    payload: str
    dedup: str | None
    prev: str
    digest: str

    def sealed(self) -> Recorded:
        """The same with the digest that its other fields demand."""
        # Spliced as text: equal to the canonical JSON of the whole list, and it sees a payload that is not canonical.
        head = canonical([self.seq, self.epoch, self.at, self.run, self.kind, self.version])[:-1]
        tail = canonical([self.dedup, self.prev])[1:]
        return self._replace(digest=digest_bytes(b",".join((head, self.payload.encode(), tail))))

    def event(self) -> Event:
        """The event itself. Raises LedgerDamaged when this version cannot read it."""
        try:
            return from_payload(self.kind, self.version, json.loads(self.payload))
        except (KeyError, ValueError) as error:
            raise LedgerDamaged(
                f"Event {self.seq} ({self.kind}, version {self.version}) cannot be read: {error}.",
                "Run `sia-ray ledger verify`; a newer sia-ray may have written it.",
            ) from error

    def line(self) -> bytes:
        """The line of ``ledger.jsonl``, newline included."""
        return canonical({**self._asdict(), "payload": json.loads(self.payload)}) + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Recorded:
        """What ``line`` stands for. Raises ValueError when it is not, byte for byte, what `line` writes."""
        fields = json.loads(line)
        if not isinstance(fields, dict) or set(fields) != set(cls._fields):
            raise ValueError("it is not an event")
        entry = cls(**{**fields, "payload": canonical(fields["payload"]).decode()})
        if entry.line() != line:
            raise ValueError("it is not canonical")
        return entry


def check_link(entry: Recorded, before: Recorded | None) -> str:
    """Why ``entry`` cannot follow ``before`` in the chain; empty when it does."""
    if entry.seq != (before.seq + 1 if before else 1):
        return f"seq {entry.seq} follows {before.seq if before else 0}"
    if entry.prev != (before.digest if before else GENESIS):
        return "prev is not the digest of the event before"
    try:
        sealed = entry.sealed()
    except (ValueError, TypeError):
        return "it cannot be hashed"
    return "" if sealed.digest == entry.digest else "its digest does not match its content"


def read_lines(path: Path, *, size_bytes: int | None = None) -> Iterator[bytes]:
    """The lines of ``path`` (its first ``size_bytes``), newlines kept; the last one may lack its own."""
    left = path.stat().st_size if size_bytes is None else size_bytes
    with path.open("rb") as file:
        while left > 0 and (line := file.readline(left)):
            left -= len(line)
            yield line


def read_journal(path: Path) -> Iterator[Recorded]:
    """The events of a ``ledger.jsonl`` that stands alone, chain checked; a torn last line is left out.

    Raises LedgerDamaged, naming the line, for damage anywhere else.
    """
    before: Recorded | None = None
    for number, line in enumerate(read_lines(path), start=1):
        if not line.endswith(b"\n"):
            log.warning("%s: line %d is torn and left out", path, number)
            return
        try:
            entry = Recorded.from_line(line)
            why = check_link(entry, before)
        except (ValueError, TypeError) as error:
            why = str(error)
        if why:
            raise LedgerDamaged(f"{path} line {number}: {why}.", "Restore the file from a copy.")
        yield (before := entry)


class Journal:
    """``ledger.jsonl``, kept a prefix of the database. Owned by the one `Database` that has the lock.

    ``entries_after(seq)`` reads the committed events after ``seq``, in order.
    """

    def __init__(self, path: Path, entries_after: Callable[[int], Iterator[Recorded]]) -> None:
        self.path = path
        self._entries_after = entries_after
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._seq = 0
        self._size = 0
        try:
            self._adopt()
            self._catch_up()
        except BaseException:
            os.close(self._fd)
            raise

    def _adopt(self) -> None:
        """Find how much of the file can stay: cut a torn tail, set a file that does not match aside.

        Looks at every byte but parses only the last line: the full comparison is `verify`'s.
        Raises LedgerDamaged when the file goes on where the database ends: then the database lost events.
        """
        count, size, clean, last = _survey(self._fd)
        if size != os.fstat(self._fd).st_size:
            log.warning("%s: cut a torn line after line %d", self.path, count)
            os.ftruncate(self._fd, size)
        if count == 0:
            return
        entry = next(islice(self._entries_after(count - 1), 1), None)
        if clean and entry is not None and entry.line() == last:
            self._seq, self._size = count, size
            return
        if entry is None:
            self._refuse_if_ahead()
        aside = self.path.with_suffix(".jsonl.damaged")
        log.warning("%s does not match the database: kept as %s and exported anew", self.path, aside.name)
        os.replace(self.path, aside)
        os.close(self._fd)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def _refuse_if_ahead(self) -> None:
        head = next(iter(deque(self._entries_after(0), maxlen=1)), None)
        seq = head.seq if head else 0
        try:
            following = Recorded.from_line(next(islice(read_lines(self.path), seq, None)))
            ahead = not check_link(following, head)
        except (ValueError, TypeError):
            ahead = False
        if ahead:
            raise LedgerDamaged(
                f"{self.path} goes on where the database ends (event {seq}): the database lost what was recorded.",
                "Move ledger.sqlite* aside and start again: the database is then rebuilt from ledger.jsonl.",
            )

    def append(self, entries: Iterable[Recorded]) -> None:
        """Export what was just committed. A failing disk only makes the export lag: it is caught up later."""
        entries = list(entries)
        if entries and entries[0].seq != self._seq + 1:
            self._catch_up()
        else:
            self._try_to_write(entries)

    def _catch_up(self) -> None:
        missing = self._entries_after(self._seq)
        while (batch := list(islice(missing, _BATCH))) and self._try_to_write(batch):
            pass

    def _try_to_write(self, entries: list[Recorded]) -> bool:
        try:
            self._write(entries)
        except OSError as error:
            log.warning("%s lags behind the database: %s", self.path, error)
            return False
        return True

    def _write(self, entries: list[Recorded]) -> None:
        data = memoryview(b"".join(entry.line() for entry in entries))
        written = 0
        try:
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(data)
        if entries:
            self._seq = entries[-1].seq

    def close(self) -> None:
        os.fsync(self._fd)
        os.close(self._fd)


class _Survey(NamedTuple):
    lines: int
    size_bytes: int
    clean: bool
    last: bytes


def _survey(fd: int) -> _Survey:
    """Complete lines, their bytes, whether none holds a NUL (what a lost page leaves), and the last of them."""
    lines = size = position = start = previous = 0
    nul = -1
    while chunk := os.pread(fd, _CHUNK, position):
        end = chunk.rfind(b"\n")
        if end >= 0:
            lines += chunk.count(b"\n")
            before = chunk.rfind(b"\n", 0, end)
            start = position + before + 1 if before >= 0 else previous
            size = previous = position + end + 1
        if nul < 0 and (found := chunk.find(b"\0")) >= 0:
            nul = position + found
        position += len(chunk)
    return _Survey(lines, size, not 0 <= nul < size, os.pread(fd, size - start, start))


def export_jsonl(reader: Reader, folder: Path) -> tuple[Path, ...]:
    """Write every event to ``folder/ledger.jsonl``; appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / JSONL
    part = path.with_suffix(".jsonl.part")
    with part.open("wb") as file:
        file.writelines(entry.line() for entry in reader.events())
    os.replace(part, path)
    return (path,)


def export_parquet(reader: Reader, folder: Path) -> tuple[Path, ...]:
    """Write ``events.parquet`` and one file a table to ``folder``; nested fields are JSON strings."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    kinds = {"INTEGER": pa.int64(), "REAL": pa.float64(), "TEXT": pa.string()}
    integers = {"seq", "epoch", "run", "version"}
    event_fields = [(name, pa.int64() if name in integers else pa.string()) for name in Recorded._fields]
    sources: list[tuple[str, list[tuple[str, Any]], Iterator[tuple[Any, ...]]]] = [
        ("events", event_fields, iter(reader.events()))
    ]
    state = reader.state()
    for table, cls in ROWS.items():
        fields = [(column.name, kinds[column.affinity]) for column in columns(cls)]
        sources.append((table, fields, map(encode, state.rows(cls))))
    written = []
    for table, fields, rows in sources:
        path = folder / f"{table}.parquet"
        part = path.with_suffix(".parquet.part")
        schema = pa.schema(fields)
        with parquet.ParquetWriter(part, schema) as writer:
            while batch := list(islice(rows, _BATCH)):
                by_column = zip(*batch, strict=True)
                arrays = [pa.array(values, type=kind) for values, (_, kind) in zip(by_column, fields, strict=True)]
                writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
        os.replace(part, path)
        written.append(path)
    return tuple(written)
