"""Where named declarations (actors, tasks, cluster) are looked up."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from sia_ray.errors import NotFoundError
from sia_ray.task.pack import CONFIG, TASK_MD

Kind = Literal["actors", "tasks", "cluster"]

_PACKAGE = Path(__file__).resolve().parent.parent


def data_root(kind: Kind) -> Path:
    """The folder that came with sia-ray: inside the installed package, or beside it in a checkout."""
    installed = _PACKAGE / "_data" / kind
    return installed if installed.is_dir() else _PACKAGE.parent / kind


def find_task(task: str | os.PathLike[str], *, extra_dirs: Sequence[Path] = ()) -> Path:
    """The folder of a task: a path, else its name under ``extra_dirs``, ``./tasks`` and the packaged tasks.

    A path object, a value with a separator, or a lone ``.``, is a path. Raises NotFoundError with the nearest name.
    """
    name_or_path = os.fspath(task)
    if isinstance(task, os.PathLike) or os.sep in name_or_path or name_or_path in {".", ".."}:
        path = Path(name_or_path).expanduser().absolute()
        if path.is_dir():
            return path
        raise NotFoundError(f"There is no task folder {path}.", "Known names: `sia-ray tasks list`.")
    known = list_tasks(extra_dirs=extra_dirs)
    if name_or_path in known:
        return known[name_or_path]
    close = difflib.get_close_matches(name_or_path, known, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else "Known names: `sia-ray tasks list`; a path needs a `/`."
    raise NotFoundError(f"There is no task {name_or_path!r}.", hint)


def list_tasks(*, extra_dirs: Sequence[Path] = ()) -> dict[str, Path]:
    """Every task by name; the user's own hide packaged ones of the same name."""
    found: dict[str, Path] = {}
    for folder in [*extra_dirs, Path.cwd() / "tasks", data_root("tasks")]:
        for task in _tasks_in(folder):
            found.setdefault(task.name, task.absolute())
    return dict(sorted(found.items()))


def _tasks_in(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        for child in sorted(folder.iterdir()):
            if (child / CONFIG).is_file() or (child / TASK_MD).is_file():
                yield child
