"""Column types of the catalog as Arrow types. A uuid is text in Arrow, as engines show it."""

import re
from functools import lru_cache

import pyarrow as pa

from arco.core import Invalid, shown

__all__ = ["arrow_type"]

_SIMPLE = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
    "uuid": pa.string(),
    "binary": pa.binary(),
}
_TOKEN = re.compile(r'"[^"]*"|[<>(),:]|[^<>(),:"]+')


@lru_cache(maxsize=1_024)
def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of a canonical type text (`domains.catalog.parse_type`)."""
    tokens = _TOKEN.findall(text)
    try:
        found = _type(tokens)
    except (IndexError, KeyError, ValueError, pa.ArrowException):
        found = None
    if found is None or tokens:
        raise Invalid(f"{shown(text)} is not a column type in its canonical form")
    return found


def _type(tokens: list[str]) -> pa.DataType:
    """Read one type off the front of the tokens."""
    word = tokens.pop(0)
    if word == "decimal":
        _expect(tokens, "(")
        precision = int(tokens.pop(0))
        _expect(tokens, ",")
        scale = int(tokens.pop(0))
        _expect(tokens, ")")
        return pa.decimal128(precision, scale)
    if word == "fixed":
        _expect(tokens, "(")
        size = int(tokens.pop(0))
        _expect(tokens, ")")
        return pa.binary(size)
    if word not in ("list", "map", "struct"):
        return _SIMPLE[word]
    _expect(tokens, "<")
    names, parts = [], []
    while True:
        if word == "struct":
            names.append(tokens.pop(0).strip('"'))
            _expect(tokens, ":")
        parts.append(_type(tokens))
        if tokens[0] != ",":
            break
        tokens.pop(0)
    _expect(tokens, ">")
    if word == "struct":
        return pa.struct(list(zip(names, parts, strict=True)))
    if word == "map":
        key, value = parts
        return pa.map_(key, value)
    (item,) = parts
    return pa.list_(item)


def _expect(tokens: list[str], token: str) -> None:
    if tokens.pop(0) != token:
        raise ValueError(token)
