"""The driver's side of a Supervisor: calls that outlive its restarts."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError, RayTaskError

from sia_ray.config import ActorFile, RunSpec
from sia_ray.errors import InfrastructureError, LedgerError, LedgerLocked, SiaRayError
from sia_ray.ledger.schema import RunStatus
from sia_ray.runtime.actors import start_supervisor
from sia_ray.runtime.connect import Connection, session_name
from sia_ray.runtime.prepare import Parcel
from sia_ray.runtime.supervisor import Snapshot

PATIENCE_S = 60.0
"""How long a call waits for a Supervisor that restarts, seconds."""
PREPARATION_S = 1800.0
"""How long fetching data and building an environment may take, seconds."""
ANSWER_S = 20.0
"""How long a living Supervisor may take for anything else, seconds."""


class Client:
    """A Supervisor of ``storage``, started when there is none. On a cluster that is not ours it outlives the driver."""

    def __init__(self, storage: Path, connection: Connection, files: dict[str, ActorFile]) -> None:
        self.storage = storage
        self._files = files
        self._detached = not connection.owned_cluster
        self.actor = self._start_actor()
        try:
            self._call("hello")
        except LedgerLocked:
            self._end_actor()
            raise
        except LedgerError:
            # One that stopped (a full disk, say) holds its name and nothing else: a fresh one takes over.
            self._end_actor()
            self.actor = self._start_actor()
            self._call("hello")

    def _start_actor(self) -> Any:
        return start_supervisor(
            self._files["supervisor"], str(self.storage), session_name(), self._files, detached=self._detached
        )

    def _end_actor(self) -> None:
        ray.kill(self.actor, no_restart=True)

    def start(self, spec: RunSpec, parcel: Parcel) -> int:
        asked = os.urandom(16).hex()
        number: int = self._call("start", spec, parcel, asked, timeout_s=PREPARATION_S)
        return number

    def resume(self, run: int) -> None:
        self._call("resume", run, timeout_s=PREPARATION_S)

    def request_holdout(self, run: int) -> None:
        self._call("request_holdout", run, timeout_s=PREPARATION_S)

    def follow(self, run: int) -> Iterator[Snapshot]:
        """Each change of the run as it happens, until it is over."""
        seen, paused = 0, ""
        while True:
            snapshot: Snapshot = self._call("watch", run, seen)
            if snapshot.seq > seen or not seen or snapshot.paused != paused:
                seen, paused = snapshot.seq, snapshot.paused
                yield snapshot
            if snapshot.run.status is not RunStatus.RUNNING:
                return

    def stop(self) -> None:
        """Have the Supervisor let go of the ledger and end it, unless another run is under way."""
        with suppress(ActorDiedError, ActorUnavailableError, GetTimeoutError, RayTaskError):
            if ray.get(self.actor.stop.remote(), timeout=15):
                self._end_actor()

    def _call(self, method: str, *arguments: Any, timeout_s: float = ANSWER_S) -> Any:
        """A call that may be repeated: it waits for a Supervisor that restarts, up to ``PATIENCE_S``."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return ray.get(getattr(self.actor, method).remote(*arguments), timeout=timeout_s)
            except RayTaskError as error:
                raise _cause(error) from None
            except (ActorDiedError, ActorUnavailableError, GetTimeoutError) as error:
                if time.monotonic() > deadline:
                    raise InfrastructureError(
                        f"The Supervisor does not come back: {error}.",
                        "`sia-ray status` shows the runs that began; `sia-ray resume RUN` goes on with one.",
                    ) from None
                time.sleep(0.1)
                if isinstance(error, ActorDiedError):
                    self.actor = self._start_actor()


def _cause(error: RayTaskError) -> BaseException:
    """Our own error as it was raised on the other side; anything else as an infrastructure fault."""
    cause = error.cause if isinstance(error.cause, SiaRayError) else None
    return cause or InfrastructureError(f"The Supervisor failed: {error}", "This is a defect: please report it.")
