"""Names that a change takes away from under the code that still uses them.

A model that rewrites a part of a file often drops a function that another part calls. Python finds that out when
the call is reached, an evaluation later; here it is found at once, from the syntax alone.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator

from sia_ray.candidate.identity import Files

_SYNTAX_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError, LookupError)


def syntax_problem(source: bytes) -> str:
    """Why ``source`` is not a UTF-8 Python file; empty when it is."""
    try:
        _table(source)
        ast.parse(source)
    except SyntaxError as error:
        return f"{error.msg} (line {error.lineno})"
    except _SYNTAX_ERRORS as error:
        return str(error) or type(error).__name__
    return ""


def lost_symbols(old: Files, new: Files, *, entry: str) -> list[str]:
    """Top-level names, as ``file: name``, that ``old`` had and ``new`` lost though something in ``new`` uses them.

    ``main`` of ``entry`` counts as used: it is the command line. Files of ``new`` must parse; a file of ``old``
    that does not has no names to lose.
    """
    lost: list[str] = []
    for path in sorted(new):
        if not path.endswith(".py") or new[path] == old.get(path) or syntax_problem(old.get(path, b"")):
            continue
        before, after = _Module(old.get(path, b"")), _Module(new[path])
        gone = before.bound - after.bound
        if after.imports_star:
            gone = set()
        used = (after.used - set(dir(builtins))) | _used_elsewhere(new, path)
        if path == entry:
            used.add("main")
        lost += [f"{path}: {name}" for name in sorted(gone & used)]
    return lost


class _Module:
    """The module-level names of one file: those it binds and those it reads."""

    def __init__(self, source: bytes) -> None:
        top = _table(source)
        self.bound: set[str] = set()
        self.used: set[str] = set()
        self.imports_star = any(
            isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(ast.parse(source))
        )
        for symbol in top.get_symbols():
            if symbol.is_assigned() or symbol.is_imported():
                self.bound.add(symbol.get_name())
            if symbol.is_referenced():
                self.used.add(symbol.get_name())
        for table in _below(top):
            for symbol in table.get_symbols():
                if symbol.is_global() and symbol.is_referenced():
                    self.used.add(symbol.get_name())
                if symbol.is_declared_global() and symbol.is_assigned():
                    self.bound.add(symbol.get_name())


def _table(source: bytes) -> symtable.SymbolTable:
    return symtable.symtable(source.decode("utf-8-sig"), "candidate.py", "exec")


def _below(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    stack = table.get_children()
    while stack:
        child = stack.pop()
        yield child
        stack += child.get_children()


def _used_elsewhere(files: Files, path: str) -> set[str]:
    """Names that the other files of the tree take from the module at ``path``."""
    module = path.removesuffix("/__init__.py").removesuffix(".py").rsplit("/", 1)[-1]
    used: set[str] = set()
    for other, source in files.items():
        if other == path or not other.endswith(".py") or syntax_problem(source):
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").rsplit(".", 1)[-1] == module:
                used |= {alias.name for alias in node.names}
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == module:
                used.add(node.attr)
    return used
