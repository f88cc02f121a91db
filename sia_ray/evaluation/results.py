"""Reading results.json strictly: a score is what an evaluator plainly said, or there is none.

A file that a lenient reader would take as a score (NaN, "48.99%", the second of two equal keys, a number outside
its range) is refused with a reason. What is kept for display is a handful of scalars: lists and nested objects are
where evaluators leave answers.
"""

from __future__ import annotations

import json
import math
from enum import StrEnum
from typing import NamedTuple

from sia_ray.task.metric import Metric

MAX_BYTES = 50_000_000
MAX_DEPTH = 64
MAX_DIGITS = 400

SHOWN_VALUES = 64
SHOWN_KEY_CHARS = 80
SHOWN_CHARS = 200

DISCOVERY = (
    "accuracy_percent",
    "accuracy",
    "summary.accuracy",
    "summary.accuracy_percent",
    "score",
    "mean_reward",
)
"""Where the score is looked for when a pack declares no metric: the keys that SIA's evaluators write."""


class Status(StrEnum):
    """How an evaluation ended. Only ``passed`` carries a score."""

    PASSED = "passed"
    """The evaluator exited with 0 and left a score that holds."""
    FAILED = "failed"
    """The evaluator refused the outputs (exit code not 0) or ran out of its time."""
    MISSING = "missing"
    """The evaluator exited with 0 and left no results.json."""
    ERROR = "error"
    """The evaluator was killed before it could speak: the memory limit or a signal."""
    INVALID = "invalid"
    """There is a results.json, and it is not one to be believed."""
    INFRASTRUCTURE = "infrastructure"
    """The machine or the sandbox failed: nothing is known about the candidate."""


Scalar = float | int | str | bool


class Reading(NamedTuple):
    """What one results.json says. ``metric`` is the key path that was read; ``values`` are for display only."""

    status: Status
    score: float | None
    reason: str
    metric: str
    values: dict[str, Scalar]


class _Refused(Exception):
    """A reason why the file is not to be believed."""


def read_results(data: bytes | None, metric: Metric | None) -> Reading:
    """Read ``data`` (the bytes of results.json; None: there is no file) for ``metric``.

    Without a metric the keys of ``DISCOVERY`` are tried in order; the first that is present decides.
    Never raises: whatever is wrong comes back as a status and a reason.
    """
    name = metric.name if metric else ""
    if data is None:
        return Reading(Status.MISSING, None, "there is no results.json", name, {})
    try:
        top = _parse(data)
    except _Refused as refused:
        return Reading(Status.INVALID, None, str(refused), name, {})
    values = _shown(top)
    try:
        path, found = _find(top, metric)
        name = path
        score = _number(path, found)
        if metric and metric.range and not metric.range[0] <= score <= metric.range[1]:
            low, high = metric.range
            raise _Refused(f"{path} is {score!r}, outside the declared range {low:g} to {high:g}")
    except _Refused as refused:
        return Reading(Status.INVALID, None, str(refused), name, values)
    return Reading(Status.PASSED, score, "", name, values)


def parse_strict(data: bytes) -> object:
    """Strict JSON: UTF-8 without a byte-order mark, finite numbers, no duplicate keys, bounded depth.

    Raises ValueError with the reason and nothing else. Also reads the lines of items.jsonl.
    """
    try:
        return _decode(data)
    except _Refused as refused:
        raise ValueError(str(refused)) from None


def _parse(data: bytes) -> dict[str, object]:
    if len(data) > MAX_BYTES:
        raise _Refused(f"the file is larger than {MAX_BYTES} bytes")
    if not data.strip():
        raise _Refused("the file is empty")
    top = _decode(data)
    if not isinstance(top, dict):
        raise _Refused(f"the top level is {_kind(top)}, not an object")
    return top


def _decode(data: bytes) -> object:
    if data.startswith(b"\xef\xbb\xbf"):
        raise _Refused("the file starts with a byte-order mark")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _Refused(f"not UTF-8 at byte {error.start}") from None
    try:
        value: object = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite_float,
            parse_int=_finite_int,
        )
    except json.JSONDecodeError as error:
        raise _Refused(f"not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except RecursionError:
        raise _Refused(f"nested deeper than {MAX_DEPTH} levels") from None
    _bounded_depth(value)
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Refused(f"the key {_clean(key, SHOWN_KEY_CHARS)!r} occurs twice in one object")
            seen.add(key)
    return found


def _no_constant(word: str) -> float:
    raise _Refused(f"{word} is not a finite number")


def _finite_float(literal: str) -> float:
    value = float(literal)
    if not math.isfinite(value):
        raise _Refused(f"{literal[:40]} is not a finite number")
    return value


def _finite_int(literal: str) -> int:
    if len(literal) > MAX_DIGITS:
        raise _Refused(f"an integer of {len(literal)} digits is not a finite number")
    value = int(literal)
    try:
        float(value)
    except OverflowError:
        raise _Refused(f"an integer of {len(literal)} digits is not a finite number") from None
    return value


def _bounded_depth(value: object) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [child for parent in level for child in _containers(parent)]
        if not level:
            return
    raise _Refused(f"nested deeper than {MAX_DEPTH} levels")


def _containers(value: object) -> list[object]:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [child for child in children if isinstance(child, dict | list)]


def _find(top: dict[str, object], metric: Metric | None) -> tuple[str, object]:
    paths = (metric.name, f"summary.{metric.name}") if metric else DISCOVERY
    for path in paths:
        if path in top:
            return path, top[path]
        value: object = top
        for key in path.split("."):
            if not isinstance(value, dict) or key not in value:
                break
            value = value[key]
        else:
            return path, value
    if metric:
        raise _Refused(f"the declared metric {metric.name} is absent, at the top and under summary")
    raise _Refused("no metric was found; declare its name under [metric] in task.toml")


def _number(path: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Refused(f"{path} is {_kind(value)}, not a number")
    return float(value)


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, list):
        return "a list"
    return "an object" if isinstance(value, dict) else "a number"


def _shown(top: dict[str, object]) -> dict[str, Scalar]:
    """The scalars of the top level and of ``summary``, in file order, bounded in number and length."""
    summary = top.get("summary")
    pairs = list(top.items())
    if isinstance(summary, dict):
        pairs += [(f"summary.{key}", value) for key, value in summary.items()]
    shown: dict[str, Scalar] = {}
    for key, value in pairs:
        if len(shown) == SHOWN_VALUES:
            break
        if isinstance(value, str):
            shown[_clean(key, SHOWN_KEY_CHARS)] = _clean(value, SHOWN_CHARS)
        elif isinstance(value, bool | float):
            shown[_clean(key, SHOWN_KEY_CHARS)] = value
        elif isinstance(value, int):
            shown[_clean(key, SHOWN_KEY_CHARS)] = value if abs(value) < 2**53 else float(value)
    return shown


def _clean(text: str, length: int) -> str:
    """``text`` cut to ``length``, with every character that a terminal or UTF-8 has no use for replaced."""
    cut = text[:length] + ("…" if len(text) > length else "")
    return "".join(char if char.isprintable() else "�" for char in cut)
