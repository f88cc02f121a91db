"""A folder on disk as sizes and digests: what pack and split identities are made of."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from sia_ray.errors import PackError


class Entry(NamedTuple):
    """One regular file: its size in bytes and its SHA-256, lower-case hex."""

    size: int
    sha256: str


def walk(root: Path, *, hidden: bool = False) -> Iterator[tuple[str, Path]]:
    """(relative POSIX path, path) of every file under ``root``, folder by folder.

    Left out: byte code and, unless ``hidden``, names with a leading dot: no pack means to ship them. A link that
    leaves ``root`` and anything that is neither file nor folder raise PackError: a digest could not stand for them.
    """
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if not _is_noise(name, hidden))
        for name in [*names, *sorted(name for name in files if not _is_noise(name, hidden))]:
            path = Path(folder, name)
            if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
                raise PackError(f"{path} is a link that leaves the folder.", "Replace it by the file itself.")
            if name in names and not path.is_symlink():
                continue
            if not path.is_file():
                raise PackError(f"{path} is not a regular file.", "Remove it or replace it by a file.")
            yield path.relative_to(root).as_posix(), path


def scan(files: Mapping[str, Path]) -> dict[str, Entry]:
    """Size and digest of each file."""
    return {relative: Entry(path.stat().st_size, file_sha256(path)) for relative, path in files.items()}


def file_sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digest_of(entries: Mapping[str, Entry]) -> str:
    """SHA-256 over the sorted lines ``<sha256>  <path>``, as ``sha256sum`` would print them."""
    lines = "".join(f"{entries[path].sha256}  {path}\n" for path in sorted(entries))
    return hashlib.sha256(lines.encode()).hexdigest()


def copy_into(files: Mapping[str, Path], folder: Path) -> None:
    """Copy each file's content to its relative path under ``folder``."""
    for relative, source in files.items():
        target = folder / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _is_noise(name: str, hidden: bool) -> bool:
    return name == "__pycache__" or name.endswith(".pyc") or (name.startswith(".") and not hidden)
