"""The ledger: what is acknowledged survives, once, in order; what does not hold is named."""

import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import traceback
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from sia_ray import faults
from sia_ray.candidate.identity import canonical, digest_bytes
from sia_ray.cli.ledger import app
from sia_ray.clock import FakeClock
from sia_ray.errors import (
    Fenced,
    LedgerDamaged,
    LedgerError,
    LedgerLocked,
    NotFoundError,
    UnknownTransition,
    UsageError,
)
from sia_ray.ledger import journal
from sia_ray.ledger import verify as verify_module
from sia_ray.ledger.columns import decode, encode
from sia_ray.ledger.database import Database, read_only, rebuild_database
from sia_ray.ledger.events import EpisodeOpened, GenerationEnded, RunEnded, RunStarted, WorkFinished, WorkStarted
from sia_ray.ledger.journal import GENESIS, Recorded, export_parquet
from sia_ray.ledger.schema import ROWS, AttemptRow, RunRow, WorkRow, WorkStatus
from sia_ray.ledger.verify import verify

CLOCK = FakeClock()


def started(run=1):
    return RunStarted(
        run=run,
        task="toy",
        spec={"seed": 7},
        seed=7,
        agent="search",
        generations=3,
        lookahead=2,
        sandbox="none",
        metric="accuracy",
        direction="max",
        pack="p",
        evaluators={"dev": "e"},
        splits={"dev": "d"},
        environment="",
    )


def begun(n):
    return WorkStarted(run=1, work=f"w{n}", what="evaluation", subject="c")


def finished(n):
    return WorkFinished(run=1, work=f"w{n}", outcome={"score": n / 7, "note": f"mark-{n}-é"})


def opened(storage, wait_s=5.0):
    return Database.open(storage, clock=CLOCK, lock_wait_s=wait_s)


def fill(storage, works=5):
    """A closed ledger: one run and ``works`` finished pieces of work, 2 · works + 1 events."""
    with opened(storage) as db:
        db.commit([started()], dedup=["run-1"])
        for n in range(works):
            db.commit([begun(n), finished(n)], dedup=[None, f"done-{n}"])
        return db.state.state_digest()


def raw(storage, *statements):
    with closing(sqlite3.connect(storage / "ledger.sqlite", isolation_level=None)) as connection:
        return [connection.execute(statement).fetchall() for statement in statements]


def fork(child):
    """Run ``child(write)`` in a process of its own: (pid, file that reads what it writes)."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(out)
            child(lambda text: os.write(into, f"{text}\n".encode()))
            status = 0
        except BaseException:
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(status)
    os.close(into)
    return pid, os.fdopen(out, "rb")


def exit_status(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def in_child(child):
    pid, file = fork(child)
    with file:
        file.read()
    assert exit_status(pid) == 0


def keep_writing(storage):
    def child(write):
        db = opened(storage)
        if db.seq == 0:
            db.commit([started()])
        n = len(db.state.rows(WorkRow))
        write("open")
        while True:
            db.commit([begun(n), finished(n)], dedup=[None, f"done-{n}"])
            write(str(n))
            n += 1

    return child


def assert_sound(storage, acknowledged):
    """Everything up to work ``acknowledged`` is there, the ledger holds, and its export is complete."""
    with opened(storage) as db:
        for n in range(acknowledged + 1):
            assert db.state.one(WorkRow, f"w{n}").status is WorkStatus.FINISHED
        digest = db.state.state_digest()
    result = verify(storage)
    assert result.findings == ()
    assert result.exported == result.events
    assert result.state_digest == digest
    lines = (storage / "ledger.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, result.events + 1))


# Recording


def test_what_is_committed_is_there_after_reopening(tmp_path):
    digest = fill(tmp_path)
    with opened(tmp_path) as db:
        assert db.seq == 11
        assert db.state.state_digest() == digest
        assert db.state.one(WorkRow, "w3").outcome == {"score": 3 / 7, "note": "mark-3-é"}
        assert db.state.one(RunRow, 1).evaluators == {"dev": "e"}


def test_recorded_events_number_chain_and_carry_the_epoch(tmp_path):
    with opened(tmp_path) as db:
        first, second = db.commit([started(), begun(0)])
    with opened(tmp_path) as db:
        (third,) = db.commit([finished(0)], dedup=["k"])
    assert [entry.seq for entry in (first, second, third)] == [1, 2, 3]
    assert (first.prev, second.prev, third.prev) == (GENESIS, first.digest, second.digest)
    assert (second.epoch, third.epoch) == (1, 2)
    assert third.event() == finished(0)


def test_the_digest_is_that_of_the_canonical_list(tmp_path):
    with opened(tmp_path) as db:
        (entry,) = db.commit([started()], dedup=["key"])
    listed = [entry.seq, entry.epoch, entry.at, entry.run, entry.kind, entry.version]
    content = canonical([*listed, json.loads(entry.payload), "key", entry.prev])
    assert entry.digest == digest_bytes(content)


def test_an_impossible_event_takes_its_whole_batch_with_it(tmp_path):
    with opened(tmp_path) as db:
        db.commit([started()])
        before = db.state.state_digest()
        with pytest.raises(UnknownTransition):
            db.commit([begun(0), finished(1)])
        assert (db.seq, db.state.state_digest()) == (1, before)
        assert db.commit([begun(0)])[0].seq == 2
    assert verify(tmp_path).ok


def test_a_batch_sees_its_own_earlier_events(tmp_path):
    with opened(tmp_path) as db:
        db.commit([started(), begun(0), begun(0), finished(0), RunEnded(run=1, status="done")])
        assert db.state.one(WorkRow, "w0").tries == 2
    assert verify(tmp_path).ok


@pytest.mark.parametrize("within_one_batch", [True, False])
def test_a_duplicate_is_recorded_once(tmp_path, within_one_batch):
    with opened(tmp_path) as db:
        db.commit([started(), begun(0)])
        if within_one_batch:
            results = db.commit([finished(0), finished(0)], dedup=["d", "d"])
        else:
            results = [db.commit([finished(0)], dedup=["d"])[0], db.commit([finished(0)], dedup=["d"])[0]]
        assert [entry is None for entry in results] == [False, True]
        assert (db.seq, db.duplicates) == (3, 1)
    with opened(tmp_path) as db:
        assert db.commit([finished(0)], dedup=["d"]) == [None]
    assert verify(tmp_path).events == 3


@pytest.mark.parametrize(
    "event",
    [
        GenerationEnded(run=1, generation=1, status="passed", score=float("nan")),
        WorkStarted(run=1, work="w", what="\ud800", subject="c"),
        started(run=2**70),
    ],
    ids=["nan", "surrogate", "big"],
)
def test_a_value_that_cannot_be_recorded_is_refused_with_its_batch(tmp_path, event):
    with opened(tmp_path) as db:
        opening = EpisodeOpened(run=1, episode=1, base=None, base_candidate="", visible=0, builder="b", source="search")
        db.commit([started(), opening])
        before = db.state.state_digest()
        with pytest.raises((ValueError, OverflowError)):
            db.commit([begun(0), event])
        assert (db.seq, db.state.state_digest()) == (2, before)
        db.commit([begun(0)])
    assert verify(tmp_path).ok


def test_memory_holds_what_a_replay_would_read(tmp_path):
    with opened(tmp_path) as db:
        db.commit([started(), begun(0)])
        db.commit([WorkFinished(run=1, work="w0", outcome={"pair": (1, 2), "cause": WorkStatus.FINISHED})])
        assert db.state.one(WorkRow, "w0").outcome == {"pair": [1, 2], "cause": "finished"}
        live = db.state.all_rows()
    with opened(tmp_path) as db:
        assert db.state.all_rows() == live


def test_ten_thousand_events_in_batches(tmp_path):
    with opened(tmp_path) as db:
        db.commit([started()])
        for first in range(0, 5000, 250):
            numbers = range(first, first + 250)
            db.commit([event for n in numbers for event in (begun(n), finished(n))])
        assert db.seq == 10_001
    result = verify(tmp_path)
    assert (result.ok, result.events, result.exported) == (True, 10_001, 10_001)


def test_every_kind_of_field_survives_its_column():
    row = AttemptRow(run=1, episode=2, attempt=3, strategy="s", stage="smoke", passed=True)
    assert decode(AttemptRow, encode(row)) == row
    row = row.model_copy(update={"passed": None})
    assert decode(AttemptRow, encode(row)) == row


# One owner


def test_a_second_supervisor_is_refused_while_the_first_lives_and_takes_over_when_it_dies(tmp_path):
    pid, acks = fork(keep_writing(tmp_path))
    with acks:
        acks.readline()
        with pytest.raises(LedgerLocked) as refusal:
            opened(tmp_path, wait_s=0.1)
        assert f"pid {pid} " in str(refusal.value) and "--storage" in str(refusal.value)
        assert "\n" not in str(refusal.value)
        os.kill(pid, signal.SIGKILL)
        with opened(tmp_path) as db:
            assert db.epoch == 2
        assert exit_status(pid) == -signal.SIGKILL


def test_a_fenced_supervisor_records_nothing_more(tmp_path):
    with opened(tmp_path) as db:
        db.commit([started()])
        before = db.state.state_digest()
        raw(tmp_path, "UPDATE epoch SET epoch = epoch + 1")
        for _ in range(2):
            with pytest.raises(Fenced):
                db.commit([begun(0)])
        assert (db.seq, db.state.state_digest()) == (1, before)
    assert raw(tmp_path, "SELECT count(*) FROM events", "SELECT count(*) FROM work") == [[(1,)], [(0,)]]
    assert verify(tmp_path).exported == 1


def test_a_failed_opening_frees_the_root(tmp_path):
    fill(tmp_path)
    raw(tmp_path, "UPDATE meta SET value = '99' WHERE name = 'schema_version'")
    for open_it in (opened, read_only):
        with pytest.raises(LedgerError, match="schema version 99"):
            open_it(tmp_path)
    raw(tmp_path, "UPDATE meta SET value = '1' WHERE name = 'schema_version'")
    opened(tmp_path, wait_s=0).close()


# Death


def test_nothing_acknowledged_is_lost_to_kill_9(tmp_path):
    rng, acknowledged = random.Random(3), -1
    for _ in range(15):
        pid, acks = fork(keep_writing(tmp_path))
        with acks:
            assert acks.readline() == b"open\n"
            for _ in range(rng.randrange(1, 12)):
                acknowledged = int(acks.readline())
            for _ in range(rng.randrange(30_000)):
                pass
            os.kill(pid, signal.SIGKILL)
            for line in acks:
                acknowledged = int(line)
        assert exit_status(pid) == -signal.SIGKILL
        assert verify(tmp_path).findings == ()
    assert acknowledged > 15
    assert_sound(tmp_path, acknowledged)


POINTS = (
    "ledger.locked",
    "ledger.opened",
    "ledger.events_written",
    "ledger.before_commit",
    "ledger.committed",
    "ledger.exported",
)


def test_the_points_that_are_killed_at_are_all_there_are(tmp_path):
    with faults.counting() as passed:
        fill(tmp_path)
    assert tuple(passed) == POINTS


@pytest.mark.parametrize("name", POINTS)
def test_nothing_acknowledged_is_lost_at_any_fault_point(tmp_path, name):
    fill(tmp_path, works=3)

    def child(write):
        faults.arm(name, faults.kill, nth=1 if name in POINTS[:2] else 4)
        keep_writing(tmp_path)(write)

    pid, acks = fork(child)
    with acks:
        acknowledged = [int(line) for line in acks if line != b"open\n"]
    assert exit_status(pid) == -signal.SIGKILL
    assert acknowledged == ([] if name in POINTS[:2] else [3, 4, 5])
    assert_sound(tmp_path, max(acknowledged, default=2))
    # The transition that died is there whole or not at all.
    survived = name in ("ledger.committed", "ledger.exported")
    with read_only(tmp_path) as reader:
        assert (reader.state().get(WorkRow, "w6") is not None) == survived


def story(storage):
    """The same events whoever died before: each has its key."""
    steps = [
        ("run", started()),
        *((f"{what.__name__}-{n}", what(n)) for n in range(4) for what in (begun, finished)),
        ("end", RunEnded(run=1, status="done")),
    ]
    with opened(storage) as db:
        for step in range(0, len(steps), 2):
            keys, events = zip(*steps[step : step + 2], strict=True)
            db.commit(events, dedup=keys)
        return db.state.state_digest()


def test_dying_at_every_point_and_starting_again_ends_in_the_same_state(tmp_path):
    with faults.counting() as passed:
        undisturbed = story(tmp_path / "undisturbed")
    total = sum(passed.values())
    assert total == 2 + 4 * 5
    for k in range(1, total + 1):
        storage = tmp_path / str(k)
        with faults.armed(faults.ANY, faults.crash, nth=k), pytest.raises(faults.Crash):
            story(storage)
        assert story(storage) == undisturbed, f"died at pass {k}"
        result = verify(storage)
        assert (result.findings, result.events, result.exported) == ((), 10, 10), f"died at pass {k}"


# The disk


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_a_commit_is_synced_before_it_is_acknowledged(tmp_path):
    """kill -9 says nothing of power loss: only the order of system calls does. A batch costs one sync."""
    code = (
        "import sys, os; sys.path[:0] = sys.argv[2:]; from pathlib import Path; from test_ledger import *\n"
        "db = opened(Path(sys.argv[1])); db.commit([started()])\n"
        "for n in range(3): db.commit([begun(n), finished(n)]); os.write(1, b'acknowledged')\n"
    )
    log, here = tmp_path / "calls", Path(__file__).parent
    command = ["strace", "-f", "-y", "-s", "16", "-e", "trace=fdatasync,fsync,write,pwrite64", "-o", str(log)]
    done = subprocess.run(
        [*command, sys.executable, "-c", code, str(tmp_path / "runs"), str(here), str(here.parent)],
        capture_output=True,
        timeout=120,
    )
    if b"ptrace" in done.stderr:
        pytest.skip("strace may not trace here")
    calls = log.read_text().split('"acknowledged"')
    assert len(calls) == 4, done.stderr
    for between in calls[1:3]:
        names = [
            (call.split("(")[0].split()[-1], Path(call.split("<", 1)[1].split(">")[0]).name)
            for call in between.splitlines()
            if "<" in call
        ]
        log_calls = [name for name, file in names if file == "ledger.sqlite-wal"]
        assert log_calls[-1] == "fdatasync" and log_calls.count("fdatasync") == 1
        assert names.index(("fdatasync", "ledger.sqlite-wal")) < names.index(("write", "ledger.jsonl"))


def test_a_full_disk_records_nothing_and_changes_nothing_in_memory(tmp_path):
    def child(_):
        db = opened(tmp_path)
        db.commit([started()])
        before = db.state.state_digest()
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "ledger.sqlite-wal").stat().st_size + 5000, hard))
        with pytest.raises(LedgerError, match="nothing was recorded"):
            db.commit([event for n in range(200) for event in (begun(n), finished(n))])
        assert (db.seq, db.state.state_digest()) == (1, before)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        db.commit([begun(0), finished(0)])
        db.close()

    in_child(child)
    assert_sound(tmp_path, 0)


def test_an_export_that_cannot_be_written_lags_and_is_caught_up(tmp_path):
    with opened(tmp_path) as db:
        db.commit([started(), WorkStarted(run=1, work="big", what="x" * 300_000, subject="c")])

    def child(_):
        db = opened(tmp_path)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "ledger.jsonl").stat().st_size + 100, hard))
        db.commit([begun(0)])
        assert verify(tmp_path).model_dump(include={"ok", "events", "exported"}) == {
            "ok": True,
            "events": 3,
            "exported": 2,
        }
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        db.commit([finished(0)])
        db.close()

    in_child(child)
    result = verify(tmp_path)
    assert (result.findings, result.events, result.exported) == ((), 4, 4)


# The export


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-40],
        lambda data: data[: data.rindex(b"\n", 0, -1) + 1],
        lambda data: data + b"\0" * 4096,
        lambda data: data + b'{"seq":12',
        lambda data: data + b"not a line\n",
        lambda data: data.replace(b"evaluation", b"\0" * 10, 1),
    ],
    ids=["emptied", "torn", "short", "zeros", "half-line", "garbage", "lost-page"],
)
def test_a_damaged_export_is_made_whole_at_start(tmp_path, damage):
    fill(tmp_path)
    jsonl = tmp_path / "ledger.jsonl"
    whole = jsonl.read_bytes()
    jsonl.write_bytes(damage(whole))
    opened(tmp_path).close()
    assert jsonl.read_bytes() == whole


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 3000), tail=st.binary(max_size=60) | st.sampled_from([b"{}\n", b"null\n", b"[1]\n\n"]))
def test_however_an_export_ends_it_is_made_whole_at_start(tmp_path, cut, tail):
    jsonl = tmp_path / "ledger.jsonl"
    if not jsonl.exists():
        fill(tmp_path, works=4)
        (tmp_path / "whole").write_bytes(jsonl.read_bytes())
    whole = (tmp_path / "whole").read_bytes()
    jsonl.write_bytes(whole[: max(0, len(whole) - cut)] + tail)
    opened(tmp_path).close()
    assert jsonl.read_bytes() == whole


def test_a_missing_export_is_written_at_start(tmp_path):
    fill(tmp_path)
    jsonl = tmp_path / "ledger.jsonl"
    whole = jsonl.read_bytes()
    jsonl.unlink()
    assert verify(tmp_path).exported == 0
    opened(tmp_path).close()
    assert jsonl.read_bytes() == whole


def test_an_export_that_differs_before_its_tail_is_kept_aside(tmp_path):
    fill(tmp_path)
    jsonl = tmp_path / "ledger.jsonl"
    damaged = jsonl.read_bytes() + b"garbage\n"
    jsonl.write_bytes(damaged)
    opened(tmp_path).close()
    assert (tmp_path / "ledger.jsonl.damaged").read_bytes() == damaged


def test_an_export_longer_than_one_chunk_of_reading_stays_as_it_is(tmp_path, monkeypatch):
    fill(tmp_path)
    whole = (tmp_path / "ledger.jsonl").read_bytes()
    for chunk in (97, len(whole) - 20):
        monkeypatch.setattr(journal, "_CHUNK", chunk)
        opened(tmp_path).close()
        assert (tmp_path / "ledger.jsonl").read_bytes() == whole
        assert not (tmp_path / "ledger.jsonl.damaged").exists()


def test_a_database_older_than_its_export_is_refused(tmp_path):
    fill(tmp_path, works=2)
    old = (tmp_path / "ledger.sqlite").read_bytes()
    with opened(tmp_path) as db:
        db.commit([begun(7)])
    (tmp_path / "ledger.sqlite").write_bytes(old)
    assert verify(tmp_path).findings == ("ledger.jsonl line 6: goes on where the database ends",)
    with pytest.raises(LedgerDamaged, match="Move ledger"):
        opened(tmp_path)
    (tmp_path / "ledger.sqlite").unlink()
    with opened(tmp_path) as db:
        assert db.state.one(WorkRow, "w7").status is WorkStatus.STARTED


def test_a_lost_database_is_rebuilt_from_its_export(tmp_path):
    digest = fill(tmp_path)
    opened(tmp_path).close()
    head = verify(tmp_path).head
    (tmp_path / "ledger.sqlite").unlink()
    with opened(tmp_path) as db:
        assert (db.seq, db.state.state_digest()) == (11, digest)
        assert db.epoch > 1
        assert db.commit([finished(2)], dedup=["done-2"]) == [None]
    result = verify(tmp_path)
    assert (result.findings, result.head) == ((), head)


def test_a_stale_log_of_a_lost_database_is_not_played_into_the_new_one(tmp_path):
    here, other = tmp_path / "here", tmp_path / "other"
    digest = fill(here, works=40)
    pid, acks = fork(keep_writing(other))
    with acks:
        for _ in range(4):
            acks.readline()
        os.kill(pid, signal.SIGKILL)
        exit_status(pid)
    (here / "ledger.sqlite").unlink()
    (other / "ledger.sqlite-wal").rename(here / "ledger.sqlite-wal")
    with opened(here) as db:
        assert db.state.state_digest() == digest
    assert verify(here).ok


def test_a_rebuilding_that_dies_starts_over(tmp_path):
    fill(tmp_path)
    (tmp_path / "ledger.sqlite").unlink()
    with faults.armed("ledger.rebuilt", faults.crash), pytest.raises(faults.Crash):
        opened(tmp_path)
    assert not (tmp_path / "ledger.sqlite").exists()
    assert_sound(tmp_path, 4)


def test_rebuilding_names_the_line_that_does_not_hold(tmp_path):
    fill(tmp_path)
    jsonl = tmp_path / "ledger.jsonl"
    jsonl.write_bytes(jsonl.read_bytes().replace(b"mark-2", b"mark-3"))
    with pytest.raises(LedgerDamaged, match="line 7"):
        rebuild_database(jsonl, tmp_path / "new.sqlite")
    assert not (tmp_path / "new.sqlite").exists()
    with pytest.raises(LedgerError, match="exists"):
        rebuild_database(jsonl, tmp_path / "ledger.sqlite")


def test_parquet_holds_the_events_and_every_table(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    fill(tmp_path)
    with read_only(tmp_path) as reader:
        files = export_parquet(reader, tmp_path / "out")
    assert {file.stem for file in files} == {"events", *ROWS}
    events = parquet.read_table(tmp_path / "out" / "events.parquet").to_pylist()
    assert [Recorded(**event).sealed().digest for event in events] == [event["digest"] for event in events]
    assert parquet.read_table(tmp_path / "out" / "work.parquet").num_rows == 5
    assert parquet.read_table(tmp_path / "out" / "attempts.parquet").num_rows == 0


# Checking


def test_a_flipped_byte_in_the_database_is_named(tmp_path):
    fill(tmp_path)
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(path.read_bytes().replace(b"mark-2", b"mark-\xff"))
    findings = verify(tmp_path).findings
    assert "event 7: its digest does not match its content" in findings


def test_a_flipped_byte_in_the_export_is_named(tmp_path):
    fill(tmp_path)
    jsonl = tmp_path / "ledger.jsonl"
    jsonl.write_bytes(jsonl.read_bytes().replace(b"mark-2", b"mark-3"))
    assert verify(tmp_path).findings == ("ledger.jsonl line 7: differs from event 7 of the database",)


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ("UPDATE events SET at = 'x' WHERE seq = 4", "event 4: its digest does not match its content"),
        ("UPDATE events SET payload = payload || ' ' WHERE seq = 4", "event 4: its digest does not match its content"),
        ("UPDATE events SET dedup = 'other' WHERE seq = 3", "event 3: its digest does not match its content"),
        ("DELETE FROM events WHERE seq = 4", "event 5: seq 5 follows 3"),
        (
            "UPDATE work SET status = 'started' WHERE work = 'w1'",
            "state tables: work ('w1',) is not what its events say",
        ),
        ("DELETE FROM work WHERE work = 'w1'", "state tables: work ('w1',) is not what its events say"),
        ("UPDATE work SET outcome = '{' WHERE work = 'w1'", "state tables: a row cannot be read"),
    ],
)
def test_what_was_changed_behind_its_back_is_named(tmp_path, change, finding):
    fill(tmp_path)
    raw(tmp_path, change)
    result = verify(tmp_path)
    assert not result.ok
    assert any(found.startswith(finding) for found in result.findings), result.findings


def test_a_forged_event_with_a_right_digest_breaks_the_next_link(tmp_path):
    fill(tmp_path)
    with read_only(tmp_path) as reader:
        entry = list(reader.events())[3]
    forged = entry._replace(at="2001-01-01T00:00:00.000Z").sealed()
    raw(tmp_path, f"UPDATE events SET at = '{forged.at}', digest = '{forged.digest}' WHERE seq = 4")
    assert "event 5: prev is not the digest of the event before" in verify(tmp_path).findings


def test_a_lost_page_is_a_finding_and_not_a_crash(tmp_path):
    fill(tmp_path, works=300)
    path = tmp_path / "ledger.sqlite"
    data = bytearray(path.read_bytes())
    data[8 * 4096 : 20 * 4096] = bytes(12 * 4096)
    path.write_bytes(data)
    assert not verify(tmp_path).ok


def test_a_damaged_index_is_named(tmp_path):
    """The key stands twice in the file, in its event and in the index that keeps it unique."""
    fill(tmp_path)
    path = tmp_path / "ledger.sqlite"
    whole = path.read_bytes()
    places = [at for at in range(len(whole)) if whole.startswith(b"done-3", at)]
    assert len(places) == 2
    for at in places:
        path.write_bytes(whole[:at] + b"done-x" + whole[at + 6 :])
        assert not verify(tmp_path).ok


def test_what_is_recorded_during_a_check_does_not_confuse_it(tmp_path, monkeypatch):
    with opened(tmp_path) as db:
        db.commit([started()])
        structure = verify_module._Check.structure

        def structure_then_commit(check):
            structure(check)
            db.commit([begun(0)])

        monkeypatch.setattr(verify_module._Check, "structure", structure_then_commit)
        result = verify(tmp_path)
    assert (result.findings, result.events, result.exported) == ((), 1, 1)


def test_checking_does_not_disturb_a_live_writer(tmp_path):
    pid, acks = fork(keep_writing(tmp_path))
    with acks:
        acks.readline()
        for _ in range(5):
            acks.readline()
            assert verify(tmp_path).findings == ()
        os.kill(pid, signal.SIGKILL)
        exit_status(pid)


# Older shapes


@pytest.mark.parametrize("change", ["DROP TABLE work", "ALTER TABLE work ADD COLUMN extra TEXT"])
def test_state_tables_of_another_shape_are_projected_anew(tmp_path, change):
    digest = fill(tmp_path)
    raw(tmp_path, change, "CREATE TABLE leftover (x)")
    with read_only(tmp_path) as reader:
        assert reader.state().state_digest() == digest
    opened(tmp_path).close()
    assert verify(tmp_path).ok
    assert raw(tmp_path, "SELECT name FROM sqlite_master WHERE name = 'leftover'") == [[]]


# Reading


def test_a_reader_never_creates_a_ledger(tmp_path):
    for storage in (tmp_path, tmp_path / "none"):
        with pytest.raises(NotFoundError, match="--storage"):
            read_only(storage)
        with pytest.raises(NotFoundError):
            verify(storage)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_ledger_is_refused(tmp_path):
    (tmp_path / "ledger.sqlite").write_bytes(b"x" * 8192)
    for open_it in (read_only, opened):
        with pytest.raises(LedgerError):
            open_it(tmp_path)


def test_a_reader_follows_a_live_ledger(tmp_path):
    with opened(tmp_path) as db:
        db.commit([started()])
        with read_only(tmp_path) as reader:
            assert reader.head() == 1
            db.commit([begun(0), started(run=2)])
            assert [entry.seq for entry in reader.events(after=1)] == [2, 3]
            assert [entry.kind for entry in reader.events(run=2)] == ["run_started"]
            assert reader.state().state_digest() == db.state.state_digest()


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM events",
        "UPDATE work SET tries = 0",
        "CREATE TABLE t (x)",
        "ATTACH 'other.sqlite' AS other",
        "PRAGMA journal_mode = DELETE",
        "BEGIN",
        "SELECT nothing FROM nowhere",
        "SELECT 1; SELECT 2",
        "SELECT load_extension('x')",
    ],
)
def test_a_query_only_reads(tmp_path, sql):
    fill(tmp_path)
    with read_only(tmp_path) as reader:
        with pytest.raises(UsageError, match="SELECT"):
            reader.query(sql)
        assert reader.query("SELECT count(*) AS n FROM events") == (("n",), [(11,)])
        assert reader.state().tables()["work"] == 5
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader.connection.execute("DELETE FROM events")


# The command


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_verify_command_says_ok_or_raises(tmp_path):
    fill(tmp_path)
    done = invoke("verify", "--storage", tmp_path)
    assert done.exit_code == 0 and done.output.startswith("ok: 11 events, 11 exported")
    raw(tmp_path, "UPDATE events SET at = 'x' WHERE seq = 4")
    assert isinstance(invoke("verify", "--storage", tmp_path).exception, LedgerDamaged)
    done = invoke("verify", "--storage", tmp_path, "--json")
    assert done.exit_code == 5
    assert json.loads(done.output)["findings"][0].startswith("event 4:")


def test_the_query_and_export_commands(tmp_path):
    fill(tmp_path)
    sql = "SELECT kind, count(*) AS n FROM events GROUP BY kind ORDER BY kind"
    assert invoke("query", sql, "--storage", tmp_path).output.splitlines()[1] == "run_started\t1"
    answer = json.loads(invoke("query", sql, "--storage", tmp_path, "--json").output)
    assert answer["rows"][0] == ["run_started", 1]
    out = tmp_path / "out"
    done = invoke("export", "--storage", tmp_path, "--out", out, "--json")
    assert json.loads(done.output)["files"] == [str(out / "ledger.jsonl")]
    assert (out / "ledger.jsonl").read_bytes() == (tmp_path / "ledger.jsonl").read_bytes()
    assert invoke("export", "--storage", tmp_path, "--format", "parquet").exit_code == 0
    assert (tmp_path / "export" / "runs.parquet").exists()
