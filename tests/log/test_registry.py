"""The registry decodes what it knows to the newest version and says of everything else what it is."""

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core import Invalid
from arco.log import EventRegistry, EventType, unchanged


class Renamed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Version 3: version 1 had one text `name`, version 2 a list of `parts`."""

    path: list[str]
    reason: str = ""


def _split(old: dict[str, Any]) -> dict[str, Any]:
    return {"parts": old["name"].split(".")}


def _as_path(old: dict[str, Any]) -> dict[str, Any]:
    return {"path": old["parts"], "reason": "unknown"}


RENAMED = EventType("Renamed", Renamed, version=3, upcasters={1: _split, 2: _as_path})
REGISTRY = EventRegistry([RENAMED])


def test_every_older_version_is_raised_step_by_step() -> None:
    newest = Renamed(["a", "b"], "unknown")
    assert REGISTRY.decode("Renamed", 1, b'{"name":"a.b"}') == newest
    assert REGISTRY.decode("Renamed", 2, b'{"parts":["a","b"]}') == newest
    assert REGISTRY.decode("Renamed", 3, msgspec.Raw(b'{"path":["a","b"],"reason":"unknown"}')) == newest


def test_versions_that_only_lack_defaults_are_like_the_newest_until_one_that_differs() -> None:
    kind = EventType("Moved", Renamed, version=4, upcasters={1: _as_path, 2: unchanged, 3: unchanged})
    registry = EventRegistry([kind])
    assert list(kind.alike()) == [2, 3, 4]
    assert registry.decode("Moved", 1, b'{"parts":["a"]}') == Renamed(["a"], "unknown")
    assert [registry.decode("Moved", version, b'{"path":["a"]}') for version in (2, 3, 4)] == [Renamed(["a"])] * 3
    assert registry.decode("Moved", 5, b"{}") is None


@pytest.mark.parametrize(("name", "version"), [("Other", 1), ("Renamed", 4), ("Renamed", 0), ("Renamed", -1), ("", 1)])
def test_unknown_types_and_versions_are_none(name: str, version: int) -> None:
    assert REGISTRY.decode(name, version, b"not even read") is None
    assert not REGISTRY.knows(name, version)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"null", b"[]", b"7", b"{}", b'{"name":7,"parts":7,"path":7}', b'"\xff"', b'{"x":' + b"[" * 100_000],
)
def test_what_does_not_fit_is_invalid(version: int, data: bytes) -> None:
    with pytest.raises(Invalid, match=f"the payload of Renamed v{version} does not fit"):
        REGISTRY.decode("Renamed", version, data)


@settings(deadline=None)
@given(version=st.integers(1, 3), data=st.binary(max_size=60))
def test_any_bytes_decode_or_are_invalid(version: int, data: bytes) -> None:
    with contextlib.suppress(Invalid):
        assert isinstance(REGISTRY.decode("Renamed", version, data), Renamed)


def test_a_fields_absence_and_an_unknown_field_are_told() -> None:
    with pytest.raises(Invalid, match="path"):
        REGISTRY.decode("Renamed", 3, b"{}")
    with pytest.raises(Invalid, match="colour"):
        REGISTRY.decode("Renamed", 3, b'{"path":[],"colour":"red"}')


def test_a_version_without_its_upcaster_is_refused_when_declared() -> None:
    with pytest.raises(Invalid, match="no upcaster from v2"):
        EventType("Renamed", Renamed, version=3, upcasters={1: _split})


def test_a_type_declared_twice_is_refused() -> None:
    with pytest.raises(Invalid, match="declared twice"):
        EventRegistry([RENAMED, EventType("Renamed", Renamed)])


def test_a_registry_lists_its_types() -> None:
    assert list(REGISTRY) == [RENAMED]
    assert REGISTRY.get("Renamed") is RENAMED
    assert REGISTRY.get("Other") is None
