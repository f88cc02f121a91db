"""Starting a Ray of one's own, or joining a cluster."""

from __future__ import annotations

import logging
import os
from types import TracebackType
from typing import Any

import ray

from sia_ray.errors import InfrastructureError, UsageError

NAMESPACE = "sia-ray"
OBJECT_STORE_BYTES = 512 * 2**20


class Connection:
    """A live connection. ``opened``: this call connected the process; ``owned_cluster``: it started that Ray too."""

    def __init__(self, *, opened: bool, owned_cluster: bool) -> None:
        self.opened = opened
        self.owned_cluster = owned_cluster
        self.dashboard = _dashboard()

    def close(self) -> None:
        """Disconnect if this call connected, which also stops a Ray of our own; a joined cluster goes on."""
        if self.opened and ray.is_initialized():
            ray.shutdown()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


def connect(address: str | None = None, *, num_cpus: int | None = None) -> Connection:
    """Connect to Ray.

    ``"local"`` starts a Ray of its own and never joins a running cluster, even with RAY_ADDRESS set. An address joins
    that cluster. Without one: the Ray that this process already uses, else RAY_ADDRESS, else ``"local"``.

    Raises InfrastructureError when there is no cluster at the address, UsageError for one that cannot be used.
    """
    if (address or os.environ.get("RAY_ADDRESS", "")).startswith("ray://") and address != "local":
        hint = "Submit the run with `ray job submit`, or give the address of the cluster's head (host:port)."
        raise UsageError("A run cannot be driven through Ray Client (ray://).", hint)
    if address is None and ray.is_initialized():
        return Connection(opened=False, owned_cluster=_is_local())
    if address is None:
        address = "auto" if os.environ.get("RAY_ADDRESS") else "local"
    if ray.is_initialized():
        hint = "Call connect() without an address, or ray.shutdown() first."
        raise UsageError("This process is connected to a Ray already.", hint)
    if address == "local":
        ray.init(
            address="local",
            namespace=NAMESPACE,
            num_cpus=num_cpus or max(1, os.cpu_count() or 1),
            object_store_memory=OBJECT_STORE_BYTES,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
        return Connection(opened=True, owned_cluster=True)
    try:
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError) as error:
        hint = "Check the address; a cluster with token authentication needs RAY_AUTH_MODE=token. Or use --local."
        raise InfrastructureError(f"No Ray cluster answers at {address!r}: {error}.", hint) from None
    return Connection(opened=True, owned_cluster=False)


def session_name() -> str:
    """The name that this cluster has from its start to its end."""
    node = _node()
    return str(node.session_name) if node else ""


def _dashboard() -> str:
    node = _node()
    return f"http://{node.webui_url}" if node and node.webui_url else ""


def _is_local() -> bool:
    """Whether the Ray that this process uses was started by this process."""
    node = _node()
    return bool(node and node.is_head())


def _node() -> Any:
    from ray._private import worker

    return worker.global_worker.node if ray.is_initialized() else None
