"""Bounded capture of a stream of bytes: the head and the tail are kept, the middle is only counted.

Nothing is decoded here: what a program prints may be any bytes, and a decoder that fails must not fail a run.
"""

from __future__ import annotations

from sia_ray.sandbox.policy import Output


class Capture:
    """Keeps the first and the last ``keep_bytes`` of what it is fed; memory stays below four times that."""

    def __init__(self, keep_bytes: int) -> None:
        self._keep = keep_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def feed(self, chunk: bytes) -> None:
        self._total += len(chunk)
        room = self._keep - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if len(chunk) >= self._keep:
            self._tail[:] = chunk[-self._keep :]
            return
        self._tail += chunk
        if len(self._tail) > 2 * self._keep:
            del self._tail[: -self._keep]

    def output(self) -> Output:
        return Output(bytes(self._head), bytes(self._tail[-self._keep :]), self._total)
