"""The ``sia-ray`` command. Results go to stdout, messages to stderr; heavy modules load only when a command needs them.

Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 5 infrastructure, 130 interrupted.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import typer

from sia_ray.cli import edits, environments, ledger, results, runs, tasks
from sia_ray.errors import InfrastructureError, SiaRayError, UsageError

_CallError: Any = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")
"""What typer raises for a wrong call."""

INTERRUPTED = 130

app = typer.Typer(
    name="sia-ray",
    help="Software that improves AI systems by itself: SIA's loop on Ray.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command()(runs.run)
app.command()(runs.resume)
app.command()(runs.status)
app.command()(runs.show)
app.command()(runs.score)
app.command("results")(results.results)
app.add_typer(tasks.app, name="tasks")
app.add_typer(ledger.app, name="ledger")
app.add_typer(edits.app, name="edits")
app.add_typer(environments.app, name="env")


@app.callback(invoke_without_command=True)
def root(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"sia-ray {installed('sia-ray')}")
        raise typer.Exit


def main() -> None:
    """Run the command line; every error that is ours is one line with a hint and an exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    try:
        code = app(standalone_mode=False) or 0
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        raise SystemExit(code)
    except SiaRayError as error:
        _report(error.kind, error.message, error.hint)
        raise SystemExit(error.exit_code) from None
    except (KeyboardInterrupt, typer.Abort):
        _report("interrupted", "Interrupted.", "`sia-ray resume RUN` goes on with an unfinished run.")
        raise SystemExit(INTERRUPTED) from None
    except _CallError as error:
        if "--json" in sys.argv:
            _report("usage", error.format_message(), "Add --help to the command.")
        else:
            error.show()
        raise SystemExit(UsageError.exit_code) from None
    except OSError as error:
        _report("infrastructure", f"The system refused: {error}.", "Look at the path, its permissions and the disk.")
        raise SystemExit(InfrastructureError.exit_code) from None


def _report(kind: str, message: str, hint: str) -> None:
    if "--json" in sys.argv:
        sys.stdout.write(json.dumps({"error": {"kind": kind, "message": message, "hint": hint}}) + "\n")
    sys.stderr.write(f"error: {message}\n" + (f"       {hint}\n" if hint else ""))


if __name__ == "__main__":
    main()
