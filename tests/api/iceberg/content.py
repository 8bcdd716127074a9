"""Bodies of requests: tables, views, commits."""

from typing import Any

__all__ = ["SCHEMA", "VIEW", "append", "key", "snapshot", "table"]

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "name", "required": False, "type": "string"},
    ],
}


def key(now: int, number: int) -> str:
    """An idempotency key of a time in microseconds."""
    text = f"{now // 1000:012x}"
    return f"{text[:8]}-{text[8:]}-7000-8000-{number:012x}"


def table(name: str = "t", *, stage: bool = False, **more: Any) -> dict[str, Any]:
    return {"name": name, "schema": SCHEMA, **more, **({"stage-create": True} if stage else {})}


def snapshot(id: int, sequence: int, parent: int | None = None, now_ms: int = 0) -> dict[str, Any]:
    found = {
        "snapshot-id": id,
        "sequence-number": sequence,
        "timestamp-ms": now_ms,
        "manifest-list": f"memory://store/none/{id}.avro",
        "summary": {"operation": "append", "added-records": "1"},
        "schema-id": 0,
    }
    return found | ({"parent-snapshot-id": parent} if parent is not None else {})


def append(uuid: str, made: dict[str, Any], after: int | None) -> dict[str, Any]:
    """A commit that puts a snapshot behind another one on the main branch."""
    return {
        "requirements": [
            {"type": "assert-table-uuid", "uuid": uuid},
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": after},
        ],
        "updates": [
            {"action": "add-snapshot", "snapshot": made},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": made["snapshot-id"]},
        ],
    }


VIEW: dict[str, Any] = {
    "name": "v",
    "schema": SCHEMA,
    "view-version": {
        "version-id": 1,
        "timestamp-ms": 1,
        "schema-id": 0,
        "summary": {"engine-name": "test"},
        "default-namespace": ["ns"],
        "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
    },
    "properties": {"comment": "a view"},
}
