"""Names that could escape a path, widen a policy or deceive a reader are refused, and the error says why."""

import re
import sys
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import (
    Invalid,
    check_catalog_name,
    check_name,
    check_tenant,
    check_workspace,
    format_path,
    parse_path,
)

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
    assert text.isprintable()
    assert unicodedata.is_normalized("NFC", text)
    assert text == text.strip()
    assert set(text) != {"."}
    text.encode()


def test_every_invisible_character_is_refused_by_its_code_point() -> None:
    unseen = {"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"}
    invisible = [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) in unseen and c != " "]
    assert len(invisible) > 2000
    for character in [*invisible, "\ue000", "\uffff", "*", "?", "/", "\\", '"', "'", "`"]:
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


# Look-alikes

CYRILLIC_A, GREEK_OMICRON, ARMENIAN_O = "\u0430", "\u03bf", "\u0585"


@pytest.mark.parametrize(
    "text",
    [
        "\u0437\u0430\u043a\u0430\u0437\u044b_2026",
        "\u03c0\u03b1\u03c1\u03b1\u03b3\u03b3\u03b5\u03bb\u03af\u03b5\u03c2 2",
        "\u6ce8\u6587 orders",
        "\uc8fc\ubb38_orders",
        "d\u00e9j\u00e0 vu",
        "5 \u00b5m",
        "m\u00b2",
        "\u20ac 100",
        "\u0623\u0648\u0627\u0645\u0631 2026",
        "caf\u00e9-\U0001f600",
    ],
    ids=ascii,
)
def test_names_of_one_script_are_accepted_whichever_it_is(text: str) -> None:
    assert check_catalog_name("table", text) == text


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        (
            f"p{CYRILLIC_A}ypal",
            r"Latin \(U\+0070 LATIN SMALL LETTER P\) and Cyrillic \(U\+0430 CYRILLIC SMALL LETTER A\)",
        ),
        (f"{CYRILLIC_A}b", "Cyrillic .* and Latin"),
        (f"{GREEK_OMICRON}rders", "Greek .* and Latin"),
        (f"{GREEK_OMICRON}{CYRILLIC_A}", "Greek .* and Cyrillic"),
        (f"l{ARMENIAN_O}g", "Latin .* and Armenian"),
        (f"x_{CYRILLIC_A}_1", "Latin .* and Cyrillic"),
    ],
    ids=ascii,
)
def test_a_name_of_two_scripts_that_look_alike_is_refused(text: str, scripts: str) -> None:
    with pytest.raises(Invalid, match=f"mixes letters that look alike: {scripts}.*; use the letters of one script"):
        check_catalog_name("column", text)


@pytest.mark.parametrize("text", ["cafe\u0301", "\u212b", "\u212aelvin", "\u1100\u1161"], ids=ascii)
def test_a_name_that_is_not_normalised_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is not in Unicode normalization form C; send its NFC form"):
        check_catalog_name("table", text)
    assert check_catalog_name("table", unicodedata.normalize("NFC", text))


@pytest.mark.parametrize(
    ("text", "plain"), [("\U0001d428rders", "o"), ("\uff4frders", "o"), ("a\uff0fb", "/"), ("x\uff11", "1")], ids=ascii
)
def test_styled_letters_and_digits_are_refused(text: str, plain: str) -> None:
    with pytest.raises(Invalid, match=f"which passes for '{plain}'; use ordinary characters"):
        check_catalog_name("table", text)


@given(st.text(st.characters(codec="utf-8", exclude_characters="*?/\\\"'`"), min_size=1, max_size=12))
def test_no_two_accepted_names_have_one_normal_form(text: str) -> None:
    normal = unicodedata.normalize("NFC", text)
    assert text == normal or not accepts(lambda: check_catalog_name("table", text))


# Paths

parts = st.text(st.characters(codec="utf-8", exclude_characters='"'), max_size=6)


@given(st.lists(parts, min_size=1, max_size=5).map(tuple))
def test_a_path_is_read_back_from_its_text(path: tuple[str, ...]) -> None:
    assert parse_path(format_path(path)) == path


@given(st.lists(parts, min_size=1, max_size=3).map(tuple), st.lists(parts, min_size=1, max_size=3).map(tuple))
def test_two_paths_have_two_texts(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (format_path(one) == format_path(other)) == (one == other)


@given(st.text('ab."', max_size=12))
def test_any_text_is_a_path_or_invalid_and_has_one_normal_text(text: str) -> None:
    try:
        path = parse_path(text)
    except Invalid:
        return
    if not any('"' in part for part in path):
        assert parse_path(format_path(path)) == path


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("sales", ("sales",)),
        ("sales.orders", ("sales", "orders")),
        ('"a.b".t', ("a.b", "t")),
        ('t."a.b"', ("t", "a.b")),
        ('"sales".orders', ("sales", "orders")),
        ("", ("",)),
        (".", ("", "")),
        ("a.", ("a", "")),
        ('""', ("",)),
    ],
)
def test_paths_as_people_write_them(text: str, path: tuple[str, ...]) -> None:
    assert parse_path(text) == path


@pytest.mark.parametrize("text", ['"', '"a', '"a"b', '"a"".b', 'x."', '"a" .b'])
def test_a_quote_out_of_place_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match=r"has a quote out of place; write it as sales\.orders or"):
        parse_path(text)


def test_a_path_of_a_million_dots_is_read_at_once() -> None:
    assert len(parse_path("." * 1_000_000)) == 1_000_001


def accepts(attempt: Callable[[], str]) -> bool:
    try:
        attempt()
    except Invalid:
        return False
    return True
