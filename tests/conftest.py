"""Fixtures shared by all tests: a cache of their own, the tiny pack, one local Ray for the tests that need it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKS = Path(__file__).parent / "packs"


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Built things go to a cache of this test session, or to the one that SIA_RAY_CACHE names already."""
    if os.environ.get("SIA_RAY_CACHE"):
        yield Path(os.environ["SIA_RAY_CACHE"])
        return
    cache = tmp_path_factory.mktemp("cache")
    os.environ["SIA_RAY_CACHE"] = str(cache)
    yield cache
    del os.environ["SIA_RAY_CACHE"]


@pytest.fixture
def tiny() -> str:
    """The folder of a pack that ends at once."""
    return str(PACKS / "tiny")


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    """A Ray of our own, started once for all tests that ask for it."""
    import sia_ray

    with sia_ray.connect("local"):
        yield
