"""Names that could escape a path, widen a policy or deceive a reader are refused, and the error says why."""

import re
import sys
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import Invalid, check_catalog_name, check_name, check_tenant, check_workspace

NASTY = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "a\\b",
    "*",
    "a*",
    "a?",
    "a\x00",
    "a\n",
    "a\x1fb",
    "a\x7f",
    " a",
    "a ",
    "a'b",
    'a"b',
    "a`b",
]
NASTY += ["a\u202eb", "a\u200bb", "\ufeffa", "a\u2028b", "a\u0085b", "a\ud800", "\u00a0a", "a\u3000"]

CHECKS: list[Callable[[str], str]] = [
    lambda text: check_name("asset name", text),
    check_tenant,
    check_workspace,
    lambda text: check_catalog_name("table", text),
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("text", NASTY, ids=ascii)
def test_every_check_refuses_nasties(check: Callable[[str], str], text: str) -> None:
    with pytest.raises(Invalid):
        check(text)


@given(st.text())
def test_servo_names_are_exactly_the_pattern(text: str) -> None:
    valid = re.compile(r"[a-z][a-z0-9_]{0,127}\Z", re.ASCII).match(text) is not None
    assert accepts(lambda: check_name("asset name", text)) == valid


@given(st.from_regex(r"[a-z][a-z0-9_]{0,127}", fullmatch=True))
def test_servo_names_are_returned_unchanged(text: str) -> None:
    assert check_name("asset name", text) == text


@given(st.from_regex(r"[a-z0-9][a-z0-9-]{0,62}", fullmatch=True))
def test_scope_names_are_returned_unchanged(text: str) -> None:
    assert check_tenant(text) == check_workspace(text) == text


@pytest.mark.parametrize("text", ["-a", "A", "a_b", "a.b", "\u00e4", "a" * 64])
def test_other_scope_names_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match="cannot name a tenant"):
        check_tenant(text)
    with pytest.raises(Invalid, match="cannot name a workspace"):
        check_workspace(text)


@pytest.mark.parametrize(
    "text",
    [
        "orders",
        "Orders 2025",
        "a.b",
        ".hidden",
        "1",
        "\u00fcbersicht",
        "\u6ce8\u6587",
        "\U0001f600",
        "a-b$c",
        "x" * 255,
    ],
)
def test_catalog_names_may_be_any_visible_text(text: str) -> None:
    assert check_catalog_name("table", text) == text


@given(st.text(max_size=300))
def test_an_accepted_catalog_name_is_harmless_in_paths_and_policies(text: str) -> None:
    if not accepts(lambda: check_catalog_name("table", text)):
        return
    assert 1 <= len(text) <= 255
    assert not set(text) & set("*?/\\\"'`")
    assert all(unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in text)
    assert text == text.strip()
    assert set(text) != {"."}
    text.encode()


def test_every_invisible_character_is_refused_by_its_code_point() -> None:
    invisible = [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) in {"Cc", "Cf", "Cs"}]
    assert len(invisible) > 2000
    for character in [*invisible, "*", "?", "/", "\\", '"', "'", "`"]:
        with pytest.raises(Invalid, match=re.escape(f"U+{ord(character):04X}")):
            check_catalog_name("table", f"a{character}b")


def test_the_error_names_character_and_position() -> None:
    with pytest.raises(Invalid, match=r"the table name 'ab\*' has U\+002A ASTERISK at position 2") as refusal:
        check_catalog_name("table", "ab*")
    assert refusal.value.details == {"position": 2}
    with pytest.raises(Invalid, match=r"begins or ends with U\+0020 SPACE"):
        check_catalog_name("namespace", "a ")
    with pytest.raises(Invalid, match=r"U\+202E RIGHT-TO-LEFT OVERRIDE at position 0"):
        check_catalog_name("view", "\u202ea")


@pytest.mark.parametrize(("check", "length"), [(CHECKS[0], 129), (CHECKS[3], 256)])
def test_long_names_are_refused_with_a_short_error(check: Callable[[str], str], length: int) -> None:
    with pytest.raises(Invalid, match="is longer than") as refusal:
        check("a" * length * 1000)
    assert len(str(refusal.value)) < 250
    with pytest.raises(Invalid, match="is longer than"):
        check("a" * length)


@given(st.sampled_from(CHECKS), st.text(max_size=300))
def test_errors_are_one_line_of_printable_text(check: Callable[[str], str], text: str) -> None:
    message = ""
    try:
        check(text)
    except Invalid as refusal:
        message = str(refusal)
    assert message.isprintable()


def accepts(attempt: Callable[[], str]) -> bool:
    try:
        attempt()
    except Invalid:
        return False
    return True
