"""What carries messages to a session in JavaScript."""

from __future__ import annotations

from typing import Protocol


class Ended(Exception):
    """The program at the other end is not there any more."""


class Link(Protocol):
    """One session in JavaScript: a message for a message."""

    def ask(self, message: bytes) -> bytes:
        """Send a message and wait for the answer.

        Raises:
            Ended: the other end is gone.
        """

    def close(self) -> None:
        """End the other end, where this process goes on without it."""
