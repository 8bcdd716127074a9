"""Objects that vanish behind the server's back (criterion 3).

The specification skips a range of positions. Here positions follow from the numbers of segments, which are dense by
construction, so a gap can only be a segment that was lost. `arco doctor` is the job that finds it.
"""

from arco.log import position_of
from tests.acceptance.deployment import Deployment

TABLES = 12
LOST = range(5, 9)


def test_lost_segments_are_found_and_named_and_nothing_becomes_empty(deployment: Deployment) -> None:
    bucket = deployment.bucket
    [server] = deployment.start("all")
    server.done("POST", "/namespaces", {"name": "sales"})
    for number in range(TABLES):
        assert server.create_table(f"sales.t{number}").status_code == 201
    assert bucket.arco("doctor").code == 0
    before = server.done("GET", "/tables", namespace="sales")["items"]
    assert len(before) == TABLES

    bucket.delete(*(bucket.segment_path("catalog", number) for number in LOST))

    examined = bucket.arco("doctor")
    assert examined.code == 7
    errors = [found for found in examined.document["findings"] if found["level"] == "error"]
    named = {found["path"] for found in errors}
    assert bucket.segment_path("catalog", LOST[0]) in named, errors
    assert {found["log"] for found in errors} == {"catalog"}

    # The state stands on what is published, so reading it goes on, in this process and in the next one.
    assert server.done("GET", "/tables", namespace="sales")["items"] == before
    assert server.create_table("sales.after").status_code == 201
    server.kill()
    [server] = deployment.start("all")
    found = [table["name"] for table in server.done("GET", "/tables", namespace="sales", limit=100)["items"]]
    assert found == sorted(["sales.after", *(table["name"] for table in before)])

    # What needs the lost segments says so. Nothing takes them for the end of the log.
    inside = server.ask("GET", "/tables", namespace="sales", as_of=f"catalog:{position_of(LOST[1], 0)}")
    assert inside.status_code in (200, 500)
    if inside.status_code == 200:
        assert len(inside.json()["items"]) == LOST[1] - 1  # a revision of just then was retained
    else:
        assert inside.json()["type"] == "urn:arco:problem:lost-object"
    for command in (["rebuild", "--verify", "catalog"], ["rebuild", "catalog"]):
        assert bucket.arco(*command).code == 7, command
    assert server.done("GET", "/tables", namespace="sales", limit=100)["items"][1:] == before
    assert bucket.arco("doctor", "activity").code == 0


def test_segments_lost_before_they_were_published_are_found_while_the_owner_goes_on_from_memory(
    deployment: Deployment,
) -> None:
    bucket = deployment.bucket
    [server] = deployment.start("api")
    server.done("POST", "/namespaces", {"name": "sales"}, wait="durable")
    for number in range(TABLES):
        assert server.create_table(f"sales.t{number}", wait="durable").status_code == 201
    bucket.delete(*(bucket.segment_path("catalog", number) for number in LOST))
    assert server.create_table("sales.t99", wait="durable").status_code == 201
    assert len(server.done("GET", "/tables", namespace="sales", limit=100)["items"]) == TABLES + 1
    examined = bucket.arco("doctor", "catalog")
    assert examined.code == 7
    errors = [found for found in examined.document["findings"] if found["level"] == "error"]
    assert [found["path"] for found in errors] == [bucket.segment_path("catalog", LOST[0])]
