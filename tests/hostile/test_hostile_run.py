"""A run whose agent proposes a hostile target in every other generation, through Ray: each fails alone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import sia_ray
from sia_ray.agents.protocol import Reply
from sia_ray.agents.replay import record
from sia_ray.candidate.views import view_digest
from sia_ray.ledger.schema import GenerationRow, GenerationStatus
from sia_ray.ledger.verify import verify
from sia_ray.levers.decision import Decision, Lever, Strategy
from sia_ray.runtime.api import Run
from tests.hostile.attacks import BABBLER, FORGER, HOGS, READERS, VANDALS, Attack
from tests.hostile.prey import PACK, SECRET, Prey

pytestmark = [pytest.mark.ray, pytest.mark.sandbox, pytest.mark.usefixtures("local_ray")]

ENDS = (
    (FORGER, "verdict on smoke: failed", "smoke:invalid_output"),
    (HOGS[1], "used more than 160 MiB", "smoke:resource"),
    (HOGS[2], "wrote more than 16 MiB", "smoke:resource"),
    (HOGS[-1], "ran past 3 s", "smoke:timeout"),
    (BABBLER, "exited with 3", "smoke:contract_invocation"),
)
"""Attacks that end badly, with a part of the reason and the start of the fingerprint that the generation must have.

The fork bomb is left to ``test_targets``: on a busy machine its processes may be gone before anyone counts them.
"""
HARMLESS = (READERS[0], READERS[1], *VANDALS)
"""Attacks that end well, having got nothing: their generation has the score of its answers."""
EVEN = 0.5


def reply(source: str, turn: int) -> Reply:
    answer = f"FILE: target_agent.py\n```python\n{source.strip()}\n# turn {turn}\n```\n"
    decision = Decision(
        lever=Lever.HARNESS, hypothesis=f"turn {turn}", strategy=Strategy.CHANGE_MECHANISM, answer=answer
    )
    return Reply(decision=decision, prompt="asked")


def tight_pack(folder: Path) -> Path:
    """The tiny pack with limits that attacks meet soon."""
    shutil.copytree(PACK, folder)
    settings = folder / "task.toml"
    text = settings.read_text().replace(
        "[target]\nwall_s = 30\nmemory_mb = 512", "[target]\nwall_s = 3\nmemory_mb = 160\ndisk_mb = 16"
    )
    assert "memory_mb = 160" in text
    settings.write_text(text)
    return folder


def played(root: Path, attacks: list[Attack], prey: Prey) -> Run:
    """Attack and sound target by turns, a sound one first."""
    storage = root / "runs"
    places = prey.places | {"ledger": str(storage / "ledger.sqlite"), "private": str(root / "pack" / "data")}
    sound = (PACK / "reference" / "reference_target_agent.py").read_text()
    sources = [sound] + [source for attack in attacks for source in (attack.source(places), sound)]
    recording = root / "replies.jsonl"
    recording.write_text("".join(record(reply(source, turn)) for turn, source in enumerate(sources, 1)))
    return sia_ray.run(
        str(tight_pack(root / "pack")),
        agent="replay",
        agent_options={"file": str(recording)},
        generations=len(sources),
        lookahead=1,
        storage=storage,
        progress=False,
    )


def left_of(run: Run) -> bytes:
    """All that the run's folder holds."""
    return b"".join(path.read_bytes() for path in run.path.rglob("*") if path.is_file())


def damaged_views() -> list[Path]:
    """Inputs of targets and evaluators, kept under their digests, that have another digest now."""
    kept = list(Path(os.environ["SIA_RAY_CACHE"], "views").iterdir())
    assert kept
    return [folder for folder in kept if folder.is_dir() and view_digest(folder) != folder.name]


def test_each_hostile_generation_fails_alone(prey: Prey, tmp_path: Path) -> None:
    attacks = [attack for attack, *_ in ENDS] + list(HARMLESS)
    run = played(tmp_path, attacks, prey)
    assert damaged_views() == []
    rows: list[GenerationRow] = list(run.rows)
    assert [row.generation for row in rows] == list(range(1, 2 * len(attacks) + 2))
    for (attack, reason, fingerprint), row in zip(ENDS, rows[1::2], strict=False):
        assert row.status is GenerationStatus.FAILED, (attack.name, row)
        assert reason in row.reason and row.fingerprint.startswith(fingerprint), (attack.name, row)
    assert all(row.status is GenerationStatus.PASSED for row in rows[0::2]), rows
    assert {row.score for row in rows[0::2]} == {EVEN}
    assert {row.score for row in rows[1 + 2 * len(ENDS) :: 2]} == {EVEN}
    assert not list(run.path.rglob("loot.json")) and SECRET.encode() not in left_of(run)
    assert prey.damaged() == set() and prey.called() == set() and prey.survivors() == []
    assert verify(run.storage).ok
