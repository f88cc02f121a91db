"""What the running interpreter has installed, as material for an environment: no network, no waiting, few new bytes.

A pack's environment never is the running interpreter itself: that may hold anything, the answers of a task too. It
gets exactly the distributions that the requirements need, file by file as their RECORDs list them. Files are hard
links where the system allows it and copies elsewhere, as uv does from its cache: installers replace files and do not
write into them, so neither side changes the other. Generated code sees them read-only in every sandbox; with
``--sandbox none`` it could write to the interpreter's own files anyway.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from importlib.metadata import Distribution, distributions
from importlib.util import cache_from_source
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name


class Part(NamedTuple):
    """One installed distribution: its files by their path below site-packages, and its scripts by name."""

    name: str
    version: str
    files: dict[str, Path]
    scripts: dict[str, Path]


def site_folders() -> list[str]:
    """Where the running interpreter keeps what is installed into it."""
    return list(dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib")))


def find_parts(lines: Iterable[str], folders: Sequence[str]) -> list[Part] | None:
    """The distributions in ``folders`` that satisfy the requirement ``lines``, with all that they need in turn.

    None when one is missing, has another version, or is not there as an index delivers it (editable, built from a
    folder, installed by conda, changed since): an installer has to look then.
    """
    try:
        waiting = [wanted for line in lines if _applies(wanted := Requirement(line), {""})]
        parts: dict[str, Part] = {}
        seen = set()
        while waiting:
            wanted = waiting.pop()
            if str(wanted) in seen:
                continue
            seen.add(str(wanted))
            name = canonicalize_name(wanted.name)
            found = next(iter(distributions(name=name, path=list(folders))), None)
            if found is None or wanted.url or not wanted.specifier.contains(found.version):
                return None
            part = parts.get(name) or _part(name, found)
            if part is None:
                return None
            parts[name] = part
            needs = map(Requirement, found.requires or ())
            waiting += [need for need in needs if _applies(need, {"", *wanted.extras})]
    except InvalidRequirement:
        return None
    return [parts[name] for name in sorted(parts)]


def _applies(wanted: Requirement, extras: set[str]) -> bool:
    return wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in extras)


def _part(name: str, found: Distribution) -> Part | None:
    """The distribution's files, if each is where RECORD says and as long as it says."""
    installer = (found.read_text("INSTALLER") or "").strip()
    if found.read_text("RECORD") is None or found.read_text("direct_url.json") is not None or installer == "conda":
        return None
    bin_folder = os.path.join(sys.prefix, "bin")
    part = Part(name, found.version, {}, {})
    for entry in found.files or ():
        source = Path(os.path.normpath(str(found.locate_file(entry))))
        if source.suffix == ".pyc":
            continue
        try:
            status = source.lstat()
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode) or (entry.size is not None and entry.size != status.st_size):
            return None
        if ".." not in entry.parts and not entry.is_absolute():
            part.files[entry.as_posix()] = source
        elif str(source.parent) == bin_folder:
            part.scripts[source.name] = source
        else:
            return None
    for path, source in list(part.files.items()):
        if source.suffix == ".py" and (compiled := Path(cache_from_source(source))).is_file():
            part.files[f"{path.rpartition('/')[0]}/__pycache__/{compiled.name}".lstrip("/")] = compiled
    return part


def place(parts: Iterable[Part], prefix: Path) -> None:
    """Put ``parts`` into the environment ``prefix``; its scripts start its own interpreter."""
    site = next(prefix.glob("lib/python3*/site-packages"))
    made = {site}
    for part in parts:
        for path, source in part.files.items():
            target = site / path
            if target.parent not in made:
                target.parent.mkdir(parents=True, exist_ok=True)
                made.add(target.parent)
            _link(source, target)
        for name, source in part.scripts.items():
            _write_script(source, prefix / "bin" / name, prefix)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or a file that this user may read but not link
        shutil.copy2(source, target)


def _write_script(source: Path, target: Path, prefix: Path) -> None:
    """A copy whose first line names the environment's interpreter where it named the running one."""
    data = source.read_bytes()
    ours, theirs = (f"#!{os.fspath(place)}/bin/python".encode() for place in (sys.prefix, prefix))
    target.write_bytes(theirs + data.removeprefix(ours) if data.startswith(ours) else data)
    shutil.copymode(source, target)
