"""Trees of files as one archive, and as folders that somebody else may have filled.

An archive is a plain, uncompressed tar, byte-identical for equal trees. The reader knows regular files and nothing
else, and gives back a whole tree or raises. Folders that generated code wrote into are read through directory
handles without following a link, so that nothing outside them can be named.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
import tarfile
from pathlib import Path
from typing import NamedTuple

from sia_ray.candidate.identity import Files
from sia_ray.errors import BundleRejected

MAX_FILES = 10_000
MAX_BYTES = 512 * 1024 * 1024
MAX_DEPTH = 32
MAX_PATH_BYTES = 255

_BLOCK = 512
_REFUSE = "Build the archive with sia_ray.candidate.bundle.pack."


class Collected(NamedTuple):
    """What ``read_tree`` found. ``skipped``: path → why it was left out, at most a thousand of them."""

    files: dict[str, bytes]
    skipped: dict[str, str]


class Regular(NamedTuple):
    """One file: its bytes (None: there is none to read) and, when it is there but unusable, why."""

    data: bytes | None
    problem: str = ""


def is_safe_path(path: str) -> bool:
    """Whether ``path`` is relative, POSIX, inside its tree, printable and short enough to be archived."""
    parts = path.split("/")
    return (
        path.isprintable()
        and "\\" not in path
        and all(part not in ("", ".", "..") for part in parts)
        and len(parts) <= MAX_DEPTH
        and len(path.encode("utf-8", "surrogatepass")) <= MAX_PATH_BYTES
    )


def check_paths(paths: list[str]) -> None:
    """Raise BundleRejected unless all are safe, different, and none is a folder of another."""
    for path in paths:
        if not is_safe_path(path):
            raise BundleRejected(f"The path {path[:120]!r} is not a plain relative one.", _REFUSE)
    names = set(paths)
    if len(names) != len(paths):
        raise BundleRejected("A path occurs twice.", _REFUSE)
    for path in paths:
        for cut in (match.start() for match in re.finditer("/", path)):
            if path[:cut] in names:
                raise BundleRejected(f"{path[:cut]!r} is both a file and a folder.", _REFUSE)


def pack(files: Files) -> bytes:
    """``files`` as a tar: sorted, no times, owners or modes of this machine. BundleRejected on an unsafe path."""
    check_paths(list(files))
    out = io.BytesIO()
    try:
        with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT, encoding="utf-8") as archive:
            for path in sorted(files):
                member = tarfile.TarInfo(path)
                member.size = len(files[path])
                archive.addfile(member, io.BytesIO(files[path]))
    except ValueError as error:
        raise BundleRejected(f"A path cannot be archived: {error}.", "Shorten the names of files.") from None
    return out.getvalue()


def unpack(data: bytes, *, max_files: int = MAX_FILES, max_bytes: int = MAX_BYTES) -> dict[str, bytes]:
    """The tree in ``data``. BundleRejected for anything but regular files at safe paths, or beyond the caps."""
    files: dict[str, bytes] = {}
    order: list[str] = []
    total = 0
    at = 0
    while True:
        header = data[at : at + _BLOCK]
        if len(header) < _BLOCK:
            raise BundleRejected("The archive is cut off.", _REFUSE)
        if not any(header):
            break
        path, size = _read_header(header)
        total += size
        if len(order) >= max_files or total > max_bytes:
            raise BundleRejected(
                f"The archive holds more than {max_files} files or {max_bytes} bytes.", "Leave out what is not needed."
            )
        content = data[at + _BLOCK : at + _BLOCK + size]
        if len(content) < size:
            raise BundleRejected("The archive is cut off.", _REFUSE)
        order.append(path)
        files[path] = content
        at += _BLOCK + -(-size // _BLOCK) * _BLOCK
    if any(data[at:]):
        raise BundleRejected("Something follows the end of the archive.", _REFUSE)
    check_paths(order)
    return files


def _read_header(header: bytes) -> tuple[str, int]:
    """Path and size of one member: a regular file with a right checksum, or BundleRejected."""
    try:
        size = _octal(header[124:136])
        checksum = _octal(header[148:156])
        name = header[:100].rstrip(b"\0").decode("utf-8")
        prefix = header[345:500].rstrip(b"\0").decode("utf-8") if header[257:263] == b"ustar\0" else ""
    except ValueError:
        raise BundleRejected("A header of the archive is damaged.", _REFUSE) from None
    if checksum != sum(header[:148]) + 8 * 32 + sum(header[156:]):
        raise BundleRejected("A header of the archive does not match its checksum.", _REFUSE)
    if header[156:157] not in (b"0", b"\0"):
        raise BundleRejected(f"{name[:120]!r} is not a regular file.", _REFUSE)
    return (f"{prefix}/{name}" if prefix else name), size


def _octal(field: bytes) -> int:
    digits = field.strip(b" \0")
    if not re.fullmatch(rb"[0-7]{1,11}", digits):
        raise ValueError("not an octal number")
    return int(digits, 8)


def write_tree(files: Files, folder: Path) -> None:
    """Write ``files`` under ``folder`` (made when absent), never through a link.

    BundleRejected before anything is written when a path is unsafe; OSError when the disk refuses.
    """
    check_paths(list(files))
    folder.mkdir(parents=True, exist_ok=True)
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for path in sorted(files):
            _write_below(root, path.split("/"), files[path])
    finally:
        os.close(root)


def _write_below(root: int, parts: list[str], data: bytes) -> None:
    handle = os.dup(root)
    try:
        for part in parts[:-1]:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=handle)
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = below
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
        with open(os.open(parts[-1], flags, 0o644, dir_fd=handle), "wb") as out:
            out.write(data)
    finally:
        os.close(handle)


def read_tree(folder: Path, *, max_files: int = MAX_FILES, max_bytes: int = MAX_BYTES) -> Collected:
    """The regular files under ``folder``, in order of path until a cap is reached.

    Links, devices, pipes, unreadable or oddly named files and whatever passes a cap are named in ``skipped``.
    OSError only when ``folder`` itself cannot be opened.
    """
    collector = _Collector(max_files, max_bytes)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        collector.visit(handle, "")
    finally:
        os.close(handle)
    return Collected(collector.files, collector.skipped)


def read_regular(folder: Path, name: str, *, max_bytes: int) -> Regular:
    """The file ``name`` directly under ``folder``, at most ``max_bytes`` + 1 of it, without following a link."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        return _read_below(handle, name, max_bytes + 1)
    finally:
        os.close(handle)


def _read_below(handle: int, name: str, limit: int) -> Regular:
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handle)
    except FileNotFoundError:
        return Regular(None)
    except OSError as error:
        return Regular(None, f"cannot be opened as a regular file ({error.strerror})")
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        os.close(file)
        return Regular(None, "is not a regular file")
    if found.st_nlink > 1:
        os.close(file)
        return Regular(None, "has a second name (a hard link)")
    with open(file, "rb") as source:
        return Regular(source.read(limit))


class _Collector:
    """One walk of ``read_tree``."""

    def __init__(self, max_files: int, max_bytes: int) -> None:
        self.files: dict[str, bytes] = {}
        self.skipped: dict[str, str] = {}
        self._files_left = max_files
        self._bytes_left = max_bytes

    def _skip(self, path: str, why: str) -> None:
        if len(self.skipped) < 1000:
            self.skipped[path.encode("utf-8", "replace").decode()] = why

    def visit(self, handle: int, prefix: str) -> None:
        for name in sorted(os.listdir(handle)):
            path = prefix + name
            if not is_safe_path(path):
                self._skip(path, "its name or depth is not allowed")
                continue
            try:
                mode = os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    self._descend(handle, name, path)
                elif stat.S_ISREG(mode):
                    self._take(handle, name, path)
                else:
                    self._skip(path, "not a regular file")
            except OSError as error:
                self._skip(path, f"cannot be read ({error.strerror})")

    def _descend(self, handle: int, name: str, path: str) -> None:
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
        try:
            self.visit(below, path + "/")
        finally:
            os.close(below)

    def _take(self, handle: int, name: str, path: str) -> None:
        if not self._files_left:
            self._skip(path, "too many files")
            return
        found = _read_below(handle, name, self._bytes_left + 1)
        if found.data is None:
            self._skip(path, found.problem or "it vanished")
        elif len(found.data) > self._bytes_left:
            self._skip(path, "too many bytes")
        else:
            self.files[path] = found.data
            self._files_left -= 1
            self._bytes_left -= len(found.data)
