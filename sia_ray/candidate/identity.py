"""Identity by content: digests of files, trees and values, and seeds derived from them.

Everything is SHA-256 in lower-case hex. A tree is a mapping of relative POSIX path → bytes; its digest does
not depend on order, times or modes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

Files = Mapping[str, bytes]
"""A small tree of files: relative POSIX path → content."""

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest_bytes(data: bytes) -> str:
    """SHA-256 of ``data``, lower-case hex."""
    return hashlib.sha256(data).hexdigest()


def canonical(value: Any) -> bytes:
    """The one JSON encoding of ``value``: sorted keys, no spaces, UTF-8, finite numbers only.

    Raises ValueError on NaN or infinity and TypeError on what JSON has no word for.
    """
    return _ENCODER.encode(value).encode()


def digest_value(value: Any) -> str:
    """SHA-256 of the canonical JSON of ``value``."""
    return digest_bytes(canonical(value))


def digest_tree(files: Files) -> str:
    """SHA-256 over the sorted (path, content digest) pairs."""
    return digest_value([[path, digest_bytes(files[path])] for path in sorted(files)])


def derive_seed(*parts: Any) -> int:
    """A 31-bit seed that depends on ``parts`` alone (a run's seed and a proposal's number, say)."""
    return int(digest_value(list(parts))[:15], 16) % (2**31)
