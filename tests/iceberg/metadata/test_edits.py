"""What holds for every edit, shown on random sequences of updates."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arco.core import Invalid
from arco.iceberg import CommitFailed
from arco.iceberg.metadata import Doc, check_table, check_view, current_refs, current_snapshot_id
from tests.iceberg.metadata.examples import (
    COLUMNS,
    KEY,
    NOW,
    PARTITION_STATISTICS,
    STATISTICS,
    VERSIONS,
    column,
    edit,
    edit_view,
    grown,
    schema,
    sort_field,
    spec_field,
    table_updates,
    version,
    view,
    view_updates,
)

MARK = "x-not-known-here"
IDS = st.integers(-1, 6)
SNAPSHOTS = st.integers(1, 9)
NAMES = st.sampled_from(("main", "a", "b"))


@st.composite
def schemas(draw: st.DrawFn) -> Doc:
    extra = draw(st.lists(st.sampled_from(("int", "string", "date")), max_size=3))
    fields = (column(4 + place, f"c{place}", kind) for place, kind in enumerate(extra))
    return schema(*COLUMNS, *fields, **draw(st.sampled_from(({}, {"identifier-field-ids": [1]}))))


@st.composite
def specs(draw: st.DrawFn) -> Doc:
    made_of = draw(st.lists(st.sampled_from((("identity", 1), ("day", 2), ("bucket[4]", 3))), unique=True))
    with_ids = draw(st.booleans())
    fields = [
        spec_field(f"p_{transform[:3]}", transform, source, 1000 + place if with_ids else None)
        for place, (transform, source) in enumerate(made_of)
    ]
    return {"fields": fields}


@st.composite
def orders(draw: st.DrawFn) -> Doc:
    fields = [sort_field(source) for source in draw(st.lists(st.sampled_from((1, 2, 3)), unique=True))]
    return {"order-id": 1 if fields else 0, "fields": fields}


@st.composite
def snapshots(draw: st.DrawFn) -> Doc:
    """A snapshot without its numbers, which depend on the table; `late` says that they are of another time."""
    made: Doc = {
        "snapshot-id": draw(SNAPSHOTS),
        "timestamp-ms": NOW + draw(st.integers(0, 1000)),
        "manifest-list": "s3://m",
        "late": draw(st.sampled_from((0, 0, 0, 1))),
    }
    return made | draw(st.sampled_from(({}, {"parent-snapshot-id": 1})))


@st.composite
def updates(draw: st.DrawFn) -> Doc:
    """An update of a table that is well formed, though the table may refuse it."""
    action = draw(st.sampled_from(sorted(table_updates())))
    body: Doc = {
        "assign-uuid": lambda: table_updates()["assign-uuid"],
        "upgrade-format-version": lambda: {"format-version": draw(st.integers(1, 3))},
        "add-schema": lambda: {"schema": draw(schemas())},
        "set-current-schema": lambda: {"schema-id": draw(IDS)},
        "add-spec": lambda: {"spec": draw(specs())},
        "set-default-spec": lambda: {"spec-id": draw(IDS)},
        "add-sort-order": lambda: {"sort-order": draw(orders())},
        "set-default-sort-order": lambda: {"sort-order-id": draw(IDS)},
        "add-snapshot": lambda: {"snapshot": draw(snapshots())},
        "set-snapshot-ref": lambda: {
            "ref-name": draw(NAMES),
            "snapshot-id": draw(SNAPSHOTS),
            "type": draw(st.sampled_from(("branch", "tag"))),
        },
        "remove-snapshots": lambda: {"snapshot-ids": draw(st.lists(SNAPSHOTS, max_size=3))},
        "remove-snapshot-ref": lambda: {"ref-name": draw(NAMES)},
        "set-location": lambda: {"location": draw(st.sampled_from(("s3://a", "s3://b")))},
        "set-properties": lambda: {"updates": draw(st.dictionaries(NAMES, NAMES, max_size=2))},
        "remove-properties": lambda: {"removals": draw(st.lists(NAMES, max_size=2))},
        "set-statistics": lambda: {"statistics": {**STATISTICS, "snapshot-id": draw(SNAPSHOTS)}},
        "remove-statistics": lambda: {"snapshot-id": draw(SNAPSHOTS)},
        "set-partition-statistics": lambda: {
            "partition-statistics": {**PARTITION_STATISTICS, "snapshot-id": draw(SNAPSHOTS)}
        },
        "remove-partition-statistics": lambda: {"snapshot-id": draw(SNAPSHOTS)},
        "remove-partition-specs": lambda: {"spec-ids": draw(st.lists(IDS, max_size=2))},
        "remove-schemas": lambda: {"schema-ids": draw(st.lists(IDS, max_size=2))},
        "add-encryption-key": lambda: {"encryption-key": {**KEY, "key-id": draw(NAMES)}},
        "remove-encryption-key": lambda: {"key-id": draw(NAMES)},
    }[action]()
    return {"action": action, **body}


COMMITS = st.lists(st.lists(updates(), min_size=1, max_size=3), max_size=12)
many = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def fitted(base: Doc, commit: list[Doc]) -> list[Doc]:
    """The commit with numbers for its snapshots, as a client that read this base would give them."""
    version, made = base["format-version"], []
    number, row = base.get("last-sequence-number", 0), base.get("next-row-id", 0)
    for update in commit:
        if update["action"] == "upgrade-format-version":
            version = max(version, update["format-version"])
        if update["action"] == "add-snapshot":
            late = update["snapshot"]["late"]
            numbers: Doc = {} if version == 1 else {"sequence-number": number + 1 - late}
            if version == 3:
                numbers |= {"first-row-id": max(0, row - late), "added-rows": 10}
            number, row = number + 1, row + 10
            update = {**update, "snapshot": {**update["snapshot"], **numbers}}
        made.append(update)
    return made


def tried(base: Doc, commit: list[Doc]) -> Doc:
    """The base after the commit, or the base if it was refused."""
    try:
        return edit(base, *fitted(base, commit))
    except (Invalid, CommitFailed):
        return base


def check_invariants(document: Doc) -> None:
    """What the format says of every table."""
    assert check_table(document) is document
    known = {one["snapshot-id"] for one in document["snapshots"]}
    assert len(known) == len(document["snapshots"])
    assert all(ref["snapshot-id"] in known for ref in document["refs"].values())
    assert all(entry["snapshot-id"] in known for entry in document["snapshot-log"])
    current = current_snapshot_id(document)
    assert current == (current_refs(document).get("main") or {}).get("snapshot-id")
    if current is not None and document["snapshot-log"]:
        assert document["snapshot-log"][-1]["snapshot-id"] == current
    for name, field in (("schemas", "schema-id"), ("partition-specs", "spec-id"), ("sort-orders", "order-id")):
        ids = [one[field] for one in document[name]]
        assert len(set(ids)) == len(ids)
    fields = [field["field-id"] for spec in document["partition-specs"] for field in spec["fields"]]
    assert document["last-partition-id"] >= max(fields, default=999)
    assert document["last-column-id"] >= max(one["id"] for made in document["schemas"] for one in made["fields"])
    for name in ("statistics", "partition-statistics"):
        of = [one["snapshot-id"] for one in document[name]]
        assert len(set(of)) == len(of)
    times = [entry["timestamp-ms"] for entry in document["metadata-log"]]
    assert times == sorted(times)


@pytest.mark.parametrize("format_version", VERSIONS)
@many
@given(commits=COMMITS)
def test_the_invariants_of_the_format_hold(format_version: int, commits: list[list[Doc]]) -> None:
    document = grown(format_version)
    for commit in commits:
        after = tried(document, commit)
        check_invariants(after)
        for name in ("format-version", "last-column-id", "last-partition-id", "last-updated-ms"):
            assert after[name] >= document[name]
        for name in ("last-sequence-number", "next-row-id"):
            assert after.get(name, 0) >= document.get(name, 0)
        document = after


@pytest.mark.parametrize("format_version", VERSIONS)
@many
@given(commits=COMMITS)
def test_no_edit_writes_to_its_base(format_version: int, commits: list[list[Doc]]) -> None:
    document = grown(format_version)
    for commit in commits:
        before, asked = copy.deepcopy(document), copy.deepcopy(commit)
        after = tried(document, commit)
        assert document == before
        assert commit == asked
        document = after


def marked(value: Any) -> Any:
    """The value with a field that nobody knows in every object of it that has fields."""
    if isinstance(value, list):
        return [marked(one) for one in value]
    if not isinstance(value, dict):
        return value
    inner = {name: one if name in ("properties", "summary", "updates") else marked(one) for name, one in value.items()}
    return {**inner, MARK: {"deep": [1]}}


def marks(document: Doc) -> Doc:
    made = marked(document)
    del made["refs"][MARK]
    return made


def marked_parts(document: Doc) -> dict[tuple[str, Any], Any]:
    """Every part of the document that has an id, with what it says besides what is known."""
    ids = {"schemas": "schema-id", "partition-specs": "spec-id", "sort-orders": "order-id", "snapshots": "snapshot-id"}
    parts: dict[tuple[str, Any], Any] = {("document", 0): document.get(MARK)}
    for name, field in ids.items():
        parts |= {(name, one[field]): one for one in document[name]}
    return parts | {("refs", name): one.get(MARK) for name, one in document["refs"].items()}


@pytest.mark.parametrize("format_version", VERSIONS)
@many
@given(commits=COMMITS)
def test_what_nobody_knows_survives(format_version: int, commits: list[list[Doc]]) -> None:
    document = marks(grown(format_version))
    for commit in commits:
        after = tried(document, commit)
        before, now = marked_parts(document), marked_parts(after)
        assert after[MARK] == {"deep": [1]}
        for key, part in before.items():
            if key in now and not (key[0] == "snapshots" and readded(commit, key[1])):
                assert now[key] == part or (key[0] == "refs" and recreated(commit, key[1]))
        document = after


def readded(commit: list[Doc], snapshot_id: int) -> bool:
    return any(update.get("snapshot", {}).get("snapshot-id") == snapshot_id for update in commit)


def recreated(commit: list[Doc], name: str) -> bool:
    """Whether a commit may have removed a reference before it set one of the same name."""
    return any(update["action"] in ("remove-snapshot-ref", "remove-snapshots") for update in commit)


@pytest.mark.parametrize("format_version", VERSIONS)
@pytest.mark.parametrize("action", sorted(table_updates()))
def test_every_update_leaves_what_nobody_knows(format_version: int, action: str) -> None:
    document = marks(grown(format_version))
    after = edit(document, marked(table_updates(format_version)[action]))
    before, now = marked_parts(document), marked_parts(after)
    assert after[MARK] == {"deep": [1]}
    assert all(now[key] == part for key, part in before.items() if key in now)


def test_what_an_update_carries_is_kept_whole() -> None:
    base = grown(3)
    sent = {action: marked(update) for action, update in table_updates(3).items()}
    wanted = ("add-schema", "add-spec", "add-sort-order", "add-snapshot", "set-statistics", "add-encryption-key")
    after = edit(base, *(sent[action] for action in wanted))
    assert after["schemas"][1] == {**sent["add-schema"]["schema"], "schema-id": 1}
    assert after["partition-specs"][1] == {**sent["add-spec"]["spec"], "spec-id": 1}
    assert after["sort-orders"][1] == {**sent["add-sort-order"]["sort-order"], "order-id": 1}
    assert after["snapshots"][-1] == sent["add-snapshot"]["snapshot"]
    assert after["statistics"] == [sent["set-statistics"]["statistics"]]
    assert after["encryption-keys"] == [sent["add-encryption-key"]["encryption-key"]]


@pytest.mark.parametrize("format_version", VERSIONS)
@many
@given(commits=COMMITS)
def test_an_edit_that_changes_nothing_gives_the_base(format_version: int, commits: list[list[Doc]]) -> None:
    document = grown(format_version)
    for commit in commits:
        document = tried(document, commit)
    assert edit(document) is document
    current = {
        "set-current-schema": {"schema-id": document["current-schema-id"]},
        "set-default-spec": {"spec-id": document["default-spec-id"]},
        "set-default-sort-order": {"sort-order-id": document["default-sort-order-id"]},
        "set-location": {"location": document["location"]},
        "set-properties": {"updates": document["properties"]},
        "remove-properties": {"removals": ["not-there"]},
        "remove-snapshots": {"snapshot-ids": [77]},
        "assign-uuid": {"uuid": document["table-uuid"]},
        "upgrade-format-version": {"format-version": document["format-version"]},
    }
    nothing = [{"action": action, **body} for action, body in current.items()]
    again = [
        *({"action": "add-schema", "schema": one} for one in document["schemas"]),
        *({"action": "add-spec", "spec": one} for one in document["partition-specs"]),
        *({"action": "add-sort-order", "sort-order": one} for one in document["sort-orders"]),
        *({"action": "set-snapshot-ref", "ref-name": name, **one} for name, one in document["refs"].items()),
    ]
    assert edit(document, *nothing, *again) is document


@many
@given(commits=COMMITS)
def test_a_document_survives_its_file(commits: list[list[Doc]]) -> None:
    document = grown(3)
    for commit in commits:
        document = tried(document, commit)
    assert msgspec.json.decode(msgspec.json.encode(document)) == document


VIEW_EDITS = st.lists(
    st.one_of(
        st.sampled_from([update for action, update in view_updates().items() if action != "add-view-version"]),
        st.integers(1, 6).map(
            lambda number: {"action": "add-view-version", "view-version": version(number, f"select {number}")}
        ),
        st.integers(-1, 9).map(lambda number: {"action": "set-current-view-version", "view-version-id": number}),
        st.integers(0, 4).map(
            lambda size: {"action": "set-properties", "updates": {"version.history.num-entries": str(size)}}
        ),
    ),
    max_size=8,
)


@many
@given(commits=st.lists(VIEW_EDITS, max_size=8))
def test_what_holds_for_every_view(commits: list[list[Doc]]) -> None:
    document: Doc = {**view(), MARK: 1}
    for commit in commits:
        before = copy.deepcopy(document)
        try:
            after = edit_view(document, *commit)
        except Invalid:
            after = document
        assert document == before
        assert check_view(after) is after
        assert after[MARK] == 1
        ids = [one["version-id"] for one in after["versions"]]
        assert len(set(ids)) == len(ids)
        assert all(entry["version-id"] in ids for entry in after["version-log"])
        document = after
