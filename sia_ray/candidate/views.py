"""Views: split folders as they travel to other nodes, unpacked once per node and kept by digest.

A *public* view is ``data/public`` alone (what a target sees); a *whole* view is the split as evaluators need it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sia_ray.candidate.bundle import pack, unpack, write_tree
from sia_ray.candidate.identity import Files, digest_bytes
from sia_ray.errors import InfrastructureError
from sia_ray.task.cache import building, locked
from sia_ray.task.tree import Entry, digest_of, scan, walk


def pack_view(folder: Path) -> bytes:
    """The folder as one bundle."""
    return pack({path: file.read_bytes() for path, file in walk(folder, hidden=True)})


def view_digest(folder: Path) -> str:
    """The digest that ``ensure_view`` checks."""
    return digest_of(scan(dict(walk(folder, hidden=True))))


def files_digest(files: Files) -> str:
    """The digest that a folder with these files would have."""
    return digest_of({path: Entry(len(data), digest_bytes(data)) for path, data in files.items()})


def ensure_view(digest: str, fetch: Callable[[], bytes], *, cache_dir: Path) -> Path:
    """The view with this digest on this node, unpacked from ``fetch()`` when it is not there yet.

    Raises InfrastructureError when what arrived is something else. Entries are complete or absent, so a folder that
    stands needs no second look.
    """
    entry = cache_dir / "views" / digest
    if entry.is_dir():
        return entry
    with locked(entry):
        if entry.is_dir():
            return entry
        with building(entry) as folder:
            write_tree(unpack(fetch()), folder)
            if view_digest(folder) != digest:
                raise InfrastructureError(f"The view {digest[:12]} arrived damaged.", "It is fetched again.")
    return entry
