"""Metadata documents by their location: parsed once, remembered as long as there is room. They never change.

Everybody gets the same parsed value, so nobody may alter it: edits make new ones.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import msgspec

from arco.core import PUT_BACK, Corrupt
from arco.iceberg._locations import MetadataFiles
from arco.storage import Glance

__all__ = ["Document", "Documents", "new_location"]

MAX_BYTES = 128 << 20

OVERHEAD = 6
"""Bytes in memory per byte of text, about: the text itself and the parsed value."""


@dataclass(frozen=True, slots=True)
class Document:
    location: str
    value: dict[str, Any]
    encoded: bytes
    """The value as JSON."""


class Documents:
    def __init__(self, files: MetadataFiles, *, max_bytes: int = MAX_BYTES) -> None:
        self._files = files
        self._max = max_bytes
        self._known: OrderedDict[str, Document] = OrderedDict()
        self._size = 0

    async def read(self, location: str) -> Document:
        """The document; no request if it is remembered. `MetadataMissing` if the file is gone."""
        known = self._known.get(location)
        if known is not None:
            self._known.move_to_end(location)
            return known
        data = await self._files.read(location)
        try:
            value = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Corrupt(f"{location} is not JSON: {error}; {PUT_BACK}", location=location) from error
        if not isinstance(value, dict):
            raise Corrupt(f"{location} holds no metadata; {PUT_BACK}", location=location)
        return self._keep(Document(location, value, data))

    def bytes_held(self) -> int:
        """What is remembered, as it lies in memory."""
        return self._size

    def shed(self) -> None:
        """Remember nothing."""
        self._known.clear()
        self._size = 0

    def remembers(self, location: str) -> bool:
        return location in self._known

    async def exists(self, location: str) -> bool:
        """Whether the file is there now; one request."""
        return await self._files.exists(location)

    def glance(self, location: str) -> Glance | None:
        """A look whether the file is there; None where looking takes long."""
        return self._files.glance(location)

    async def confirm(self, location: str) -> Document:
        """The document, if its file is there now; one request. Who deletes a file behind Arco's back has a broken
        table, and is told so: the next commit would write metadata whose history leads nowhere."""
        if location in self._known and not await self._files.exists(location):
            self._forget(location)
        return await self.read(location)

    async def create(self, location: str, value: dict[str, Any]) -> Document:
        """Write a document where none is."""
        return await self.write(self.draft(location, value))

    def draft(self, location: str, value: dict[str, Any]) -> Document:
        """A document that is not written yet."""
        return Document(location, value, msgspec.json.encode(value))

    async def write(self, document: Document) -> Document:
        """Write a draft where nothing is."""
        await self._files.create(document.location, document.encoded)
        return self._keep(document)

    def _keep(self, document: Document) -> Document:
        self._forget(document.location)
        self._known[document.location] = document
        self._size += _weight(document)
        while self._size > self._max and self._known:
            self._forget(next(iter(self._known)))
        return document

    def _forget(self, location: str) -> None:
        known = self._known.pop(location, None)
        if known is not None:
            self._size -= _weight(known)


def _weight(document: Document) -> int:
    return 1024 + OVERHEAD * len(document.encoded)


def new_location(value: dict[str, Any], number: int, unique: str) -> str:
    """Where the metadata file of a pointer's number goes: below the table, or where its property says.

    Every attempt has a name of its own: a crashed one may have left a file with other bytes.
    """
    properties = value.get("properties") or {}
    folder = properties.get("write.metadata.path") or f"{str(value['location']).rstrip('/')}/metadata"
    return f"{folder.rstrip('/')}/{number:05d}-{unique}.metadata.json"
