"""Configuration in layers: defaults < `arco.toml` < environment < flags, and where each value came from.

A setting has one name in three spellings: `publish_interval_ms` in the file, `ARCO_PUBLISH_INTERVAL_MS` in the
environment, `--publish-interval-ms` on the command line. Options of the store are a table of texts: `[store_options]`
with `region = "eu-west-1"`, `ARCO_STORE_OPTIONS_REGION`, `--store-option`; layers are merged option by option. So are
those of the store that backups go to: `[backup_options]`, `ARCO_BACKUP_OPTIONS_REGION`, `--backup-option`.
Secrets (`token`, `service_secret`) have no flag, because everybody on a machine sees the arguments of its processes.

Nothing is ignored: an unknown name is refused with the nearest known one, and a wrong value in a lower layer is
refused even if a higher layer replaces it.
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from arco.core._errors import Invalid
from arco.core._names import check_name, check_tenant, check_workspace, shown

__all__ = ["Loaded", "Settings", "check_master", "load_settings"]

_OPTIONS: Final = "store_options"
_TABLES: Final = {_OPTIONS: "--store-option", "backup_options": "--backup-option"}
"""Settings that are tables of texts, and their flags."""
_EMBEDDED: Final = "embedded"
_MASK: Final = "********"
_SECRET_WORDS: Final = ("key", "secret", "token", "password", "credential")
_STORE: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^\x00-\x1f\x7f]*")
_LOCATION: Final = re.compile(r"[a-z][a-z0-9+.-]*:/[^\s?#]*")
_SECRETS: Final = frozenset({"token", "service_secret"})
_SECRET_MIN: Final = 32
_HOST: Final = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])"
_URL: Final = re.compile(rf"https?://{_HOST}(?::([0-9]{{1,5}}))?(?:/[A-Za-z0-9._~/-]*)?")
_LISTEN: Final = re.compile(rf"{_HOST}:([0-9]{{1,5}})")
_MASTER: Final = re.compile(r"local(\[[\d*, ]+\])?|local-cluster\[[\d, ]+\]|yarn|(spark|sc|k8s)://[^\s@]+")
_VISIBLE: Final = re.compile(r"[\x21-\x7e]{1,4096}")
_INTEGER: Final = re.compile(r"-?[0-9]{1,100}")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a process runs with. `load_settings` makes it; values given to the constructor are not checked."""

    store: str = "file://.arco"
    """URL of the store. A relative path after `file://` is below the project directory."""
    tenant_id: str = "default"
    workspace_id: str = "default"
    publish_interval_ms: int = 250
    """The least time between two publishes nobody waits for."""
    merge_fan_in: int = 8
    """How many neighbouring layers of one tier become one layer of the next."""
    pack_segments: int = 4096
    """How many segments of a log, or `pack_mib` of them, are rewritten into one object."""
    pack_mib: int = 64
    pack_keep: int = 1024
    """How many of the newest segments stay objects of their own."""
    url: str = ""
    """The server commands talk to; `embedded` for none. If empty, they find the one that serves the workspace."""
    token: str = field(default="", repr=False)
    """The API key commands send."""
    listen: str = "127.0.0.1:8020"
    """Where `arco serve` listens: host:port."""
    public_url: str = ""
    """What others reach this server under; `http://` and `listen` if empty."""
    service_secret: str = field(default="", repr=False)
    """What the servers of a workspace prove themselves to each other with; all of them share it."""
    slots: int = 0
    """How many tasks a worker runs at once; 0 for one a core, four at most."""
    spark_master: str = "local[*]"
    """Where Spark runs, of workers and of compaction: `local[*]`, `spark://host:7077`, `yarn`, `k8s://...`; of workers
    also `sc://host:15002`."""
    allowed_locations: str = ""
    """URLs, with spaces between them, below which Iceberg tables may lie beside the store."""
    collect_hours: int = 24
    """Hours from one collection that `arco serve` makes by itself to the next, if something changed; 0 for none."""
    backup_to: str = ""
    """URL of the store that backups go to; `arco serve` takes none if it is empty."""
    backup_hours: int = 6
    """Hours from one backup to the next, if something changed."""
    backup_days: int = 30
    """Days for which a backup is kept."""
    backup_data: str = "no"
    """Whether backups hold the files of assets and of Iceberg tables too: `yes` or `no`."""
    store_options: dict[str, str] = field(default_factory=dict, repr=False)
    """What the store's client is opened with (endpoint, region, credentials). Not in `repr`: it holds secrets."""
    backup_options: dict[str, str] = field(default_factory=dict, repr=False)
    """The same of the store that backups go to. Nothing of the other one holds for it."""

    @property
    def embedded(self) -> bool:
        """Whether commands are told to open the store themselves, whoever serves it."""
        return self.url == _EMBEDDED


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings and, by name, who said so: `default`, `arco.toml`, `ARCO_STORE`, `--store`.

    A store option is named `store_options.region`; `store_options` itself is named only while there are none.
    """

    settings: Settings
    origin: Mapping[str, str]

    def rows(self) -> list[tuple[str, str, str]]:
        """Name, value and origin of every setting, secrets masked, in the order of declaration."""
        return [(name, _printed(self.settings, name), origin) for name, origin in self.origin.items()]


# What one layer gives: the setting's name -> its checked value and its origin.
_Layer = dict[str, tuple[str | int, str]]


def load_settings(toml_path: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> Loaded:
    """Merge the layers.

    Args:
        toml_path: the `arco.toml` to read, or None if the project has none.
        environ: the environment; names that do not begin with `ARCO_` are somebody else's.
        flags: setting name -> value from the command line, None for a flag that was not given.
    """
    given = {**_from_toml(toml_path), **_from_environ(environ), **_from_flags(flags)}
    scalars: dict[str, Any] = {name: given[name][0] for name in _SCALARS if name in given}
    origin = {name: given[name][1] if name in given else "default" for name in _SCALARS}
    for table in _TABLES:
        options = sorted(name for name in given if name.startswith(f"{table}."))
        origin |= {name: given[name][1] if name in given else "default" for name in options or [table]}
        scalars[table] = {name.removeprefix(f"{table}."): str(given[name][0]) for name in options}
    return Loaded(Settings(**scalars), origin)


def _from_toml(path: Path | None) -> _Layer:
    if path is None:
        return {}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror or error}; check its path and rights") from error
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{path} is not TOML in UTF-8: {error}") from error
    layer: _Layer = {}
    for name, value in document.items():
        if name in _TABLES:
            layer |= _options(name, value, f"{name} in {path}", path.name)
        elif name in _SCALARS:
            layer[name] = (_checked(name, value, f"{name} in {path}"), path.name)
        else:
            raise _unknown(f"the key {shown(name)} in {path}", name, [*_SCALARS, *_TABLES])
    return layer


def _from_environ(environ: Mapping[str, str]) -> _Layer:
    variables = {f"ARCO_{name.upper()}": name for name in _SCALARS}
    prefixes = {f"ARCO_{table.upper()}_": table for table in _TABLES}
    layer: _Layer = {}
    for variable in sorted(name for name in environ if name.startswith("ARCO_")):
        text = environ[variable]
        prefix = next((one for one in prefixes if variable.startswith(one)), "")
        option = variable.removeprefix(prefix)
        if variable in variables:
            name = variables[variable]
            number = isinstance(_SCALARS[name], range) and _INTEGER.fullmatch(text) is not None
            layer[name] = (_checked(name, int(text) if number else text, variable), variable)
        elif option not in ("", variable) and option == option.upper():
            name = f"{prefixes[prefix]}.{check_name(f'store option (from {variable})', option.lower())}"
            layer[name] = (text, variable)
        else:
            known = [*variables, *(f"{one}<NAME>" for one in prefixes)]
            raise _unknown(f"the environment variable {shown(variable)}", variable, known)
    return layer


def _from_flags(flags: Mapping[str, object]) -> _Layer:
    layer: _Layer = {}
    for name, value in flags.items():
        flag = f"--{name.replace('_', '-')}"
        if name not in _SCALARS and name not in _TABLES:
            known = [f"--{scalar.replace('_', '-')}" for scalar in _SCALARS if scalar not in _SECRETS]
            raise _unknown(f"the flag {shown(flag)}", flag, [*known, *_TABLES.values()])
        if value is None:
            continue
        if name in _SECRETS:
            raise Invalid(f"{name} is a secret and has no flag; set ARCO_{name.upper()}")
        if name in _TABLES:
            layer |= _options(name, value, _TABLES[name], _TABLES[name])
        else:
            layer[name] = (_checked(name, value, flag), flag)
    return layer


def _options(setting: str, table: object, where: str, origin: str) -> _Layer:
    """The layer's options. No error shows a value: it may be a credential."""
    if not isinstance(table, Mapping):
        raise Invalid(f"{where} must be a table of texts, not {_type_name(table)}")
    layer: _Layer = {}
    for name, value in table.items():
        check_name(f"store option (from {where})", name)
        if not isinstance(value, str):
            raise Invalid(f"{where}: {name} must be text, not {_type_name(value)}; write it in quotes")
        layer[f"{setting}.{name}"] = (value, origin)
    return layer


def _checked(name: str, value: object, where: str) -> str | int:
    rule = _SCALARS[name]
    if isinstance(rule, range):
        if type(value) is not int:
            raise Invalid(f"{where} must be an integer, not {_type_name(value)}")
        if value not in rule:
            raise Invalid(f"{where} is {value}; it must be {rule.start} to {rule.stop - 1}")
        return value
    if not isinstance(value, str):
        raise Invalid(f"{where} must be text, not {_type_name(value)}")
    try:
        return rule(value)
    except Invalid as error:
        raise Invalid(f"{where}: {error.message}", **error.details) from None


def _check_store(text: str) -> str:
    """A store URL without anything that may be a credential; the errors do not show it for the same reason."""
    if _STORE.fullmatch(text) is None:
        raise Invalid(
            "this is not the URL of a store; write a folder as file:///srv/arco, a bucket as s3://bucket/prefix"
        )
    if "@" in text.partition("://")[2].partition("/")[0] or "?" in text or "#" in text:
        raise Invalid("the URL of a store carries no user, query or fragment; put credentials into store_options")
    return text


def _check_answer(text: str) -> str:
    if text not in ("yes", "no"):
        raise Invalid(f"{shown(text)} is neither yes nor no")
    return text


def _check_locations(text: str) -> str:
    """URLs of folders. Errors do not show them: people put passwords into addresses."""
    for url in text.split():
        if _LOCATION.fullmatch(url) is None:
            raise Invalid("these are not URLs of folders; write them as s3://bucket/folder or file:///folder")
    return " ".join(text.split())


def _check_url(text: str) -> str:
    """The address of a server. Errors do not show it: people put passwords into addresses."""
    found = _URL.fullmatch(text)
    if found is None:
        raise Invalid(
            "this is not the address of a server; write it as https://arco.example.com or http://127.0.0.1:8020, "
            "without user, query or fragment"
        )
    _check_port(found[1])
    return text.rstrip("/")


def _check_server(text: str) -> str:
    return text if text == _EMBEDDED else _check_url(text)


def _check_listen(text: str) -> str:
    found = _LISTEN.fullmatch(text)
    if found is None:
        raise Invalid(f"{shown(text)} is not host:port; write it as 127.0.0.1:8020 or [::1]:8020")
    _check_port(found[1])
    return text


def _check_port(digits: str | None) -> None:
    if digits is not None and int(digits) > 65_535:
        raise Invalid(f"the port {digits} does not exist; ports go up to 65535")


def check_master(text: str, *, connect: bool = True) -> str:
    """The text if it can be a master of Spark. `connect` says whether a server of Spark Connect would do."""
    if _MASTER.fullmatch(text) is None:
        remote = ", or sc://host:15002 for Spark Connect" if connect else ""
        raise Invalid(
            f"{shown(text)} is no Spark master; write local[*], spark://host:7077, yarn, k8s://https://host:6443{remote}"
        )
    return text


def _check_token(text: str) -> str:
    if _VISIBLE.fullmatch(text) is None:
        raise Invalid("this is not an API key; it has 1 to 4096 visible ASCII characters and no spaces")
    return text


def _check_service_secret(text: str) -> str:
    if len(text) < _SECRET_MIN:
        raise Invalid(f"a service secret has at least {_SECRET_MIN} characters; make one with `openssl rand -hex 32`")
    return text


def _unknown(what: str, name: str, known: Iterable[str]) -> Invalid:
    names = list(known)
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(names)}"
    return Invalid(f"{what} is not a setting; {hint}")


def _printed(settings: Settings, name: str) -> str:
    table, dot, option = name.partition(".")
    if dot:
        secret = any(word in option for word in _SECRET_WORDS)
        return _MASK if secret else str(getattr(settings, table)[option])
    if name in _TABLES:
        return ""
    value = str(getattr(settings, name))
    return _MASK if value and name in _SECRETS else value


def _type_name(value: object) -> str:
    names = {bool: "a boolean", int: "an integer", float: "a float", str: "text", list: "an array", dict: "a table"}
    return names.get(type(value), type(value).__name__)


# Every scalar setting and its rule: the integers allowed, or a function that returns the text or raises `Invalid`.
_SCALARS: Final[dict[str, range | Callable[[str], str]]] = {
    "store": _check_store,
    "tenant_id": check_tenant,
    "workspace_id": check_workspace,
    "publish_interval_ms": range(1, 3_600_001),
    "merge_fan_in": range(2, 51),
    "pack_segments": range(1, 65_537),
    "pack_mib": range(1, 257),
    "pack_keep": range(1, 1_000_001),
    "url": _check_server,
    "token": _check_token,
    "listen": _check_listen,
    "public_url": _check_url,
    "service_secret": _check_service_secret,
    "slots": range(257),
    "spark_master": check_master,
    "allowed_locations": _check_locations,
    "collect_hours": range(24 * 30 + 1),
    "backup_to": _check_store,
    "backup_hours": range(1, 24 * 30 + 1),
    "backup_days": range(1, 3_651),
    "backup_data": _check_answer,
}
