"""A pack to begin with: ``pack/`` beside this module holds it as it is written, but for its name.

It runs as it stands (a small made-up problem, the standard library alone), so that whoever replaces it file by file
always has something that can be checked.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from sia_ray.errors import UsageError
from sia_ray.task.tree import walk

TEMPLATE = Path(__file__).parent / "pack"
PLACEHOLDERS = ("__NAME__", "__PATH__")
GENERIC_TEST = "tests/test_pack.py"

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def new_pack(name: str, folder: Path, *, taken: Mapping[str, Path] | None = None) -> Path:
    """Write a pack called ``name`` into ``folder``/``name``, whole or not at all, and return its path.

    ``taken`` holds the tasks that are known already: a second one of a name would hide the first. Raises UsageError.
    """
    _check_name(name)
    root = folder / name
    if os.path.lexists(root):
        raise UsageError(f"{root} is there already; nothing was written.", "Give another NAME or another --dir.")
    if taken and name in taken:
        hint = "Give another NAME: two tasks of one name would hide each other."
        raise UsageError(f"There is a task {name!r} already, in {taken[name]}.", hint)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(name, root)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"{root} cannot be written: {reason}; nothing is left of it.", "Give another --dir.") from None
    return root


def _write(name: str, root: Path) -> None:
    """All files go into a hidden folder beside ``root``, which becomes ``root`` once it is complete."""
    draft = Path(tempfile.mkdtemp(prefix=".new-", dir=root.parent))
    try:
        draft.chmod(0o755)
        for relative, source in walk(TEMPLATE):
            target = draft / (_test_path(name) if relative == GENERIC_TEST else relative)
            target.parent.mkdir(parents=True, exist_ok=True)
            text = source.read_text(encoding="utf-8")
            for placeholder, value in zip(PLACEHOLDERS, (name, f"{root.parent}/{name}"), strict=True):
                text = text.replace(placeholder, value)
            target.write_text(text, encoding="utf-8")
        draft.rename(root)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _test_path(name: str) -> str:
    """The pack's test is named after it: pytest imports it as a module, and no two packs' may share a name."""
    return f"tests/test_{re.sub('[^a-z0-9]', '_', name)}.py"


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name):
        return
    close = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._")[:64]
    hint = "Use small letters, digits, '.', '_' and '-', beginning with a letter or digit, at most 64 in all."
    if close:
        hint += f" For example {close!r}."
    if "/" in name or os.sep in name:
        hint += " The folder that it goes into is given by --dir."
    raise UsageError(f"{name!r} cannot be the name of a task.", hint)
