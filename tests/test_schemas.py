"""The golden schemas are those of this program, and no command writes one that breaks what is stored."""

import copy
import json
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from arco.runtime import DEFINITIONS
from tests.schemas import GOLDEN, Documents, compare, current, load, main, merged

Edit = Callable[[Documents], object]


def edited(edit: Edit) -> Documents:
    """This program's schemas after a change of somebody's."""
    found = copy.deepcopy(current())
    edit(found)
    return found


def namespaces(documents: Documents) -> dict[str, Any]:
    found: dict[str, Any] = documents["tables"]["catalog"]["namespaces"]
    return found


def created(documents: Documents) -> dict[str, Any]:
    found: dict[str, Any] = documents["events"]["catalog"]["NamespaceCreated"]
    return found


def header(documents: Documents) -> dict[str, Any]:
    found: dict[str, Any] = documents["formats"]["segment"]["$defs"]["Header"]
    return found


def set_in(select: Callable[[Documents], dict[str, Any]], key: str, value: Any) -> Edit:
    return lambda documents: select(documents).update({key: value})


def drop_in(select: Callable[[Documents], dict[str, Any]], key: str) -> Edit:
    return lambda documents: select(documents).pop(key)


BREAKING: dict[str, tuple[Edit, str]] = {
    "removed column": (drop_in(lambda d: namespaces(d)["columns"], "description"), "column description is gone"),
    "changed type": (
        set_in(lambda d: namespaces(d)["columns"], "created_at", "int64"),
        "column created_at changed from timestamp[us, tz=UTC] to int64",
    ),
    "column made mandatory": (
        set_in(lambda d: namespaces(d)["columns"], "description", "string not null"),
        "column description changed from string to string not null",
    ),
    "new mandatory column": (
        set_in(lambda d: namespaces(d)["columns"], "owner", "string not null"),
        "stored rows have no value for it",
    ),
    "changed key": (set_in(namespaces, "key", ["path"]), "key changed from ['namespace_id'] to ['path']"),
    "changed group": (set_in(namespaces, "group", "path"), "group changed"),
    "changed kind": (set_in(namespaces, "kind", "fact"), "kind changed"),
    "changed time": (set_in(namespaces, "time", "created_at"), "time changed from None to created_at"),
    "made private": (set_in(namespaces, "private", True), "private changed"),
    "removed table": (drop_in(lambda d: d["tables"]["catalog"], "names"), "the table names is gone"),
    "changed payload": (
        set_in(lambda d: created(d)["1"]["$defs"]["NamespaceCreated"]["properties"], "owner", {"type": "string"}),
        "the payload of NamespaceCreated v1 changed",
    ),
    "removed event": (drop_in(lambda d: d["events"]["catalog"], "NamespaceDropped"), "NamespaceDropped is gone"),
    "removed log": (drop_in(lambda d: d["events"], "activity"), "MaterializationCompleted is gone"),
    "removed format": (drop_in(lambda d: d["formats"], "manifest"), "the format manifest is gone"),
    "removed field": (drop_in(lambda d: header(d)["properties"], "seal"), "Header lost the field seal"),
    "changed field": (
        set_in(lambda d: header(d)["properties"], "received", {"type": "string"}),
        "Header changed the field received",
    ),
    "field made mandatory": (lambda d: header(d)["required"].append("seal"), "now needs the field seal"),
    "new mandatory field": (
        lambda d: (header(d)["properties"].update(shard={"type": "integer"}), header(d)["required"].append("shard")),
        "new field shard, but what is stored lacks it",
    ),
    "removed part": (drop_in(lambda d: d["formats"]["segment"]["$defs"], "Header"), "segment: Header is gone"),
    "other rules for a part": (set_in(header, "additionalProperties", False), "Header changed"),
    "another root": (set_in(lambda d: d["formats"]["segment"], "$ref", "#/$defs/Header"), "segment changed"),
}

ADDITIVE: dict[str, tuple[Edit, str]] = {
    "new column": (set_in(lambda d: namespaces(d)["columns"], "owner", "string"), "new column owner: string"),
    "new table": (lambda d: d["tables"]["catalog"].update(shelves=namespaces(d)), "new table shelves"),
    "other pruning": (set_in(namespaces, "prune", []), "pruned by []"),
    "new event": (set_in(lambda d: d["events"]["catalog"], "Moved", {"1": {}}), "new event Moved v1"),
    "new version": (lambda d: created(d).update({"2": created(d).pop("1")}), "new event NamespaceCreated v2"),
    "new field": (set_in(lambda d: header(d)["properties"], "shard", {"type": "integer"}), "the new field shard"),
    "new part": (set_in(lambda d: d["formats"]["segment"]["$defs"], "Shard", {}), "segment: Shard is new"),
    "new format": (set_in(lambda d: d["formats"], "shard", {}), "new format shard"),
}


def test_the_golden_schemas_are_those_of_this_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().out


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """A folder with this program's schemas as the golden ones."""
    assert main(["--write"], tmp_path) == 0
    assert main(["--check"], tmp_path) == 0
    return tmp_path


@pytest.mark.parametrize("name", BREAKING)
def test_a_breaking_change_is_refused_unless_forced(
    golden: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    edit, text = BREAKING[name]
    now, before = edited(edit), load(golden)
    capsys.readouterr()
    assert main(["--check"], golden, now) == 1
    assert main(["--write"], golden, now) == 1
    said = capsys.readouterr().out
    assert text in said
    assert "nothing was written" in said
    assert load(golden) == before
    assert main(["--write", "--force"], golden, now) == 0
    assert load(golden) != before


@pytest.mark.parametrize("name", ADDITIVE)
def test_an_additive_change_is_told_and_written(golden: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    edit, text = ADDITIVE[name]
    now = edited(edit)
    capsys.readouterr()
    assert main(["--check"], golden, now) == 1
    said = capsys.readouterr().out
    assert text in said
    assert "breaks" not in said
    assert "make schemas" in said or "new event version" in said
    assert main(["--write"], golden, now) == 0
    assert main(["--check"], golden, now) == 0


def test_older_versions_of_an_event_stay_golden(golden: Path) -> None:
    now = edited(ADDITIVE["new version"][0])
    assert main(["--write"], golden, now) == 0
    assert list(load(golden)["events"]["catalog"]["NamespaceCreated"]) == ["1", "2"]
    back = compare(load(golden), current())
    assert [change.text for change in back] == ["catalog: the event NamespaceCreated went back from v2"]


def test_a_changed_payload_is_shown_by_its_lines(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    main(["--check"], golden, edited(BREAKING["changed payload"][0]))
    assert '+    "owner": {' in capsys.readouterr().out


def test_both_logs_and_every_table_are_in_the_golden_files() -> None:
    stored = load(GOLDEN)
    for definition in DEFINITIONS:
        assert set(stored["tables"][definition.log]) == set(definition.tables)
        assert set(stored["events"][definition.log]) == {kind.name for kind in definition.registry}
    assert set(stored["formats"]) == {"segment", "pack", "manifest", "incarnation"}


def test_the_golden_files_are_written_as_this_program_would_write_them(tmp_path: Path) -> None:
    stored = load(GOLDEN)
    main(["--write"], tmp_path, merged(stored, current()))
    for path in GOLDEN.iterdir():
        assert json.loads((tmp_path / path.name).read_text()) == stored[path.stem]


def structs_in(hint: Any) -> Iterator[type[msgspec.Struct]]:
    """Every struct class that a type can hold."""
    if typing.get_origin(hint) is None and isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
        for inner in typing.get_type_hints(hint).values():
            yield from structs_in(inner)
    for inner in typing.get_args(hint):
        yield from structs_in(inner)


def test_no_payload_takes_a_field_that_nobody_acts_on() -> None:
    payloads = [kind.payload for definition in DEFINITIONS for kind in definition.registry]
    loose = {found.__name__ for payload in payloads for found in structs_in(payload) if not _is_strict(found)}
    assert not loose


def _is_strict(kind: type[msgspec.Struct]) -> bool:
    return kind.__struct_config__.forbid_unknown_fields
