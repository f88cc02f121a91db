"""The Python API: run, resume, and what comes back."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sia_ray.agents.protocol import load_agent
from sia_ray.candidate.bundle import unpack
from sia_ray.candidate.store import BlobStore
from sia_ray.config import RunSpec, read_environment, resolve, suggest, unused_variables
from sia_ray.episode.decide import best_of
from sia_ray.errors import NotFoundError, UsageError
from sia_ray.ledger.query import read_only
from sia_ray.ledger.schema import CandidateRow, GenerationRow, RunRow
from sia_ray.runtime.actors import load_actor_files
from sia_ray.runtime.client import Client
from sia_ray.runtime.connect import Connection, connect
from sia_ray.runtime.prepare import Parcel, parcel
from sia_ray.runtime.progress import Progress, for_terminal, silent
from sia_ray.task.agent_reference import PROFILE, load_target_profile, with_profile
from sia_ray.task.cache import cache_root
from sia_ray.task.find import find_task
from sia_ray.task.pack import load_pack

if TYPE_CHECKING:
    import pyarrow

DEFAULT_STORAGE = "runs"

log = logging.getLogger(__name__)


class Run:
    """A run as it stands in its ledger, at one moment. Read-only; ``refresh`` reads a later one."""

    def __init__(self, storage: Path, row: RunRow, rows: Sequence[GenerationRow], state_digest: str) -> None:
        self.storage = storage
        self.row = row
        self.rows = list(rows)
        self.state_digest = state_digest

    @classmethod
    def load(cls, storage: str | Path, number: int) -> Run:
        """Read run ``number`` off the ledger of ``storage``. Raises NotFoundError when there is none."""
        storage = Path(storage)
        with read_only(storage) as reader:
            state = reader.state()
        row = state.get(RunRow, number)
        if row is None:
            raise NotFoundError(f"There is no run {number} in {storage}.", "`sia-ray status` lists the runs.")
        return cls(storage, row, state.rows(GenerationRow, number), state.state_digest(number))

    def refresh(self) -> Run:
        """The same run as its ledger has it now."""
        return Run.load(self.storage, self.number)

    def harness(self, generation: int) -> dict[str, bytes]:
        """The harness of a generation: path → content; empty where its answer never became a candidate."""
        row = next((row for row in self.rows if row.generation == generation), None)
        if row is None:
            hint = f"`sia-ray show {self.number}` lists them."
            raise NotFoundError(f"Run {self.number} has no generation {generation}.", hint)
        with read_only(self.storage) as reader:
            candidate = reader.state().get(CandidateRow, self.number, row.candidate)
        return unpack(BlobStore(self.storage / "blobs").get(candidate.bundle)) if candidate else {}

    @property
    def number(self) -> int:
        return self.row.run

    @property
    def path(self) -> Path:
        """The run's folder, in SIA's layout."""
        return self.storage / f"run_{self.number}"

    @property
    def status(self) -> str:
        return self.row.status.value

    @property
    def best(self) -> GenerationRow | None:
        """The generation with the best dev score so far; None while there is none."""
        return best_of(self.row, self.rows)

    @property
    def holdout(self) -> dict[str, Any] | None:
        """``{"start", "score", "n", "evaluator_sha256"}``: first and best candidate on the held-out cases."""
        start, best = self.row.holdout.get("start"), self.row.holdout.get("best")
        if not start or not best:
            return None
        return {
            "start": start["score"],
            "score": best["score"],
            "n": best["n"],
            "evaluator_sha256": best["evaluator_sha256"],
        }

    @cached_property
    def generations(self) -> pyarrow.Table:
        """One row a generation: number, status, score, base, lever, strategy, seconds, candidate, reason."""
        import pyarrow as pa

        names = ("generation", "status", "score", "base", "lever", "strategy", "seconds", "candidate", "reason")
        types = (
            pa.int64(),
            pa.string(),
            pa.float64(),
            pa.int64(),
            *[pa.string()] * 2,
            pa.float64(),
            *[pa.string()] * 2,
        )
        schema = pa.schema(list(zip(names, types, strict=True)))
        records = [row.model_dump(mode="json", include=set(names)) for row in self.rows]
        return pa.Table.from_pylist(records, schema=schema)

    def as_dict(self) -> dict[str, Any]:
        """The run as JSON-ready values: what ``--json`` prints."""
        best = self.best
        return {
            "schema": 1,
            "run": self.number,
            "task": self.row.task,
            "status": self.status,
            "reason": self.row.reason,
            "path": str(self.path),
            "best": best and {"generation": best.generation, "score": best.score, "candidate": best.candidate},
            "sandbox": self.row.sandbox,
            "isolated": self.row.isolated,
            "generations": self.generations.to_pylist(),
            "holdout": self.holdout,
            "state_digest": self.state_digest,
        }

    def __repr__(self) -> str:
        return f"Run({self.number}, task={self.row.task!r}, status={self.status!r}, path={str(self.path)!r})"


def run(
    task: str | os.PathLike[str],
    *,
    generations: int | None = None,
    agent: str | None = None,
    agent_options: Mapping[str, Any] | None = None,
    seed: int | None = None,
    lookahead: int | None = None,
    sandbox: str | None = None,
    holdout: bool | None = None,
    run_id: int | None = None,
    target_agent_profile: str | None = None,
    storage: str | Path = DEFAULT_STORAGE,
    address: str | None = None,
    actors_dir: Path | None = None,
    progress: bool | Progress = True,
) -> Run:
    """Improve ``task`` (a name or a folder) and return the finished run.

    ``target_agent_profile`` names one of SIA's target profiles: its ``agent_reference`` is the first harness.
    ``None`` leaves a setting to SIA's variables, the pack and the defaults. ``address`` is as in ``connect``. If the
    driver dies, the run goes on (on a cluster) or waits for ``resume``. Raises UsageError for what a person must
    mend, InfrastructureError for what the machine lacks; a run whose candidates fail ends with status ``failed``.
    """
    request = _request(
        task,
        generations=generations,
        agent=agent,
        agent_options=dict(agent_options) if agent_options else None,
        seed=seed,
        lookahead=lookahead,
        sandbox=sandbox,
        holdout=holdout,
        run_id=run_id,
        target_agent_profile=target_agent_profile,
    )
    show = _progress(progress)
    with _supervised(Path(storage), address, actors_dir) as client:
        return _follow(client, client.start(*request), show)


def sweep(
    runs: Iterable[Mapping[str, Any]],
    *,
    storage: str | Path = DEFAULT_STORAGE,
    address: str | None = None,
    actors_dir: Path | None = None,
) -> list[Run]:
    """Improve many tasks (or one with many seeds) side by side; the finished runs, in the order asked.

    Each of ``runs`` holds ``task`` and settings of ``run``: ``[{"task": "lawbench", "seed": s} for s in range(3)]``.
    All share one storage root and its Supervisor. Raises UsageError for the first that a person must mend, before
    any is started.
    """
    requests = [_request(**asked) for asked in runs]
    with _supervised(Path(storage), address, actors_dir) as client:
        numbers = [client.start(*request) for request in requests]
        return [_follow(client, number, silent()) for number in numbers]


class Request(NamedTuple):
    """A run as a Supervisor accepts it."""

    spec: RunSpec
    parcel: Parcel


def _request(task: str | os.PathLike[str], target_agent_profile: str | None = None, **explicit: Any) -> Request:
    """Everything that can be known to be wrong is found here, before Ray starts."""
    unknown = sorted(set(explicit) - set(RunSpec.model_fields))
    if unknown:
        raise UsageError(f"Unknown setting {unknown[0]!r}.", suggest(unknown[0], RunSpec.model_fields))
    root = find_task(task)
    if named := target_agent_profile or os.environ.get(PROFILE):
        root = with_profile(root, load_target_profile(named, os.environ), cache_dir=cache_root())
        log.warning("of target profile %s only agent_reference has an effect in this version", named)
    pack = load_pack(root)
    suggested = {"generations": pack.config.limits.generations}
    spec = resolve(explicit, os.environ, pack=suggested, task=pack.name)
    harness = {path: data.decode("utf-8", errors="replace") for path, data in pack.reference_harness.items()}
    load_agent(spec.agent, spec.agent_options).check(pack.reference_texts, harness)
    for name in unused_variables(os.environ):
        log.warning("%s is set, but this version asks no model: it has no effect", name)
    return Request(spec, parcel(root))


def resume(
    run_number: int,
    *,
    storage: str | Path = DEFAULT_STORAGE,
    address: str | None = None,
    actors_dir: Path | None = None,
    progress: bool | Progress = True,
) -> Run:
    """Go on with a run that was stopped, and return it when it is over. A finished run is returned as it is."""
    read_environment(os.environ)
    found = Run.load(storage, run_number)
    if found.status != "running":
        return found
    show = _progress(progress)
    with _supervised(Path(storage), address, actors_dir) as client:
        client.resume(run_number)
        return _follow(client, run_number, show)


def score_holdout(run_number: int, *, storage: str | Path = DEFAULT_STORAGE, address: str | None = None) -> Run:
    """Have first and best candidate of a finished run scored on the holdout, unless that was done."""
    found = Run.load(storage, run_number)
    scored = [entry["status"] for entry in found.row.holdout.values()]
    if (scored and "inconclusive" not in scored) or "holdout" not in found.row.splits or found.status != "done":
        return found
    with _supervised(Path(storage), address, None) as client:
        client.request_holdout(run_number)
        return _follow(client, run_number, silent())


@contextmanager
def _supervised(storage: Path, address: str | None, actors_dir: Path | None) -> Iterator[Client]:
    files = load_actor_files(actors_dir)
    connection: Connection = connect(address)
    client: Client | None = None
    try:
        client = Client(storage.absolute(), connection, files)
        yield client
    finally:
        if client is not None:
            client.stop()
        connection.close()


def _follow(client: Client, number: int, show: Progress) -> Run:
    show.begin(client.storage, number)
    try:
        for snapshot in client.follow(number):
            show.update(snapshot)
    finally:
        show.end()
    return Run(client.storage, snapshot.run, snapshot.generations, snapshot.state_digest)


def _progress(wanted: bool | Progress) -> Progress:
    if isinstance(wanted, bool):
        return for_terminal() if wanted else silent()
    return wanted
