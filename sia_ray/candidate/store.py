"""Blobs by content: written once, found by digest, checked when read.

The root is a folder or a URI that pyarrow knows (``s3://``, ``gs://``). Writers need no lock: equal content has one
name, and a name appears only once all of its bytes are there.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Protocol

from sia_ray.candidate.identity import digest_bytes
from sia_ray.errors import FetchError, InfrastructureError, NotFoundError, UsageError


def write_atomic(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Make ``path`` hold ``data``: after a crash it holds the old bytes or the new, never a part.

    The temporary file lies beside it, both it and the folder are synced. OSError when the disk refuses.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:80]}.", suffix=".tmp", dir=path.parent)
    try:
        with open(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fchmod(out.fileno(), mode)
            os.fsync(out.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class _Backend(Protocol):
    def size(self, name: str) -> int | None: ...
    def read(self, name: str) -> bytes: ...
    def write(self, name: str, data: bytes) -> None: ...


class BlobStore:
    """Blobs under ``root``. A digest is SHA-256 in lower-case hex.

    NotFoundError for an unknown digest, FetchError for bytes that do not match theirs, InfrastructureError when
    the storage refuses.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = str(root)
        self._backend: _Backend | None = None

    def put(self, data: bytes) -> str:
        """Store ``data`` and give its digest; storing it again costs one look."""
        digest = digest_bytes(data)
        name = _name(digest)
        try:
            backend = self._open()
            if backend.size(name) != len(data):
                backend.write(name, data)
        except OSError as error:
            raise self._refused("written", error) from error
        return digest

    def has(self, digest: str) -> bool:
        try:
            return self._open().size(_name(digest)) is not None
        except OSError as error:
            raise self._refused("looked up", error) from error

    def get(self, digest: str) -> bytes:
        """The bytes whose digest is ``digest``."""
        try:
            data = self._open().read(_name(digest))
        except FileNotFoundError:
            raise NotFoundError(
                f"There is no blob {digest[:12]} under {self.root}.",
                "Check that --storage names the run's own storage.",
            ) from None
        except OSError as error:
            raise self._refused("read", error) from error
        if digest_bytes(data) != digest:
            raise FetchError(
                f"The blob {digest[:12]} under {self.root} does not match its digest.",
                "Remove it; whatever made it makes it again.",
            )
        return data

    def _open(self) -> _Backend:
        if self._backend is None:
            local = self.root.removeprefix("file://")
            self._backend = _Remote(self.root) if "://" in local else _Local(Path(local))
        return self._backend

    def _refused(self, verb: str, error: OSError) -> InfrastructureError:
        return InfrastructureError(
            f"A blob under {self.root} could not be {verb}: {error}.", "Check free space, rights and the network."
        )


def _name(digest: str) -> str:
    if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise UsageError(f"{digest[:80]!r} is not a digest.", "A digest is 64 lower-case hex digits.")
    return f"{digest[:2]}/{digest}"


class _Local:
    def __init__(self, root: Path) -> None:
        self._root = root

    def size(self, name: str) -> int | None:
        try:
            return (self._root / name).stat().st_size
        except FileNotFoundError:
            return None

    def read(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        write_atomic(self._root / name, data, mode=0o444)


class _Remote:
    """Object storage: a stream's object appears when the stream is closed."""

    def __init__(self, root: str) -> None:
        from pyarrow import fs

        try:
            self._fs, path = fs.FileSystem.from_uri(root)
        except (ValueError, TypeError) as error:
            raise UsageError(f"{root!r} is not a storage path: {error}.", "Give a folder, s3://… or gs://….") from None
        self._path = path.rstrip("/")

    def size(self, name: str) -> int | None:
        size: int | None = self._fs.get_file_info(f"{self._path}/{name}").size
        return size

    def read(self, name: str) -> bytes:
        with self._fs.open_input_stream(f"{self._path}/{name}") as source:
            return bytes(source.read())

    def write(self, name: str, data: bytes) -> None:
        self._fs.create_dir(f"{self._path}/{name.split('/')[0]}", recursive=True)
        with self._fs.open_output_stream(f"{self._path}/{name}") as out:
            out.write(data)
