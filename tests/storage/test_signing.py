"""Signed URLs of local disk: exactly what was signed, until it expires; and the ranges they are asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import Forbidden, Invalid
from arco.storage import LocalSigner, parse_range, sign_local, verify_local
from tests.storage.test_local import StoppedClock

SECRET = b"0123456789abcdef0123456789abcdef"
BASE = "https://arco.example:8443/v1/objects"
safe = st.text("abcdefghijklmnopqrstuvwxyzABC0123456789!$&'()+,-.:;=@_~", min_size=1, max_size=12).filter(
    lambda segment: segment not in (".", "..")
)
paths = st.lists(safe, min_size=1, max_size=5).map("/".join)


@given(path=paths, expires=st.integers(1, 2**52), early=st.integers(1, 1000))
def test_a_signed_url_reads_its_path_until_it_expires(path: str, expires: int, early: int) -> None:
    url = sign_local(SECRET, BASE, path, expires)
    assert verify_local(SECRET, BASE, url, expires - early) == path
    for late in (0, 1, 10**6):
        with pytest.raises(Forbidden, match="expired"):
            verify_local(SECRET, BASE, url, expires + late)


@given(path=paths, data=st.data())
def test_a_url_changed_in_any_place_is_refused(path: str, data: st.DataObject) -> None:
    url = sign_local(SECRET, BASE, path, 2**50)
    start = len(BASE) + 1
    place = data.draw(st.integers(start, len(url) - 1))
    other = data.draw(st.sampled_from([c for c in "abcxyz0129/&=?%" if c != url[place]]))
    changed = url[:place] + other + url[place + 1 :]
    with pytest.raises(Forbidden):
        verify_local(SECRET, BASE, changed, 0)


@pytest.mark.parametrize(
    "change",
    [
        lambda url: url.replace("main", "other"),
        lambda url: url.replace("acme/main", "acme/main/../other"),
        lambda url: url.replace("acme", "%2e%2e"),
        lambda url: url + "&expires=9",
        lambda url: url + "&x=1",
        lambda url: url.partition("&")[0],
        lambda url: url.partition("?")[0],
        lambda url: url.replace("expires=1000", "expires=2000"),
        lambda url: url.replace("expires=1000", "expires=+1000"),
        lambda url: url.replace("expires=1000", "expires=\u0663"),
        lambda url: url.replace("signature=", "signature=ä"),
        lambda url: url.replace("/v1/objects", "/v1/other"),
    ],
)
def test_a_tampered_url_is_refused_without_saying_why(change: object) -> None:
    assert callable(change)
    url = sign_local(SECRET, BASE, "acme/main/x", 1000)
    with pytest.raises(Forbidden, match="not valid"):
        verify_local(SECRET, BASE, change(url), 0)


def test_another_method_or_secret_is_refused() -> None:
    url = sign_local(SECRET, BASE, "a/b", 1000)
    with pytest.raises(Forbidden):
        verify_local(SECRET, BASE, url, 0, method="PUT")
    with pytest.raises(Forbidden):
        verify_local(SECRET[::-1], BASE, url, 0)
    assert verify_local(SECRET, BASE, sign_local(SECRET, BASE, "a/b", 1000, "HEAD"), 0, "HEAD") == "a/b"


def test_a_proxy_may_serve_it_under_another_host() -> None:
    url = sign_local(SECRET, BASE, "a/b", 1000)
    assert verify_local(SECRET, BASE, url.replace("https://arco.example:8443", ""), 0) == "a/b"


def test_a_signer_refuses_a_weak_secret_and_a_wrong_url() -> None:
    with pytest.raises(Invalid, match="32 bytes"):
        LocalSigner(b"short", BASE, StoppedClock())
    with pytest.raises(Invalid, match="http"):
        LocalSigner(SECRET, "ftp://x", StoppedClock())
    for seconds in (0, -1, 7 * 86_400 + 1):
        with pytest.raises(Invalid):
            LocalSigner(SECRET, BASE, StoppedClock()).sign("a", seconds)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, (0, 100)),
        ("bytes=0-", (0, 100)),
        ("bytes=0-0", (0, 1)),
        ("bytes=10-19", (10, 10)),
        ("bytes=99-", (99, 1)),
        ("bytes=90-500", (90, 10)),
        ("bytes=-1", (99, 1)),
        ("bytes=-100", (0, 100)),
        ("bytes=-500", (0, 100)),
        (" Bytes = 1-2 ", (1, 2)),
    ],
)
def test_a_range_selects_those_bytes(header: str | None, expected: tuple[int, int]) -> None:
    assert parse_range(header, 100) == expected


@pytest.mark.parametrize(
    "header",
    ["100-", "5-4", "-0", "-", "", "0-1,3-4", "a-b", "+1-2", "1 -2", "--1", "٣-"],
)
def test_anything_else_cannot_be_served(header: str) -> None:
    with pytest.raises(Invalid):
        parse_range(f"bytes={header}", 100)


@pytest.mark.parametrize("header", ["", "bytes", "lines=0-1", "0-1"])
def test_only_bytes_are_counted(header: str) -> None:
    with pytest.raises(Invalid):
        parse_range(header, 100)


def test_an_empty_object_has_no_ranges() -> None:
    assert parse_range(None, 0) == (0, 0)
    for header in ("bytes=0-", "bytes=-1"):
        with pytest.raises(Invalid):
            parse_range(header, 0)


@given(size=st.integers(0, 50), first=st.integers(0, 60), last=st.integers(0, 60))
def test_a_range_lies_within_the_object(size: int, first: int, last: int) -> None:
    wanted = bytes(range(size))[first : last + 1]
    if wanted:
        offset, length = parse_range(f"bytes={first}-{last}", size)
        assert bytes(range(size))[offset : offset + length] == wanted
    else:
        with pytest.raises(Invalid):
            parse_range(f"bytes={first}-{last}", size)
