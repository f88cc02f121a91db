"""The static stage: what can be known about a candidate's files without running them."""

from __future__ import annotations

import ast
from enum import StrEnum
from typing import NamedTuple

from sia_ray.candidate.identity import Files
from sia_ray.candidate.symbols import syntax_problem

FLAGS = ("--dataset_dir", "--working_dir")


class Check(StrEnum):
    """The checks of the static stage, in their order."""

    ENTRY = "entry"
    """The entry is among the files."""
    ENCODING = "encoding"
    """Every Python file is UTF-8."""
    PARSES = "parses"
    """Every Python file compiles."""
    MAIN = "main"
    """The entry does something when it is run: a ``main`` or a ``__main__`` guard."""
    CLI = "cli"
    """The entry takes --dataset_dir and --working_dir."""


class Problem(NamedTuple):
    """One failed check. ``reason`` is the causal class of a fingerprint."""

    check: Check
    reason: str
    message: str


def check_static(files: Files, *, entry: str = "target_agent.py") -> list[Problem]:
    """Everything that is wrong with ``files``, in order of check and path; empty when nothing is."""
    if entry not in files:
        return [Problem(Check.ENTRY, "contract_invocation", f"There is no {entry}.")]
    problems: list[Problem] = []
    trees: dict[str, ast.Module] = {}
    for path in sorted(files):
        if not path.endswith(".py"):
            continue
        try:
            files[path].decode("utf-8")
        except UnicodeDecodeError as error:
            problems.append(Problem(Check.ENCODING, "encoding", f"{path} is not UTF-8 at byte {error.start}."))
            continue
        if wrong := syntax_problem(files[path]):
            problems.append(Problem(Check.PARSES, "malformed_edit", f"{path} is not Python: {wrong}."))
        else:
            trees[path] = ast.parse(files[path])
    if entry in trees:
        problems += _check_entry(trees, entry)
    return sorted(problems, key=lambda problem: list(Check).index(problem.check))


def _check_entry(trees: dict[str, ast.Module], entry: str) -> list[Problem]:
    problems: list[Problem] = []
    if not _has_main(trees[entry]):
        problems.append(Problem(Check.MAIN, "missing_symbol", f"{entry} has neither a main nor a __main__ guard."))
    known = {word for tree in trees.values() for word in _words(tree)}
    for flag in FLAGS:
        if flag not in known and flag.removeprefix("--") not in known:
            problems.append(Problem(Check.CLI, "contract_invocation", f"{entry} does not take {flag}."))
    return problems


def _has_main(tree: ast.Module) -> bool:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "main":
            return True
        if isinstance(node, ast.If) and "__main__" in {
            part.value for part in ast.walk(node.test) if isinstance(part, ast.Constant)
        }:
            return True
    return False


def _words(tree: ast.Module) -> set[str]:
    """String constants (flags of argparse and its like) and parameter names (flags of typer and its like)."""
    words: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words |= {word for word in node.value.split() if word.startswith("--")}
        elif isinstance(node, ast.arg):
            words.add(node.arg)
    return words
