"""Items are believed only when they are plain and their mean is the metric."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sia_ray.evaluation.items import Item, read_items


def rows(*values: object) -> bytes:
    return "\n".join(json.dumps(value) for value in values).encode()


def test_rows_keep_their_order_and_become_numbers() -> None:
    data = rows({"id": "b", "correct": True}, {"id": 1, "correct": False}, {"id": "a", "correct": 1, "note": "x"})
    assert read_items(data + b"\n\n", 2 / 3) == (Item("b", 1.0), Item("1", 0.0), Item("a", 1.0))


def test_losses_and_values_are_taken_too() -> None:
    assert read_items(rows({"id": "a", "loss": 2.5}, {"id": "b", "value": -1}), 0.75)[1] == Item("b", -1.0)


@pytest.mark.parametrize(
    "row",
    [
        [1], "x", 1, None, {}, {"id": "a"}, {"correct": True}, {"id": None, "correct": 1}, {"id": True, "correct": 1},
        {"id": "", "correct": 1}, {"id": "x" * 201, "correct": 1}, {"id": 1.5, "correct": 1}, {"id": "a", "loss": True},
        {"id": "a", "correct": "1"}, {"id": "a", "correct": None}, {"id": "a", "correct": 1, "loss": 1},
    ],
)  # fmt: skip
def test_a_row_of_another_shape_is_refused(row: object) -> None:
    with pytest.raises(ValueError, match="row 2"):
        read_items(rows({"id": "first", "correct": 1}, row), 1.0)


@pytest.mark.parametrize(
    "line",
    [b'{"id": "a", "loss": NaN}', b'{"id": "a", "loss": 1e999}', b'{"id": "a", "id": "b", "loss": 1}', b"{", b"\xff"],
)
def test_a_row_is_parsed_strictly(line: bytes) -> None:
    with pytest.raises(ValueError, match="row 1"):
        read_items(line, 1.0)


def test_no_rows_and_equal_ids_are_refused() -> None:
    for data in (b"", b" \n"):
        with pytest.raises(ValueError, match="no items"):
            read_items(data, 0.0)
    with pytest.raises(ValueError, match="twice"):
        read_items(rows({"id": 1, "correct": 1}, {"id": "1", "correct": 1}), 1.0)


def test_the_mean_must_be_the_metric() -> None:
    data = rows({"id": "a", "correct": 1}, {"id": "b", "correct": 0})
    assert read_items(data, 0.5 + 1e-12)
    for other in (0.5001, 0.51, 50.0, 0.5 + 1e-8):
        with pytest.raises(ValueError, match="mean"):
            read_items(data, other)
    assert read_items(rows({"id": "a", "loss": 1e12}), 1e12 + 1)


@given(st.binary(max_size=100), st.floats(allow_nan=False, allow_infinity=False))
def test_any_bytes_are_items_or_a_reason(data: bytes, score: float) -> None:
    try:
        read_items(data, score)
    except ValueError as error:
        assert str(error)
