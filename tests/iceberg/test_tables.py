"""Tables by their names: created, staged, committed, dropped, renamed, registered, and what clients are told."""

import contextlib
from typing import Any

import pytest

from arco.core import Conflict, Invalid, NotFound, ulid_to_uuid
from arco.domains.catalog import TABLES, CreateTable, DropNamespace, Ref, RenameTable, TableRow
from arco.iceberg import (
    AlreadyExists,
    BadRequest,
    CommitFailed,
    IdempotencyKey,
    MetadataMissing,
    NoSuchNamespace,
    NoSuchTable,
)
from tests.iceberg.house import House, Process, commit_of, created, in_house, view_of

T = ("a", "t")
CREATE = {"type": "assert-create"}
SET = {"action": "set-properties", "updates": {"k": "v"}}


def _updates(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """What a client sends to create what it staged."""
    return [
        {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": metadata["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": metadata["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": metadata["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": metadata["location"]},
    ]


def test_a_table_is_created_loaded_changed_and_dropped() -> None:
    async def test(house: House, process: Process) -> None:
        made = await process.create("a.t", properties={"p": "1"})
        assert (made.number, made.path, made.metadata["properties"]["p"]) == (1, ("a", "t"), "1")
        assert made.metadata["table-uuid"] == ulid_to_uuid(made.table_id)  # type: ignore[arg-type]
        assert made.metadata["location"] == f"file:///store/acme/prod/warehouse/{made.table_id.lower()}"
        assert made.metadata_location is not None
        assert made.metadata_location.startswith(f"{made.metadata['location']}/metadata/00001-")
        row: TableRow = await process.workspace.logs["catalog"].replica.get(TABLES, made.table_id, made.table_id)
        assert (row.format, row.location, row.created_by) == ("ICEBERG", None, "ann")
        assert await process.tables.load(("a", "t")) == made
        uuid = {"type": "assert-table-uuid", "uuid": made.metadata["table-uuid"]}
        changed = await process.tables.commit(("a", "t"), commit_of(SET, requirements=(uuid,)), process.who())
        assert (changed.number, changed.metadata["properties"]["k"]) == (2, "v")
        assert changed.metadata["metadata-log"][-1]["metadata-file"] == made.metadata_location
        await process.tables.drop(("a", "t"), process.who())
        assert not await process.exists("a.t")
        for gone in (
            process.tables.load(("a", "t")),
            process.tables.drop(("a", "t"), process.who()),
            process.tables.commit(("a", "t"), commit_of(SET), process.who()),
            process.tables.commit_all([(("a", "t"), commit_of(SET))], process.who()),
            process.tables.rename(("a", "t"), ("a", "u"), process.who()),
            process.tables.unregister(("a", "t"), process.who()),
        ):
            with pytest.raises(NoSuchTable, match=r"^Table does not exist: a\.t$"):
                await gone

    in_house(test)


def test_a_name_is_taken_once() -> None:
    async def test(house: House, process: Process) -> None:
        made = await process.create("a.t")
        await process.views.create(("a", "v"), view_of(), process.who())
        await process.decide(CreateTable(("a", "plain")))
        with pytest.raises(AlreadyExists, match=r"^Table already exists: a\.t$"):
            await process.create("a.t")
        with pytest.raises(AlreadyExists, match=r"^Table already exists: a\.t$"):
            await process.tables.stage(("a", "t"), created(), process.who())
        with pytest.raises(AlreadyExists, match=r"^View with same name already exists: a\.v$"):
            await process.create("a.v")
        with pytest.raises(AlreadyExists, match=r"^View with same name already exists: a\.v$"):
            await process.tables.register(("a", "v"), str(made.metadata_location), True, process.who())
        with pytest.raises(AlreadyExists, match=r"^Table already exists: a\.plain$"):
            await process.create("a.plain")
        with pytest.raises(NoSuchTable, match=r"^Table does not exist: a\.plain$"):
            await process.tables.load(("a", "plain"))
        with pytest.raises(NoSuchNamespace, match=r"^Namespace does not exist: no\.such$"):
            await process.create("no.such.t")
        # A name that a table had before is free.
        await process.tables.rename(("a", "t"), ("a", "u"), process.who())
        assert not await process.exists("a.t")
        assert (await process.create("a.t")).table_id != made.table_id

    in_house(test)


def test_a_staged_table_is_created_by_its_commit() -> None:
    async def test(house: House, process: Process) -> None:
        staged = await process.tables.stage(("a", "t"), created(), process.who())
        assert (staged.number, staged.metadata_location) == (0, None)
        assert not await process.exists("a.t")
        request = commit_of(*_updates(staged.metadata), requirements=(CREATE,))
        made = await process.tables.commit(("a", "t"), request, process.who())
        assert (made.table_id, made.number) == (staged.table_id, 1)
        assert made.metadata["table-uuid"] == staged.metadata["table-uuid"]
        with pytest.raises(CommitFailed, match=r"^Requirement failed: table already exists"):
            await process.tables.commit(("a", "t"), request, process.who())
        # The same uuid under another name is another table.
        other = await process.tables.commit(("a", "u"), request, process.who())
        assert other.table_id != made.table_id
        assert other.metadata["table-uuid"] == made.metadata["table-uuid"]
        await process.views.create(("a", "v"), view_of(), process.who())
        with pytest.raises(AlreadyExists, match=r"^View with same name already exists: a\.v$"):
            await process.tables.commit(("a", "v"), request, process.who())
        both = commit_of(SET, requirements=(CREATE, {"type": "assert-table-uuid", "uuid": "x"}))
        with pytest.raises(BadRequest, match="Invalid create requirements"):
            await process.tables.commit(("a", "w"), both, process.who())
        without = commit_of(*_updates(staged.metadata)[1:], requirements=(CREATE,))
        assert (await process.tables.commit(("a", "w"), without, process.who())).metadata["table-uuid"]

    in_house(test)


def test_a_rename_moves_the_name_and_nothing_else() -> None:
    async def test(house: House, process: Process) -> None:
        made = await process.create("a.t")
        await process.create("b.u")
        await process.views.create(("b", "v"), view_of(), process.who())
        rename = process.tables.rename
        with pytest.raises(AlreadyExists, match=r"^Cannot rename a\.t to b\.u\. Table already exists$"):
            await rename(("a", "t"), ("b", "u"), process.who())
        with pytest.raises(AlreadyExists, match=r"^Cannot rename a\.t to b\.v\. View already exists$"):
            await rename(("a", "t"), ("b", "v"), process.who())
        with pytest.raises(NoSuchNamespace, match=r"^Namespace does not exist: c$"):
            await rename(("a", "t"), ("c", "t"), process.who())
        with pytest.raises(NoSuchTable, match=r"^Table does not exist: a\.x$"):
            await rename(("a", "x"), ("a", "y"), process.who())
        await rename(("a", "t"), ("a", "t"), process.who())
        await rename(("a", "t"), ("b", "t"), process.who())
        assert not await process.exists("a.t")
        moved = await process.tables.load(("b", "t"))
        assert (moved.table_id, moved.number, moved.metadata) == (made.table_id, 1, made.metadata)

    in_house(test)


def test_a_dropped_table_can_be_registered_again() -> None:
    async def test(house: House, process: Process) -> None:
        made = await process.create("a.t")
        await process.tables.commit(("a", "t"), commit_of(SET), process.who())
        last = await process.tables.unregister(("a", "t"), process.who())
        assert last.metadata["properties"]["k"] == "v"
        assert not await process.exists("a.t")
        again = await process.tables.register(("a", "t"), str(last.metadata_location), False, process.who())
        assert again.metadata_location == last.metadata_location
        assert (again.metadata, again.number) == (last.metadata, 1)
        assert again.table_id != made.table_id
        with pytest.raises(AlreadyExists, match=r"^Table already exists: a\.t$"):
            await process.tables.register(("a", "t"), str(made.metadata_location), False, process.who())
        back = await process.tables.register(("a", "t"), str(made.metadata_location), True, process.who())
        assert (back.table_id, back.number) == (again.table_id, 2)
        assert "k" not in (await process.tables.load(("a", "t"))).metadata["properties"]
        new = await process.tables.register(("a", "u"), str(made.metadata_location), True, process.who())
        assert new.path == ("a", "u")
        missing = f"{made.metadata['location']}/metadata/none.json"
        with pytest.raises(MetadataMissing, match=f"^Failed to open input stream for file: {missing}$"):
            await process.tables.register(("a", "w"), missing, False, process.who())

    in_house(test)


def test_a_registered_table_takes_the_id_of_its_uuid_if_nobody_has_it() -> None:
    async def test(house: House, process: Process) -> None:
        staged = await process.tables.stage(("a", "t"), created(), process.who())
        path = "a/metadata/1.json"
        await house.outside.put(path, staged.encoded, only_if_absent=True)
        value = await process.tables.register(("a", "t"), f"file:///outside/{path}", False, process.who())
        assert value.table_id == staged.table_id

    in_house(test)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"location": "file:///etc"}, "outside of the warehouse"),
        ({"location": "file:///store/acme/prod/inc/ledger"}, "outside of the warehouse"),
        ({"location": "file:///store/acme/prod/warehouse/../data"}, "cannot be used"),
        ({"properties": {"write.metadata.path": "file:///etc"}}, "outside of the warehouse"),
        ({"properties": {"write.data.path": "s3://other/x"}}, "outside of the warehouse"),
        ({"properties": {"arco.owner": "me"}}, "arco."),
    ],
)
def test_places_outside_and_properties_of_arco_are_refused_before_anything_is_written(
    more: dict[str, Any], message: str
) -> None:
    async def test(house: House, process: Process) -> None:
        made = await process.create("a.t")
        before = dict(house.objects._objects)
        for work in (process.tables.create, process.tables.stage):
            with pytest.raises(BadRequest, match=message):
                await work(("a", "u"), created(**more), process.who())
        with pytest.raises(BadRequest, match=message):
            await process.views.create(("a", "v"), view_of(**more), process.who())
        update: dict[str, Any] = {"action": "set-properties", "updates": more.get("properties")}
        if "location" in more:
            update = {"action": "set-location", "location": more["location"]}
        request = commit_of(update)
        with pytest.raises(BadRequest, match=message):
            await process.tables.commit(("a", "t"), request, process.who())
        with pytest.raises(BadRequest, match=message):
            await process.tables.commit_all([(("a", "t"), request)], process.who())
        create = commit_of(*_updates(made.metadata), update, requirements=(CREATE,))
        with pytest.raises(BadRequest, match=message):
            await process.tables.commit(("a", "u"), create, process.who())
        assert house.objects._objects == before

    in_house(test)


def test_a_registered_file_may_not_lead_outside() -> None:
    async def test(house: House, process: Process) -> None:
        staged = await process.tables.stage(("a", "t"), created(), process.who())
        bad = staged.encoded.replace(str(staged.metadata["location"]).encode(), b"file:///etc/x")
        await house.outside.put("m/1.json", bad, only_if_absent=True)
        with pytest.raises(BadRequest, match="outside of the warehouse"):
            await process.tables.register(("a", "t"), "file:///outside/m/1.json", False, process.who())
        with pytest.raises(BadRequest, match="outside of the warehouse"):
            await process.tables.register(("a", "t"), "file:///etc/passwd", False, process.who())
        await house.outside.put("m/2.json", b"no json", only_if_absent=True)
        with pytest.raises(Invalid):
            await process.tables.register(("a", "t"), "file:///outside/m/2.json", False, process.who())

    in_house(test)


def test_allowed_places_and_the_metadata_path_are_used() -> None:
    async def test(house: House, process: Process) -> None:
        inside = "file:///store/acme/prod/warehouse/mine"
        made = await process.create("a.t", location=f"{inside}/", properties={"write.metadata.path": f"{inside}/md"})
        assert made.metadata["location"] == inside
        assert str(made.metadata_location).startswith(f"{inside}/md/00001-")
        out = await process.create("a.u", location="file:///outside/u")
        assert str(out.metadata_location).startswith("file:///outside/u/metadata/")
        moved = commit_of({"action": "set-location", "location": "file:///outside/w"})
        assert (await process.tables.commit(("a", "t"), moved, process.who())).metadata["location"].endswith("/w")

    in_house(test)


@pytest.mark.parametrize("name", ["", "*", "a/b", 'a"b', "a'b", "..", ".", "a\nb", "a\x1fb", " a", "x" * 256])
def test_names_that_cannot_be_are_refused(name: str) -> None:
    async def test(house: House, process: Process) -> None:
        for path in ((name, "t"), ("a", name)):
            for work in (
                process.tables.create(path, created(), process.who()),
                process.tables.stage(path, created(), process.who()),
                process.tables.rename(("a", "t"), path, process.who()),
            ):
                with pytest.raises(BadRequest):
                    await work
            for unknown in (
                process.tables.load(path),
                process.views.load(path),
                process.tables.drop(path, process.who()),
                process.views.drop(path, process.who()),
            ):
                with pytest.raises(NotFound):
                    await unknown
            assert not await process.tables.exists(path)

    in_house(test)


def test_a_namespace_of_a_thousand_levels_is_refused() -> None:
    async def test(house: House, process: Process) -> None:
        with pytest.raises(BadRequest, match=r"^a namespace has 1 to 16 levels, this one has 1000$"):
            await process.tables.create(("a",) * 1000 + ("t",), created(), process.who())
        with pytest.raises(BadRequest, match=r"^a table is named with its namespace"):
            await process.tables.create(("t",), created(), process.who())
        for path in (("a",) * 1000 + ("t",), ("t",)):
            with pytest.raises(NoSuchTable):
                await process.tables.load(path)

    in_house(test)


@pytest.mark.parametrize("taken", [False, True], ids=["free", "taken again"])
@pytest.mark.parametrize("after", ["rename", "drop"])
def test_a_repeated_commit_is_recognised_though_its_table_lost_its_name(after: str, taken: bool) -> None:
    async def test(house: House, process: Process) -> None:
        made = await process.create("a.t")
        change, who = commit_of(SET), process.who(process.key("commit"))
        first = await process.tables.commit(T, change, who)
        if after == "rename":
            await process.tables.rename(T, ("a", "u"), process.who())
        else:
            await process.tables.drop(T, process.who())
        other = await process.create("a.t") if taken else None
        again = await process.tables.commit(T, change, who)
        assert (again.table_id, again.metadata_location) == (made.table_id, first.metadata_location)
        if other is not None:
            assert await process.tables.load(T) == other
        with pytest.raises(NoSuchTable) if other is None else contextlib.nullcontext():
            await process.tables.commit(T, change, process.who(process.key("another")))

    in_house(test)


@pytest.mark.parametrize("names", [("t",), ("t", "u")], ids=["one table", "two tables"])
def test_a_repeated_transaction_is_recognised_though_a_table_lost_its_name(names: tuple[str, ...]) -> None:
    async def test(house: House, process: Process) -> None:
        for name in names:
            await process.create(f"a.{name}")
        changes = [(("a", name), commit_of(SET)) for name in names]
        who = process.who(process.key("transaction"))
        await process.tables.commit_all(changes, who)
        await process.tables.rename(T, ("a", "v"), process.who())
        before = await process.tables.load(("a", "v"))
        await process.tables.commit_all(changes, who)
        assert await process.tables.load(("a", "v")) == before
        with pytest.raises(NoSuchTable):
            await process.tables.commit_all(changes, process.who(process.key("another")))

    in_house(test)


def test_a_repeated_change_of_a_view_is_recognised_though_it_lost_its_name() -> None:
    async def test(house: House, process: Process) -> None:
        made = await process.views.create(T, view_of(), process.who())
        change, who = commit_of(SET), process.who(process.key("replace"))
        first = await process.views.replace(T, change, who)
        await process.views.rename(T, ("a", "u"), process.who())
        again = await process.views.replace(T, change, who)
        assert (again.table_id, again.metadata_location) == (made.table_id, first.metadata_location)

    in_house(test)


def test_a_key_makes_a_request_happen_once() -> None:
    async def test(house: House, process: Process) -> None:
        key = process.key("create")
        made = await process.tables.create(("a", "t"), created(), process.who(key))
        again = await process.tables.create(("a", "t"), created(), process.who(key))
        assert again == made
        other = process.who(IdempotencyKey(key.text, "other"))
        with pytest.raises(CommitFailed, match=r"^Idempotency-Key reused with different request payload$"):
            await process.tables.create(("a", "u"), created(), other)
        renames, drops = process.key("rename"), process.key("drop")
        for _ in range(2):
            await process.tables.rename(("a", "t"), ("a", "u"), process.who(renames))
        last = await process.tables.unregister(("a", "u"), process.who(drops))
        # Somebody takes the name again: a repeated drop leaves it alone, a repeated create still has its answer.
        new = await process.create("a.u")
        assert (await process.tables.unregister(("a", "u"), process.who(drops))).metadata == last.metadata
        assert (await process.tables.load(("a", "u"))).table_id == new.table_id
        assert (await process.tables.create(("a", "t"), created(), process.who(key))).table_id == made.table_id

    in_house(test)


def test_a_transaction_goes_by_what_the_names_led_to() -> None:
    async def test(house: House, process: Process) -> None:
        await process.create("a.t")
        await process.create("a.u")
        both = [(("a", "t"), commit_of(SET)), (("a", "u"), commit_of(SET))]
        await process.tables.commit_all(both, process.who())
        for name in ("t", "u"):
            assert (await process.tables.load(("a", name))).metadata["properties"]["k"] == "v"
        with pytest.raises(BadRequest, match="cannot create"):
            await process.tables.commit_all([(("a", "t"), commit_of(SET, requirements=(CREATE,)))], process.who())
        with pytest.raises(BadRequest, match="twice"):
            await process.tables.commit_all([both[0], both[0]], process.who())
        await process.views.create(("a", "v"), view_of(), process.who())
        with pytest.raises(NoSuchTable, match=r"^Table does not exist: a\.v$"):
            await process.tables.commit_all([both[0], (("a", "v"), commit_of(SET))], process.who())
        with pytest.raises(NotFound):
            await process.tables.commit_all([both[0], (("a", "no"), commit_of(SET))], process.who())

    in_house(test)


def test_a_namespace_with_tables_is_not_dropped_and_its_rename_moves_them() -> None:
    async def test(house: House, process: Process) -> None:
        await process.create("a.t")
        with pytest.raises(Exception, match="drop such ones first"):
            await process.decide(DropNamespace(Ref(path=("a",)), cascade=True))
        # Arco's own API renames too.
        await process.decide(RenameTable(Ref(path=("a", "t")), ("b", "t")))
        assert await process.exists("b.t")

    in_house(test)


def test_a_row_without_pointers_is_nothing_to_iceberg_but_takes_its_name() -> None:
    async def test(house: House, process: Process) -> None:
        table_id = "01J00000000000000000000000"
        await process.decide(CreateTable(("a", "t"), format="ICEBERG", table_id=table_id))
        assert not await process.exists("a.t")
        with pytest.raises(Conflict):
            await process.create("a.t")
        with pytest.raises(NoSuchTable):
            await process.tables.drop(("a", "t"), process.who())
        await process.iceberg.lifecycle.drop_id(table_id, process.who())
        await process.create("a.t")

    in_house(test)


def test_a_hot_load_asks_for_the_pointer_and_the_file_and_a_purge_is_noted() -> None:
    async def test(house: House, process: Process) -> None:
        made = await process.create("a.t")
        process.store.requests = 0
        await process.tables.load(("a", "t"))
        assert process.store.requests == 2
        other = await house.open()
        await other.tables.load(("a", "t"))
        other.store.requests = 0
        await other.tables.load(("a", "t"))
        assert other.store.requests == 3  # it does not own the log
        await process.tables.drop(("a", "t"), process.who(), purge=True)
        current = await process.iceberg.pointers.current(made.table_id)
        assert current is not None
        assert (current.pointer.state, current.pointer.purge) == ("dropped", True)

    in_house(test)


def test_a_repeated_register_takes_nothing_back() -> None:
    async def test(house: House, process: Process) -> None:
        made = await process.create("a.t")
        register, location = process.tables.register, str(made.metadata_location)
        for path in (("a", "t"), ("a", "new")):
            key = process.key(f"register {path}")
            await process.tables.commit(("a", "t"), commit_of(SET), process.who())
            await register(path, location, True, process.who(key))
            await process.tables.commit(path, commit_of(SET), process.who())
            await register(path, location, True, process.who(key))
            assert (await process.tables.load(path)).metadata["properties"]["k"] == "v"

    in_house(test)


def test_a_table_whose_metadata_file_is_gone_says_so() -> None:
    async def test(house: House, process: Process) -> None:
        made = await process.create("a.t")
        location = str(made.metadata_location)
        path = location.removeprefix("file:///store/")
        data = await house.objects.get(path)
        await house.objects.delete(path)
        with pytest.raises(MetadataMissing, match=f"^Failed to open input stream for file: {location}$"):
            await process.tables.load(("a", "t"))
        await house.objects.put(path, data, only_if_absent=True)
        assert await process.tables.load(("a", "t")) == made

    in_house(test)
