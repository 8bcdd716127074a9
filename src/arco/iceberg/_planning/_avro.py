"""Avro container files of a table, read by field id and within bounds.

Whoever may write a table writes these files, so they are not trusted: blocks are inflated here, up to a limit, and a
schema whose items take no bytes or that contains itself is refused, since a few bytes of it would become endless
objects. What remains is decoded by fastavro. Records come as dicts whose names are `_` and the field's id (`_100`), as
Iceberg wants files to be read, and values as Avro stores them, without logical types.
"""

import io
import json
import zlib
from collections.abc import Iterator
from typing import Any

import fastavro
import zstandard

from arco.core import Invalid, TooLarge
from arco.iceberg._errors import Unsupported

__all__ = ["MAX_INFLATED", "read_avro"]

MAX_INFLATED = 256 << 20
_MAGIC = b"Obj\x01"
_SYNC = 16
_MAX_DEPTH = 16
_PRIMITIVES = {"boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1, "null": 0}


class _Broken(Exception):
    """The file is not what it should be."""


def read_avro(data: bytes, name: str, limit: int = MAX_INFLATED) -> Iterator[dict[str, Any]]:
    """The records of a file. `Invalid` if it is none that Iceberg would write, `TooLarge` if it inflates too far."""
    try:
        metadata, start = _header(data)
        schema = _Schema().rewrite(json.loads(metadata["avro.schema"]), 0)
        count, body = _inflated(data, start, metadata.get("avro.codec", b"null"), limit, name)
        return _records(schema, count, body, name)
    except (_Broken, LookupError, TypeError, ValueError, zlib.error, zstandard.ZstdError, RecursionError) as error:
        raise _invalid(name, error) from None


def _records(schema: Any, count: int, body: bytes, name: str) -> Iterator[dict[str, Any]]:
    try:
        for record in fastavro.reader(io.BytesIO(_container(schema, count, body))):
            if not isinstance(record, dict):
                raise _Broken("its rows are no records")
            yield record
    except (_Broken, EOFError, ValueError, IndexError, TypeError, KeyError, OverflowError, MemoryError) as error:
        raise _invalid(name, error) from None


def _container(schema: Any, count: int, body: bytes) -> bytes:
    """The file anew: one block, not compressed, of a schema that is safe."""
    sync = bytes(_SYNC)
    text = json.dumps(schema).encode()
    header = [_MAGIC, _encoded(1), _encoded(11), b"avro.schema", _encoded(len(text)), text, _encoded(0), sync]
    return b"".join([*header, _encoded(count), _encoded(len(body)), body, sync] if count else header)


def _encoded(number: int) -> bytes:
    """A number that is not negative, as Avro writes it."""
    rest, found = number << 1, bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


def _invalid(name: str, error: Exception) -> Invalid:
    reason = str(error) if isinstance(error, _Broken) else type(error).__name__
    return Invalid(f"{name} is not a manifest of Iceberg ({reason}); the table's writer made a broken file")


def _header(data: bytes) -> tuple[dict[str, bytes], int]:
    if not data.startswith(_MAGIC):
        raise _Broken("it is no Avro file")
    metadata: dict[str, bytes] = {}
    at = len(_MAGIC)
    while True:
        count, at = _long(data, at)
        if count == 0:
            return metadata, at
        if count < 0:  # then the block's size in bytes follows
            count, (_, at) = -count, _long(data, at)
        for _ in range(count):
            key, at = _bytes(data, at)
            value, at = _bytes(data, at)
            metadata[key.decode()] = value


def _inflated(data: bytes, at: int, codec: bytes, limit: int, name: str) -> tuple[int, bytes]:
    """How many records there are, and all of their bytes."""
    sync, at = data[at : at + _SYNC], at + _SYNC
    records, room, parts = 0, limit, []
    while at < len(data):
        count, at = _long(data, at)
        block, at = _bytes(data, at)
        if data[at : at + _SYNC] != sync or count < 0:
            raise _Broken("a block does not end where it should")
        at += _SYNC
        plain = _inflate(block, codec, room + 1)
        room -= len(plain)
        if room < 0:
            raise TooLarge(f"{name} inflates to more than {limit} bytes; plan this scan in the client")
        if count > len(plain):
            raise _Broken("a block has more rows than bytes")
        records += count
        parts.append(plain)
    return records, b"".join(parts)


def _inflate(block: bytes, codec: bytes, limit: int) -> bytes:
    if codec == b"null":
        return block
    if codec == b"deflate":
        return zlib.decompressobj(wbits=-15).decompress(block, limit)
    if codec == b"zstandard":
        with zstandard.ZstdDecompressor().stream_reader(block, read_across_frames=True) as reader:
            return reader.read(limit)
    raise Unsupported(
        f"manifests compressed by {codec[:32]!r} are not read here, only deflate (gzip), zstandard and none; plan this "
        "scan in the client"
    )


def _long(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise _Broken("a number is too long")


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    if not 0 <= size <= len(data) - at:
        raise _Broken("a text is longer than the file")
    return data[at : at + size], at + size


class _Schema:
    """Rewrites a schema: fields by id, no logical types, nothing endless. A type is known when it is complete."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = dict(_PRIMITIVES)

    def rewrite(self, schema: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise _Broken("its schema is too deep")
        if isinstance(schema, list):
            return [self.rewrite(branch, depth + 1) for branch in schema]
        if isinstance(schema, str):
            if schema not in self._sizes:
                raise _Broken("its schema contains itself or a type that it does not define")
            return schema
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.rewrite(kind, depth + 1)
        if kind == "record":
            return self._record(schema, depth)
        if kind == "array":
            items = self.rewrite(schema["items"], depth + 1)
            if self._size(items) == 0:
                raise _Broken("items of an array take no bytes")
            return {"type": "array", "items": items}
        if kind == "map":
            return {"type": "map", "values": self.rewrite(schema["values"], depth + 1)}
        if kind == "fixed":
            self._sizes[schema["name"]] = int(schema["size"])
            return {"type": "fixed", "name": schema["name"], "size": int(schema["size"])}
        if kind == "enum":
            raise _Broken("its schema has an enum")
        return self.rewrite(kind, depth + 1)

    def _record(self, schema: Any, depth: int) -> Any:
        fields = [
            {"name": f"_{int(field['field-id'])}", "type": self.rewrite(field["type"], depth + 1)}
            for field in schema["fields"]
        ]
        self._sizes[schema["name"]] = sum(self._size(field["type"]) for field in fields)
        return {"type": "record", "name": schema["name"], "fields": fields}

    def _size(self, schema: Any) -> int:
        """The least number of bytes a value takes."""
        if isinstance(schema, str):
            return self._sizes[schema]
        if isinstance(schema, dict) and schema["type"] in ("record", "fixed"):
            return self._sizes[schema["name"]]
        return 1
