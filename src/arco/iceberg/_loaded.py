"""`Loaded`: a table or view with its metadata, as it is answered."""

from dataclasses import dataclass
from typing import Any

from arco.iceberg._documents import Document
from arco.iceberg._names import Path
from arco.iceberg._pointer import Held

__all__ = ["Loaded", "loaded"]


@dataclass(frozen=True, slots=True)
class Loaded:
    table_id: str
    path: Path
    number: int
    """Of the pointer in force; 0 if it is only staged."""
    metadata_location: str | None
    metadata: dict[str, Any]
    encoded: bytes
    """The metadata as JSON."""


def loaded(table_id: str, path: Path, held: Held, document: Document) -> Loaded:
    return Loaded(table_id, path, held.number, document.location, document.value, document.encoded)
