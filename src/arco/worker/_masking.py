"""Keeping the values of secrets out of whatever a worker writes down.

The values are those that an asset's `SecretRef`s stand for. A task may print them or raise them; in its log and in its
failure they become stars. What looks like a credential by its shape is left out of events too: the log would refuse
them, and the result of the task with them.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from arco.assets import AssetDefinition
from arco.log import find_secret

__all__ = ["MASK", "Mask", "secret_values"]

MASK: Final = "********"
MIN_LENGTH: Final = 4
"""Shorter values are not looked for: they stand in every other word, and nobody can keep them secret."""


def secret_values(definitions: Iterable[AssetDefinition], environment: Mapping[str, str]) -> list[str]:
    """What the secrets of these assets are here."""
    names = {ref.key or ref.name for asset in definitions for ref in asset.secrets if ref.provider == "env"}
    return [environment[name] for name in sorted(names) if name in environment]


class Mask:
    """Replaces values in texts, and in a stream of bytes that is cut anywhere."""

    def __init__(self, values: Iterable[str]) -> None:
        # Lines of a longer value too: a key of several lines is often printed line by line.
        parts = {part for value in values for part in (value, *value.splitlines()) if len(part) >= MIN_LENGTH}
        longest = sorted(parts, key=lambda part: (-len(part), part))
        self._texts = re.compile("|".join(map(re.escape, longest))) if longest else None
        self._values = [part.encode(errors="replace") for part in longest]
        self._bytes = re.compile(b"|".join(map(re.escape, self._values))) if longest else None
        self._held = b""

    def text(self, text: str) -> str:
        return self._texts.sub(MASK, text) if self._texts is not None else text

    def fact(self, text: str) -> str:
        """A text that becomes part of an event: a line that looks like a credential goes as a whole."""
        text = self.text(text)
        if not find_secret(text):
            return text
        text = "\n".join("[a line that held a credential]" if find_secret(line) else line for line in text.split("\n"))
        return "[text that held a credential]" if find_secret(text) else text

    def passes(self, text: str) -> bool:
        """Whether a text may stand in an event as it is: it holds no value, and nothing that the log refuses."""
        return self.fact(text) == text

    def feed(self, data: bytes) -> bytes:
        """The next piece of a stream. What may be the beginning of a value is held back until the rest is there."""
        if self._bytes is None:
            return data
        data = self._bytes.sub(MASK.encode(), self._held + data)
        keep = max((self._overlap(data, value) for value in self._values), default=0)
        self._held = data[len(data) - keep :]
        return data[: len(data) - keep]

    def end(self) -> bytes:
        held, self._held = self._held, b""
        return held

    @staticmethod
    def _overlap(data: bytes, value: bytes) -> int:
        """How many bytes at the end of the data the value begins with."""
        longest = min(len(value) - 1, len(data))
        return next((size for size in range(longest, 0, -1) if value.startswith(data[len(data) - size :])), 0)
