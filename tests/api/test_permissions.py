"""The permission matrix, cell by cell: spec/02 G.2 as written here by hand, against what every route does."""

import re

import pytest

from arco.api import Door
from arco.api._permissions import MATRIX, ROUTES, Permission, permissions_of
from arco.api.routes import ROUTERS
from arco.domains.access import UserRole
from tests.api.world import World, run_world

# One line a permission, in the order viewer, editor, admin, owner.
TABLE = {
    Permission.VIEW_ASSETS: "yes yes yes yes",
    Permission.VIEW_RUNS: "yes yes yes yes",
    Permission.VIEW_LINEAGE: "yes yes yes yes",
    Permission.VIEW_QUALITY: "yes yes yes yes",
    Permission.DEPLOY_ASSETS: "no yes yes yes",
    Permission.TRIGGER_RUNS: "no yes yes yes",
    Permission.CANCEL_RUNS: "no yes yes yes",
    Permission.EDIT_METADATA: "no yes yes yes",
    Permission.MANAGE_CONTRACTS: "no no yes yes",
    Permission.MANAGE_SLAS: "no no yes yes",
    Permission.QUARANTINE: "no no yes yes",
    Permission.MANAGE_ROLES: "no no no yes",
    Permission.MANAGE_KEYS: "no no no yes",
    Permission.TENANT_SETTINGS: "no no no yes",
}
ROLES = (UserRole.VIEWER, UserRole.EDITOR, UserRole.ADMIN, UserRole.OWNER)
CELLS = [
    (permission, role, cell == "yes")
    for permission, line in TABLE.items()
    for role, cell in zip(ROLES, line.split(), strict=True)
]


@pytest.mark.parametrize(("permission", "role", "may"), CELLS)
def test_each_cell_of_the_matrix(permission: Permission, role: UserRole, may: bool) -> None:
    assert (role in MATRIX[permission]) is may
    assert (permission.value in permissions_of(role)) is may


def test_the_matrix_has_every_permission_and_no_other() -> None:
    assert set(TABLE) == set(MATRIX) == set(Permission)


def test_every_route_stands_in_the_table_and_nothing_else_does() -> None:
    served = {(method, route.path) for router in ROUTERS for route in router.routes for method in route.methods}  # type: ignore[attr-defined]
    assert served == set(ROUTES)


async def _statuses(world: World) -> dict[tuple[str, str, UserRole], int]:
    found = {}
    for method, path in ROUTES:
        concrete = re.sub(r"\{\w+\}", "nothing", path.removeprefix("/api/v1"))
        for role in ROLES:
            answer = await world.ask(method, concrete, token=await world.token(role))
            found[method, path, role] = answer.status_code
    return found


def test_every_route_lets_in_exactly_the_roles_its_permission_names() -> None:
    """Whoever is let in meets the route's own answer (mostly 400 or 404 for what does not exist), never 401 or 403."""
    for (method, path, role), status in run_world(_statuses).items():
        permission = ROUTES[method, path]
        may = permission is None or role in MATRIX[permission]
        assert (status != 403) is may, (method, path, role, status)
        assert status not in (401, 500), (method, path, role, status)


def test_without_a_key_nobody_is_let_in_where_keys_are_wanted() -> None:

    async def work(world: World) -> set[int]:
        return {
            (await world.ask(method, path.removeprefix("/api/v1").replace("{", "").replace("}", ""))).status_code
            for method, path in ROUTES
        }

    assert run_world(work, door=Door.KEYS) == {401}
