"""A plan as JSON: `file-scan-tasks` with data files, and `delete-files`, which tasks name by their index."""

from collections.abc import Iterable
from typing import Any

from arco.iceberg._planning._manifests import DATA, EQUALITY_DELETES, POSITION_DELETES, File
from arco.iceberg._planning._request import ScanRequest
from arco.iceberg._planning._types import to_json

__all__ = ["answer_of"]

_CONTENTS = {DATA: "data", POSITION_DELETES: "position-deletes", EQUALITY_DELETES: "equality-deletes"}
_COUNTS = {
    "column-sizes": "_108",
    "value-counts": "_109",
    "null-value-counts": "_110",
    "nan-value-counts": "_137",
}
_BOUNDS = {"lower-bounds": "_125", "upper-bounds": "_128"}
_OPTIONAL = {
    "split-offsets": "_132",
    "equality-ids": "_135",
    "sort-order-id": "_140",
    "referenced-data-file": "_143",
    "content-offset": "_144",
    "content-size-in-bytes": "_145",
}


def answer_of(tasks: Iterable[tuple[File, list[File]]], request: ScanRequest) -> dict[str, Any]:
    """Every task carries the filter as its residual: Java's client takes a missing one for an error."""
    numbers: dict[int, int] = {}
    deletes: list[dict[str, Any]] = []
    answered = []
    for file, applying in tasks:
        references = []
        for delete in applying:
            if id(delete) not in numbers:
                numbers[id(delete)] = len(deletes)
                deletes.append(_file(delete, frozenset()))
            references.append(numbers[id(delete)])
        task: dict[str, Any] = {"data-file": _file(file, request.stats), "residual-filter": request.residual}
        if references:
            task["delete-file-references"] = references
        answered.append(task)
    answer: dict[str, Any] = {"file-scan-tasks": answered}
    return {**answer, "delete-files": deletes} if deletes else answer


def _file(file: File, stats: frozenset[int]) -> dict[str, Any]:
    raw = file.raw
    pairs = zip(file.spec.fields, file.partition, strict=True)
    found: dict[str, Any] = {
        "spec-id": file.spec.id,
        "content": _CONTENTS[file.content],
        "file-path": file.path,
        "file-format": file.format,
        "partition": [to_json(field.type, value) for field, value in pairs],
        "file-size-in-bytes": raw["_104"],
        "record-count": file.rows,
    }
    found |= {name: raw[key] for name, key in _OPTIONAL.items() if raw.get(key) is not None}
    if raw.get("_131") is not None:
        found["key-metadata"] = raw["_131"].hex().upper()
    if file.first_row_id is not None:
        found["first-row-id"] = file.first_row_id
    if stats:
        found |= {name: _map(raw, key, stats) for name, key in _COUNTS.items() if raw.get(key) is not None}
        # The specification has values here; its reference implementation writes and reads their bytes in hexadecimal.
        for name, key in _BOUNDS.items():
            if raw.get(key) is not None:
                bounds = _map(raw, key, stats)
                found[name] = {"keys": bounds["keys"], "values": [value.hex().upper() for value in bounds["values"]]}
    return found


def _map(raw: Any, key: str, stats: frozenset[int]) -> dict[str, Any]:
    pairs = [tuple(pair.values()) for pair in raw[key]]
    kept = [pair for pair in pairs if pair[0] in stats]
    return {"keys": [number for number, _ in kept], "values": [value for _, value in kept]}
