"""What a person sees while a run goes on: a live table on a terminal, plain lines elsewhere. Both go to stderr."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Protocol

from sia_ray.episode.decide import best_of
from sia_ray.ledger.schema import GenerationRow, RunRow
from sia_ray.runtime.supervisor import Snapshot


class Progress(Protocol):
    """Told about each change of a run."""

    def begin(self, storage: Path, number: int) -> None: ...

    def update(self, snapshot: Snapshot) -> None: ...

    def end(self) -> None: ...


class Silent:
    """Shows nothing."""

    def begin(self, storage: Path, number: int) -> None: ...

    def update(self, snapshot: Snapshot) -> None: ...

    def end(self) -> None: ...


class Lines:
    """One line a change, for logs and pipes."""

    def __init__(self) -> None:
        self._said: dict[int, str] = {}
        self._paused = ""
        self._header = False
        self._holdout: set[str] = set()

    def begin(self, storage: Path, number: int) -> None:
        self._say(where(storage, number))

    def update(self, snapshot: Snapshot) -> None:
        if not self._header:
            self._header = True
            self._say(settings(snapshot.run))
        if snapshot.paused != self._paused:
            self._paused = snapshot.paused
            self._say(f"paused: {snapshot.paused}" if snapshot.paused else "going on")
        for row in snapshot.generations:
            if self._said.get(row.generation) != row.status:
                self._said[row.generation] = row.status
                if row.status.final:
                    self._say(f"gen {row.generation:>3}  {outcome(row)}  {'; '.join(row.changes)}".rstrip())
        for role, entry in snapshot.run.holdout.items():
            if role not in self._holdout:
                self._holdout.add(role)
                self._say(
                    f"holdout, {role} (gen {entry['generation']}): {_number(entry['score'])} on {entry['n']} items"
                )

    def end(self) -> None: ...

    def _say(self, line: str) -> None:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


class Table:
    """A live table of generations."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False)
        self._header = False

    def begin(self, storage: Path, number: int) -> None:
        self._console.print(where(storage, number), highlight=False, soft_wrap=True)

    def update(self, snapshot: Snapshot) -> None:
        from rich.text import Text

        if not self._header:
            self._header = True
            self._console.print(settings(snapshot.run), highlight=False, style=colour(snapshot.run))
            self._live.start()
        shown = table(snapshot.run, snapshot.generations)
        if snapshot.paused:
            shown.caption, shown.caption_justify = Text(f"paused: {snapshot.paused}", style="yellow"), "left"
        self._live.update(shown, refresh=True)

    def end(self) -> None:
        if self._header:
            self._live.stop()


def for_terminal() -> Progress:
    """The live table when stderr is a terminal, else plain lines."""
    return Table() if sys.stderr.isatty() else Lines()


def silent() -> Progress:
    return Silent()


def where(storage: Path, number: int) -> str:
    """Where the run is, and what to do should this process die."""
    return f"run tree: {storage / f'run_{number}'} (should this stop: sia-ray resume {number} --storage {storage})"


def colour(run: RunRow) -> str | None:
    """The style of ``settings`` on a terminal that takes colours (rich minds NO_COLOR): red when nothing isolates."""
    return None if run.isolated else "red"


def settings(run: RunRow) -> str:
    """The effective configuration in one line, with where each value came from."""
    origins = run.spec.get("origins", {})
    names = ("generations", "agent", "seed", "lookahead")
    said = [f"{name} {getattr(run, name)} ({origins.get(name, 'default')})" for name in names]
    marked = run.sandbox if run.isolated else "NONE: nothing is isolated, nothing of it can be promoted"
    metric = f"{run.metric or 'found in results.json'} ({run.direction})"
    return f"run {run.run}: {run.task} · metric {metric} · {' · '.join(said)} · sandbox {marked}"


def outcome(row: GenerationRow) -> str:
    """How a generation ended, in a few words."""
    if row.score is None:
        return f"{row.status.value:<8} {why(row)}"
    gain = row.comparison.get("effect")
    beside = f" ({gain:+.4f} against base gen {row.base})" if gain is not None else ""
    return f"{row.score:.4f}{beside}"


def why(row: GenerationRow) -> str:
    """The reason of a generation without a score, with the first line of what the machine saw."""
    detail = row.detail.strip().splitlines()[:1]
    return ": ".join([row.reason, *detail]) if row.reason else ""


def table(run: RunRow, generations: tuple[GenerationRow, ...]) -> Any:
    """The generations of a run as a rich table; the best so far is marked."""
    from rich.markup import escape
    from rich.table import Table as RichTable

    shown = RichTable(title=f"run {run.run} · {run.task} · dev {run.metric or 'score'}", title_justify="left")
    for name in ("gen", "base", "score", "vs base", "s"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("what", overflow="fold")
    best = best_of(run, list(generations))
    for row in generations:
        gain = row.comparison.get("effect")
        shown.add_row(
            f"{row.generation}",
            "" if row.base is None else f"{row.base}",
            _number(row.score) if row.score is not None else row.status.value,
            "" if gain is None else f"{gain:+.4f}",
            "" if row.seconds is None else f"{row.seconds:.1f}",
            escape(why(row) or "; ".join(row.changes) or ("the reference" if row.generation == 1 else "")),
            style="bold green" if best is not None and row.generation == best.generation else "",
        )
    return shown


def _number(score: float | None) -> str:
    return "–" if score is None else f"{score:.4f}"
