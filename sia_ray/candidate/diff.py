"""What changed between two trees: a diff to read, counts to show, and the lines that a test must reach."""

from __future__ import annotations

import difflib
from typing import NamedTuple

from sia_ray.candidate.identity import Files

MAX_TEXT_BYTES = 1_000_000


class FileChange(NamedTuple):
    """One file: lines added and removed; both 0 for a file that is not text or too large to compare by line."""

    path: str
    kind: str
    added: int
    removed: int


class Diff(NamedTuple):
    """``text`` is a unified diff; ``lines`` are the 1-based numbers of new or changed lines in the new files."""

    text: str
    changes: tuple[FileChange, ...]
    lines: dict[str, tuple[int, ...]]

    @property
    def added(self) -> int:
        return sum(change.added for change in self.changes)

    @property
    def removed(self) -> int:
        return sum(change.removed for change in self.changes)

    @property
    def summary(self) -> str:
        """One line a file, as a reflection packet shows it."""
        return "\n".join(f"{c.kind} {c.path} +{c.added} -{c.removed}" for c in self.changes)


def diff(old: Files, new: Files, *, context: int = 3) -> Diff:
    """The change from ``old`` to ``new``, files in order of path."""
    texts: list[str] = []
    changes: list[FileChange] = []
    lines: dict[str, tuple[int, ...]] = {}
    for path in sorted({*old, *new}):
        before, after = old.get(path), new.get(path)
        if before == after:
            continue
        kind = "added" if before is None else "removed" if after is None else "changed"
        a, b = _lines(before), _lines(after)
        if a is None or b is None:
            texts.append(f"Binary or large file {path} {kind}\n")
            changes.append(FileChange(path, kind, 0, 0))
            continue
        source = "/dev/null" if before is None else f"a/{path}"
        target = "/dev/null" if after is None else f"b/{path}"
        hunk = list(difflib.unified_diff(a, b, source, target, n=context))
        texts += [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in hunk]
        body = hunk[2:]
        added = sum(line.startswith("+") for line in body)
        changes.append(FileChange(path, kind, added, sum(line.startswith("-") for line in body)))
        lines[path] = _new_lines(a, b)
    return Diff("".join(texts), tuple(changes), lines)


def _lines(data: bytes | None) -> list[str] | None:
    if data is None:
        return []
    if len(data) > MAX_TEXT_BYTES:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _new_lines(a: list[str], b: list[str]) -> tuple[int, ...]:
    opcodes = difflib.SequenceMatcher(None, a, b).get_opcodes()
    return tuple(
        number + 1 for tag, _, _, start, end in opcodes if tag in ("replace", "insert") for number in range(start, end)
    )
