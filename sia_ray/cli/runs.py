"""``sia-ray run | resume | status | show | score``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sia_ray.errors import UsageError

if TYPE_CHECKING:
    from sia_ray.runtime.api import Run

Storage = Annotated[Path, typer.Option("--storage", help="Root of the runs.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object as the last line of stdout.")]
Local = Annotated[bool, typer.Option("--local", help="Start a Ray of its own, even with RAY_ADDRESS set.")]
Address = Annotated[str | None, typer.Option("--address", help="Ray cluster to join.", show_default=False)]
ActorsDir = Annotated[Path | None, typer.Option("--actors-dir", help="Actor files to use.", show_default=False)]


def run(
    task: Annotated[str | None, typer.Argument(help="name or folder of a task pack", show_default=False)] = None,
    generations: Annotated[
        int | None, typer.Option("--generations", "--max_gen", help="candidates to make, the first included")
    ] = None,
    agent: Annotated[str | None, typer.Option(help="back-end of Meta and Feedback: search, replay")] = None,
    seed: Annotated[int | None, typer.Option(help="everything random derives from it")] = None,
    lookahead: Annotated[int | None, typer.Option(help="proposal n sees outcomes up to n − L")] = None,
    sandbox: Annotated[
        str | None, typer.Option(help="auto, bubblewrap, namespaces, landlock, or none (isolates nothing)")
    ] = None,
    holdout: Annotated[bool | None, typer.Option("--holdout/--no-holdout", help="score the holdout at the end")] = None,
    target_agent_profile: Annotated[
        str | None,
        typer.Option("--target-agent-profile", help="SIA's target profile: its agent_reference is the first harness"),
    ] = None,
    transcript: Annotated[
        Path | None, typer.Option(help="with --agent replay: the recorded replies", show_default=False)
    ] = None,
    storage: Storage = Path("runs"),
    local: Local = False,
    address: Address = None,
    actors_dir: ActorsDir = None,
    as_json: AsJson = False,
    task_option: Annotated[str | None, typer.Option("--task", hidden=True)] = None,
    task_dir: Annotated[str | None, typer.Option("--task_dir", "--task-dir", hidden=True)] = None,
    run_id: Annotated[int | None, typer.Option("--run_id", "--run-id", hidden=True)] = None,
    focus: Annotated[str | None, typer.Option("--focus", hidden=True)] = None,
    log_level: Annotated[str | None, typer.Option("--log-level", help="DEBUG, INFO, WARNING, ERROR")] = None,
) -> None:
    """Improve TASK and show how it went. SIA's flags --task, --task_dir, --max_gen and --run_id work too."""
    _set_log_level(log_level)
    named = [name for name in (task, task_option, task_dir) if name]
    if len(named) != 1:
        raise UsageError("Say which task, once.", "`sia-ray run lawbench`; `sia-ray tasks list` names the packs.")
    if focus not in (None, "harness"):
        raise UsageError(
            f"--focus {focus} has no lever yet.", "Leave it out: the harness is what this version changes."
        )
    from sia_ray.runtime import api

    finished = api.run(
        named[0],
        generations=generations,
        agent=agent or ("replay" if transcript else None),
        agent_options={"file": str(transcript.absolute())} if transcript else None,
        seed=seed,
        lookahead=lookahead,
        sandbox=sandbox,
        holdout=holdout,
        run_id=run_id,
        target_agent_profile=target_agent_profile,
        storage=storage,
        address=_address(address, local=local),
        actors_dir=actors_dir,
    )
    _finish(finished, as_json=as_json)


def resume(
    run: Annotated[int, typer.Argument(help="number of the run")],
    storage: Storage = Path("runs"),
    local: Local = False,
    address: Address = None,
    actors_dir: ActorsDir = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a run that was stopped."""
    from sia_ray.runtime import api

    finished = api.resume(run, storage=storage, address=_address(address, local=local), actors_dir=actors_dir)
    _finish(finished, as_json=as_json)


def status(storage: Storage = Path("runs"), as_json: AsJson = False) -> None:
    """List the runs of a storage root."""
    from sia_ray.ledger.lock import is_owned
    from sia_ray.ledger.query import read_only
    from sia_ray.ledger.schema import GenerationRow, RunRow

    with read_only(storage) as reader:
        state = reader.state()
    listed = []
    for row in state.rows(RunRow):
        generations = state.rows(GenerationRow, row.run)
        scores = [g.score for g in generations if g.score is not None]
        pick = max if row.direction == "max" else min
        listed.append(
            {
                "run": row.run,
                "task": row.task,
                "status": row.status.value,
                "reason": row.reason,
                "generations": f"{sum(g.status.final for g in generations)}/{row.generations}",
                "best": pick(scores) if scores else None,
                "metric": row.metric,
                "sandbox": row.sandbox,
                "isolated": row.isolated,
                "started": row.started,
            }
        )
    if as_json:
        typer.echo(json.dumps({"schema": 1, "storage": str(storage), "runs": listed}))
        return
    for entry in listed:
        best = "–" if entry["best"] is None else f"{entry['best']:.4f}"
        typer.echo(
            f"run {entry['run']}  {entry['task']}  {entry['status']}  generations {entry['generations']}"
            f"  best dev {entry['metric'] or 'score'} {best}  {entry['reason']}".rstrip()
        )
    if any(entry["status"] == "running" for entry in listed) and not is_owned(storage):
        typer.echo("Nothing drives the runs that are `running`: sia-ray resume RUN", err=True)


def show(
    run: Annotated[int, typer.Argument(help="number of the run")],
    generation: Annotated[int | None, typer.Option("--generation", "-g", help="one generation in full")] = None,
    diff: Annotated[bool, typer.Option("--diff", help="with -g: what it changed in its base")] = False,
    storage: Storage = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Show the generations of a run, or one of them."""
    from sia_ray.runtime.api import Run

    found = Run.load(storage, run)
    if diff and generation is None:
        raise UsageError("--diff needs a generation.", f"`sia-ray show {run} -g N --diff`")
    if generation is None:
        if as_json:
            typer.echo(json.dumps(found.as_dict()))
        else:
            _print_table(found)
        return
    row = next((row for row in found.rows if row.generation == generation), None)
    if row is None:
        from sia_ray.errors import NotFoundError

        raise NotFoundError(f"Run {run} has no generation {generation}.", f"`sia-ray show {run}` lists them.")
    record: dict[str, Any] = row.model_dump(mode="json")
    record["path"] = str(found.path / f"gen_{generation}")
    if diff:
        record["diff"] = _diff(found, generation, row.base)
        if not as_json:
            typer.echo(record["diff"], nl=False)
            return
    if as_json:
        typer.echo(json.dumps(record))
        return
    for key, value in record.items():
        if value not in ("", None, {}, []):
            typer.echo(
                f"{key:<12} {json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value}"
            )


def _diff(found: Run, generation: int, base: int | None) -> str:
    from sia_ray.candidate.diff import diff as compare

    before = found.harness(base) if base is not None else {}
    return compare(before, found.harness(generation)).text


def score(
    run: Annotated[int, typer.Argument(help="number of the run")],
    split: Annotated[str, typer.Option(help="dev or holdout")] = "dev",
    storage: Storage = Path("runs"),
    local: Local = False,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Scores of first and best candidate on a split. The holdout is scored once for a run, and never fed back."""
    from sia_ray.runtime import api

    if split not in ("dev", "holdout"):
        raise UsageError(f"--split {split!r} cannot be scored here.", "Use dev or holdout.")
    if split == "holdout":
        scored = api.score_holdout(run, storage=storage, address=_address(address, local=local))
        record = scored.holdout
    else:
        scored = api.Run.load(storage, run)
        best = scored.best
        start = scored.rows[0].score if scored.rows else None
        record = {"start": start, "score": best.score if best else None}
    if record is None:
        raise UsageError(f"Run {run} has no {split} score.", "Its task has no such split, or the run is not over.")
    if as_json:
        typer.echo(json.dumps({"schema": 1, "run": run, "split": split, "metric": scored.row.metric, **record}))
    else:
        typer.echo(f"{split} {scored.row.metric}: start {_number(record['start'])} → best {_number(record['score'])}")


def _finish(finished: Run, *, as_json: bool) -> None:
    """The end of a run on stdout: a table and the holdout score, or one JSON object."""
    if as_json:
        typer.echo(json.dumps(finished.as_dict(), ensure_ascii=False))
    else:
        _print_table(finished, shown_live=sys.stderr.isatty() and sys.stdout.isatty())
    if finished.status != "done":
        raise typer.Exit(1)


def _print_table(found: Run, *, shown_live: bool = False) -> None:
    """The generations as a table (unless the live one stands on the same terminal), then best and holdout."""
    from rich.console import Console

    from sia_ray.runtime.progress import colour, settings, table

    console = Console(highlight=False, soft_wrap=False)
    if not shown_live:
        console.print(settings(found.row), soft_wrap=True, style=colour(found.row))
        console.print(table(found.row, tuple(found.rows)))
    if found.row.reason:
        console.print(f"{found.status}: {found.row.reason}", soft_wrap=True)
    best, holdout = found.best, found.holdout
    if best is not None:
        console.print(f"best: generation {best.generation}, dev {_number(best.score)} · {found.path}", soft_wrap=True)
    if holdout is not None:
        console.print(
            f"holdout ({holdout['n']} items, the pack's own evaluate.py {holdout['evaluator_sha256'][:12]}): "
            f"start {_number(holdout['start'])} → best {_number(holdout['score'])}",
            soft_wrap=True,
        )


def _number(score: float | None) -> str:
    return "–" if score is None else f"{score:.4f}"


def _address(address: str | None, *, local: bool) -> str | None:
    if local and address:
        raise UsageError("--local and --address exclude each other.", "Leave one of them out.")
    return "local" if local else address


def _set_log_level(level: str | None) -> None:
    import logging
    import os

    from sia_ray.config import LOG_LEVELS, read_environment, suggest

    wanted = level or read_environment(os.environ).get("log_level", "WARNING")
    if wanted.upper() not in LOG_LEVELS:
        raise UsageError(f"Unknown log level {wanted!r}.", suggest(wanted, LOG_LEVELS))
    logging.getLogger("sia_ray").setLevel(wanted.upper())
