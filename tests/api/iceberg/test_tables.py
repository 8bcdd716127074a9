"""Tables over HTTP: created, staged, loaded, changed, renamed, registered, dropped."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from arco.api.iceberg._warehouse import close_warehouses, open_warehouse
from arco.storage import Role
from tests.api.iceberg.content import append, snapshot, table
from tests.api.iceberg.world import ask, done, error_of, namespace
from tests.api.world import ACME, World, run_world

NS = namespace("ns")
TABLES = f"{NS}/tables"
T = f"{TABLES}/t"


async def _made(world: World, **more: Any) -> Any:
    await done(world, "POST", "/namespaces", {"namespace": ["ns"]})
    return await done(world, "POST", TABLES, table(**more))


def _now_ms(world: World) -> int:
    return world.host.runtime.now() // 1000


async def _appended(world: World, made: Any, id: int, sequence: int, after: int | None) -> Any:
    return await done(
        world, "POST", T, append(made["metadata"]["table-uuid"], snapshot(id, sequence, after, _now_ms(world)), after)
    )


def test_a_table_is_created_loaded_and_found() -> None:
    async def work(world: World) -> None:
        made = await _made(world, properties={"owner": "ann"})
        assert made["metadata-location"].startswith("memory://")
        assert made["metadata"]["properties"]["owner"] == "ann"
        assert made["config"] == {}
        assert "storage-credentials" not in made
        assert await done(world, "GET", T) == made
        assert (await ask(world, "HEAD", T)).status_code == 204
        assert (await ask(world, "HEAD", f"{TABLES}/x")).status_code == 404
        listed = await done(world, "GET", TABLES)
        assert listed["identifiers"] == [{"namespace": ["ns"], "name": "t"}]

    run_world(work)


def test_what_does_not_exist_is_said_in_words_that_clients_know() -> None:
    async def work(world: World) -> None:
        await done(world, "POST", "/namespaces", {"namespace": ["ns"]})
        for method, path, body in (
            ("GET", T, None),
            ("DELETE", T, None),
            ("POST", T, {"requirements": [], "updates": []}),
            ("POST", f"{T}/unregister", None),
            ("GET", f"{T}/credentials", None),
        ):
            answer = await ask(world, method, path, body)
            assert error_of(answer) == (404, "NoSuchTableException", "Table does not exist: ns.t"), path
        answer = await ask(world, "POST", namespace("x") + "/tables", table())
        assert error_of(answer) == (404, "NoSuchNamespaceException", "Namespace does not exist: x")
        answer = await ask(world, "GET", namespace("x") + "/tables")
        assert error_of(answer) == (404, "NoSuchNamespaceException", "Namespace does not exist: x")

    run_world(work)


def test_a_name_that_is_taken_is_refused() -> None:
    async def work(world: World) -> httpx.Response:
        await _made(world)
        return await ask(world, "POST", TABLES, table())

    assert error_of(run_world(work)) == (409, "AlreadyExistsException", "Table already exists: ns.t")


def test_a_staged_table_is_created_by_its_commit() -> None:
    async def work(world: World) -> None:
        await done(world, "POST", "/namespaces", {"namespace": ["ns"]})
        answer = await ask(world, "POST", TABLES, table(stage=True))
        staged = answer.json()
        assert staged["metadata-location"] is None
        assert "etag" not in answer.headers
        assert (await ask(world, "GET", T)).status_code == 404
        metadata = staged["metadata"]
        commit = {
            "requirements": [{"type": "assert-create"}],
            "updates": [
                {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
                {"action": "upgrade-format-version", "format-version": 2},
                {"action": "add-schema", "schema": metadata["schemas"][0], "last-column-id": 2},
                {"action": "set-current-schema", "schema-id": -1},
                {"action": "add-spec", "spec": metadata["partition-specs"][0]},
                {"action": "set-default-spec", "spec-id": -1},
                {"action": "add-sort-order", "sort-order": metadata["sort-orders"][0]},
                {"action": "set-default-sort-order", "sort-order-id": -1},
                {"action": "set-location", "location": metadata["location"]},
                {"action": "set-properties", "updates": {}},
            ],
        }
        made = await done(world, "POST", T, commit)
        assert made["metadata"]["table-uuid"] == metadata["table-uuid"]
        assert (await done(world, "GET", T))["metadata"] == made["metadata"]
        again = await ask(world, "POST", T, commit)
        assert error_of(again)[:2] == (409, "CommitFailedException")
        assert "Requirement failed: table already exists" in error_of(again)[2]

    run_world(work)


def test_commits_are_checked_and_carried_out() -> None:
    async def work(world: World) -> None:
        made = await _made(world)
        first = await _appended(world, made, 1, 1, None)
        assert first["metadata-location"] != made["metadata-location"]
        assert first["metadata"]["current-snapshot-id"] == 1
        assert (await done(world, "GET", T))["metadata-location"] == first["metadata-location"]
        stale = await ask(world, "POST", T, append(made["metadata"]["table-uuid"], snapshot(2, 2, None), None))
        assert error_of(stale)[:2] == (409, "CommitFailedException")
        assert "Requirement failed" in error_of(stale)[2]

    run_world(work)


def test_unknown_actions_and_requirements_are_all_named() -> None:
    async def work(world: World) -> httpx.Response:
        await _made(world)
        updates = [{"action": "make-coffee"}, {"action": "make-tea"}, {"action": "set-properties", "updates": {}}]
        answer = await ask(world, "POST", T, {"requirements": [], "updates": updates})
        assert error_of(answer)[:2] == (400, "BadRequestException")
        assert "make-coffee" in error_of(answer)[2]
        assert "make-tea" in error_of(answer)[2]
        requirements = [{"type": "assert-weather"}, {"type": "assert-mood"}]
        return await ask(world, "POST", T, {"requirements": requirements, "updates": []})

    status, name, message = error_of(run_world(work))
    assert (status, name) == (400, "BadRequestException")
    assert "assert-weather" in message
    assert "assert-mood" in message


def test_snapshots_that_no_reference_names_can_be_left_out() -> None:
    async def work(world: World) -> None:
        made = await _made(world)
        await _appended(world, made, 1, 1, None)
        await _appended(world, made, 2, 2, 1)
        everything = await done(world, "GET", T, snapshots="all")
        assert [one["snapshot-id"] for one in everything["metadata"]["snapshots"]] == [1, 2]
        for _ in range(2):
            some = await done(world, "GET", T, snapshots="refs")
            assert [one["snapshot-id"] for one in some["metadata"]["snapshots"]] == [2]
        wrong = await ask(world, "GET", T, snapshots="none")
        assert error_of(wrong)[:2] == (400, "BadRequestException")

    run_world(work)


def test_a_table_that_the_caller_has_is_not_sent_again() -> None:
    async def work(world: World) -> None:
        made = await _made(world)
        first = await ask(world, "GET", T)
        tag = first.headers["etag"]
        assert (await ask(world, "GET", T)).headers["etag"] == tag
        assert (await ask(world, "GET", T, snapshots="refs")).headers["etag"] != tag
        for known in (tag, f"W/{tag}", f'"x", {tag}'):
            same = await ask(world, "GET", T, headers={"If-None-Match": known})
            assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
        assert (await ask(world, "GET", T, headers={"If-None-Match": tag}, snapshots="refs")).status_code == 200
        await _appended(world, made, 1, 1, None)
        changed = await ask(world, "GET", T, headers={"If-None-Match": tag})
        assert changed.status_code == 200
        assert changed.headers["etag"] != tag

    run_world(work)


def test_a_commit_and_a_creation_tell_the_tag_of_what_they_left() -> None:
    async def work(world: World) -> None:
        await done(world, "POST", "/namespaces", {"namespace": ["ns"]})
        created = await ask(world, "POST", TABLES, table())
        assert created.headers["etag"] == (await ask(world, "GET", T)).headers["etag"]
        body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
        committed = await ask(world, "POST", T, body)
        assert committed.headers["etag"] == (await ask(world, "GET", T)).headers["etag"]
        assert committed.headers["etag"] != created.headers["etag"]

    run_world(work)


def test_a_table_is_renamed_and_the_old_name_is_free() -> None:
    async def work(world: World) -> None:
        made = await _made(world)
        await done(world, "POST", "/namespaces", {"namespace": ["other"]})
        names = {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["other"], "name": "u"}}
        assert (await ask(world, "POST", "/tables/rename", names)).status_code == 204
        moved = await done(world, "GET", namespace("other") + "/tables/u")
        assert moved["metadata-location"] == made["metadata-location"]
        assert (await ask(world, "GET", T)).status_code == 404
        again = await done(world, "POST", TABLES, table())
        assert again["metadata"]["table-uuid"] != made["metadata"]["table-uuid"]
        taken = await ask(
            world, "POST", "/tables/rename", {"source": names["source"], "destination": names["destination"]}
        )
        assert error_of(taken) == (
            409,
            "AlreadyExistsException",
            "Cannot rename ns.t to other.u. Table already exists",
        )
        nowhere = {"source": names["source"], "destination": {"namespace": ["x"], "name": "u"}}
        assert error_of(await ask(world, "POST", "/tables/rename", nowhere))[1] == "NoSuchNamespaceException"

    run_world(work)


def test_a_commit_against_a_dropped_renamed_or_new_table_is_refused() -> None:
    async def work(world: World) -> None:
        made = await _made(world)
        commit = append(made["metadata"]["table-uuid"], snapshot(1, 1, None, _now_ms(world)), None)
        names = {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "u"}}
        await done(world, "POST", "/tables/rename", names)
        assert error_of(await ask(world, "POST", T, commit))[:2] == (404, "NoSuchTableException")
        await done(world, "POST", TABLES, table())
        other = await ask(world, "POST", T, commit)
        assert error_of(other)[:2] == (409, "CommitFailedException")
        assert "UUID does not match" in error_of(other)[2]
        await done(world, "DELETE", T)
        assert error_of(await ask(world, "POST", T, commit))[:2] == (404, "NoSuchTableException")
        await done(world, "POST", f"{TABLES}/u", commit)

    run_world(work)


def test_a_table_is_dropped_with_and_without_its_files() -> None:
    async def work(world: World) -> None:
        await _made(world)
        assert (await ask(world, "DELETE", T, purgeRequested="true")).status_code == 204
        assert (await ask(world, "GET", T)).status_code == 404
        await done(world, "POST", TABLES, table())
        assert error_of(await ask(world, "DELETE", T, purgeRequested="perhaps"))[0] == 400
        assert (await ask(world, "DELETE", T)).status_code == 204
        assert error_of(await ask(world, "DELETE", T))[:2] == (404, "NoSuchTableException")

    run_world(work)


def test_a_table_whose_metadata_is_gone_is_not_taken_out_but_dropped() -> None:
    async def work(world: World) -> None:
        made = await _made(world)
        warehouse = world.host.warehouse_of(ACME)
        path = warehouse.locations.path_of(made["metadata-location"])
        assert path is not None
        await world.workspace().handle(Role.COLLECTOR).delete(path)
        for _ in range(2):
            refused = await ask(world, "POST", f"{T}/unregister")
            assert error_of(refused)[:2] == (404, "NotFoundException")
        assert (await ask(world, "HEAD", T)).status_code == 204
        assert (await ask(world, "DELETE", T)).status_code == 204

    run_world(work)


def test_a_table_is_taken_out_and_registered_again() -> None:
    async def work(world: World) -> None:
        made = await _made(world)
        left = await done(world, "POST", f"{T}/unregister")
        assert left == {"metadata-location": made["metadata-location"], "metadata": made["metadata"]}
        assert (await ask(world, "GET", T)).status_code == 404
        body = {"name": "u", "metadata-location": made["metadata-location"]}
        again = await done(world, "POST", f"{NS}/register", body)
        assert again["metadata"] == made["metadata"]
        taken = await ask(world, "POST", f"{NS}/register", body)
        assert error_of(taken) == (409, "AlreadyExistsException", "Table already exists: ns.u")
        assert (await ask(world, "POST", f"{NS}/register", {**body, "overwrite": True})).status_code == 200
        missing = {"name": "w", "metadata-location": made["metadata-location"].replace("00001", "00009")}
        assert error_of(await ask(world, "POST", f"{NS}/register", missing))[:2] == (404, "NotFoundException")
        outside = {"name": "w", "metadata-location": "s3://elsewhere/x.metadata.json"}
        assert error_of(await ask(world, "POST", f"{NS}/register", outside))[0] == 400

    run_world(work)


def test_several_tables_change_together_or_not_at_all() -> None:
    async def work(world: World) -> None:
        await _made(world)
        await done(world, "POST", TABLES, table("u"))

        def change(name: str, *requirements: Any) -> Any:
            return {
                "identifier": {"namespace": ["ns"], "name": name},
                "requirements": list(requirements),
                "updates": [{"action": "set-properties", "updates": {"x": name}}],
            }

        answer = await ask(world, "POST", "/transactions/commit", {"table-changes": [change("t"), change("u")]})
        assert (answer.status_code, answer.content) == (204, b"")
        wrong = {"type": "assert-table-uuid", "uuid": "00000000-0000-0000-0000-000000000000"}
        refused = await ask(world, "POST", "/transactions/commit", {"table-changes": [change("t"), change("u", wrong)]})
        assert error_of(refused)[:2] == (409, "CommitFailedException")
        missing = await ask(world, "POST", "/transactions/commit", {"table-changes": [change("t"), change("none")]})
        assert error_of(missing)[:2] == (404, "NoSuchTableException")
        for name in ("t", "u"):
            found = await done(world, "GET", f"{TABLES}/{name}")
            assert found["metadata"]["properties"]["x"] == name
        assert error_of(await ask(world, "POST", "/transactions/commit", {"table-changes": []}))[0] == 400

    run_world(work)


def test_tables_are_listed_page_by_page_and_views_apart() -> None:
    async def work(world: World) -> None:
        await done(world, "POST", "/namespaces", {"namespace": ["ns"]})
        await world.done("POST", "/tables", {"name": "ns.parquet", "columns": [{"name": "id", "type": "long"}]})
        for index in range(5):
            await done(world, "POST", TABLES, table(f"t{index}"))
        everything = await done(world, "GET", TABLES)
        assert [one["name"] for one in everything["identifiers"]] == [f"t{index}" for index in range(5)]
        found, token = [], ""
        while token is not None:
            page = await done(world, "GET", TABLES, pageToken=token, pageSize="2")
            assert len(page["identifiers"]) <= 2
            found += page["identifiers"]
            token = page["next-page-token"]
        assert found == everything["identifiers"]
        assert (await done(world, "GET", f"{NS}/views"))["identifiers"] == []

    run_world(work)


def test_a_metadata_file_that_is_gone_is_not_answered_from_memory() -> None:
    async def work(world: World) -> None:
        made = await _made(world)
        await done(world, "GET", T)
        place = made["metadata-location"]
        await world.store.delete(place.split("://", 1)[1].split("/", 1)[1])
        status, name, message = error_of(await ask(world, "GET", T))
        assert (status, name) == (404, "NotFoundException")
        assert message == f"Failed to open input stream for file: {place}"

    run_world(work)


def test_a_metadata_file_of_100_mb_is_refused_and_a_table_that_leads_to_one_can_be_dropped() -> None:
    async def work(world: World) -> None:
        made = await _made(world)
        place = made["metadata-location"]
        path = place.split("://", 1)[1].split("/", 1)[1]
        huge = path.replace("00001-", "00002-")
        await world.store.put(huge, b'{"x":"' + b" " * (100 << 20) + b'"}', only_if_absent=True)
        body = {"name": "u", "metadata-location": f"memory://store/{huge}"}
        status, name, message = error_of(await ask(world, "POST", f"{NS}/register", body))
        assert (status, name) == (413, "PayloadTooLargeException")
        assert "at most" in message
        await world.store.delete(path)
        await world.store.put(path, b'{"x":"' + b" " * (100 << 20) + b'"}', only_if_absent=True)
        world.host.warehouse_of(ACME).lifecycle._committer.documents._forget(place)  # as a process that has just begun
        assert error_of(await ask(world, "GET", T))[0] == 413
        assert error_of(await ask(world, "POST", T, {"requirements": [], "updates": []}))[0] == 413
        await done(world, "DELETE", T)

    run_world(work)


def test_a_pointer_to_nowhere_is_404_to_who_loads_and_to_who_commits() -> None:
    async def work(world: World) -> None:
        made = await _made(world)
        await world.store.delete(made["metadata-location"].split("://", 1)[1].split("/", 1)[1])
        world.host.warehouse_of(ACME).lifecycle._committer.documents._forget(made["metadata-location"])
        for method, body in (("GET", None), ("POST", {"requirements": [], "updates": []})):
            status, name, message = error_of(await ask(world, method, T, body))
            assert (status, name) == (404, "NotFoundException")
            assert message.startswith("Failed to open input stream for file: ")
        assert (await ask(world, "HEAD", T)).status_code == 204
        await done(world, "DELETE", T)
        await done(world, "POST", TABLES, table())

    run_world(work)


@pytest.mark.parametrize(
    "location",
    [
        "s3://elsewhere/t",
        "file:///etc",
        "memory://store/acme/prod/inc-1/ledger",
        "memory://store/globex/prod/warehouse/t",
        "memory://store/acme/prod/warehouse/../ledger",
        "nonsense",
        "",
    ],
)
def test_a_location_outside_of_the_warehouse_is_refused(location: str) -> None:
    async def work(world: World) -> None:
        await done(world, "POST", "/namespaces", {"namespace": ["ns"]})
        answers = [await ask(world, "POST", TABLES, table(location=location))] if location else []
        answers.append(await ask(world, "POST", TABLES, table(properties={"write.metadata.path": location or "x"})))
        answers.append(await ask(world, "POST", TABLES, table(location=location or "x", stage=True)))
        for answer in answers:
            assert error_of(answer)[0] == 400, answer.text
        await done(world, "POST", TABLES, table())
        moved = {"requirements": [], "updates": [{"action": "set-location", "location": location or "x"}]}
        assert error_of(await ask(world, "POST", T, moved))[0] == 400

    run_world(work)


def test_damage_is_500_to_who_reads_and_409_to_who_wrote_nothing() -> None:
    """A bare 500 to a commit would mean that nobody knows, and the client would keep its files and stop."""

    async def work(world: World) -> None:
        await _made(world)
        row = await world.done("GET", "/tables/ns.t")
        life = world.host.workspaces[ACME].incarnation.id
        path = f"{ACME.root}/{life}/iceberg/pointers/{row['id']}/{0:013d}/{2:020d}"
        await world.store.put(path, b"{", only_if_absent=True)
        assert error_of(await ask(world, "GET", T))[:2] == (500, "InternalServerError")
        change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
        whole = {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "u"}}
        several = {"table-changes": [{**change, "identifier": whole["source"]}]}
        for answer in (
            await ask(world, "POST", T, change),
            await ask(world, "POST", TABLES, table()),
            await ask(world, "POST", "/transactions/commit", several),
            await ask(world, "POST", "/tables/rename", whole),
            await ask(world, "DELETE", T),
        ):
            status, name, message = error_of(answer)
            assert (status, name) == (409, "CommitFailedException")
            assert "nothing was written" in message
            assert "arco doctor" in message

    run_world(work)


def test_a_table_that_lies_where_nothing_is_allowed_any_more_is_forbidden(tmp_path: Path) -> None:
    """Who asks for it cannot do anything about it, so the text is for the operator."""

    async def work(world: World) -> None:
        allowing = replace(world.host, allowed_locations=(f"file://{tmp_path}",))
        world.host.warehouses[ACME] = open_warehouse(allowing, ACME)
        location = f"file://{tmp_path}/t"
        await _made(world, location=location)
        assert (await done(world, "GET", T))["metadata"]["location"] == location
        await close_warehouses(world.host)
        change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
        for answer in (
            await ask(world, "GET", T),
            await ask(world, "POST", T, change),
            await ask(world, "POST", f"{T}/plan", {}),
            await ask(world, "GET", f"{T}/credentials"),
        ):
            status, name, message = error_of(answer)
            assert (status, name) == (403, "ForbiddenException")
            assert location in message
            assert "--allowed-location" in message
        wanted = await ask(world, "POST", TABLES, table("u", location=f"file://{tmp_path}/u"))
        assert error_of(wanted)[:2] == (400, "BadRequestException")
        assert error_of(await ask(world, "DELETE", T))[0] == 403  # whether it is an asset's is not known

    run_world(work)
