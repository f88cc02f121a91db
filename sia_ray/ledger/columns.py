"""How a row class becomes a SQLite table: scalar fields are columns, everything else is canonical JSON text."""

from __future__ import annotations

import json
import math
import types
import typing
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

from sia_ray.candidate.identity import canonical
from sia_ray.ledger.schema import Row

R = TypeVar("R", bound=Row)
_AFFINITIES: tuple[tuple[type, str], ...] = ((int, "INTEGER"), (float, "REAL"), (str, "TEXT"))


class Column(NamedTuple):
    """One field of a row in SQLite. ``affinity`` is INTEGER (also for bool), REAL or TEXT."""

    name: str
    affinity: str
    json: bool


@cache
def columns(cls: type[Row]) -> tuple[Column, ...]:
    """The columns of ``cls``, in the order of its fields."""
    return tuple(_column(name, field.annotation) for name, field in cls.model_fields.items())


def _column(name: str, annotation: Any) -> Column:
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    members = typing.get_args(annotation) if union else (annotation,)
    kinds = [member for member in members if member is not type(None)]
    if len(kinds) == 1 and isinstance(kinds[0], type):
        for scalar, affinity in _AFFINITIES:
            if issubclass(kinds[0], scalar):
                return Column(name, affinity, json=False)
    return Column(name, "TEXT", json=True)


@cache
def create_table(cls: type[Row]) -> str:
    """The CREATE TABLE statement of ``cls``; SQLite keeps it word for word, which tells a table of another shape."""
    fields = ", ".join(f'"{c.name}" {c.affinity}{" NOT NULL" if c.name in cls.key else ""}' for c in columns(cls))
    key = ", ".join(f'"{name}"' for name in cls.key)
    return f'CREATE TABLE "{cls.table}" ({fields}, PRIMARY KEY ({key}))'


@cache
def upsert(cls: type[Row]) -> str:
    """The statement that writes one full row of ``cls``."""
    return f'INSERT OR REPLACE INTO "{cls.table}" VALUES ({", ".join("?" * len(columns(cls)))})'


@cache
def select(cls: type[Row]) -> str:
    """The statement that reads every row of ``cls`` in key order, columns in the order of its fields."""
    fields = ", ".join(f'"{c.name}"' for c in columns(cls))
    key = ", ".join(f'"{name}"' for name in cls.key)
    return f'SELECT {fields} FROM "{cls.table}" ORDER BY {key}'


def encode(row: Row) -> tuple[Any, ...]:
    """The values of ``row`` for SQLite. Raises ValueError on NaN and infinity, which SQLite would turn into NULL."""
    values = row.model_dump(mode="json")
    return tuple(_sql(values[column.name], column) for column in columns(type(row)))


def _sql(value: Any, column: Column) -> Any:
    if column.json:
        return canonical(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{column.name} is {value}")
    return int(value) if isinstance(value, bool) else value


def decode(cls: type[R], values: Sequence[Any]) -> R:
    """The row of ``cls`` that `encode` made ``values`` of."""
    fields = {c.name: json.loads(value) if c.json else value for c, value in zip(columns(cls), values, strict=True)}
    return cls.model_validate(fields)
