"""``sia-ray env``: the Python environments that runs have built on this machine, and the removal of old ones."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sia_ray.sandbox.inventory import Entry

app = typer.Typer(name="env", help="List and remove the environments that runs have built.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
KEEP_DAYS = 30.0
SHOWN = 60
"""Characters of the requirements in the table."""


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Every environment of the cache, the one used last first."""
    from sia_ray.sandbox.environments import environments_dir
    from sia_ray.sandbox.inventory import list_environments
    from sia_ray.task.cache import cache_root

    folder = environments_dir(cache_root())
    entries = list_environments(cache_root())
    if as_json:
        typer.echo(json.dumps({"folder": str(folder), "environments": [_facts(entry) for entry in entries]}))
        return
    if not entries:
        typer.echo(f"No environments in {folder}: the first run builds one.", err=True)
        return
    typer.echo(f"{'digest':<12}  {'MB':>7}  {'own MB':>7}  {'last use (UTC)':<16}  {'state':<10}  requirements")
    for entry in entries:
        state = "in use" if entry.in_use else "idle" if entry.whole else "unfinished"
        wanted = ", ".join(entry.requirements) or ("none" if entry.whole else "")
        wanted = wanted if len(wanted) <= SHOWN else wanted[: SHOWN - 1] + "…"
        when = (_moment(entry.last_use) or "never")[:16].replace("T", " ")
        sizes = f"{entry.size_bytes / 1e6:>7.1f}  {entry.own_bytes / 1e6:>7.1f}"
        typer.echo(f"{entry.digest[:12]}  {sizes}  {when:<16}  {state:<10}  {wanted}")


@app.command()
def prune(
    keep_days: Annotated[
        float | None,
        typer.Option("--keep-days", min=0, help=f"Keep what was used in N days; default {KEEP_DAYS:g}."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Remove all that nobody is using now.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove environments that have not been used for a while and what killed builders left; none that is in use."""
    from sia_ray.clock import SystemClock
    from sia_ray.errors import UsageError
    from sia_ray.sandbox.inventory import DAY_S, prune_environments
    from sia_ray.task.cache import cache_root

    if every and keep_days is not None:
        raise UsageError("--all and --keep-days exclude each other.", "Give one of them.")
    days = KEEP_DAYS if keep_days is None else keep_days
    since = float("inf") if every else datetime.fromisoformat(SystemClock().now()).timestamp() - days * DAY_S
    removed, spared = prune_environments(cache_root(), unused_since=since)
    freed = sum(entry.own_bytes for entry in removed)
    if as_json:
        names = {"removed": [entry.digest for entry in removed], "in_use": [entry.digest for entry in spared]}
        typer.echo(json.dumps({**names, "freed_bytes": freed}))
        return
    for entry in removed:
        typer.echo(f"removed {entry.digest[:12]}")
    for entry in spared:
        typer.echo(f"in use, left alone: {entry.digest[:12]}")
    typer.echo(f"{len(removed)} removed, {freed / 1e6:.1f} MB freed")


def _facts(entry: Entry) -> dict[str, Any]:
    return {**entry._asdict(), "last_use": _moment(entry.last_use)}


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
