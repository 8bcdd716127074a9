"""Locations: which places a warehouse lets be used, and that no spelling of a URL leads out of them."""

import asyncio
import gzip
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import TooLarge, Unavailable
from arco.iceberg import BadRequest, Locations, MetadataMissing, open_locations, parse_location
from arco.iceberg import _locations as module
from arco.iceberg._locations import Place, account_of
from arco.storage import MemoryStore, open_store
from tests.doubles import FakeRuntime

ROOT = "s3://bucket/lake"
OWN = "s3://bucket/lake/acme/prod/warehouse"


def run(work: Coroutine[Any, Any, Any]) -> Any:
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the store did not answer at once")


def locations(**options: Any) -> Locations:
    return Locations(MemoryStore(), ROOT, "acme/prod", **options)


@pytest.mark.parametrize(
    "text",
    [
        f"{OWN}/t",
        f"{OWN}/t/metadata",
        "s3a://bucket/lake/acme/prod/warehouse/t",
        f"{OWN}/t/",
    ],
)
def test_the_own_folder_can_be_used_under_each_of_its_names(text: str) -> None:
    assert locations().check(text) == text.rstrip("/")


@pytest.mark.parametrize(
    "text",
    [
        OWN,
        "s3://bucket/lake/acme/prod/data/t",
        "s3://bucket/lake/acme/prod/inc-1/ledger/catalog",
        "s3://bucket/lake/acme/other/warehouse/t",
        "s3://bucket/lake/acme/prod/warehouse2/t",
        "s3://other/lake/acme/prod/warehouse/t",
        "gs://bucket/lake/acme/prod/warehouse/t",
        f"{OWN}/../inc-1/ledger",
        f"{OWN}/./t",
        f"{OWN}//t",
        f"{OWN}/%2e%2e/t",
        f"{OWN}/t*",
        f"{OWN}/t?x",
        f'{OWN}/t"',
        f"{OWN}/t\n",
        f"{OWN}/" + "t" * 1000,
        "s3://user:password@bucket/lake/acme/prod/warehouse/t",
        "warehouse/t",
        "",
        "s3:",
    ],
)
def test_nothing_else_can(text: str) -> None:
    with pytest.raises(BadRequest):
        locations().check(text)


def test_allowed_places_may_be_used_but_never_the_store_itself() -> None:
    allowed = locations(allowed=["s3://bucket", "file:///tmp/kit"], open_outside=lambda url: MemoryStore())
    assert allowed.check("s3://bucket/elsewhere/t") == "s3://bucket/elsewhere/t"
    for spelling in ("file:/tmp/kit/ns/t", "file:///tmp/kit/ns/t", "/tmp/kit/ns/t", "file://localhost/tmp/kit/ns/t"):
        assert allowed.check(spelling) == spelling
    for text in (
        "s3://bucket/lake/acme/other/warehouse/t",
        "s3://bucket/lake/x",
        "file:/tmp/kitchen/t",
        "file:/tmp/kit",
    ):
        with pytest.raises(BadRequest):
            allowed.check(text)


def test_no_allowed_place_may_hold_the_store() -> None:
    places = Locations(
        MemoryStore(),
        "s3://bucket/deep/lake",
        "acme/prod",
        allowed=["s3://bucket"],
        open_outside=lambda url: MemoryStore(),
    )
    for text in ("s3://bucket/deep", "s3a://bucket/deep/", "s3://bucket/deep/lake"):
        with pytest.raises(BadRequest):
            places.check(text)
    assert places.check("s3://bucket/deep/lake2") == "s3://bucket/deep/lake2"


def test_files_outside_go_to_the_store_of_the_allowed_place(tmp_path: Path) -> None:
    outside = MemoryStore()
    opened: list[str] = []

    def open_outside(place: Place) -> MemoryStore:
        opened.append(place.url)
        return outside

    places = locations(allowed=["s3://other/kit/"], open_outside=open_outside)
    run(places.create("s3://other/kit/t/metadata/1.json", b"{}"))
    run(places.create("s3a://other/kit/t/metadata/2.json", b"{}"))
    assert run(outside.get("t/metadata/1.json")) == b"{}"
    assert opened == ["s3://other/kit"]


@pytest.mark.parametrize(
    ("allowed", "opened"),
    [
        ("file:/kit/", "file:///kit"),
        ("file:///kit", "file:///kit"),
        ("/kit", "file:///kit"),
        ("file:/", "file:///"),
        ("s3a://bucket/kit", "s3://bucket/kit"),
        ("s3://bucket/", "s3://bucket"),
        ("abfss://kit@account.example/part", "az://kit/part"),
    ],
)
def test_a_store_is_opened_by_its_own_spelling(allowed: str, opened: str) -> None:
    assert parse_location(allowed).url == opened


AZURE = Locations(
    MemoryStore(),
    "az://files/lake",
    "acme/prod",
    allowed=[
        "az://files/more",
        "abfss://files@other.dfs.core.windows.net/more",
        "wasbs://shared@acc.blob.core.windows.net",
    ],
    open_outside=lambda place: MemoryStore(),
    account=account_of({"account_name": "acc"}),
)


@pytest.mark.parametrize(
    "text",
    [
        "az://files/lake/acme/prod/warehouse/t",
        "abfss://files@acc.dfs.core.windows.net/lake/acme/prod/warehouse/t",
        "wasbs://files@ACC.blob.core.windows.net/lake/acme/prod/warehouse/t",
        "abfss://files@acc.dfs.core.windows.net/more/t",
        "abfss://files@other.dfs.core.windows.net/more/t",
        "abfss://shared@acc.dfs.core.windows.net/t",
        "az://shared/t",
    ],
)
def test_a_container_of_azure_is_one_of_its_account(text: str) -> None:
    assert AZURE.check(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "abfss://files@other.dfs.core.windows.net/lake/acme/prod/warehouse/t",
        "abfss://files@acc.dfs.core.chinacloudapi.cn/lake/acme/prod/warehouse/t",
        "abfss://files@acc.dfs.core.windows.net.evil.example/lake/acme/prod/warehouse/t",
        "abfss://files@acc/lake/acme/prod/warehouse/t",
        "abfss://files@x@acc.dfs.core.windows.net/lake/acme/prod/warehouse/t",
        "abfss://shared@other.dfs.core.windows.net/t",
        "abfss://files@third.dfs.core.windows.net/more/t",
    ],
)
def test_a_container_of_the_same_name_in_another_account_is_another_place(text: str) -> None:
    with pytest.raises(BadRequest, match="outside of the warehouse"):
        AZURE.check(text)


def test_without_an_account_no_url_with_one_is_the_stores() -> None:
    unknown = Locations(MemoryStore(), "az://files/lake", "acme/prod")
    assert unknown.check("az://files/lake/acme/prod/warehouse/t")
    with pytest.raises(BadRequest):
        unknown.check("abfss://files@acc.dfs.core.windows.net/lake/acme/prod/warehouse/t")


@pytest.mark.parametrize(
    ("options", "account"),
    [
        ({}, ""),
        ({"account_name": "acc"}, "acc.dfs.core.windows.net"),
        (
            {"account_name": "acc", "endpoint": "https://acc.blob.core.chinacloudapi.cn"},
            "acc.dfs.core.chinacloudapi.cn",
        ),
        ({"account_name": "acc", "endpoint": "http://127.0.0.1:10000/acc"}, "acc.dfs.core.windows.net"),
        ({"endpoint": "https://acc.blob.core.windows.net"}, ""),
    ],
)
def test_the_account_is_the_one_of_the_options(options: dict[str, str | bool], account: str) -> None:
    assert account_of(options) == account


def test_each_account_is_opened_by_its_own_options(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[str, dict[str, str]]] = []

    def open_store(url: str, options: dict[str, str], **rest: Any) -> MemoryStore:
        opened.append((url, options))
        return MemoryStore()

    monkeypatch.setattr("arco.iceberg._open.open_store", open_store)
    own = {"account_name": "acc", "account_key": "hidden"}
    places = open_locations(
        MemoryStore(), "az://files/lake", "acme/prod", own,
        ["az://more", "abfss://more@acc.dfs.core.windows.net/x", "abfss://more@other.dfs.core.windows.net",
         "abfss://more@cn.dfs.core.chinacloudapi.cn", "s3://bucket"],
        FakeRuntime(),
    )  # fmt: skip
    for url in ("az://more/t", "abfss://more@other.dfs.core.windows.net/t",
                "abfss://more@cn.dfs.core.chinacloudapi.cn/t", "s3://bucket/t"):  # fmt: skip
        run(places.create(f"{url}/1.json", b"{}"))
    assert opened == [
        ("az://more", own),
        ("az://more", {"account_name": "other"}),
        ("az://more", {"account_name": "cn", "endpoint": "https://cn.blob.core.chinacloudapi.cn"}),
        ("s3://bucket", {}),
    ]


def test_a_folder_that_is_allowed_as_engines_spell_it_is_that_folder(tmp_path: Path) -> None:
    places = locations(allowed=[f"file:{tmp_path}"], open_outside=lambda place: open_store(place.url))
    asyncio.run(places.create(f"file:{tmp_path}/t/metadata/1.json", b"{}"))
    assert (tmp_path / "t/metadata/1.json").read_bytes() == b"{}"


def test_a_file_is_created_once() -> None:
    places = locations()
    run(places.create(f"{OWN}/t/metadata/1.json", b"one"))
    run(places.create(f"{OWN}/t/metadata/1.json", b"one"))
    with pytest.raises(Unavailable):
        run(places.create(f"{OWN}/t/metadata/1.json", b"two"))
    assert run(places.read(f"{OWN}/t/metadata/1.json")) == b"one"
    assert run(places.size(f"{OWN}/t/metadata/1.json")) == 3
    assert run(places.exists(f"{OWN}/t/metadata/1.json"))
    assert not run(places.exists(f"{OWN}/t/metadata/2.json"))


def test_what_is_missing_is_told_as_clients_expect_it() -> None:
    for question in ("read", "size"):
        with pytest.raises(MetadataMissing, match=f"^Failed to open input stream for file: {OWN}/t/1.json$"):
            run(getattr(locations(), question)(f"{OWN}/t/1.json"))


def test_gzip_is_read_but_not_a_bomb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_METADATA", 1000)
    places = locations()
    run(places.create(f"{OWN}/t/small.gz.metadata.json", gzip.compress(b"{}")))
    run(places.create(f"{OWN}/t/bomb.gz.metadata.json", gzip.compress(b"0" * 100_000)))
    run(places.create(f"{OWN}/t/broken.gz.metadata.json", b"\x1f\x8bnot gzip"))
    assert run(places.read(f"{OWN}/t/small.gz.metadata.json")) == b"{}"
    with pytest.raises(TooLarge):
        run(places.read(f"{OWN}/t/bomb.gz.metadata.json"))
    with pytest.raises(BadRequest):
        run(places.read(f"{OWN}/t/broken.gz.metadata.json"))
    with pytest.raises(TooLarge):
        run(places.create(f"{OWN}/t/large.json", b"0" * 1001))


def test_local_disk(tmp_path: Path) -> None:
    places = Locations(MemoryStore(), f"file://{tmp_path}/lake", "acme/prod", allowed=[f"file:{tmp_path}"])
    assert places.new_table("01ABC") == f"file://{tmp_path}/lake/acme/prod/warehouse/01abc"
    with pytest.raises(BadRequest):  # nobody opens places outside here
        places.check(f"file:{tmp_path}/elsewhere/t")


@given(st.text(max_size=60))
def test_no_text_leads_out_of_the_warehouse(text: str) -> None:
    """Whatever is appended to the own folder stays below it or is refused."""
    try:
        place = parse_location(f"{OWN}/{text}")
    except BadRequest:
        return
    assert parse_location(OWN).holds(place)
    assert ".." not in place.path.split("/")
