"""Finding the lines that an edit means, and only those.

Models copy text nearly right: a trailing blank more, a level of indentation less. Each way of looking is tried from
the strictest to the most tolerant, and the first that finds anything decides; a place is used only when it is the
only one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

MAX_PLACES = 1000


class Substitution(NamedTuple):
    """``places``: how often the anchor was found; ``text`` is the new text when that is once, else the old one."""

    text: str
    places: int


def substitute(text: str, search: list[str], replace: list[str]) -> Substitution:
    """``text`` (lines ended by \\n) with the one occurrence of the lines ``search`` replaced by ``replace``.

    Ways of looking: whole lines; a run of characters that begins and ends at word borders; lines that differ in
    trailing blanks or blank edges; lines that are all indented by one difference, which the replacement then
    follows. ``search`` must hold a line that is not blank.
    """
    lines = text.split("\n")
    if places := _places(lines, search, str):
        return _spliced(lines, places, len(search), replace)
    if spans := _spans(text, "\n".join(search)):
        end = spans[0] + len("\n".join(search))
        new = text[: spans[0]] + "\n".join(replace) + text[end:]
        return Substitution(new if len(spans) == 1 else text, len(spans))
    search, replace = _without_blank_edges(search, replace)
    if places := _places(lines, search, str.rstrip):
        return _spliced(lines, places, len(search), replace)
    shifts = {
        at: shift
        for at in _places(lines, search, str.strip)
        if (shift := _shift(lines[at : at + len(search)], search)) is not None
    }
    if len(shifts) == 1:
        replace = _shifted(replace, next(iter(shifts.values())))
    return _spliced(lines, list(shifts), len(search), replace)


def _spliced(lines: list[str], places: list[int], length: int, replace: list[str]) -> Substitution:
    if len(places) != 1:
        return Substitution("\n".join(lines), len(places))
    at = places[0]
    return Substitution("\n".join([*lines[:at], *replace, *lines[at + length :]]), 1)


def _places(lines: list[str], search: list[str], same: Callable[[str], str]) -> list[int]:
    """Where the lines ``search`` occur in ``lines`` when both are seen through ``same``."""
    seen, wanted = [same(line) for line in lines], [same(line) for line in search]
    last = len(seen) - len(wanted)
    return [at for at in range(last + 1) if seen[at] == wanted[0] and seen[at : at + len(wanted)] == wanted]


def _spans(text: str, search: str) -> list[int]:
    """Where ``search`` occurs in ``text`` without cutting a word; at most ``MAX_PLACES`` occurrences are looked at."""
    found: list[int] = []
    at = text.find(search)
    for _ in range(MAX_PLACES):
        if at < 0:
            break
        end = at + len(search)
        if not _cuts_word(text[at - 1 : at + 1]) and not _cuts_word(text[end - 1 : end + 1]):
            found.append(at)
        at = text.find(search, at + 1)
    return found


def _cuts_word(pair: str) -> bool:
    return len(pair) == 2 and all(char.isalnum() or char == "_" for char in pair)


def _without_blank_edges(search: list[str], replace: list[str]) -> tuple[list[str], list[str]]:
    """Both without the blank lines at the edges of ``search``."""
    search, replace = list(search), list(replace)
    for edge in (0, -1):
        while search and not search[edge].strip():
            search.pop(edge)
            if replace and not replace[edge].strip():
                replace.pop(edge)
    return search, replace


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _shift(found: list[str], search: list[str]) -> tuple[str, str] | None:
    """The indentation (to take off, to put on) that turns ``search`` into ``found``; None when lines disagree."""
    pairs = [(_indent(a), _indent(b)) for a, b in zip(found, search, strict=True) if a.strip()]
    there, here = pairs[0]
    common = 0
    while common < min(len(there), len(here)) and there[-1 - common] == here[-1 - common]:
        common += 1
    off, on = here[: len(here) - common], there[: len(there) - common]
    agree = all(b.startswith(off) and on + b[len(off) :] == a for a, b in pairs)
    return (off, on) if agree else None


def _shifted(lines: list[str], shift: tuple[str, str]) -> list[str]:
    off, on = shift
    return [on + line.removeprefix(off) if line.strip() else line for line in lines]
