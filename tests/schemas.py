"""The golden schemas: every event payload, table and stored format, checked in so that nobody changes one by accident.

    python -m tests.schemas --check     print what differs from tests/golden/schemas and exit 1 if anything does
    python -m tests.schemas --write     write the goldens anew; what would break stored data needs --force as well

What is stored stays readable for ever, so changes are of two kinds:

- *additive*: a new event type or version, a new table, a new column that may be null, a new optional field of a format.
- *breaking*: everything else. An event's payload never changes under its version: give it a new version and an
  upcaster. A table's columns, key and group never change: add a column, or a table and a new fold version.
"""

import argparse
import copy
import difflib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from arco.log import PackIndex, Segment
from arco.runtime import DEFINITIONS, Incarnation
from arco.state import Definition, Manifest, Table

__all__ = ["GOLDEN", "Change", "compare", "current", "main", "merged"]

GOLDEN = Path(__file__).parent / "golden" / "schemas"

Documents = dict[str, dict[str, Any]]
"""By name of the file: `events` (log, type, version), `tables` (log, table), `formats` (name)."""

NAMES = ("events", "tables", "formats")
FORMATS: Mapping[str, type[msgspec.Struct]] = {
    "segment": Segment,
    "pack": PackIndex,
    "manifest": Manifest,
    "incarnation": Incarnation,
}

ADVICE = {
    "events": "a changed payload needs a new event version with an upcaster",
    "tables": "additive changes of tables need `make schemas`; others need a new column or table",
    "formats": "additive changes of formats need `make schemas`; others need a new format number",
}


class Change(NamedTuple):
    """One difference between what is stored and what the program has now."""

    document: str
    breaking: bool
    text: str


# What the program has


def current(definitions: Iterable[Definition] = DEFINITIONS) -> Documents:
    """The schemas of this program."""
    found: Documents = {name: {} for name in NAMES}
    for definition in definitions:
        found["events"][definition.log] = {
            kind.name: {str(kind.version): schema_of(kind.payload)} for kind in definition.registry
        }
        found["tables"][definition.log] = {name: _table(table) for name, table in definition.tables.items()}
    found["formats"] = {name: schema_of(kind) for name, kind in FORMATS.items()}
    return found


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema as it is stored, without words that only people read."""
    found: dict[str, Any] = json.loads(_text(_without_words(msgspec.json.schema(kind))))
    return found


def _without_words(node: Any) -> Any:
    if isinstance(node, dict):
        return {
            key: _without_words(value)
            for key, value in node.items()
            if not (key in ("title", "description") and isinstance(value, str))
        }
    return [_without_words(value) for value in node] if isinstance(node, list) else node


def _table(table: Table) -> dict[str, Any]:
    return {
        "kind": table.kind.value,
        "key": list(table.key),
        "group": table.group,
        "time": table.time,
        "prune": list(table.prune),
        "private": table.private,
        "columns": {field.name: f"{field.type}{'' if field.nullable else ' not null'}" for field in table.schema},
    }


# What differs


def compare(golden: Documents, now: Documents) -> list[Change]:
    """Every difference, in the order of the files."""
    return [
        *(Change("events", *change) for change in _events(golden["events"], now["events"])),
        *(Change("tables", *change) for change in _tables(golden["tables"], now["tables"])),
        *(Change("formats", *change) for change in _formats(golden["formats"], now["formats"])),
    ]


Found = Iterator[tuple[bool, str]]
"""Whether it breaks, and what it is."""


def _events(golden: dict[str, Any], now: dict[str, Any]) -> Found:
    for log in _either(golden, now):
        before, after = golden.get(log, {}), now.get(log, {})
        for name in _either(before, after):
            known, mine = before.get(name, {}), after.get(name, {})
            if not mine:
                yield True, f"{log}: the event {name} is gone; logs that hold it could not be folded"
            elif known and max(map(int, mine)) < max(map(int, known)):
                yield True, f"{log}: the event {name} went back from v{max(map(int, known))}"
            for version, schema in mine.items():
                if version not in known:
                    yield False, f"{log}: new event {name} v{version}"
                elif schema != known[version]:
                    yield True, f"{log}: the payload of {name} v{version} changed{_diff(known[version], schema)}"


def _tables(golden: dict[str, Any], now: dict[str, Any]) -> Found:
    for log in _either(golden, now):
        before, after = golden.get(log, {}), now.get(log, {})
        for name in _either(before, after):
            if name not in after:
                yield True, f"{log}: the table {name} is gone"
            elif name not in before:
                yield False, f"{log}: new table {name}"
            else:
                for breaks, text in _one_table(before[name], after[name]):
                    yield breaks, f"{log}: table {name}: {text}"


def _one_table(before: dict[str, Any], after: dict[str, Any]) -> Found:
    for field in ("kind", "key", "group", "time", "private"):
        if before[field] != after[field]:
            yield True, f"{field} changed from {before[field]} to {after[field]}"
    if before["prune"] != after["prune"]:
        yield False, f"pruned by {after['prune']} instead of {before['prune']}"
    for column in _either(before["columns"], after["columns"]):
        old, new = before["columns"].get(column), after["columns"].get(column)
        if new is None:
            yield True, f"the column {column} is gone"
        elif old is None:
            null = not new.endswith(" not null")
            yield not null, f"new column {column}: {new}{'' if null else ', but stored rows have no value for it'}"
        elif old != new:
            yield not _reads(old, new), f"the column {column} changed from {old} to {new}"


def _reads(old: str, new: str) -> bool:
    """Whether stored values of one type are read as the other: structs may have gained fields, at any depth."""
    before, after = _nested(old), _nested(new)
    if before is None or after is None:
        return old == new
    (kind, fields), (other, more) = before, after
    return kind == other and all(name in more and _reads(type, more[name]) for name, type in fields.items())


def _nested(type: str) -> tuple[str, dict[str, str]] | None:
    """The kind of a nested type and the types of its fields; None for a plain one."""
    kind, bracket, rest = type.partition("<")
    if not bracket or kind not in ("struct", "list"):
        return None
    fields, depth, field = [], 0, ""
    for letter in rest[:-1]:
        depth += (letter == "<") - (letter == ">")
        if letter == "," and not depth:
            fields.append(field)
            field = ""
        else:
            field += letter
    parts = [one.strip().partition(": ") for one in (*fields, field)]
    return kind, {name: type for name, _, type in parts}


def _formats(golden: dict[str, Any], now: dict[str, Any]) -> Found:
    for name in _either(golden, now):
        if name not in now:
            yield True, f"the format {name} is gone"
        elif name not in golden:
            yield False, f"new format {name}"
        elif golden[name] != now[name]:
            before, after = golden[name].get("$defs", {}), now[name].get("$defs", {})
            for part in _either(before, after):
                for breaks, text in _one_part(before.get(part), after.get(part)):
                    yield breaks, f"{name}: {part} {text}"
            if _outside(golden[name]) != _outside(now[name]):
                yield True, f"{name} changed{_diff(_outside(golden[name]), _outside(now[name]))}"


def _one_part(before: dict[str, Any] | None, after: dict[str, Any] | None) -> Found:
    if before is None or after is None:
        yield after is None, "is gone" if after is None else "is new"
        return
    old, new = before.get("properties", {}), after.get("properties", {})
    for field in _either(old, new):
        if field not in new:
            yield True, f"lost the field {field}"
        elif field not in old:
            needed = field in after.get("required", ())
            yield needed, f"has the new field {field}{', but what is stored lacks it' if needed else ''}"
        elif old[field] != new[field]:
            yield True, f"changed the field {field}{_diff(old[field], new[field])}"
    missing = set(after.get("required", ())) - set(before.get("required", ()))
    for field in sorted(missing & set(old)):
        yield True, f"now needs the field {field}, which what is stored may lack"
    if {**before, "properties": 0, "required": 0} != {**after, "properties": 0, "required": 0}:
        yield True, f"changed{_diff(before, after)}"


def _outside(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "$defs"}


def _either(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys((*before, *after)))


def _diff(before: Any, after: Any) -> str:
    """The lines that differ, below the line that says so."""
    lines = difflib.unified_diff(_text(before).splitlines(), _text(after).splitlines(), n=2, lineterm="")
    return "".join(f"\n      {line}" for line in lines if not line.startswith(("---", "+++", "@@")))


# The files


def merged(golden: Documents, now: Documents) -> Documents:
    """What to store: the program's schemas, and the older versions of events that logs still hold."""
    found = copy.deepcopy(now)
    for log, types in golden["events"].items():
        for name, versions in types.items():
            if name in found["events"].get(log, {}):
                mine = found["events"][log][name]
                found["events"][log][name] = dict(sorted({**versions, **mine}.items(), key=lambda item: int(item[0])))
    return found


def load(folder: Path) -> Documents:
    return {name: json.loads(path.read_text()) if (path := folder / f"{name}.json").exists() else {} for name in NAMES}


def _text(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def _store(folder: Path, documents: Documents) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        (folder / f"{name}.json").write_text(_text(documents[name]) + "\n")


def _show(changes: Sequence[Change]) -> None:
    for change in changes:
        print(f"{'breaks  ' if change.breaking else 'additive'} {change.document}: {change.text}")
    for name in dict.fromkeys(change.document for change in changes):
        print(f"{name}: {ADVICE[name]}")


def main(arguments: Sequence[str], folder: Path = GOLDEN, now: Documents | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.schemas", description=__doc__.split("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="exit 1 if anything differs from the golden schemas")
    what.add_argument("--write", action="store_true", help="write the golden schemas; refuses what breaks stored data")
    parser.add_argument("--force", action="store_true", help="with --write: write even what breaks stored data")
    chosen = parser.parse_args(arguments)
    golden, now = load(folder), now or current()
    changes = compare(golden, now)
    _show(changes)
    if chosen.check:
        return 1 if changes else 0
    if any(change.breaking for change in changes) and not chosen.force:
        print("nothing was written: stored data would not be readable any more; --force writes it nevertheless")
        return 1
    _store(folder, merged(golden, now))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
