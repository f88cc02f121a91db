"""What a pack's Python asks for, held against what a run of it would have: flags, files, keys, packages, models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sia_ray.errors import SiaRayError
from sia_ray.evaluation.findings import Trial
from sia_ray.evaluation.source_scan import FLAGS, Scan, model_names, same_model, scan_source
from sia_ray.sandbox.policy import Job, Limits
from sia_ray.sandbox.variables import base_env
from sia_ray.task.pack import ITEMS, REQUIREMENTS, TASK_MD, TaskPack


def scan_reference(pack: TaskPack, trial: Trial) -> Scan | None:
    try:
        return scan_source(pack.reference_agent)
    except (SyntaxError, ValueError) as error:
        trial.error(f"not valid Python: {error}", pack.entry, "Correct the syntax.")
    except SiaRayError as error:
        trial.failed(error, pack.entry)
    return None


def explain(
    pack: TaskPack,
    trial: Trial,
    scan: Scan,
    public: Path,
    python: Path,
    available: Mapping[str, str],
    *,
    fatal: bool,
) -> None:
    """What the source asks for and would not find: errors when the reference did not run, else warnings."""
    report = trial.error if fatal else trial.warn
    for flag in FLAGS:
        if flag not in scan.flags:
            todo = "A harness is started as `target_agent.py --dataset_dir D --working_dir W`."
            report(f"the reference does not take {flag}", pack.entry, todo)
    for path, line in scan.dataset_files.items():
        if not (public / path).exists():
            todo = "Put it there (a split script can), or read it only when it exists."
            report(f"it reads {path}, which is not in data/public", f"{pack.entry}:{line}", todo)
    for variable, line in scan.variables.items():
        if variable not in available:
            todo = "Nothing is inherited from your shell: give the run a target profile that names this key."
            report(f"it reads {variable}, which would not be set", f"{pack.entry}:{line}", todo)
    if scan.hosted and not pack.config.target.network:
        names = ", ".join(sorted(scan.hosted))
        line = min(scan.hosted.values())
        todo = "Set [target] network = true in task.toml."
        report(f"it calls a hosted model ({names}), and a run has no network", f"{pack.entry}:{line}", todo)
    _check_imports(pack, trial, python, fatal=fatal)


def _check_imports(pack: TaskPack, trial: Trial, python: Path, *, fatal: bool) -> None:
    """Packages that the pack's own Python files import and the environment does not have."""
    wanted: dict[str, list[str]] = {}
    for path in filter(None, (*pack.harness_files.values(), pack.evaluator, ITEMS, pack.config.splits.script)):
        if not (path.endswith(".py") and pack.has(path)):
            continue
        folders = [pack.find(path).parent]
        if path in pack.harness_files.values():
            folders.append(pack.find(pack.entry).parent)
        try:
            imports = scan_source(pack.find(path).read_text(encoding="utf-8")).imports
        except (SyntaxError, ValueError):
            continue
        for name, line in imports.items():
            if not any((folder / f"{name}.py").exists() or (folder / name).is_dir() for folder in folders):
                wanted.setdefault(name, []).append(f"{path}:{line}")
    report = trial.error if fatal else trial.warn
    for name in _missing(trial, sorted(wanted), python):
        todo = f"Add its package to {REQUIREMENTS}."
        report(f"the environment lacks {name}, which is imported", ", ".join(wanted[name]), todo)


_MISSING = """
import importlib.util, sys
for name in sys.argv[1:]:
    try:
        found = importlib.util.find_spec(name)
    except ImportError:
        found = None
    if found is None:
        print(name)
"""


def _missing(trial: Trial, names: Sequence[str], python: Path) -> list[str]:
    """Which of these packages the environment does not have."""
    if not names:
        return []
    prefix = python.parent.parent
    limits = Limits(wall_s=30, memory_mb=512, cpus=1)
    argv = (str(python), "-I", "-c", _MISSING, *names)
    finished = trial.sandbox.run(Job(argv, (), base_env(python=prefix), limits, python=prefix))
    return finished.output.text().split() if finished.ok else []


def compare_models(pack: TaskPack, trial: Trial, scan: Scan, profile_models: Sequence[str]) -> None:
    asked = model_names(pack.task_md)
    used = list(scan.models)
    todo = "Name one model everywhere: a run of another model is another task."
    other = [model for model in used if asked and not any(same_model(model, name) for name in asked)]
    if other:
        where = f"{pack.entry}:{scan.models[other[0]]}, {TASK_MD}"
        trial.warn(f"the reference uses {', '.join(other)}, task.md asks for {', '.join(asked)}", where, todo)
    named = [*asked, *used]
    for profile in profile_models if named else ():
        if not any(same_model(profile, name) for name in named):
            trial.warn(f"the profile's {profile} is none of {', '.join(dict.fromkeys(named))}", TASK_MD, todo)
