"""A pointer: one numbered object of a table or view, which says which metadata file is current. Creating it commits.

`Held` is what a table is: the pointer in force, and where it leads. Most pointers put their own `held` in force when
they are created. A pointer of a multi-table transaction only *prepares* it: until the transaction's decision says
committed, `before` holds, which is what was in force when it was prepared.
"""

import hashlib
from typing import Literal

import msgspec

from arco.core import Corrupt, decode_document
from arco.iceberg._who import Source

__all__ = ["FORMAT", "Held", "Kind", "Pointer", "State", "check_link", "decode_pointer", "encode_pointer", "sha256_of"]

FORMAT = 1

Kind = Literal["table", "view"]
State = Literal["live", "dropped"]


class Held(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a table or view is, by one of its pointers."""

    number: int
    """The pointer's."""
    state: State
    metadata_location: str
    table_uuid: str
    operation: str
    committed_at: int
    snapshot_id: int | None = None
    sequence_number: int | None = None
    schema_id: int | None = None
    purge: bool = False
    """Of a dropped one: its files are to be deleted too."""


class Pointer(msgspec.Struct, frozen=True, omit_defaults=True):
    format: int
    id: str
    """Unique, so that equal bytes mean the same attempt."""
    number: int
    previous_hash: str
    """sha256 of the bytes of its predecessor; empty for number 1."""
    incarnation: str
    table_id: str
    kind: Kind
    state: State
    metadata_location: str
    table_uuid: str
    operation: str
    actor: str
    source: Source
    committed_at: int
    """Microseconds since 1970; grows with the number."""
    base_location: str | None = None
    """The metadata file it replaced."""
    snapshot_id: int | None = None
    sequence_number: int | None = None
    schema_id: int | None = None
    client: str = ""
    traceparent: str = ""
    run_id: str = ""
    materialization_id: str = ""
    key: str | None = None
    """Hash of the request's idempotency key."""
    request_hash: str | None = None
    purge: bool = False
    txn: str | None = None
    """The transaction that prepared it."""
    before: Held | None = None
    """Of a prepared one: what holds unless the transaction is committed; None if there was nothing."""
    seal: bool = False
    """The last pointer of an incarnation, which leads nowhere: whoever meets it goes no further here."""

    @property
    def held(self) -> Held:
        """What it puts in force."""
        return Held(
            number=self.number,
            state=self.state,
            metadata_location=self.metadata_location,
            table_uuid=self.table_uuid,
            operation=self.operation,
            committed_at=self.committed_at,
            snapshot_id=self.snapshot_id,
            sequence_number=self.sequence_number,
            schema_id=self.schema_id,
            purge=self.purge,
        )


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Pointer)


def encode_pointer(pointer: Pointer) -> bytes:
    return _encoder.encode(pointer)


def decode_pointer(data: bytes, path: str) -> Pointer:
    """The pointer in an object, or `Corrupt` with the path."""
    return decode_document(_decoder, data, "pointer", FORMAT, path)


def check_link(
    pointer: Pointer, *, table_id: str, incarnation: str, number: int, previous: str | None, path: str
) -> None:
    """The pointer must have this place; `previous` is its predecessor's hash, None if nobody knows."""
    for field, found, wanted in (
        ("table", pointer.table_id, table_id),
        ("incarnation", pointer.incarnation, incarnation),
        ("number", pointer.number, number),
    ):
        if found != wanted:
            raise Corrupt(f"{path} says it is of {field} {found!r}, not {wanted!r}; run `arco doctor`", path=path)
    if previous is not None and pointer.previous_hash != previous:
        raise Corrupt(
            f"{path} does not continue its predecessor: pointer {number - 1} was lost and refilled, or altered; "
            "run `arco doctor`",
            path=path,
        )


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
