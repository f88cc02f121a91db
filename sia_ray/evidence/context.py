"""context.md: the run's story in SIA's format, for people, ``sia web`` and the next prompt.

It is rendered whole from views each time, so it never drifts from the record. Of an evaluator's results only the
scalars in ``GenerationView.values`` enter, which the caller has allow-listed: no list, no row, no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from sia_ray.evidence.markdown import gain, inline, number

INSIGHTS = 3
"""Bullets of improvement.md that are told here."""

EXECUTION = {"single": "Single trajectory", "multi": "Multi-trajectory", "none": "No trajectory was logged"}


class RunView(NamedTuple):
    """What is the same for all generations. ``run`` is the folder's name; ``started`` is a timestamp as text."""

    run: str
    task: str
    meta_model: str
    task_model: str
    agent_impl: str
    started: str
    max_generations: int
    metric: str
    direction: Literal["max", "min"]
    seed: int
    sandbox: str


class GenerationView(NamedTuple):
    """One finished generation. ``status`` is ``passed`` or says how it failed; ``score`` is the dev score.

    ``size_bytes`` and ``lines`` are those of target_agent.py; ``base`` is the generation that was edited, None for
    the first; ``candidate`` is the candidate's digest.
    """

    number: int
    status: str
    started: str
    duration_s: float
    reason: str
    size_bytes: int
    lines: int
    base: int | None
    lever: str
    strategy: str
    insights: Sequence[str]
    values: Mapping[str, object]
    score: float | None
    execution: Literal["single", "multi", "none"]
    candidate: str


def render_context(run: RunView, generations: Sequence[GenerationView]) -> str:
    """The whole context.md after ``generations`` (in order of number)."""
    by_number = {g.number: g for g in generations}
    sections = [_header(run)]
    sections += [_generation(run, g, by_number) for g in generations]
    if generations:
        sections.append(_summary(run, generations))
    return "\n---\n\n".join(sections)


def _header(run: RunView) -> str:
    better = "higher" if run.direction == "max" else "lower"
    pairs: list[tuple[str, object]] = [
        ("Task", run.task),
        ("Meta Model", run.meta_model),
        ("Task Model", run.task_model),
        ("Agent impl", run.agent_impl),
        ("Started", run.started),
        ("Max Generations", run.max_generations),
        ("Metric", f"{run.metric} on dev ({better} is better)"),
        ("Seed", run.seed),
        ("Sandbox", run.sandbox),
    ]
    lines = [f"**{key}**: {inline(str(value))}" for key, value in pairs]
    return "\n".join([f"# Run Context: {inline(run.run)}", "", *lines, ""])


def _generation(run: RunView, this: GenerationView, by_number: Mapping[int, GenerationView]) -> str:
    previous = by_number.get(this.number - 1)
    base = by_number.get(this.base) if this.base is not None else None
    lines = [
        f"## Generation {this.number}",
        "",
        f"**Status**: {_status(this)}",
        f"**Timestamp**: {inline(this.started)}",
        f"**Duration**: {this.duration_s:.1f}s",
        f"**Base**: {'none (the reference)' if this.base is None else f'Generation {this.base}'}",
        f"**Lever**: {inline(this.lever)}",
        f"**Strategy**: {inline(this.strategy)}",
        f"**Candidate**: {inline(this.candidate)}",
        "",
        "### Target Agent Changes",
        "",
        f"- Size: {this.size_bytes:,} bytes{_delta(this.size_bytes, base and base.size_bytes)}",
        f"- Lines: {this.lines:,}{_delta(this.lines, base and base.lines)}",
        *(f"- {inline(text)}" for text in list(this.insights)[:INSIGHTS]),
        "",
        "### Execution Summary",
        "",
        f"- {EXECUTION[this.execution]}",
        "",
        "### Performance Metrics",
        "",
        *(_metrics(this) or ["- none"]),
        "",
    ]
    changes = _change(run, this, previous, "previous") if previous else []
    if base is not None and base is not previous:
        changes += _change(run, this, base, "base")
    if changes:
        lines += ["### Changes vs Previous Generation", "", *changes, ""]
    return "\n".join(lines)


def _status(this: GenerationView) -> str:
    if this.status == "passed":
        return "✓ SUCCESS"
    return (
        f"✗ FAILED ({inline(this.status)}: {inline(this.reason)})"
        if this.reason
        else f"✗ FAILED ({inline(this.status)})"
    )


def _delta(now: int, before: int | None) -> str:
    return "" if before is None else f" ({now - before:+,} vs the base)"


def _metrics(this: GenerationView) -> list[str]:
    """A bullet for each scalar; anything else is left out whatever the caller passed."""
    lines = []
    for name, value in this.values.items():
        if isinstance(value, bool | str):
            lines.append(f"- {inline(name, 60)}: {inline(str(value), 60)}")
        elif isinstance(value, int | float):
            lines.append(f"- {inline(name, 60)}: {number(value)}")
    return lines


def _change(run: RunView, this: GenerationView, other: GenerationView, role: str) -> list[str]:
    against = f"Generation {other.number} ({role})"
    if this.score is None or other.score is None:
        who = "this generation" if this.score is None else against
        return [f"- {inline(run.metric)} vs {against}: no comparison, {who} has no score"]
    step = f"{number(other.score)} → {number(this.score)} ({gain(this.score - other.score)}"
    return [f"- {inline(run.metric)} vs {against}: {step}, {_verdict(run, this.score, other.score)})"]


def _verdict(run: RunView, now: float, before: float) -> str:
    if now == before:
        return "equal"
    return "better" if (now > before) == (run.direction == "max") else "worse"


def _summary(run: RunView, generations: Sequence[GenerationView]) -> str:
    first, last = generations[0], generations[-1]
    passed = [g for g in generations if g.status == "passed"]
    scored = [(g.score, g) for g in passed if g.score is not None]
    lines = [
        "## Summary Statistics",
        "",
        f"**Total Generations**: {len(generations)}",
        f"**Successful Executions**: {len(passed)}",
    ]
    metric = inline(run.metric)
    if scored:
        score, best = (max if run.direction == "max" else min)(scored, key=lambda pair: pair[0])
        better = "higher" if run.direction == "max" else "lower"
        lines.append(
            f"**Best Performance**: Generation {best.number} ({metric} {number(score)} on dev, {better} is better)"
        )
        lines += ["", "**Evolution**:"]
        start, initial = scored[0]
        step = f"{number(start)} → {number(score)} ({gain(score - start)}, {_verdict(run, score, start)})"
        lines.append(f"- {metric}, best (Generation {best.number}) vs initial (Generation {initial.number}): {step}")
    else:
        lines.append(f"**Best Performance**: none (no generation has a {metric})")
    lines += [
        "",
        "**Code Growth**:",
        f"- Initial (Generation {first.number}): {first.lines:,} lines ({first.size_bytes:,} bytes)",
        f"- Final (Generation {last.number}): {last.lines:,} lines ({last.size_bytes:,} bytes)",
        f"- Growth: {last.lines - first.lines:+,} lines ({last.size_bytes - first.size_bytes:+,} bytes)",
    ]
    return "\n".join(lines) + "\n"
