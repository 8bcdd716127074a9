"""The highest layer that says something wins, its name is kept, and nothing is ignored or betrayed."""

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import Invalid, Loaded, Settings, load_settings

SCALARS: dict[str, st.SearchStrategy[str | int]] = {
    "store": st.sampled_from(["memory://x", "s3://bucket/prefix", "file:///var/lib/my data"]),
    "tenant_id": st.from_regex(r"[a-z0-9][a-z0-9-]{0,5}", fullmatch=True),
    "workspace_id": st.from_regex(r"[a-z0-9][a-z0-9-]{0,5}", fullmatch=True),
    "publish_interval_ms": st.integers(1, 3_600_000),
    "merge_fan_in": st.integers(2, 50),
    "pack_segments": st.integers(1, 65_536),
    "pack_mib": st.integers(1, 256),
    "pack_keep": st.integers(1, 1_000_000),
    "url": st.sampled_from(["http://127.0.0.1:8020", "https://arco.example.com", "http://[::1]:1/arco", "embedded"]),
    "token": st.sampled_from(["arco_a_b_c_d", "x"]),
    "listen": st.sampled_from(["127.0.0.1:8020", "[::1]:0", "localhost:65535"]),
    "public_url": st.sampled_from(["http://10.0.0.7:8020", "https://arco.example.com"]),
    "service_secret": st.text("0123456789abcdef", min_size=32, max_size=40),
    "slots": st.integers(0, 256),
    "spark_master": st.sampled_from(["local[*]", "local[2, 4]", "yarn", "spark://a:7077,b:7077", "sc://host:15002"]),
    "allowed_locations": st.sampled_from(["s3://bucket/folder", "file:/tmp/a file:///tmp/b", "abfss://c@a.host/x"]),
    "collect_hours": st.integers(0, 720),
    "backup_to": st.sampled_from(["s3://backups", "file:///var/backups"]),
    "backup_hours": st.integers(1, 720),
    "backup_days": st.integers(1, 3_650),
    "backup_data": st.sampled_from(["yes", "no"]),
}
TABLES = {"store_options": "--store-option", "backup_options": "--backup-option"}
SECRET_SCALARS = ("token", "service_secret")
options = st.dictionaries(st.sampled_from(["region", "endpoint", "access_key_id"]), st.sampled_from(["x", "", "a b"]))
tables: dict[str, st.SearchStrategy[Any]] = dict.fromkeys(TABLES, options)
layers = st.fixed_dictionaries({}, optional={**SCALARS, **tables})
flag_layers = st.fixed_dictionaries(
    {}, optional={**{name: made for name, made in SCALARS.items() if name not in SECRET_SCALARS}, **tables}
)


def load(toml: str | None = None, environ: dict[str, str] | None = None, flags: dict[str, Any] | None = None) -> Loaded:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "arco.toml"
        if toml is not None:
            path.write_text(toml, encoding="utf-8")
        return load_settings(None if toml is None else path, environ or {}, flags or {})


def as_toml(layer: dict[str, Any]) -> str:
    lines = [f"{name} = {json.dumps(value)}" for name, value in layer.items() if name not in TABLES]
    for table in TABLES:
        lines += [f"[{table}]", *(f"{name} = {json.dumps(value)}" for name, value in layer.get(table, {}).items())]
    return "\n".join(lines)


def as_environ(layer: dict[str, Any]) -> dict[str, str]:
    return {f"ARCO_{name.upper().replace('.', '_')}": str(value) for name, value in flat(layer).items()}


def flat(layer: dict[str, Any]) -> dict[str, Any]:
    scalars = {name: value for name, value in layer.items() if name not in TABLES}
    for table in TABLES:
        scalars |= {f"{table}.{name}": value for name, value in layer.get(table, {}).items()}
    return scalars


def flag_of(name: str) -> str:
    return TABLES[name.partition(".")[0]] if "." in name else f"--{name.replace('_', '-')}"


def test_settings_and_the_generated_layers_have_the_same_fields() -> None:
    assert [field.name for field in dataclasses.fields(Settings)] == [*SCALARS, *TABLES]


def test_without_layers_there_are_the_defaults() -> None:
    loaded = load()
    assert loaded.settings == Settings()
    assert loaded.settings.store == "file://.arco"
    assert loaded.rows() == [
        ("store", "file://.arco", "default"),
        ("tenant_id", "default", "default"),
        ("workspace_id", "default", "default"),
        ("publish_interval_ms", "250", "default"),
        ("merge_fan_in", "8", "default"),
        ("pack_segments", "4096", "default"),
        ("pack_mib", "64", "default"),
        ("pack_keep", "1024", "default"),
        ("url", "", "default"),
        ("token", "", "default"),
        ("listen", "127.0.0.1:8020", "default"),
        ("public_url", "", "default"),
        ("service_secret", "", "default"),
        ("slots", "0", "default"),
        ("spark_master", "local[*]", "default"),
        ("allowed_locations", "", "default"),
        ("collect_hours", "24", "default"),
        ("backup_to", "", "default"),
        ("backup_hours", "6", "default"),
        ("backup_days", "30", "default"),
        ("backup_data", "no", "default"),
        ("store_options", "", "default"),
        ("backup_options", "", "default"),
    ]


@given(layers, layers, flag_layers)
def test_defaults_give_way_to_the_file_the_environment_and_flags_in_that_order(
    file: dict[str, Any], environ: dict[str, Any], flags: dict[str, Any]
) -> None:
    loaded = load(as_toml(file), as_environ(environ), flags)
    defaults = {name: getattr(Settings(), name) for name in SCALARS}
    expected = {name: (value, "default") for name, value in defaults.items()}
    expected |= {name: (value, "arco.toml") for name, value in flat(file).items()}
    expected |= {name: (value, f"ARCO_{name.upper().replace('.', '_')}") for name, value in flat(environ).items()}
    expected |= {name: (value, flag_of(name)) for name, value in flat(flags).items()}
    actual = {name: getattr(loaded.settings, name) for name in SCALARS}
    for table in TABLES:
        actual |= {f"{table}.{name}": value for name, value in getattr(loaded.settings, table).items()}
    assert actual == {name: value for name, (value, _) in expected.items()}
    origins = dict(loaded.origin)
    for table in TABLES:
        if not getattr(loaded.settings, table):
            assert origins.pop(table) == "default"
    assert origins == {name: origin for name, (_, origin) in expected.items()}
    assert [(name, origin) for name, _, origin in loaded.rows()] == list(loaded.origin.items())


def test_a_flag_that_was_not_given_changes_nothing() -> None:
    assert load(flags=dict.fromkeys([*SCALARS, *TABLES])) == load()


def test_variables_of_others_are_ignored() -> None:
    assert load(environ={"PATH": "x", "ARCOSTORE": "x", "MY_ARCO_STORE": "x"}) == load()


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("stor = 'memory://'", r"the key 'stor' in .*arco\.toml is not a setting; did you mean store\?"),
        ("workspace = 'x'", r"did you mean workspace_id\?"),
        ("zzz = 1", r"known are store, tenant_id, .*store_options"),
        ("store = 1", r"store in .*arco\.toml must be text, not an integer"),
        ("merge_fan_in = '8'", r"merge_fan_in in .*arco\.toml must be an integer, not text"),
        ("allowed_locations = 'there'", r"allowed_locations in .*arco\.toml: these are not URLs"),
        ("allowed_locations = 's3://a ?'", r"allowed_locations in .*arco\.toml: these are not URLs"),
        ("spark_master = 'there'", r"spark_master in .*arco\.toml: .there. is no Spark master"),
        ("merge_fan_in = true", r"must be an integer, not a boolean"),
        ("merge_fan_in = 8.0", r"must be an integer, not a float"),
        ("merge_fan_in = 1", r"merge_fan_in in .*arco\.toml is 1; it must be 2 to 50"),
        ("publish_interval_ms = 0", r"it must be 1 to 3600000"),
        ("tenant_id = '../x'", r"tenant_id in .*arco\.toml: '\.\./x' cannot name a tenant"),
        ("store_options = 'x'", r"store_options in .*arco\.toml must be a table of texts, not text"),
        ("[store_options]\nallow_http = true", r"allow_http must be text, not a boolean; write it in quotes"),
        (
            "[store_options]\n'a b' = 'x'",
            r"the store option \(from store_options in .*arco\.toml\) 'a b' is not a name",
        ),
        ("store = \n", r"arco\.toml is not TOML in UTF-8: .*line 1"),
        ("store = 'memory://'\nstore = 'memory://'\n", r"is not TOML in UTF-8: .*line 2"),
        ("merge_fan_in = " + "9" * 5000, r"is not TOML in UTF-8"),
    ],
)
def test_mistakes_in_the_file_are_named(toml: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        load(toml)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"ARCO_STOER": "x"}, r"the environment variable 'ARCO_STOER' is not a setting; did you mean ARCO_STORE\?"),
        ({"ARCO_TENANT": "x"}, r"did you mean ARCO_TENANT_ID\?"),
        ({"ARCO_STORE_OPTION_REGION": "x"}, r"did you mean ARCO_STORE_OPTIONS_<NAME>\?"),
        ({"ARCO_STORE_OPTIONS": "x"}, r"did you mean ARCO_STORE_OPTIONS_<NAME>\?"),
        ({"ARCO_STORE_OPTIONS_": "x"}, r"did you mean ARCO_STORE_OPTIONS_<NAME>\?"),
        ({"ARCO_STORE_OPTIONS_Region": "x"}, r"is not a setting"),
        ({"ARCO_STORE_OPTIONS_1": "x"}, r"the store option \(from ARCO_STORE_OPTIONS_1\) '1' is not a name"),
        ({"ARCO_MERGE_FAN_IN": "eight"}, r"^ARCO_MERGE_FAN_IN must be an integer, not text"),
        ({"ARCO_MERGE_FAN_IN": ""}, r"^ARCO_MERGE_FAN_IN must be an integer"),
        ({"ARCO_MERGE_FAN_IN": "8.0"}, r"must be an integer"),
        ({"ARCO_MERGE_FAN_IN": "\u0668"}, r"must be an integer"),
        ({"ARCO_MERGE_FAN_IN": "9" * 30}, r"it must be 2 to 50"),
        ({"ARCO_MERGE_FAN_IN": "9" * 5000}, r"must be an integer"),
        ({"ARCO_WORKSPACE_ID": ""}, r"^ARCO_WORKSPACE_ID: '' cannot name a workspace"),
        ({"ARCO_STORE": ""}, r"^ARCO_STORE: this is not the URL of a store"),
    ],
)
def test_mistakes_in_the_environment_are_named(environ: dict[str, str], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        load(environ=environ)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"tenant": "x"}, r"the flag '--tenant' is not a setting; did you mean --tenant-id\?"),
        ({"merge_fan_in": "8"}, r"^--merge-fan-in must be an integer, not text"),
        ({"store": 1}, r"^--store must be text, not an integer"),
        ({"store_options": ["a=b"]}, r"^--store-option must be a table of texts, not an array"),
        ({"store_options": {"port": 9000}}, r"^--store-option: port must be text, not an integer"),
    ],
)
def test_mistakes_in_flags_are_named(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        load(flags=flags)


def test_a_mistake_is_refused_even_where_a_higher_layer_replaces_it() -> None:
    with pytest.raises(Invalid, match="merge_fan_in in"):
        load("merge_fan_in = 1", flags={"merge_fan_in": 4})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"cannot read .*absent\.toml: No such file"):
        load_settings(tmp_path / "absent.toml", {}, {})
    with pytest.raises(Invalid, match=r"cannot read"):
        load_settings(tmp_path, {}, {})
    (tmp_path / "arco.toml").write_bytes(b'store = "\xff"')
    with pytest.raises(Invalid, match=r"is not TOML in UTF-8"):
        load_settings(tmp_path / "arco.toml", {}, {})


@pytest.mark.parametrize(
    "store",
    [
        "s3://AKIA:hunter2@bucket/x",
        "az://c/p?sig=hunter2",
        "s3://b#hunter2",
        "hunter2",
        "s3:/hunter2",
        "s3://hunter2\n",
    ],
)
def test_a_store_url_with_room_for_credentials_is_refused_without_showing_it(store: str) -> None:
    with pytest.raises(Invalid) as refusal:
        load(environ={"ARCO_STORE": store})
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("store", ["file://.arco", "file:///home/me@work/x", "memory://", "s3://bucket", "az://c/p/q"])
def test_store_urls(store: str) -> None:
    assert load(flags={"store": store}).settings.store == store


SECRETS = ["secret_access_key", "access_key_id", "session_token", "password", "sas_key", "credential"]


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_are_masked_in_rows_and_absent_from_repr(name: str) -> None:
    loaded = load(environ={f"ARCO_STORE_OPTIONS_{name.upper()}": "hunter2", "ARCO_STORE_OPTIONS_REGION": "eu"})
    assert loaded.settings.store_options == {name: "hunter2", "region": "eu"}
    assert (f"store_options.{name}", "********", f"ARCO_STORE_OPTIONS_{name.upper()}") in loaded.rows()
    assert ("store_options.region", "eu", "ARCO_STORE_OPTIONS_REGION") in loaded.rows()
    assert "hunter2" not in repr(loaded)


@pytest.mark.parametrize("name", SECRET_SCALARS)
def test_a_secret_setting_is_masked_and_has_no_flag(name: str) -> None:
    secret = "hunter2" * 5
    variable = f"ARCO_{name.upper()}"
    loaded = load(environ={variable: secret})
    assert getattr(loaded.settings, name) == secret
    assert (name, "********", variable) in loaded.rows()
    assert "hunter2" not in repr(loaded)
    with pytest.raises(Invalid, match=f"has no flag; set {variable}") as refusal:
        load(flags={name: secret})
    assert "hunter2" not in str(refusal.value)
    with pytest.raises(Invalid) as unknown:
        load(flags={f"{name}s": secret})
    assert f"--{name.replace('_', '-')}" not in str(unknown.value).partition(";")[2]


@pytest.mark.parametrize("variable", ["ARCO_URL", "ARCO_PUBLIC_URL"])
@pytest.mark.parametrize(
    "url",
    [
        "",
        "hunter2",
        "ftp://hunter2",
        "http://",
        "http://me:hunter2@host",
        "http://host?key=hunter2",
        "http://host#hunter2",
        "http://host:",
        "http://host:hunter2",
        "http://ho st/hunter2",
        "http://host/hunter2\n",
        "http://\u202ehost",
    ],
)
def test_what_is_no_address_of_a_server_is_refused_without_showing_it(variable: str, url: str) -> None:
    with pytest.raises(Invalid, match=f"^{variable}: this is not the address of a server") as refusal:
        load(environ={variable: url})
    assert "hunter2" not in str(refusal.value)


def test_an_address_ends_without_a_slash_and_its_port_exists() -> None:
    assert load(environ={"ARCO_URL": "http://host:80/"}).settings.url == "http://host:80"
    with pytest.raises(Invalid, match="the port 65536 does not exist"):
        load(environ={"ARCO_URL": "http://host:65536"})


def test_only_the_server_of_commands_can_be_embedded() -> None:
    assert load(flags={"url": "embedded"}).settings.embedded
    assert not load().settings.embedded
    with pytest.raises(Invalid, match="not the address of a server"):
        load(environ={"ARCO_PUBLIC_URL": "embedded"})


@pytest.mark.parametrize(
    "listen", ["", "8020", ":8020", "host", "host:", "host:x", "http://host:1", "a b:1", "host:99999"]
)
def test_a_place_to_listen_is_host_and_port(listen: str) -> None:
    with pytest.raises(Invalid, match=r"^--listen: (.* is not host:port|the port 99999 does not exist)"):
        load(flags={"listen": listen})


@pytest.mark.parametrize("token", ["", "hunter2 x", "hunter2\n", "hunter2é", "hunter2" * 600])
def test_what_no_header_can_carry_is_no_token(token: str) -> None:
    with pytest.raises(Invalid, match=r"^ARCO_TOKEN: this is not an API key") as refusal:
        load(environ={"ARCO_TOKEN": token})
    assert "hunter2" not in str(refusal.value)


def test_a_short_service_secret_is_refused_without_showing_it() -> None:
    with pytest.raises(Invalid, match="at least 32 characters") as refusal:
        load(environ={"ARCO_SERVICE_SECRET": "hunter2" * 4})
    assert "hunter2" not in str(refusal.value)


def test_settings_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        load().settings.store = "memory://x"  # type: ignore[misc]
