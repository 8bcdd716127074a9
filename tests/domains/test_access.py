"""Access: keys, roles and settings; what is refused so that nobody is locked out, and that nothing of it is public."""

import hashlib
from itertools import product

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core import Conflict, Invalid, NotFound, Refused, parse_ulid
from arco.domains.access import (
    ACCESS,
    API_KEYS,
    KEY_NAMES,
    OWNERS,
    ROLE_BINDINGS,
    SETTINGS,
    SETTINGS_TABLE,
    ApiKey,
    CreateApiKey,
    GrantRole,
    RevokeApiKey,
    RevokeRole,
    UpdateSettings,
    UserRole,
    read_settings,
)
from arco.domains.access.commands import MAX_PRINCIPAL
from arco.log._secrets import find_secret
from arco.state import REJECTIONS, define_log
from tests.domains.decider import Decider, deciding
from tests.state.doubles import event

LOG = define_log("catalog", [ACCESS])
HASH = hashlib.sha256(b"whatever").hexdigest()
MAIL = "me@acme.com"


async def key_named(decider: Decider, name: str, **more: object) -> ApiKey:
    """Create a key and find it by its name."""
    command = CreateApiKey(name, **{"role": UserRole.VIEWER, **more})  # type: ignore[arg-type]
    await decider.decide(command, secret_hash=HASH)
    found = await decider.replica.get(KEY_NAMES, name, name)
    key: ApiKey = await decider.replica.get(API_KEYS, found.key_id, found.key_id)
    return key


def test_a_role_may_do_what_the_lesser_ones_may() -> None:
    order = [UserRole.VIEWER, UserRole.EDITOR, UserRole.ADMIN, UserRole.OWNER]
    for (i, role), (j, needed) in product(enumerate(order), enumerate(order)):
        assert role.allows(needed) == (i >= j)


def test_all_tables_are_private() -> None:
    assert all(table.private for table in ACCESS.tables)


def test_a_key_is_found_by_its_id_and_by_its_name() -> None:
    async def test(decider: Decider) -> None:
        expires = decider.now + 60_000_000
        key = await key_named(decider, "ci", principal=MAIL, role=None, expires_at=expires)
        parse_ulid(key.key_id)
        assert (key.name, key.secret_hash, key.principal, key.role) == ("ci", HASH, MAIL, None)
        assert (key.created_by, key.expires_at, key.revoked_at) == ("me", expires, None)
        assert key.is_live(expires - 1)
        assert not key.is_live(expires)

    deciding(LOG, test)


def test_a_name_belongs_to_one_key_until_that_is_revoked() -> None:
    async def test(decider: Decider) -> None:
        old = await key_named(decider, "ci")
        with pytest.raises(Conflict, match="'ci' exists already") as caught:
            await key_named(decider, "ci")
        assert caught.value.details == {"key_id": old.key_id}
        await decider.decide(RevokeApiKey(old.key_id), actor="boss")
        new = await key_named(decider, "ci")
        assert new.key_id != old.key_id
        rows = {row["key_id"]: row for row in await decider.rows(API_KEYS)}
        assert rows.keys() == {old.key_id, new.key_id}
        assert rows[old.key_id]["revoked_by"] == "boss"
        assert rows[old.key_id]["revoked_at"] is not None
        assert rows[new.key_id]["revoked_at"] is None

    deciding(LOG, test)


def test_revoking_twice_changes_nothing_and_what_does_not_exist_is_not_revoked() -> None:
    async def test(decider: Decider) -> None:
        key = await key_named(decider, "ci")
        assert len(await decider.decide(RevokeApiKey(key.key_id))) == 1
        assert await decider.decide(RevokeApiKey(key.key_id), actor="other") == []
        (row,) = await decider.rows(API_KEYS)
        assert row["revoked_by"] == "me"
        with pytest.raises(NotFound, match="there is no API key 'nobody'"):
            await decider.decide(RevokeApiKey("nobody"))

    deciding(LOG, test)


def test_keys_that_cannot_be_are_refused() -> None:
    async def test(decider: Decider) -> None:
        now = decider.now
        wrong = [
            (CreateApiKey("", role=UserRole.VIEWER), "name is empty"),
            (CreateApiKey("a\x00b", role=UserRole.VIEWER), "U\\+0000"),
            (CreateApiKey("a" * 256, role=UserRole.VIEWER), "longer than"),
            (CreateApiKey("a"), "needs a role, or a principal"),
            (CreateApiKey("a", principal=""), "1 to 256 characters"),
            (CreateApiKey("a", role="root"), "does not fit"),  # type: ignore[arg-type]
            (CreateApiKey("a", role=UserRole.VIEWER, expires_at=now), "expired already"),
        ]
        for command, why in wrong:
            with pytest.raises(Invalid, match=why):
                await decider.decide(command, secret_hash=HASH)
        for minted in ({}, {"secret_hash": "hunter2"}, {"secret_hash": HASH.upper()}, {"secret_hash": HASH + "\n"}):
            with pytest.raises(Invalid, match="needs the sha256 of its secret") as caught:
                await decider.decide(CreateApiKey("a", role=UserRole.VIEWER), **minted)
            assert "hunter2" not in str(caught.value)
        assert decider.batches == []

    deciding(LOG, test)


@pytest.mark.parametrize("text", ["", " a", "a ", "a\nb", "a\u202eb", "x" * (MAX_PRINCIPAL + 1)])
def test_a_principal_is_seen_as_it_is(text: str) -> None:
    async def test(decider: Decider) -> None:
        for command in (GrantRole(text, UserRole.VIEWER), CreateApiKey("a", principal=text)):
            with pytest.raises(Invalid, match="principal"):
                await decider.decide(command)

    deciding(LOG, test)


def test_the_events_of_access_pass_the_secret_scan() -> None:
    async def test(decider: Decider) -> None:
        key = await key_named(decider, "ci", principal=MAIL)
        await decider.decide(RevokeApiKey(key.key_id))
        await decider.decide(GrantRole(MAIL, UserRole.OWNER))
        await decider.decide(UpdateSettings({"query.max_rows": 5}))
        for batch in decider.batches:
            for item in batch:
                assert find_secret(msgspec.json.decode(msgspec.json.encode(item))) is None

    deciding(LOG, test)


def test_a_principal_has_one_role() -> None:
    async def test(decider: Decider) -> None:
        await decider.decide(GrantRole(MAIL, UserRole.ADMIN))
        assert await decider.decide(GrantRole(MAIL, UserRole.ADMIN)) == []
        await decider.decide(GrantRole(MAIL, UserRole.EDITOR), actor="boss")
        binding = await decider.replica.get(ROLE_BINDINGS, MAIL, MAIL)
        assert (binding.role, binding.granted_by) == ("editor", "boss")
        await decider.decide(RevokeRole(MAIL))
        assert await decider.rows(ROLE_BINDINGS) == []
        with pytest.raises(NotFound, match="has no role"):
            await decider.decide(RevokeRole(MAIL))

    deciding(LOG, test)


LOWERED = [RevokeRole(MAIL), GrantRole(MAIL, UserRole.ADMIN)]


@pytest.mark.parametrize("command", LOWERED)
def test_the_last_owner_stays(command: msgspec.Struct) -> None:
    async def test(decider: Decider) -> None:
        await decider.decide(GrantRole(MAIL, UserRole.OWNER))
        with pytest.raises(Refused, match=r"'me@acme\.com' is the last owner .* make somebody else owner first"):
            await decider.decide(command)
        await key_named(decider, "robot", role=UserRole.ADMIN)
        await key_named(decider, "mine", role=None, principal=MAIL)
        with pytest.raises(Refused, match="is the last owner"):
            await decider.decide(command)
        await decider.decide(GrantRole("other", UserRole.OWNER))
        await decider.decide(command)
        with pytest.raises(Refused, match="'other' is the last owner"):
            await decider.decide(RevokeRole("other"))

    deciding(LOG, test)


@pytest.mark.parametrize("command", LOWERED)
def test_the_last_owner_may_go_while_a_key_is_owner(command: msgspec.Struct) -> None:
    async def test(decider: Decider) -> None:
        await decider.decide(GrantRole(MAIL, UserRole.OWNER))
        revoked = await key_named(decider, "one", role=UserRole.OWNER)
        await decider.decide(RevokeApiKey(revoked.key_id))
        await key_named(decider, "two", role=UserRole.OWNER, expires_at=decider.now + 1)
        with pytest.raises(Refused, match="is the last owner"):  # one key is revoked, the other has expired by now
            await decider.decide(command)
        await key_named(decider, "three", role=UserRole.OWNER)
        await decider.decide(command)

    deciding(LOG, test)


def test_settings_have_defaults_and_go_back_to_them() -> None:
    async def test(decider: Decider) -> None:
        defaults = {name: setting.default for name, setting in SETTINGS.items()}
        assert await read_settings(decider.replica) == defaults
        await decider.decide(UpdateSettings({"query.max_rows": 7, "query.max_seconds": 8}))
        changed = {**defaults, "query.max_rows": 7, "query.max_seconds": 8}
        assert await read_settings(decider.replica) == changed
        assert await decider.decide(UpdateSettings({"query.max_rows": 7})) == []
        await decider.decide(
            UpdateSettings({"query.max_rows": None, "query.max_seconds": SETTINGS["query.max_seconds"].default})
        )
        assert await read_settings(decider.replica) == defaults
        assert await decider.rows(SETTINGS_TABLE) == []
        assert await decider.decide(UpdateSettings(dict.fromkeys(SETTINGS))) == []

    deciding(LOG, test)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_stays_in_its_range(name: str) -> None:
    async def test(decider: Decider) -> None:
        setting = SETTINGS[name]
        assert setting.least <= setting.default <= setting.most
        for value in (setting.least - 1, setting.most + 1, -1):
            with pytest.raises(Invalid, match=f"between {setting.least} and {setting.most}"):
                await decider.decide(UpdateSettings({name: value}))
        for value in (setting.least, setting.most):
            await decider.decide(UpdateSettings({name: value}))
            assert (await read_settings(decider.replica))[name] == value

    deciding(LOG, test)


def test_unknown_settings_are_refused_with_the_known_ones() -> None:
    async def test(decider: Decider) -> None:
        with pytest.raises(Invalid, match=r"no setting 'x'; the settings are query\.max_rows,"):
            await decider.decide(UpdateSettings({"query.max_rows": 7, "x": 1}))
        with pytest.raises(Invalid, match="no setting is named"):
            await decider.decide(UpdateSettings({}))
        assert decider.batches == []

    deciding(LOG, test)


NAMES = st.sampled_from(["a", "b"])
ROLES = st.sampled_from(UserRole)
COMMANDS = st.one_of(
    st.builds(CreateApiKey, NAMES, st.none() | NAMES, st.none() | ROLES),
    st.builds(GrantRole, NAMES, ROLES),
    st.builds(RevokeRole, NAMES),
    st.builds(UpdateSettings, st.dictionaries(st.sampled_from(sorted(SETTINGS)), st.none() | st.integers(1, 2000))),
    st.integers(0, 9),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(COMMANDS, max_size=20))
def test_names_and_owners_follow_from_keys_and_roles_whatever_is_asked(asked: list[msgspec.Struct | int]) -> None:
    async def test(decider: Decider) -> None:
        owned = False
        for command in asked:
            if isinstance(command, int):
                keys = await decider.rows(API_KEYS)
                command = RevokeApiKey(keys[command % len(keys)]["key_id"] if keys else "none")
            try:
                await decider.decide(command, secret_hash=HASH)
            except (Invalid, Refused):
                continue
            keys = [row for row in await decider.rows(API_KEYS) if row["revoked_at"] is None]
            bindings = await decider.rows(ROLE_BINDINGS)
            names = {(row["name"], row["key_id"]) for row in await decider.rows(KEY_NAMES)}
            assert names == {(key["name"], key["key_id"]) for key in keys}
            assert len({name for name, _ in names}) == len(keys)
            owners = {(row["kind"], row["id"]) for row in await decider.rows(OWNERS)}
            assert owners == {("key", key["key_id"]) for key in keys if key["role"] == "owner"} | {
                ("binding", row["principal"]) for row in bindings if row["role"] == "owner"
            }
            # Once there is an owner, only the revocation of a key leaves none.
            assert owners or not owned or isinstance(command, RevokeApiKey)
            owned = bool(owners)

    deciding(LOG, test)


def test_events_that_cannot_be_are_rejected_and_leave_the_rest_alone() -> None:
    async def test(decider: Decider) -> None:
        key = await key_named(decider, "ci")
        (created,) = decider.batches[0]
        await decider.append(created, event("ApiKeyRevoked", {"key_id": "nobody"}))
        assert [row["key_id"] for row in await decider.rows(API_KEYS)] == [key.key_id]
        assert sorted(row["reason"] for row in await decider.rows(REJECTIONS)) == sorted(
            [f"the API key {key.key_id} exists already", "the API key nobody does not exist"]
        )

    deciding(LOG, test)


def test_access_is_audited_under_the_actions_of_the_specification() -> None:
    assert {kind.name: kind.audit for kind in ACCESS.events} == {
        "ApiKeyCreated": ("CreateApiKey", "api_key"),
        "ApiKeyRevoked": ("RevokeApiKey", "api_key"),
        "RoleGranted": ("UpdateRoles", "role"),
        "RoleRevoked": ("UpdateRoles", "role"),
        "SettingsUpdated": ("UpdateTenantSettings", "settings"),
    }
