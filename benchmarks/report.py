"""What every benchmark does at its end: print a table, write JSON, check its bars."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Bar(NamedTuple):
    """A promise: ``value`` must be at most (or at least) ``limit``."""

    what: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def holds(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


class Outcome(NamedTuple):
    """A benchmark's table, what goes into its JSON, and its bars."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    record: dict[str, Any]
    bars: Sequence[Bar]


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """The flags that all benchmarks share."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--check", action="store_true", help="exit 1 when a bar does not hold")
    return parser


def finish(options: argparse.Namespace, measure: Callable[[], Outcome]) -> None:
    """Measure, print, write, check."""
    from rich.console import Console
    from rich.table import Table

    outcome = measure()
    table = Table(title=outcome.title, title_justify="left")
    for column in outcome.columns:
        table.add_column(column)
    for row in outcome.rows:
        table.add_row(*[f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row])
    Console(highlight=False).print(table)
    for bar in outcome.bars:
        sign = "≥" if bar.at_least else "≤"
        print(f"{'holds' if bar.holds else 'MISSED'}: {bar.what}: {bar.value:.4g} (bar {sign} {bar.limit:g})")
    if options.json:
        bars = [{**bar._asdict(), "holds": bar.holds} for bar in outcome.bars]
        options.json.write_text(json.dumps({**outcome.record, "bars": bars}, indent=1) + "\n", encoding="utf-8")
    if options.check and not all(bar.holds for bar in outcome.bars):
        sys.exit(1)
