"""`sia-ray ledger`: check, export and query the record of a storage root. Reads only, also beside a live Supervisor."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(name="ledger", help="Check, export and query the record of all runs.", no_args_is_help=True)

Storage = Annotated[Path, typer.Option("--storage", help="Root of the runs.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


class Format(StrEnum):
    """Export formats."""

    JSONL = "jsonl"
    """One line an event, as in STORAGE/ledger.jsonl."""
    PARQUET = "parquet"
    """events.parquet and one file a table."""


@app.command()
def verify(storage: Storage = Path("runs"), as_json: AsJson = False) -> None:
    """Check hash chain, numbering, replay and export; exit 5 when something does not hold."""
    from sia_ray.errors import LedgerDamaged
    from sia_ray.ledger import verify as checks

    result = checks.verify(storage)
    if as_json:
        typer.echo(result.model_dump_json())
        raise typer.Exit(0 if result.ok else LedgerDamaged.exit_code)
    if not result.ok:
        for finding in result.findings:
            typer.echo(finding)
        raise LedgerDamaged(
            f"The ledger of {storage} does not hold: {len(result.findings)} finding(s).",
            "Move the damaged file (ledger.sqlite* or ledger.jsonl) aside: the next start rebuilds it from the other.",
        )
    typer.echo(f"ok: {result.events} events, {result.exported} exported, head {result.head[:12]}")


@app.command()
def export(
    form: Annotated[Format, typer.Option("--format", help="jsonl or parquet.")] = Format.JSONL,
    out: Annotated[Path | None, typer.Option("--out", help="Folder to write to; STORAGE/export when left out.")] = None,
    storage: Storage = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Write the events (and, as Parquet, the tables) to a folder."""
    from sia_ray.ledger.journal import export_jsonl, export_parquet
    from sia_ray.ledger.query import read_only

    folder = out if out is not None else storage / "export"
    with read_only(storage) as reader:
        files = (export_jsonl if form is Format.JSONL else export_parquet)(reader, folder)
    if as_json:
        typer.echo(json.dumps({"format": form.value, "files": [str(file) for file in files]}))
    else:
        for file in files:
            typer.echo(str(file))


@app.command()
def query(
    sql: Annotated[str, typer.Argument(help='One SELECT, e.g. "SELECT kind, count(*) FROM events GROUP BY kind".')],
    storage: Storage = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Run one SELECT over the events and the state tables."""
    from sia_ray.ledger.query import read_only

    with read_only(storage) as reader:
        answer = reader.query(sql)
    if as_json:
        typer.echo(json.dumps({"columns": answer.columns, "rows": answer.rows}, default=repr))
        return
    typer.echo("\t".join(answer.columns))
    for row in answer.rows:
        typer.echo("\t".join("" if value is None else str(value) for value in row))
