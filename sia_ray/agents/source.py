"""Finding functions and constants in Python source, and composing SEARCH/REPLACE blocks that change them.

Positions come from ``ast``, texts from the source itself, so comments survive. All texts here have ``\\n`` line ends,
as the edit codec sees them; the codec gives a file its own line ends back.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import NamedTuple

from sia_ray.candidate.edits import block
from sia_ray.errors import ConfigError, EditRejected
from sia_ray.levers.decision import Scalar

_MARKER = re.compile(r"^[ \t]*(<{5,}|>{5,}|={7}\s*$)", re.MULTILINE)


class Change(NamedTuple):
    """What ``symbol`` shall become: a function's text, or else a constant's literal."""

    symbol: str
    function: str | None = None
    literal: Scalar = 0


class _Span(NamedTuple):
    """Lines [start, end), counted from 0, and their text without the last line end."""

    start: int
    end: int
    text: str


def function_text(source: str, symbol: str) -> str:
    """The one top-level function ``symbol`` with its decorators; raises EditRejected(missing_symbol) otherwise."""
    return _function(_plain(source), symbol).text


def constant_value(source: str, symbol: str) -> Scalar:
    """The literal of the one module-level line ``symbol = …``; raises EditRejected(missing_symbol) otherwise."""
    value: Scalar = ast.literal_eval(_constant(_plain(source), symbol))
    return value


def only_function(source: str, symbol: str, path: str) -> str:
    """The text of the function that is all of an option's file; raises ConfigError when there is more, or another."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError) as error:
        raise ConfigError(f"{path} is not valid Python: {error}.", "Correct the option's file.") from None
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef) or body[0].name != symbol:
        raise ConfigError(
            f"{path} must hold the function {symbol!r} and nothing else but comments.",
            "Move imports and other functions into target_agent.py.",
        )
    text = function_text(source, symbol)
    if _MARKER.search(text):
        raise ConfigError(f"{path} has a line that looks like an edit marker.", "Reword that line.")
    return text


def compose(source: str, changes: Sequence[Change]) -> str:
    """The answer that carries out ``changes`` one after the other: blocks whose anchors are unique.

    A change that the source holds already makes no block; no block at all is the empty answer.
    """
    text = _plain(source)
    blocks = []
    for change in changes:
        span, new = _changed(text, change)
        if new == span.text:
            continue
        lines = text.split("\n")
        top, bottom = _unique(lines, span.start, span.end)
        replace = [*lines[top : span.start], *new.split("\n"), *lines[span.end : bottom]]
        blocks.append(block("\n".join(lines[top:bottom]), "\n".join(replace)))
        text = "\n".join([*lines[: span.start], *new.split("\n"), *lines[span.end :]])
    return "".join(blocks)


def _changed(text: str, change: Change) -> tuple[_Span, str]:
    """The lines that ``change`` touches and what they become; the same text when there is nothing to do.

    A constant keeps its annotation and comment, and a literal that means the same (1e-3, 0.001) stays as written.
    """
    if change.function is not None:
        return _function(text, change.symbol), change.function
    node = _constant(text, change.symbol)
    line = text.split("\n")[node.lineno - 1]
    span = _Span(node.lineno - 1, node.lineno, line)
    if repr(ast.literal_eval(node)) == repr(change.literal):
        return span, line
    raw = line.encode()  # ast counts columns in UTF-8 bytes
    return span, (raw[: node.col_offset] + repr(change.literal).encode() + raw[node.end_col_offset :]).decode()


def _function(text: str, symbol: str) -> _Span:
    found = [n for n in _body(text) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.name == symbol]
    if len(found) != 1:
        raise _missing(f"function {symbol}", len(found))
    node = found[0]
    start = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
    end = node.end_lineno or node.lineno
    return _Span(start, end, "\n".join(text.split("\n")[start:end]))


def _constant(text: str, symbol: str) -> ast.expr:
    """The value node of the only module-level assignment to ``symbol``."""
    found: list[ast.expr | None] = []
    for node in _body(text):
        if isinstance(node, ast.Assign) and any(_names(target, symbol) for target in node.targets):
            found.append(node.value if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name) else None)
        elif isinstance(node, ast.AnnAssign) and _names(node.target, symbol):
            found.append(node.value)
        elif isinstance(node, ast.AugAssign) and _names(node.target, symbol):
            found.append(None)
    if len(found) != 1:
        raise _missing(f"constant {symbol}", len(found))
    value = found[0]
    if value is None or value.lineno != value.end_lineno or not _is_scalar(value):
        raise _missing(f"constant {symbol} as one line with a plain literal", 0)
    return value


def _names(target: ast.expr, symbol: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == symbol for node in ast.walk(target))


def _is_scalar(value: ast.expr) -> bool:
    try:
        return isinstance(ast.literal_eval(value), int | float | str | bool)
    except ValueError:
        return False


def _unique(lines: list[str], start: int, end: int) -> tuple[int, int]:
    """[start, end) widened, upwards first, until these whole lines occur once: what the codec asks of an anchor."""
    while (start, end) != (0, len(lines)) and _places(lines, lines[start:end]) > 1:
        start, end = (start - 1, end) if start else (start, end + 1)
    return start, end


def _places(lines: list[str], part: list[str]) -> int:
    return sum(lines[at : at + len(part)] == part for at in range(len(lines) - len(part) + 1))


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _body(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError) as error:
        raise EditRejected(f"The base is not valid Python: {error}.", "Start from another base.") from None


def _missing(what: str, count: int) -> EditRejected:
    times = "not there" if count == 0 else f"there {count} times"
    return EditRejected(
        f"The base must hold {what}, once, at module level; it is {times}.",
        "Keep the symbols that search_space.toml names.",
        reason="missing_symbol",
    )
