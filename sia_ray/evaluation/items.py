"""One number an item, so that two candidates can be compared on the same items.

A pack's ``reference/items.py`` reads the submission and the truth and writes one JSON object a line:
``{"id": …, "correct": true}`` or ``{"id": …, "loss": 0.25}``. The rows are believed only when their mean is the
evaluator's own metric. They serve statistics alone and never enter a prompt.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from sia_ray.evaluation.results import parse_strict

MAX_ITEMS = 1_000_000
MAX_ID_CHARS = 200
TOLERANCE = 1e-9
_VALUE_KEYS = ("correct", "loss", "value")


class Item(NamedTuple):
    """One row: ``value`` is 1.0 or 0.0 for a right or wrong answer, else the item's part of the metric's mean."""

    id: str
    value: float


def read_items(data: bytes, score: float) -> tuple[Item, ...]:
    """The rows of items.jsonl, in file order. ``score`` is what their mean must be.

    Raises ValueError with the reason when a row is not as above, an id occurs twice, or the mean is another one
    (beyond 1e-9 times the larger of 1 and the score).
    """
    lines = [line for line in data.split(b"\n") if line.strip()]
    if not lines:
        raise ValueError("there are no items")
    if len(lines) > MAX_ITEMS:
        raise ValueError(f"there are more than {MAX_ITEMS} items")
    items = tuple(_read_item(line, number) for number, line in enumerate(lines, 1))
    if len({item.id for item in items}) != len(items):
        raise ValueError("an id occurs twice")
    mean = math.fsum(item.value for item in items) / len(items)
    if abs(mean - score) > TOLERANCE * max(1.0, abs(score)):
        raise ValueError(f"their mean is {mean!r}, but the evaluator's metric is {score!r}")
    return items


def _read_item(line: bytes, number: int) -> Item:
    try:
        row = parse_strict(line)
    except ValueError as error:
        raise ValueError(f"row {number}: {error}") from None
    if not isinstance(row, dict):
        raise ValueError(f"row {number} is not an object")
    name = row.get("id")
    if isinstance(name, bool) or not isinstance(name, str | int) or not 0 < len(str(name)) <= MAX_ID_CHARS:
        raise ValueError(f"row {number} has no id")
    keys = [key for key in _VALUE_KEYS if key in row]
    value = row[keys[0]] if len(keys) == 1 else None
    if not isinstance(value, bool | int | float) or (isinstance(value, bool) and keys != ["correct"]):
        raise ValueError(f"row {number} needs a number under one of {', '.join(_VALUE_KEYS)}")
    return Item(str(name), float(value))
