"""Everything that a run needs from its task pack, on the node that holds the ledger: found, fetched, built, cached."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from sia_ray.candidate.bundle import pack as pack_files
from sia_ray.candidate.identity import digest_value
from sia_ray.candidate.views import ensure_view, files_digest
from sia_ray.config import RunSpec
from sia_ray.sandbox.environments import Environment
from sia_ray.sandbox.preparation import prepare
from sia_ray.sandbox.select import select
from sia_ray.task.pack import TaskPack, has_private_data, load_pack, shared_files
from sia_ray.task.splits import Splits
from sia_ray.task.tree import walk


class Parcel(NamedTuple):
    """A pack's own files as they travel with a run: the folder's name, one bundle, the digest of what it holds."""

    name: str
    data: bytes
    digest: str


class Ready(NamedTuple):
    """A pack that is ready to run: splits made, environment built, sandbox chosen (by name)."""

    spec: RunSpec
    pack: TaskPack
    splits: Splits
    environment: Environment
    sandbox: str

    @property
    def conditions(self) -> str:
        """Digest of what a result depends on besides candidate, split, evaluator and seed."""
        config = self.pack.config
        limits = [config.target.model_dump(mode="json"), config.evaluator.model_dump(mode="json")]
        return digest_value([self.environment.digest, self.sandbox, limits])


def parcel(root: Path) -> Parcel:
    """The pack at ``root``, packed, with what it shares with its neighbours."""
    paths = {**{f"{root.name}/{path}": file for path, file in walk(root)}, **shared_files(root)}
    files = {path: file.read_bytes() for path, file in paths.items()}
    return Parcel(root.name, pack_files(files), files_digest(files))


def unpack_parcel(given: Parcel, *, cache_dir: Path) -> Path:
    """The pack's folder on this node."""
    return ensure_view(given.digest, lambda: given.data, cache_dir=cache_dir) / given.name


def make_ready(spec: RunSpec, root: Path, *, cache_dir: Path) -> Ready:
    """Load the pack at ``root`` and make ready what a run needs.

    Raises PackError or ConfigError for what a person must mend, InfrastructureError for what the machine lacks.
    """
    sandbox = select(spec.sandbox, private_data=has_private_data(root))
    prepared = prepare(load_pack(root), sandbox, cache_dir=cache_dir)
    return Ready(spec, prepared.pack, prepared.splits, prepared.environment, sandbox.name)
