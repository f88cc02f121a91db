"""Splits: each part of a pack's data as a folder of its own, so that who may see what is a matter of mounts.

A split has the truth's layout, ``data/public`` and ``data/private``, with the pack's evaluator byte for byte at its
place. Splits are made once and kept by the digest of what they were made from.
"""

from __future__ import annotations

import csv
import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from sia_ray.errors import NotFoundError, PackError
from sia_ray.task.cache import building, locked
from sia_ray.task.config import SplitName
from sia_ray.task.pack import TASK_MD, TaskPack
from sia_ray.task.tree import Entry, copy_into, digest_of, file_sha256, scan, walk

SCHEMA = 1
MANIFEST = "manifest.json"
LARGEST_COUNTED_BYTES = 64 * 2**20
REPORT = "splits.json"
"""What a split script may leave beside its folders: ``{"splits": {NAME: {"rows": N}}}`` names the items of each."""


class RunScript(Protocol):
    """Runs a pack's split script in a sandbox, to its end; raises PackError with its last words."""

    def __call__(self, script: Path, source: Path, out: Path) -> None: ...


class Split(NamedTuple):
    """One materialised split. ``digest`` covers all its files; ``n_hint`` is the number of items, where known."""

    name: SplitName
    root: Path
    digest: str
    evaluator_sha256: str
    evaluator: str
    """The evaluator's place under ``root``."""
    n_hint: int | None = None

    @property
    def public(self) -> Path:
        return self.root / "data" / "public"

    @property
    def private(self) -> Path:
        return self.root / "data" / "private"


@dataclass(frozen=True)
class Splits:
    """The splits of one pack by name."""

    root: Path
    by_name: Mapping[SplitName, Split]

    def __getitem__(self, name: str) -> Split:
        if name not in self.by_name:
            known = ", ".join(sorted(self.by_name))
            raise NotFoundError(f"This task has no split {name!r}.", f"It has: {known}.")
        return self.by_name[SplitName(name)]

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    @property
    def dev(self) -> Split:
        return self[SplitName.DEV]

    @property
    def smoke(self) -> Split:
        """The smoke split, or dev where the pack has none."""
        return self.by_name.get(SplitName.SMOKE, self.dev)


def materialise(pack: TaskPack, *, cache_dir: Path, run_script: RunScript) -> Splits:
    """The pack's splits, made if the cache has none that still match their manifest by name and size.

    ``pack`` has its data fetched. Callers at the same time, in any process, build once. Raises PackError when the
    script fails or leaves something that is not the splits that ``task.toml`` names.
    """
    if pack.evaluator is None:
        raise PackError(f"{pack.name} has no evaluator.", "Add data/public/evaluate.py.")
    sources = {path: file for path, file in pack.files().items() if path.startswith("data/") or path == pack.evaluator}
    entry = cache_dir / "splits" / _key(pack, sources)
    found = _load(entry)
    if found is not None:
        return found
    with locked(entry):
        if (found := _load(entry)) is not None:
            return found
        with building(entry) as folder:
            _make(pack, sources, folder, run_script)
            _write_manifest(pack, folder)
    made = _load(entry)
    if made is None:
        raise PackError(f"The splits of {pack.name} changed while they were made.", "Try again.")
    return made


def _key(pack: TaskPack, sources: Mapping[str, Path]) -> str:
    """Digest of everything that the splits depend on. Fetched files count by the digest that their fetch checked."""
    pinned = {file.to: Entry(0, file.sha256) for file in pack.config.data.files} if pack.config.data else {}
    own = {path: file for path, file in sources.items() if path not in pinned}
    script = pack.config.splits.script
    made_from: dict[str, Any] = {
        "schema": SCHEMA,
        "names": sorted(pack.config.splits.names),
        "script": file_sha256(pack.find(script)) if script else None,
        "evaluator": pack.evaluator,
        "sources": digest_of({**scan(own), **{path: pinned[path] for path in sources if path in pinned}}),
    }
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()


def _make(pack: TaskPack, sources: Mapping[str, Path], folder: Path, run_script: RunScript) -> None:
    script = pack.config.splits.script
    if script is None:
        copy_into(sources, folder / SplitName.DEV)
        return
    with tempfile.TemporaryDirectory(prefix=".source-", dir=folder.parent) as temporary:
        source = Path(temporary)
        source.chmod(0o755)
        copy_into(sources, source)
        run_script(pack.find(script), source, folder)
    made = {path.name for path in folder.iterdir() if path.is_dir()}
    named = set(pack.config.splits.names)
    if made != named:
        raise PackError(
            f"{script} made the splits {sorted(made)}, task.toml names {sorted(map(str, named))}.",
            "Let both say the same.",
        )
    assert pack.evaluator is not None
    for name in named:
        for relative in (TASK_MD, pack.evaluator):
            if not (folder / name / relative).exists():
                copy_into({relative: sources[relative]}, folder / name)


def _write_manifest(pack: TaskPack, folder: Path) -> None:
    assert pack.evaluator is not None
    evaluator_sha256 = file_sha256(pack.find(pack.evaluator))
    rows = _reported_rows(folder)
    splits: dict[str, Any] = {}
    for name in pack.config.splits.names:
        files = dict(walk(folder / name, hidden=True))
        entries = scan(files)
        if entries[pack.evaluator].sha256 != evaluator_sha256:
            todo = "Copy it unchanged, or leave it out: it is added."
            raise PackError(f"The evaluator of split {name} differs from the pack's.", todo)
        for path in files.values():
            path.chmod(0o444)
        splits[name] = {
            "digest": digest_of(entries),
            "files": {path: entry.size for path, entry in entries.items()},
            "n_hint": rows.get(name, _count_items(folder / name / "data" / "private")),
        }
    manifest = {"schema": SCHEMA, "evaluator": pack.evaluator, "evaluator_sha256": evaluator_sha256, "splits": splits}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True), encoding="utf-8")


def _load(entry: Path) -> Splits | None:
    """The splits at ``entry``; None when there are none or a file is missing, added or of another size."""
    try:
        manifest = json.loads((entry / MANIFEST).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    splits = {}
    for name, record in manifest["splits"].items():
        root = entry / name
        if {path: file.stat().st_size for path, file in walk(root, hidden=True)} != record["files"]:
            return None
        splits[SplitName(name)] = Split(
            SplitName(name),
            root,
            record["digest"],
            manifest["evaluator_sha256"],
            manifest["evaluator"],
            record["n_hint"],
        )
    return Splits(entry, splits)


def _reported_rows(folder: Path) -> dict[str, int]:
    """Items by split as the script reports them; a script may report nothing."""
    try:
        report = json.loads((folder / REPORT).read_text(encoding="utf-8"))
        return {name: int(record["rows"]) for name, record in report["splits"].items() if "rows" in record}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        todo = 'Write {"splits": {NAME: {"rows": N}}} or nothing.'
        raise PackError(f"{REPORT} of the split script cannot be read: {error}.", todo) from None


def _count_items(private: Path) -> int | None:
    """Rows of the one file of answers; None when there is another number of files, or another kind."""
    answers = [path for path in private.iterdir() if path.is_file()] if private.is_dir() else []
    if len(answers) != 1 or answers[0].stat().st_size > LARGEST_COUNTED_BYTES:
        return None
    text = answers[0].read_text(encoding="utf-8", errors="replace")
    try:
        if answers[0].suffix == ".csv":
            return max(0, sum(1 for _ in csv.reader(text.splitlines(keepends=True))) - 1)
        value = json.loads(text) if answers[0].suffix == ".json" else None
    except (ValueError, csv.Error):
        return None
    return len(value) if isinstance(value, list | dict) else None
