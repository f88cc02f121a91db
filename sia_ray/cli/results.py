"""``sia-ray results``: how a results.json would be read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sia_ray.task.metric import Metric


def results(
    file: Annotated[Path, typer.Argument(help="a results.json, as an evaluator left it", show_default=False)],
    metric: Annotated[str, typer.Option(help="key of the score; left out: found as SIA's evaluators name it")] = "",
    direction: Annotated[str, typer.Option(help="which way is better: max or min")] = "max",
    range_: Annotated[str, typer.Option("--range", metavar="LO,HI", help="lowest and highest possible score")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Read FILE as strictly as a run does, and say which status and score it has.

    The exit code is 0 whatever the file says: a refused file is an answer too.
    """
    import json

    from sia_ray.errors import NotFoundError
    from sia_ray.evaluation.results import MAX_BYTES, read_results

    declared = _metric(metric, direction, range_)
    try:
        with file.open("rb") as source:
            data = source.read(MAX_BYTES + 1)
    except OSError as error:
        raise NotFoundError(f"{file} cannot be read: {error.strerror}.", "Give the path of a results.json.") from None
    reading = read_results(data, declared)
    if as_json:
        typer.echo(json.dumps(reading._asdict(), ensure_ascii=False))
    elif reading.score is None:
        typer.echo(f"{reading.status}: {reading.reason}")
    else:
        typer.echo(f"{reading.status}: {reading.metric} = {reading.score!r}")


def _metric(name: str, direction: str, span: str) -> Metric | None:
    """The declared metric, or None without ``name``. UsageError for a flag that does not parse."""
    from pydantic import ValidationError

    from sia_ray.errors import UsageError
    from sia_ray.task.metric import Metric

    if not name:
        if span:
            raise UsageError("--range needs --metric.", "Say which key the range belongs to.")
        return None
    try:
        bounds = [float(part) for part in span.split(",")] if span else None
        return Metric.model_validate({"name": name, "direction": direction, "range": bounds})
    except ValidationError as error:
        raise UsageError(f"{error.errors()[0]['msg']}.", "Use --direction max|min and --range LO,HI.") from None
    except ValueError:
        raise UsageError(f"--range {span!r} is not two numbers.", "Write it as LO,HI, for example 0,1.") from None
