"""What a harness's source says about its needs, read without running it: for preflight findings, never for scores."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

FLAGS = ("--dataset_dir", "--working_dir")

_MODEL = re.compile(
    r"(?<![\w/.-])(?:[\w.-]+/)*"
    r"(?:gpt|claude|gemini|gemma|qwen|llama|mistral|mixtral|kimi|deepseek|grok|glm)[\w.:-]*\d[\w.:-]*",
    re.IGNORECASE,
)
_CLIENT_KEYS = {
    "Anthropic": "ANTHROPIC_API_KEY",
    "AsyncAnthropic": "ANTHROPIC_API_KEY",
    "OpenAI": "OPENAI_API_KEY",
    "AsyncOpenAI": "OPENAI_API_KEY",
}
"""Clients that read a key by themselves when none is given to them."""
_NAMESPACES = {"google", "azure"}
_HOSTED = {"anthropic", "openai", "google.genai", "google.generativeai", "litellm", "together", "tinker"}


class Scan(NamedTuple):
    """What was found, each value with the first line that says it."""

    flags: frozenset[str]
    dataset_files: dict[str, int]
    """Paths below the dataset folder."""
    variables: dict[str, int]
    """Environment variables that are read without a default."""
    imports: dict[str, int]
    """Imported packages outside the standard library."""
    models: dict[str, int]
    hosted: dict[str, int]
    """Imported client libraries of hosted models."""


def scan_source(text: str) -> Scan:
    """Scan one Python file. Raises SyntaxError (or ValueError for a null byte) when it is none."""
    tree = ast.parse(text)
    scan = Scan(frozenset(_strings(tree)) & frozenset(FLAGS), {}, {}, {}, {}, {})
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        for module in _imported(node):
            package = _package(module)
            if package and package not in sys.stdlib_module_names:
                scan.imports.setdefault(package, line)
            for name in _HOSTED & {module, module.split(".")[0]}:
                scan.hosted.setdefault(name, line)
        if path := _below_dataset(node):
            scan.dataset_files.setdefault(path, line)
        if variable := _variable(node):
            scan.variables.setdefault(variable, line)
    for string, line in _strings(tree).items():
        for model in model_names(string):
            scan.models.setdefault(model, line)
    return scan


def model_names(text: str) -> list[str]:
    """Names of language models in ``text``, in order, each once."""
    return list(dict.fromkeys(found.group().rstrip(".:-") for found in _MODEL.finditer(text)))


def same_model(one: str, other: str) -> bool:
    """Whether two names mean one model: provider prefixes, case, punctuation and a date at the end aside."""
    short, long = sorted((_plain(one), _plain(other)), key=len)
    return long == short or long.startswith(short + "-")


def _plain(model: str) -> str:
    return re.sub(r"[.:_]", "-", model.rsplit("/", 1)[-1].lower())


def _strings(tree: ast.AST) -> dict[str, int]:
    """Text constants and their lines, without docstrings."""
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in bare)
    return {node.value: node.lineno for node in constants if isinstance(node.value, str)}


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _package(module: str) -> str:
    """The part of a dotted name that one installs: its first word, two below a shared namespace, "" for that alone."""
    parts = module.split(".")
    if parts[0] in _NAMESPACES:
        return ".".join(parts[:2]) if len(parts) > 1 else ""
    return parts[0]


def _below_dataset(node: ast.AST) -> str | None:
    """``x`` of ``dataset_dir / "x"`` and ``os.path.join(dataset_dir, "x")``; None for anything else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        name = _text(node.right)
        if name is None:
            return None
        if _is_dataset(node.left):
            return name
        head = _below_dataset(node.left)
        return f"{head}/{name}" if head else None
    if isinstance(node, ast.Call) and _dotted(node.func).endswith("path.join") and len(node.args) > 1:
        names = [_text(argument) for argument in node.args[1:]]
        if _is_dataset(node.args[0]) and all(names):
            return "/".join(name for name in names if name)
    return None


def _is_dataset(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and _dotted(node.func).rsplit(".", 1)[-1] == "Path" and len(node.args) == 1:
        return _is_dataset(node.args[0])
    name = _dotted(node).rsplit(".", 1)[-1]
    return "dataset_dir" in name or "data_dir" in name or name == "dataset"


def _variable(node: ast.AST) -> str | None:
    """A variable that is read without a default, directly or by a client that is given no key."""
    if isinstance(node, ast.Subscript) and _dotted(node.value).endswith("environ") and isinstance(node.ctx, ast.Load):
        return _text(node.slice)
    if not isinstance(node, ast.Call):
        return None
    name = _dotted(node.func)
    if name.endswith(("environ.get", "getenv")):
        has_default = len(node.args) > 1 or any(keyword.arg == "default" for keyword in node.keywords)
        return _text(node.args[0]) if node.args and not has_default else None
    given = {keyword.arg for keyword in node.keywords}
    if given & {"api_key", None} or node.args:
        return None
    return _CLIENT_KEYS.get(name.rsplit(".", 1)[-1])


def _text(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""
