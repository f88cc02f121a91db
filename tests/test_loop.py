"""The loop without Ray: real ledger, real workshop, real search; targets and evaluators are a pure function."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sia_ray import faults
from sia_ray.agents.protocol import Brief
from sia_ray.agents.search import Search
from sia_ray.candidate.bundle import pack, unpack
from sia_ray.candidate.store import BlobStore
from sia_ray.clock import FakeClock
from sia_ray.episode.loop import Loop
from sia_ray.episode.work import Done, Fault, Kind, Order
from sia_ray.episode.workshop import Subject, Workshop
from sia_ray.errors import LedgerError
from sia_ray.evaluation.contract import Evaluation
from sia_ray.evaluation.items import Item
from sia_ray.evaluation.results import Status
from sia_ray.ledger.database import Database
from sia_ray.ledger.events import HoldoutRequested, RunStarted
from sia_ray.ledger.schema import AttemptRow, EpisodeRow, GenerationRow, RunRow, State, WorkRow
from sia_ray.ledger.verify import verify
from sia_ray.levers.decision import Lever
from sia_ray.task.pack import load_pack

SPLITS = ("dev", "smoke", "holdout")


class World:
    """Stands for agents, Targets and evaluators: answers each order by what it is about, in an order of its own.

    ``faulty`` maps a kind to how often each of its orders is failed by the machine first; ``broken`` says which
    harness texts crash.
    """

    def __init__(self, blobs: BlobStore, *, faulty: dict[Kind, int] | None = None) -> None:
        self.blobs = blobs
        self.search = Search({})
        self.faulty = faulty or {}
        self.broken: Callable[[str, str], bool] = lambda text, split: False
        self.cause = "exited"
        self.lost: Callable[[Order], bool] = lambda order: False
        self.answers: dict[int, bytes] = {}
        self.odd_items = False
        self.stop_at = 0
        self.waiting: list[tuple[Order, Any]] = []
        self.carried_out: list[Order] = []
        self.briefs: dict[int, Brief] = {}
        self.failed: dict[str, int] = {}

    def submit(self, order: Order, payload: Any) -> None:
        self.waiting.append((order, payload))

    def remove_run(self, run: int) -> None: ...

    def outcome(self, order: Order, payload: Any) -> Done | Fault:
        if self.lost(order):
            return Fault(order.key, "node lost")
        if self.failed.get(order.key, 0) < self.faulty.get(order.kind, 0):
            self.failed[order.key] = self.failed.get(order.key, 0) + 1
            return Fault(order.key, "node lost")
        self.carried_out.append(order)
        if order.kind is Kind.PROPOSE:
            self.briefs[order.generation] = payload
            reply = self.search.first(payload) if order.generation == 1 else self.search.next(payload)
            if order.generation == self.stop_at:
                reply = reply.model_copy(
                    update={"decision": reply.decision.model_copy(update={"lever": Lever.STOP, "answer": ""})}
                )
            answer = self.answers.get(order.run, reply.model_dump_json().encode())
            return Done(order.key, {}, {"reply": self.blobs.put(answer)})
        if order.kind is Kind.RUN:
            text = unpack(self.blobs.get(order.inputs[0]))["target_agent.py"].decode()
            ok = not self.broken(text, order.split)
            outcome = {"ok": ok, "cause": self.cause, "reason": "" if ok else "exited with 1"}
            outputs = self.blobs.put(pack({"text": text.encode()}))
            return Done(order.key, outcome, {"outputs": outputs, "log": self.blobs.put(b""), "wall_s": random.random()})
        text = unpack(self.blobs.get(order.inputs[0]))["text"].decode()
        score = (len(text) * 37 % 101) / 100
        evaluation = Evaluation(
            status=Status.PASSED,
            score=score,
            values={"accuracy": score},
            items=tuple(Item(f"{text if self.odd_items else ''}{i}", float(i < score * 100)) for i in range(100)),
        )
        stored = self.blobs.put(evaluation.model_dump_json().encode())
        return Done(order.key, {"status": "passed", "score": score, "n": 100}, {"evaluation": stored})


class Lab:
    """One storage root with its loop, stepped by hand."""

    def __init__(self, storage: Path, tiny: str, **world: Any) -> None:
        self.storage, self.tiny = storage, tiny
        self.blobs = BlobStore(storage / "blobs")
        self.world = World(self.blobs, **world)
        self.open()

    def open(self) -> None:
        """A fresh Supervisor on the same storage."""
        self.workshop = Workshop(self.blobs, self.storage)
        self.workshop.subjects[1] = Subject.of(load_pack(Path(self.tiny)))
        self.loop = Loop(self.storage, executor=self.world, workshop=self.workshop, clock=FakeClock())
        self.loop.ledger = Database.open(self.storage, clock=FakeClock())
        self.loop.active.add(1)
        self.world.waiting.clear()

    def begin(self, *, generations: int = 5, lookahead: int = 2, seed: int = 0, run: int = 1) -> None:
        started = RunStarted(
            run=run,
            task="tiny",
            spec={},
            seed=seed,
            agent="search",
            generations=generations,
            lookahead=lookahead,
            sandbox="bubblewrap",
            metric="accuracy",
            direction="max",
            pack="p",
            evaluators=dict.fromkeys(SPLITS, "e"),
            splits={name: name for name in SPLITS},
            environment="env",
            scores_holdout=True,
        )
        self.loop.commit([started])

    def step(self, pick: Callable[[int], int]) -> bool:
        """Carry out one of the waiting orders; False when there is none."""
        self.loop.advance()
        if not self.world.waiting:
            return False
        order, payload = self.world.waiting.pop(pick(len(self.world.waiting)))
        self.loop.absorb([self.world.outcome(order, payload)])
        return True

    def finish(self, pick: Callable[[int], int] = lambda n: 0) -> None:
        while self.step(pick):
            pass

    @property
    def state(self) -> State:
        return self.loop.state

    @property
    def run(self) -> RunRow:
        return self.state.one(RunRow, 1)

    @property
    def generations(self) -> list[GenerationRow]:
        return self.state.rows(GenerationRow, 1)

    def close(self) -> None:
        self.loop.ledger.close()


@pytest.fixture
def lab(tmp_path: Path, tiny: str) -> Any:
    made: list[Lab] = []

    def make(name: str = "lab", **world: Any) -> Lab:
        made.append(Lab(tmp_path / name, tiny, **world))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_run_ends_with_every_generation_scored(lab: Any) -> None:
    one = lab()
    one.begin()
    one.finish()
    assert one.run.status == "done"
    assert [row.status for row in one.generations] == ["passed"] * 5
    scores = [row.score for row in one.generations]
    assert one.run.best == scores.index(max(scores)) + 1
    assert one.run.holdout["best"]["generation"] == one.run.best
    assert one.run.holdout["start"]["generation"] == 1


@pytest.mark.parametrize("lookahead", [1, 2, 3])
def test_the_run_is_the_same_whoever_finishes_first(lab: Any, lookahead: int) -> None:
    digests = set()
    for chance in range(3):
        one = lab(f"order-{chance}")
        one.begin(generations=5, lookahead=lookahead)
        one.finish(random.Random(chance).randrange)
        digests.add(one.state.state_digest())
    assert len(digests) == 1


def test_a_proposal_sees_outcomes_up_to_its_lookahead_and_no_further(lab: Any) -> None:
    one = lab()
    one.begin(generations=6, lookahead=2)
    one.finish()
    for number, brief in one.world.briefs.items():
        status = {seen.generation: seen.status for seen in brief.seen}
        assert status == {n: "passed" if n <= number - 2 else "pending" for n in range(1, number)}
        assert all(seen.score is None for seen in brief.seen if seen.status == "pending")


def test_identical_work_is_done_once(lab: Any) -> None:
    one = lab()
    one.begin(generations=7)
    one.workshop.subjects[2] = one.workshop.subjects[1]
    one.begin(generations=7, run=2)
    one.loop.active.add(2)
    one.finish()
    work = [(o.kind, o.candidate, o.split) for o in one.world.carried_out if o.kind is not Kind.PROPOSE]
    assert len(work) == len(set(work))
    assert [row.candidate for row in one.state.rows(GenerationRow, 2)] == [row.candidate for row in one.generations]


def test_nothing_but_the_end_touches_the_holdout(lab: Any) -> None:
    one = lab()
    one.begin(generations=4)
    one.finish()
    splits = [order.split for order in one.world.carried_out]
    assert splits.count("holdout") in (2, 4)
    assert set(splits[splits.index("holdout") :]) == {"holdout"}


def test_a_first_generation_without_a_score_stops_the_run(lab: Any) -> None:
    one = lab()
    one.world.broken = lambda text, split: split == "dev"
    one.begin()
    one.finish()
    assert one.run.status == "failed"
    assert "generation 1 has no score" in one.run.reason
    assert len(one.generations) <= 2


def test_a_broken_candidate_is_one_failed_generation_and_never_a_base(lab: Any) -> None:
    one = lab()
    one.begin(generations=8)
    reference = load_pack(Path(one.tiny)).reference_agent
    one.world.broken = lambda text, split: text != reference and len(text) % 2 == 0 and split == "smoke"
    one.finish()
    failed = {row.generation for row in one.generations if row.status == "failed"}
    assert failed and one.run.status == "done"
    assert not failed & {row.base for row in one.generations}
    assert all(row.fingerprint == "smoke:contract_invocation" for row in one.generations if row.generation in failed)


@pytest.mark.parametrize(
    ("cause", "label"),
    [("timeout", "timeout"), ("memory", "resource"), ("processes", "resource"), ("disk", "resource")],
)
def test_a_limit_that_was_passed_is_in_the_fingerprint(lab: Any, cause: str, label: str) -> None:
    one = lab()
    one.begin(generations=2)
    reference = load_pack(Path(one.tiny)).reference_agent
    one.world.cause, one.world.broken = cause, lambda text, split: text != reference
    one.finish()
    assert one.generations[1].fingerprint == f"smoke:{label}"


def test_a_fault_of_the_machine_is_retried_and_leaves_no_mark(lab: Any) -> None:
    calm, stormy = lab("calm"), lab("stormy", faulty={Kind.RUN: 1, Kind.EVALUATE: 2, Kind.PROPOSE: 1})
    for one in (calm, stormy):
        one.begin()
        one.finish()
    assert stormy.state.state_digest() == calm.state.state_digest()
    assert any(row.faults for row in stormy.state.rows(WorkRow))


def test_a_machine_that_always_fails_makes_no_score(lab: Any) -> None:
    one = lab(faulty={Kind.EVALUATE: 99})
    one.begin()
    one.finish()
    assert one.run.status == "failed"
    assert one.generations[0].status == "inconclusive"
    assert all(row.score is None for row in one.generations)


def test_what_the_machine_failed_is_not_told_as_a_failure(lab: Any) -> None:
    one = lab()
    one.begin(generations=6, lookahead=1)
    one.world.lost = lambda order: order.generation == 3 and order.kind is Kind.RUN
    one.finish()
    assert one.generations[2].status == "inconclusive"
    assert one.run.status == "done"
    assert {seen.generation for seen in one.world.briefs[5].seen} == {1, 2, 4}
    assert one.state.one(EpisodeRow, 1, 3).released == "terminal"
    assert one.state.one(AttemptRow, 1, 3, 1).passed is None


def test_a_holdout_that_the_machine_failed_can_be_asked_for_again(lab: Any) -> None:
    one = lab()
    one.begin(generations=2)
    one.world.lost = lambda order: order.split == "holdout"
    one.finish()
    assert {entry["status"] for entry in one.run.holdout.values()} == {"inconclusive"}
    one.world.lost = lambda order: False
    one.loop.active.add(1)
    one.loop.commit([HoldoutRequested(run=1)])
    one.finish()
    assert {entry["status"] for entry in one.run.holdout.values()} == {"passed"}


def test_a_defect_of_one_run_ends_that_run_and_no_other(lab: Any) -> None:
    one = lab()
    one.begin(generations=3)
    one.workshop.subjects[2] = one.workshop.subjects[1]
    one.begin(generations=3, run=2)
    one.loop.active.add(2)
    one.world.answers[2] = b"this is no reply"
    one.finish()
    assert one.state.one(RunRow, 2).status == "failed"
    assert "cannot go on" in one.state.one(RunRow, 2).reason
    assert one.run.status == "done"


def test_items_that_differ_between_candidates_are_said_and_end_nothing(lab: Any) -> None:
    one = lab()
    one.begin(generations=3)
    one.world.odd_items = True
    one.finish()
    assert one.run.status == "done"
    assert "refused" in one.generations[1].comparison


def test_the_stop_lever_ends_the_run_early(lab: Any) -> None:
    one = lab()
    one.begin(generations=9)
    one.world.stop_at = 4
    one.finish()
    assert [row.status for row in one.generations] == ["passed"] * 3 + ["skipped"]
    assert one.run.status == "done"


def test_whoever_asks_a_loop_that_ended_is_told_at_once(tmp_path: Path, tiny: str) -> None:
    blobs = BlobStore(tmp_path / "blobs")
    loop = Loop(tmp_path, executor=World(blobs), workshop=Workshop(blobs, tmp_path), clock=FakeClock())
    thread = threading.Thread(target=loop.run)
    thread.start()
    assert loop.call(lambda: 6 * 7).result(10) == 42
    with pytest.raises(ZeroDivisionError):
        loop.call(lambda: 1 // 0).result(10)
    loop.stop()
    thread.join(10)
    with pytest.raises(LedgerError, match="stopped"):
        loop.call(lambda: 0).result(10)


def test_a_late_duplicate_is_dropped(lab: Any) -> None:
    one = lab()
    one.begin(generations=2)
    one.loop.advance()
    order, payload = one.world.waiting.pop()
    outcome = one.world.outcome(order, payload)
    one.loop.absorb([outcome])
    before = one.state.state_digest()
    one.loop.absorb([outcome])
    assert one.state.state_digest() == before
    one.finish()
    assert one.run.status == "done"


def test_damaged_bytes_end_the_run_which_no_waiting_would_mend(lab: Any) -> None:
    one = lab()
    one.begin()
    one.step(lambda n: 0)
    for blob in (one.storage / "blobs").rglob("*"):
        if blob.is_file():
            blob.chmod(0o644)
            blob.write_bytes(b"damaged")
    one.loop.advance()
    assert one.run.status == "failed"
    assert "does not match its digest" in one.run.reason


def test_restarts_do_not_use_up_the_tries_of_a_piece_of_work(lab: Any) -> None:
    calm, one = lab("calm"), lab("restarted")
    calm.begin(generations=2)
    calm.finish()
    one.begin(generations=2)
    for _ in range(5):
        one.loop.advance()
        one.close()
        one.open()
    one.world.faulty = {Kind.PROPOSE: 2}
    one.finish()
    assert one.state.state_digest() == calm.state.state_digest()


@pytest.mark.parametrize("steps", [0, 3, 8])
def test_a_full_disk_pauses_the_run_which_goes_on_when_there_is_space(lab: Any, steps: int) -> None:
    calm, one = lab("calm"), lab("full")
    for each in (calm, one):
        each.begin()
    calm.finish()
    for _ in range(steps):
        one.step(lambda n: 0)
    disk = one.loop.ledger._connection
    disk.execute("PRAGMA max_page_count = 1")
    while not one.loop.why_paused(1):
        assert one.step(lambda n: 0) or one.loop.why_paused(1), (
            "it was never full: SQLite had free pages for all of the run"
        )
    assert "SQLITE_FULL" in one.loop.why_paused(1)
    acknowledged = one.loop.seq
    for _ in range(3):
        one.loop.absorb([])
        one.loop.advance()
    assert (one.loop.seq, one.run.status) == (acknowledged, "running")
    disk.execute("PRAGMA max_page_count = 1000000")
    one.loop.absorb([])
    one.finish()
    assert one.loop.why_paused(1) == ""
    assert one.state.state_digest() == calm.state.state_digest()
    carried_out = [order.key for order in one.world.carried_out]
    assert len(carried_out) == len(set(carried_out))


def test_a_store_that_cannot_be_used_pauses_the_run_and_ends_nothing(lab: Any) -> None:
    calm, one = lab("calm"), lab("closed")
    for each in (calm, one):
        each.begin(lookahead=1)
    calm.finish()
    blobs, away, paused = one.storage / "blobs", one.storage / "away", 0
    blobs.mkdir()
    while one.run.status == "running":
        blobs.rename(away)
        blobs.write_text("a file where a folder must be")
        one.loop.advance()
        paused += str(blobs) in one.loop.why_paused(1)
        blobs.unlink()
        away.rename(blobs)
        one.step(lambda n: 0)
        assert one.loop.why_paused(1) == "" or one.world.waiting
    assert paused >= 5
    assert one.state.state_digest() == calm.state.state_digest()


@pytest.mark.chaos
def test_dying_at_every_fault_point_changes_nothing(lab: Any) -> None:
    calm = lab("calm")
    with faults.counting() as passed:
        calm.begin(generations=4)
        calm.finish()
    expected = calm.state.state_digest()
    died = 0
    for name, times in passed.items():
        for nth in {1, 2, times // 2, times} - {0}:
            one = lab(f"{name}-{nth}")
            try:
                with faults.armed(name, faults.crash, nth=nth):
                    one.begin(generations=4)
                    one.finish()
            except faults.Crash:
                died += 1
            one.close()
            one.open()
            if one.state.get(RunRow, 1) is None:
                one.begin(generations=4)
            one.finish()
            assert one.state.state_digest() == expected, (name, nth)
            one.close()
            assert verify(one.storage).ok, (name, nth)
            one.open()
    assert died >= 10


def test_events_say_which_lever_was_taken_and_why(lab: Any) -> None:
    one = lab()
    one.begin(generations=2)
    one.finish()
    lines = [json.loads(line) for line in (one.storage / "ledger.jsonl").read_text().splitlines()]
    decided = [line["payload"] for line in lines if line["kind"] == "attempt_decided"]
    assert all(entry["lever"] == "harness" and entry["levers_rejected"]["weights"] for entry in decided)
