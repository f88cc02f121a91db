"""``sia-ray tasks check``: what a run of this pack would meet, found out before any run.

The reference harness runs once on the smoke split, the evaluator scores it, and everything that is wrong with the
pack becomes a finding that names the place and the way out. Nothing is recorded and no holdout score is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from sia_ray.errors import SiaRayError
from sia_ray.evaluation.contract import Evaluation, evaluate
from sia_ray.evaluation.findings import Report, SplitSize, Trial
from sia_ray.evaluation.harness_run import HarnessRun, run_harness
from sia_ray.evaluation.needs import compare_models, explain, scan_reference
from sia_ray.evaluation.results import Status
from sia_ray.evaluation.statistics import smallest_gain
from sia_ray.sandbox.environments import ensure_environment
from sia_ray.sandbox.fetch import with_data
from sia_ray.sandbox.policy import Cause, Sandbox
from sia_ray.sandbox.preparation import evaluator_limits, script_runner, target_limits
from sia_ray.sandbox.variables import base_env
from sia_ray.task.pack import REQUIREMENTS, SEARCH_SPACE, TaskPack, inspect_pack
from sia_ray.task.splits import Split, Splits, materialise

CHECK_WALL_S = 120
"""The longest that the reference may run here, whatever ``[target] wall_s`` allows it in a run."""
LOG_CHARS = 4_000


class SpaceCheck(Protocol):
    """Checks ``reference/search_space.toml``: (reference files by path, reference agent); raises SiaRayError."""

    def __call__(self, reference: Mapping[str, str], agent: str) -> None: ...


def check(
    root: Path,
    *,
    sandbox: Sandbox,
    cache_dir: Path,
    space_check: SpaceCheck | None = None,
    profile_models: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Report:
    """Check the pack at ``root``. ``profile_models`` are the target's models of the profile in use; ``env`` is what a
    run would add to the harness's variables. Raises NotFoundError when there is no folder.
    """
    trial = Trial(sandbox, cache_dir, [], {})
    inspection = inspect_pack(root)
    for mistake in inspection.mistakes:
        trial.error(*mistake)
    report = Report(task=root.name, root=str(root), sandbox=sandbox.name)
    if inspection.pack is not None:
        report = _check_pack(inspection.pack, trial, report, env or {}, profile_models)
        if space_check is not None:
            _check_space(inspection.pack, trial, space_check)
    return report.model_copy(update={"findings": tuple(trial.findings), "seconds": trial.seconds})


def _check_pack(
    pack: TaskPack, trial: Trial, report: Report, env: Mapping[str, str], profile_models: Sequence[str]
) -> Report:
    report = report.model_copy(update={"task": pack.name, "digest": pack.digest})
    try:
        with trial.timed("fetch"):
            pack = with_data(pack, trial.cache_dir)
        with trial.timed("environment"):
            python = ensure_environment(pack.requirements, cache_dir=trial.cache_dir).python
    except SiaRayError as error:
        trial.failed(error, "task.toml [data]" if "environment" not in trial.seconds else REQUIREMENTS)
        return report
    splits = _splits(pack, trial, python)
    public = splits.smoke.public if splits else pack.root / "data" / "public"
    scan = scan_reference(pack, trial)
    if splits is not None:
        report = report.model_copy(update={"splits": {str(s.name): _size(s) for s in splits.by_name.values()}})
        run = _run_reference(pack, trial, splits.smoke, python, env)
        report = report.model_copy(
            update={
                "split": str(splits.smoke.name),
                "limit_s": _limit_s(pack),
                "items": splits.smoke.n_hint,
                "peak_memory_mb": run.finished.peak_memory_mb,
                "log": run.finished.output.text()[-LOG_CHARS:],
                **_score(pack, trial, splits.smoke, python, run),
            }
        )
        fatal = not run.finished.ok
    else:
        fatal = True
    if scan is not None:
        available = {**base_env(python=python.parent.parent), **env}
        explain(pack, trial, scan, public, python, available, fatal=fatal)
        compare_models(pack, trial, scan, profile_models)
    return report


def _splits(pack: TaskPack, trial: Trial, python: Path) -> Splits | None:
    if pack.evaluator is None:
        return None
    try:
        with trial.timed("splits"):
            run_script = script_runner(trial.sandbox, python)
            return materialise(pack, cache_dir=trial.cache_dir, run_script=run_script)
    except SiaRayError as error:
        trial.failed(error, pack.config.splits.script or "data/")
        return None


def _size(split: Split) -> SplitSize:
    return SplitSize(items=split.n_hint, smallest_gain=smallest_gain(split.n_hint) if split.n_hint else None)


def _limit_s(pack: TaskPack) -> float:
    return min(pack.config.target.wall_s, CHECK_WALL_S)


def _run_reference(pack: TaskPack, trial: Trial, split: Split, python: Path, env: Mapping[str, str]) -> HarnessRun:
    target = pack.config.target
    wall_s = _limit_s(pack)
    run = run_harness(
        trial.sandbox,
        harness=pack.reference_harness,
        public_dir=split.public,
        limits=target_limits(target).model_copy(update={"wall_s": wall_s}),
        python=python,
        network=target.network,
        env=env,
    )
    finished = run.finished
    trial.seconds["harness"] = finished.wall_s
    if finished.cause is Cause.TIMEOUT:
        todo = f"The check gives it {wall_s:g} s. Let [splits] script cut a smoke split of a few rows."
        if split.name == "smoke":
            todo = "Make the smoke split smaller, or the reference faster."
        trial.error(f"the reference did not end within {wall_s:g} s on {split.name}", pack.entry, todo)
    elif finished.cause is Cause.INFRASTRUCTURE:
        trial.error(f"the sandbox could not run it: {finished.detail}", pack.entry, "See `--sandbox MODE`.")
    elif not finished.ok:
        ended = f"exit {finished.returncode}" if finished.cause is Cause.EXITED else str(finished.cause)
        todo = "Correct what it says; --json has more of its output."
        trial.error(f"the reference failed on {split.name} ({ended}): {_last_words(run)}", pack.entry, todo)
    return run


def _score(pack: TaskPack, trial: Trial, split: Split, python: Path, run: HarnessRun) -> dict[str, Any]:
    """Evaluate the reference's outputs, and an empty folder, which must not have a good score."""
    done = _evaluate(pack, trial, split, python, run.outputs)
    trial.seconds["evaluator"] = done.wall_s
    metric = pack.config.metric
    if done.status is Status.PASSED and metric is None:
        todo = "Declare it in task.toml: [metric] name, direction, range and denominator."
        trial.warn(f"no metric is declared; {done.metric!r} would be read, higher taken as better", "task.toml", todo)
    elif done.status is not Status.PASSED and run.finished.ok:
        where = split.evaluator if done.status is not Status.INVALID else f"{split.evaluator} or task.toml [metric]"
        todo = "Let evaluator and reference agree; `sia-ray results FILE` says how a results.json is read."
        trial.error(f"the evaluator gave no score ({done.status}): {done.reason}", where, todo)
    if done.status is Status.PASSED and done.score is not None:
        empty = _evaluate(pack, trial, split, python, {})
        worst = (metric.range[0] if metric.direction == "max" else metric.range[1]) if metric and metric.range else 0.0
        if empty.status is Status.PASSED and empty.score is not None and empty.score != worst:
            todo = "A missing answer must count as a wrong one: exit with 1 when there is no submission."
            trial.warn(f"a run that wrote nothing is scored {empty.score:g}", split.evaluator, todo)
    return {
        "status": str(done.status),
        "score": done.score,
        "metric": done.metric or (metric.name if metric else ""),
        "direction": metric.direction if metric else "max",
    }


def _evaluate(pack: TaskPack, trial: Trial, split: Split, python: Path, outputs: Mapping[str, bytes]) -> Evaluation:
    return evaluate(
        trial.sandbox,
        split_dir=split.root,
        outputs=outputs,
        metric=pack.config.metric,
        limits=evaluator_limits(pack.config.evaluator),
        python=python,
        reference_dir=pack.items.parent if pack.items else None,
    )


def _check_space(pack: TaskPack, trial: Trial, space_check: SpaceCheck) -> None:
    space = pack.search_space
    if space is None:
        todo = "Write one (docs/task-packs.md), or run the pack with another --agent."
        trial.warn("there is no search space: `--agent search` cannot work on this pack", SEARCH_SPACE, todo)
        return
    reference = {
        path.relative_to(space.parent).as_posix(): path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(space.parent.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }
    try:
        space_check(reference, pack.reference_agent)
    except SiaRayError as error:
        trial.failed(error, SEARCH_SPACE)


def _last_words(run: HarnessRun) -> str:
    lines = [line.strip() for line in run.finished.output.text().splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"
