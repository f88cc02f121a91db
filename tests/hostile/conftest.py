"""Fixtures of the hostile suite: prey, and every sandbox that works here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sia_ray.sandbox.policy import Sandbox
from sia_ray.sandbox.select import available, select
from tests.hostile.prey import Prey, set_out

RUNGS = ("bubblewrap", "namespaces", "landlock")


@pytest.fixture
def prey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prey]:
    """In a folder with a short name: the addresses of sockets are bounded."""
    with set_out(tmp_path_factory.mktemp("p")) as prey:
        yield prey


@pytest.fixture(params=RUNGS)
def rung(request: pytest.FixtureRequest) -> Sandbox:
    """A sandbox that isolates."""
    for found in available():
        if found.name == request.param and not found.works:
            pytest.skip(f"{found.name}: {found.why}")
    return select(request.param)
