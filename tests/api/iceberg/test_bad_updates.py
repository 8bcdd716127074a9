"""Commits of which one update or requirement is broken: each is 400, names what is wrong, and nothing of it is done."""

from collections.abc import Iterator

import pytest

from arco.iceberg.metadata import Doc
from tests.api.iceberg.content import VIEW, table
from tests.api.iceberg.world import ask, done, error_of, namespace
from tests.api.world import World, run_world
from tests.iceberg.metadata.examples import REQUIREMENTS, table_updates, view_updates
from tests.iceberg.metadata.test_updates import required

NS = namespace("ns")
GOOD = {"action": "set-properties", "updates": {"done": "yes"}}
PLACES = {"table": f"{NS}/tables/t", "view": f"{NS}/views/v"}


def broken(body: Doc, names: list[str]) -> Iterator[tuple[str, Doc]]:
    """The body without each of its fields, and with each of another type, and which field that is."""
    for name in names:
        yield name, {field: value for field, value in body.items() if field != name}
        yield name, {**body, name: "5" if isinstance(body[name], int) else 5}


def broken_updates(kind: str) -> list[tuple[str, str, Doc]]:
    of_view = kind == "view"
    examples = view_updates() if of_view else table_updates()
    return [
        (action, name, {"requirements": [], "updates": [GOOD, wrong]})
        for action, body in examples.items()
        for name, wrong in broken(body, required(action, of_view))
    ]


def broken_requirements() -> list[tuple[str, str, Doc]]:
    found = []
    for kind, body in REQUIREMENTS.items():
        for name, wrong in broken(body, list(body)):
            if name in wrong or name != "snapshot-id":  # without it the reference must not be there
                found.append((kind, name, {"requirements": [{"type": kind, **wrong}], "updates": [GOOD]}))
    return found


async def _made(world: World) -> None:
    await done(world, "POST", "/namespaces", {"namespace": ["ns"]})
    await done(world, "POST", f"{NS}/tables", table())
    await done(world, "POST", f"{NS}/views", VIEW)


@pytest.mark.parametrize("kind", PLACES)
def test_a_field_that_is_missing_or_of_another_type_is_told_and_nothing_is_done(kind: str) -> None:
    cases = broken_updates(kind) + (broken_requirements() if kind == "table" else [])
    assert len(cases) > 10

    async def work(world: World) -> None:
        await _made(world)
        before = (await ask(world, "GET", PLACES[kind])).content
        for what, name, body in cases:
            status, error, message = error_of(await ask(world, "POST", PLACES[kind], body))
            assert (status, error) == (400, "BadRequestException"), (what, name, message)
            assert what in message, (what, name, message)
            assert name in message, (what, name, message)
        assert (await ask(world, "GET", PLACES[kind])).content == before

    run_world(work)
