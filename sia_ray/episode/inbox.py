"""How other threads talk to the loop: outcomes are put in, questions are asked and answered by a future."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")
M = TypeVar("M")


class Call(NamedTuple):
    """Something to do on the loop's thread, and where its result goes."""

    action: Callable[[], Any]
    result: Future[Any]

    def carry_out(self) -> None:
        try:
            self.result.set_result(self.action())
        except Exception as error:
            self.result.set_exception(error)


class Inbox(Generic[M]):
    """A queue of messages and calls that can be closed: whoever asks afterwards is told why, and nobody waits."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[M | Call | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed: BaseException | None = None

    def put(self, message: M) -> None:
        self._queue.put(message)

    def call(self, action: Callable[[], T]) -> Future[T]:
        """Have ``action`` run by the receiver; its result, or what it raised."""
        result: Future[T] = Future()
        with self._lock:
            if self._closed is not None:
                result.set_exception(self._closed)
            else:
                self._queue.put(Call(action, result))
        return result

    def stop(self) -> None:
        """Have ``receive`` return None when what stands before is taken."""
        self._queue.put(None)

    def receive(self, timeout_s: float | None = None) -> list[M | Call] | None:
        """Wait for one message, then take all that are there; None when asked to stop and nothing is left.

        Empty when none came within ``timeout_s`` seconds.
        """
        messages: list[M | Call] = []
        try:
            message = self._queue.get(timeout=timeout_s)
        except queue.Empty:
            return messages
        while message is not None:
            messages.append(message)
            try:
                message = self._queue.get_nowait()
            except queue.Empty:
                return messages
        if messages:
            self._queue.put(None)
            return messages
        return None

    def close(self, reason: BaseException) -> None:
        """Refuse calls from now on, and those that wait."""
        with self._lock:
            self._closed = reason
            while not self._queue.empty():
                message = self._queue.get_nowait()
                if isinstance(message, Call):
                    message.result.set_exception(reason)
