"""Replay: what was recorded is said again, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from sia_ray.agents.protocol import Brief, Reply, load_agent
from sia_ray.agents.replay import record
from sia_ray.errors import NotFoundError, UsageError
from sia_ray.levers.decision import Decision, Lever, Strategy

ASKED = Brief(
    run="run_1", task="t", generation=1, max_generations=3, seed=0, direction="max", metric="accuracy", base={}
)


def reply(hypothesis: str) -> Reply:
    decision = Decision(
        lever=Lever.HARNESS, hypothesis=hypothesis, strategy=Strategy.CORRECT_EDIT, answer="x\n  y\u2028z"
    )
    return Reply(decision=decision, prompt="asked", transcript=({"role": "user", "content": "…"},))


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "replies.jsonl"
    path.write_text(record(reply("one")) + record(reply("two")), encoding="utf-8")
    return path


def test_line_n_answers_generation_n_as_often_as_it_is_asked(recording: Path) -> None:
    agent = load_agent("replay", {"file": str(recording)})
    second = ASKED.model_copy(update={"generation": 2})
    assert agent.next(second) == reply("two")
    assert agent.first(ASKED) == reply("one")
    assert agent.next(second) == reply("two")


def test_a_recording_that_ends_says_where(recording: Path) -> None:
    agent = load_agent("replay", {"file": str(recording)})
    with pytest.raises(NotFoundError, match="ends after generation 2"):
        agent.next(ASKED.model_copy(update={"generation": 3}))


def test_a_broken_line_is_named_at_the_start(recording: Path) -> None:
    recording.write_text(record(reply("one")) + '{"decision": {}}\n', encoding="utf-8")
    with pytest.raises(UsageError, match="line 2"):
        load_agent("replay", {"file": str(recording)})


def test_a_missing_recording_and_a_missing_option_are_errors(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="nowhere"):
        load_agent("replay", {"file": str(tmp_path / "nowhere")})
    with pytest.raises(UsageError, match="file"):
        load_agent("replay", {})
