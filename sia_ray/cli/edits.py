"""``sia-ray edits``: what an answer of a model would do to a harness."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(name="edits", help="Try a model's answer as an edit.", no_args_is_help=True)


@app.callback()
def edits() -> None:
    """Try a model's answer as an edit."""


@app.command("try")
def try_(
    base: Annotated[Path, typer.Argument(help="a harness: its folder, or its entry as one file", show_default=False)],
    answer: Annotated[Path, typer.Argument(help="the answer, a text file", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Apply ANSWER to BASE and print the new files, or the reason why it does not apply. Writes nothing.

    The exit code is 0 either way.
    """
    import json

    from sia_ray.candidate.edits import ENTRY, apply_answer
    from sia_ray.errors import EditRejected

    files = _files(base, ENTRY)
    try:
        new = apply_answer(files, _read(answer))
    except EditRejected as error:
        outcome = {"applies": False, "reason": error.reason, "message": error.message, "hint": error.hint}
        typer.echo(json.dumps(outcome, ensure_ascii=False) if as_json else f"{error.reason}: {error}")
        return
    changed = {path: data.decode("utf-8") for path, data in sorted(new.items()) if data != files.get(path)}
    if as_json:
        text = new.get(ENTRY, b"").decode("utf-8", "replace")
        typer.echo(json.dumps({"applies": True, "text": text, "files": changed}, ensure_ascii=False))
        return
    for path, text in changed.items():
        typer.echo(f"# {path}\n{text}" if len(changed) > 1 or path != ENTRY else text, nl=False)


def _files(base: Path, entry: str) -> dict[str, bytes]:
    from sia_ray.task.tree import walk

    return {name: _read(path) for name, path in walk(base)} if base.is_dir() else {entry: _read(base)}


def _read(path: Path) -> bytes:
    from sia_ray.errors import NotFoundError

    try:
        return path.read_bytes()
    except OSError as error:
        raise NotFoundError(f"{path} cannot be read: {error.strerror}.", "Give the path of a file.") from None
