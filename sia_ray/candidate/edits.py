"""From a model's answer to a changed tree of files, or to one reason why not.

An answer edits a file by blocks, or gives a file whole; prose and fences around both are fine:

    FILE: target_agent.py            FILE: labels.py
    <<<<<<< SEARCH                   ```python
    THRESHOLD = 3                    NAMES = ["few", "many"]
    =======                          ```
    THRESHOLD = 5
    >>>>>>> REPLACE

A block without a FILE line edits the entry. The SEARCH text must occur exactly once; blocks apply in their order.
Either all of an answer is applied or nothing is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from sia_ray.candidate.anchors import substitute
from sia_ray.candidate.bundle import check_paths, is_safe_path
from sia_ray.candidate.identity import Files
from sia_ray.candidate.symbols import lost_symbols, syntax_problem
from sia_ray.errors import BundleRejected, EditRejected

ENTRY = "target_agent.py"
MAX_ANSWER_BYTES = 4 * 1024 * 1024


class Rejection(StrEnum):
    """Why an answer became no candidate."""

    EMPTY = "empty"
    """The answer is blank."""
    ENCODING = "encoding"
    """The answer, or a file that it edits, is not UTF-8 text."""
    TRUNCATED = "truncated"
    """The answer stops inside a block, a fenced file or after a FILE line: a part of it is missing."""
    MALFORMED_EDIT = "malformed_edit"
    """The answer holds no edit, a broken one, or one whose result is not Python."""
    UNSAFE_PATH = "unsafe_path"
    """A FILE line names a place outside the tree."""
    ANCHOR_MISSING = "anchor_missing"
    """The SEARCH text is blank or does not occur in the file."""
    ANCHOR_AMBIGUOUS = "anchor_ambiguous"
    """The SEARCH text occurs more than once, so that its place is a guess."""
    MISSING_SYMBOL = "missing_symbol"
    """The change removes a top-level name that is still used, or the entry's ``main``."""
    NO_CHANGE = "no_change"
    """Every file is what it was before."""


class Replacement(NamedTuple):
    """One block: lines to find and lines to put in their place."""

    path: str
    search: list[str]
    replace: list[str]


class WholeFile(NamedTuple):
    """One file given whole."""

    path: str
    text: str


_FORM = (
    "Write <<<<<<< SEARCH, lines of the file, =======, the new lines, >>>>>>> REPLACE; or a line FILE: path and,"
    " right below it, the whole file in a fence."
)
_FILE = re.compile(r"^[\s>*#`/\-]*FILE[*`]*:[\s*`\"']*([^\s*`\"']+)[\s*`\"']*$", re.IGNORECASE)
_SEARCH = re.compile(r"^([ \t]*)<{5,9}\s*SEARCH\s*$", re.IGNORECASE)
_DIVIDER = re.compile(r"^[ \t]*={7}\s*$")
_REPLACE = re.compile(r"^[ \t]*>{5,9}\s*REPLACE\s*$", re.IGNORECASE)
_ALMOST_MARKER = re.compile(r"^[ \t]*(<{5,}|>{5,})(\s*[A-Z]*\s*)$", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^`]*$")

_STRAIGHT = str.maketrans({
    "“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "‚": "'",
    "\u00a0": " ", "\u200b": None, "\ufeff": None, "＜": "<", "＞": ">", "＝": "=", "：": ":",
})  # fmt: skip


def apply_answer(files: Files, answer: str | bytes, *, entry: str = ENTRY) -> dict[str, bytes]:
    """``files`` as ``answer`` changes them; ``files`` itself is never touched.

    Raises EditRejected, whose ``reason`` is a Rejection, and nothing else. Typographic quotes and spaces are taken
    for plain ones only when the answer cannot be applied as it stands.
    """
    text = _text(answer)
    try:
        return _apply(files, text, entry)
    except EditRejected:
        straight = text.translate(_STRAIGHT)
        if straight == text:
            raise
        try:
            return _apply(files, straight, entry)
        except EditRejected:
            pass
        raise


def block(search: str, replace: str, *, file: str = "") -> str:
    """One SEARCH/REPLACE block, as an answer holds it. ``file`` may be left out for the entry."""
    head = f"FILE: {file}\n" if file else ""
    middle = "".join(f"{part}\n" for part in (search.removesuffix("\n"), "=======", replace.removesuffix("\n")) if part)
    return f"{head}<<<<<<< SEARCH\n{middle}>>>>>>> REPLACE\n"


def _reject(reason: Rejection, message: str, hint: str) -> EditRejected:
    return EditRejected(message, hint, reason.value)


def _text(answer: str | bytes) -> str:
    size = len(answer)
    if size > MAX_ANSWER_BYTES:
        raise _reject(Rejection.MALFORMED_EDIT, f"The answer has {size} bytes.", "Edit by blocks, not by whole files.")
    try:
        text = answer.decode("utf-8") if isinstance(answer, bytes) else answer.encode("utf-8").decode("utf-8")
    except UnicodeError as error:
        raise _reject(Rejection.ENCODING, f"The answer is not UTF-8: {error}.", "Answer in UTF-8 text.") from None
    if "\0" in text:
        raise _reject(Rejection.ENCODING, "The answer holds a NUL character.", "Answer in plain text.")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise _reject(Rejection.EMPTY, "The answer is blank.", "Answer with at least one SEARCH/REPLACE block.")
    return text


def _apply(files: Files, text: str, entry: str) -> dict[str, bytes]:
    new = dict(files)
    whole: set[str] = set()
    for edit in _parse(text.split("\n"), entry):
        if isinstance(edit, WholeFile):
            if edit.path in whole:
                raise _reject(Rejection.MALFORMED_EDIT, f"{edit.path} is given twice.", "Give each file once.")
            whole.add(edit.path)
            new[edit.path] = _like(files.get(edit.path, b""), edit.text)
        else:
            new[edit.path] = _replaced(new.get(edit.path), edit)
    try:
        check_paths(list(new))
    except BundleRejected as error:
        raise _reject(Rejection.UNSAFE_PATH, error.message, "Name another path in the FILE line.") from None
    changed = [path for path in new if new[path] != files.get(path)]
    if not changed:
        raise _reject(Rejection.NO_CHANGE, "The edit changes nothing.", "Put other text under ======= than above it.")
    for path in changed:
        if path.endswith(".py") and (problem := syntax_problem(new[path])):
            raise _reject(
                Rejection.MALFORMED_EDIT, f"{path} would not be Python: {problem}.", "Check the lines that were put in."
            )
    if lost := lost_symbols(files, new, entry=entry):
        raise _reject(
            Rejection.MISSING_SYMBOL,
            f"The edit removes names that are still used: {', '.join(lost[:5])}.",
            "Keep them, or change every use in the same answer.",
        )
    return new


def _parse(lines: list[str], entry: str) -> list[Replacement | WholeFile]:
    """The edits of an answer, in their order."""
    edits: list[Replacement | WholeFile] = []
    named = ""
    text_between = False
    at = 0
    while at < len(lines):
        line = lines[at]
        if match := _FILE.match(line):
            path = _checked_path(match[1])
            if named not in ("", path):
                raise _reject(Rejection.MALFORMED_EDIT, f"No edit follows FILE: {named}.", _FORM)
            named, text_between = path, False
        elif _SEARCH.match(line):
            edit, at = _parse_block(lines, at, named or entry)
            edits.append(edit)
            named = ""
        elif named and (fence := _FENCE.match(line)) and not _first(lines[at + 1 :], _SEARCH):
            if text_between:
                raise _reject(Rejection.MALFORMED_EDIT, f"Text stands between FILE: {named} and its fence.", _FORM)
            body, at = _parse_fence(lines, at, fence[1])
            edits.append(WholeFile(named, body))
            named = ""
        elif _REPLACE.match(line) or _ALMOST_MARKER.match(line):
            _stray_marker(lines, at)
        else:
            text_between = text_between or bool(line.strip() and not _FENCE.match(line))
        at += 1
    if named:
        raise _reject(Rejection.TRUNCATED, f"Nothing follows FILE: {named}.", "Answer again, in full.")
    if not edits:
        raise _reject(Rejection.MALFORMED_EDIT, "The answer holds no edit.", _FORM)
    return edits


def _stray_marker(lines: list[str], at: int) -> None:
    cut = not _REPLACE.match(lines[at]) and not any(line.strip() for line in lines[at + 1 :])
    raise _reject(
        Rejection.TRUNCATED if cut else Rejection.MALFORMED_EDIT,
        f"Line {at + 1} of the answer is a marker without a block.",
        _FORM,
    )


def _checked_path(path: str) -> str:
    path = path.removeprefix("./")
    if not is_safe_path(path):
        raise _reject(
            Rejection.UNSAFE_PATH, f"FILE: {path[:120]!r} is not a path inside the tree.", "Use a relative one."
        )
    return path


def _first(lines: Iterable[str], pattern: re.Pattern[str]) -> bool:
    """Whether the first line that is not blank is a ``pattern``."""
    return next((bool(pattern.match(line)) for line in lines if line.strip()), False)


def _parse_block(lines: list[str], start: int, path: str) -> tuple[Replacement, int]:
    """The block that starts at ``start``, and the number of its last line."""
    divider = 0
    for at in range(start + 1, len(lines)):
        line = lines[at]
        if _REPLACE.match(line):
            if not divider:
                break
            return Replacement(path, lines[start + 1 : divider], lines[divider + 1 : at]), at
        if _SEARCH.match(line):
            raise _reject(
                Rejection.TRUNCATED,
                f"The block at line {start + 1} has no end.",
                "End each block with >>>>>>> REPLACE.",
            )
        if _DIVIDER.match(line):
            if divider:
                break
            divider = at
    else:
        raise _reject(Rejection.TRUNCATED, "The answer ends inside a block.", "Answer again, in full.")
    raise _reject(
        Rejection.MALFORMED_EDIT,
        f"The block at line {start + 1} needs exactly one =======.",
        "Write one divider a block.",
    )


def _parse_fence(lines: list[str], start: int, fence: str) -> tuple[str, int]:
    """The text inside the fence that opens at ``start``, and the number of its closing line."""
    for at in range(start + 1, len(lines)):
        closing = lines[at].strip()
        if len(closing) >= len(fence) and closing == fence[0] * len(closing):
            body = lines[start + 1 : at]
            return "".join(f"{line}\n" for line in body), at
    raise _reject(Rejection.TRUNCATED, "The answer ends inside a fenced file.", "Answer again, in full.")


def _like(old: bytes, text: str) -> bytes:
    """``text`` in the line endings of ``old``."""
    crlf = b"\r\n" in old and old.count(b"\r\n") == old.count(b"\n")
    return (text.replace("\n", "\r\n") if crlf else text).encode("utf-8")


def _replaced(old: bytes | None, edit: Replacement) -> bytes:
    """The file after one block. A blank SEARCH makes a file that is not there yet."""
    if not any(line.strip() for line in edit.search):
        if old is None:
            return "".join(f"{line}\n" for line in edit.replace).encode("utf-8")
        raise _reject(
            Rejection.ANCHOR_MISSING, f"A SEARCH text for {edit.path} is blank.", "Copy the lines that are to change."
        )
    if old is None:
        raise _reject(
            Rejection.ANCHOR_MISSING, f"There is no file {edit.path} to search.", "Check the FILE line above the block."
        )
    try:
        text = old.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise _reject(Rejection.ENCODING, f"{edit.path} is not UTF-8 text.", "Give it whole instead.") from None
    changed = substitute(text, edit.search, edit.replace)
    _only(changed.places, edit)
    return _like(old, changed.text)


def _only(places: int, edit: Replacement) -> None:
    first = next(line.strip() for line in edit.search if line.strip())[:80]
    if not places:
        raise _reject(
            Rejection.ANCHOR_MISSING,
            f"The SEARCH text that begins {first!r} does not occur in {edit.path}.",
            "Copy it from the file, character by character.",
        )
    if places > 1:
        raise _reject(
            Rejection.ANCHOR_AMBIGUOUS,
            f"The SEARCH text that begins {first!r} occurs {places} times in {edit.path}.",
            "Add lines around it until it is unique.",
        )
